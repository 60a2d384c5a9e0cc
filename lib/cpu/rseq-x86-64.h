/* SPDX-License-Identifier: MIT */
/*
 * The sections of rseq.h for x86-64.
 *
 * Each fragment: a descriptor in __rseq_cs {version, flags, start, length,
 * abort}; the store of its address to rseq_cs arms it; "1:" to "2:" is the
 * section; "4:" the abort label, preceded by the signature the kernel insists
 * on, encoded as the operand of an undefined instruction so that disassembly
 * stays sane. The area's fields: cpu_id at 4, rseq_cs at 8.
 *
 * No asm goto has outputs: gcc 12.2, among others, loses values around one
 * that has (gcc bug 113921). A section with a result is plain asm instead, and
 * the result's register tells the outcome as well; "6:", out of line, is where
 * it refuses. Scratch registers are fixed: r9 the index and other small things,
 * r10 the sheaf, r11 its word.
 */
#ifndef PCP_CPU_RSEQ_X86_64_H
#define PCP_CPU_RSEQ_X86_64_H

/* clang-format off */
#define PCP_RSEQ_BEGIN                                                        \
	".pushsection __rseq_cs, \"aw\"\n\t"                                  \
	".balign 32\n"                                                        \
	"3:\n\t"                                                              \
	".long 0, 0\n\t"                                                      \
	".quad 1f, 2f - 1f, 4f\n\t"                                           \
	".popsection\n\t"                                                     \
	"leaq 3b(%%rip), %%r9\n\t"                                            \
	"movq %%r9, %%fs:8(%[area])\n"                                        \
	"1:\n\t"

/* r9 = index, or refused in an unregistered thread. */
#define PCP_RSEQ_INDEX(refused)                                               \
	"cmpl $0, %%fs:4(%[area])\n\t"                                        \
	"js " refused "\n\t"                                                  \
	"movslq %%fs:(%[id]), %%r9\n\t"

/* r10 = main of the slot, r11 = its word, r9 = its size. */
#define PCP_RSEQ_MAIN                                                         \
	"shlq $6, %%r9\n\t"                                                   \
	"movq (%[slots], %%r9), %%r10\n\t"                                    \
	"movq (%%r10), %%r11\n\t"                                             \
	"movzwl %%r11w, %%r9d\n\t"

#define PCP_RSEQ_ABORT                                                        \
	"\n2:\n\t"                                                            \
	".pushsection __rseq_failure, \"ax\"\n\t"                             \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                          \
	".long 0x53053053\n"                                                  \
	"4:\n\t"

#define PCP_RSEQ_END                                                          \
	PCP_RSEQ_ABORT                                                        \
	"jmp %l[aborted]\n\t"                                                 \
	".popsection"

/* The result: 0 is refused, the one given is aborted. */
#define PCP_RSEQ_END_RESULT(result, aborted)                                  \
	PCP_RSEQ_ABORT                                                        \
	"movq $" aborted ", %[" result "]\n\t"                                \
	"jmp 2b\n"                                                            \
	"6:\n\t"                                                              \
	"xorl %k[" result "], %k[" result "]\n\t"                             \
	"jmp 2b\n\t"                                                          \
	".popsection"
/* clang-format on */

PCP_INLINE enum pcp_section pcp_rseq_pop(const void *slots, void **obj)
{
	void *got;

	/* clang-format off */
	__asm__ volatile(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("6f")
		PCP_RSEQ_MAIN
		"testl %%r9d, %%r9d\n\t"
		"jz 6f\n\t"
		"movq 8(%%r10, %%r9, 8), %[got]\n\t"
		"addq $0xffff, %%r11\n\t"
		"movq %%r11, (%%r10)"
		PCP_RSEQ_END_RESULT("got", "1")
		: [got] "=&r"(got)
		: [slots] "r"(slots),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "r10", "r11", "memory", "cc");
	/* clang-format on */
	/* No object lies at address 0 or 1. */
	if (pcp_unlikely((uintptr_t)got <= 1))
		return got ? PCP_ABORTED : PCP_REFUSED;
	*obj = got;
	return PCP_DONE;
}

PCP_INLINE enum pcp_section pcp_rseq_push(const void *slots, void *obj)
{
	/* clang-format off */
	__asm__ volatile goto(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("%l[refused]")
		PCP_RSEQ_MAIN
		"cmpl 8(%%r10), %%r9d\n\t"
		"je %l[refused]\n\t"
		"movq %[obj], 16(%%r10, %%r9, 8)\n\t"
		"incq %%r11\n\t"
		"movq %%r11, (%%r10)"
		PCP_RSEQ_END
		:
		: [slots] "r"(slots), [obj] "r"(obj),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "r10", "r11", "memory", "cc"
		: refused, aborted);
	/* clang-format on */
	return PCP_DONE;
refused:
	return PCP_REFUSED;
aborted:
	return PCP_ABORTED;
}

/* Into the sheaf in another word of the slot than main; closed is what main is
 * while a drain has the slot. */
PCP_INLINE enum pcp_section pcp_rseq_push_at(const void *slots, size_t offset,
					     void *obj, const void *closed)
{
	/* clang-format off */
	__asm__ volatile goto(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("%l[refused]")
		"shlq $6, %%r9\n\t"
		"addq %[slots], %%r9\n\t"
		"cmpq %[closed], (%%r9)\n\t"
		"je %l[refused]\n\t"
		"movq (%%r9, %[offset]), %%r10\n\t"
		"testq %%r10, %%r10\n\t"
		"jz %l[refused]\n\t"
		"movq (%%r10), %%r11\n\t"
		"movzwl %%r11w, %%r9d\n\t"
		"cmpl 8(%%r10), %%r9d\n\t"
		"je %l[refused]\n\t"
		"movq %[obj], 16(%%r10, %%r9, 8)\n\t"
		"incq %%r11\n\t"
		"movq %%r11, (%%r10)"
		PCP_RSEQ_END
		:
		: [slots] "r"(slots), [offset] "r"(offset), [obj] "r"(obj),
		  [closed] "r"(closed),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "r10", "r11", "memory", "cc"
		: refused, aborted);
	/* clang-format on */
	return PCP_DONE;
refused:
	return PCP_REFUSED;
aborted:
	return PCP_ABORTED;
}

PCP_INLINE enum pcp_section pcp_rseq_pop_many(const void *slots, size_t n,
					      void **objs, size_t *done)
{
	uint64_t count, i, obj;

	/* clang-format off */
	__asm__ volatile(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("6f")
		PCP_RSEQ_MAIN
		"testl %%r9d, %%r9d\n\t"
		"jz 6f\n\t"
		"movq %[n], %[count]\n\t"
		"cmpq %[count], %%r9\n\t"
		"cmovbq %%r9, %[count]\n\t"
		"leaq 8(%%r10, %%r9, 8), %%r9\n\t"
		"xorl %k[i], %k[i]\n"
		"5:\n\t"
		"movq (%%r9), %[obj]\n\t"
		"movq %[obj], (%[objs], %[i], 8)\n\t"
		"subq $8, %%r9\n\t"
		"incq %[i]\n\t"
		"cmpq %[count], %[i]\n\t"
		"jb 5b\n\t"
		"imulq $0xffff, %[count], %%r9\n\t"
		"addq %%r9, %%r11\n\t"
		"movq %%r11, (%%r10)"
		PCP_RSEQ_END_RESULT("count", "-1")
		: [count] "=&r"(count), [i] "=&r"(i), [obj] "=&r"(obj)
		: [slots] "r"(slots), [n] "rm"(n), [objs] "r"(objs),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "r10", "r11", "memory", "cc");
	/* clang-format on */
	if (pcp_unlikely(count + 1 <= 1))
		return count ? PCP_ABORTED : PCP_REFUSED;
	*done = count;
	return PCP_DONE;
}

PCP_INLINE enum pcp_section pcp_rseq_push_many(const void *slots, size_t n,
					       void *const *objs, size_t *done)
{
	uint64_t count, i, obj;

	/* clang-format off */
	__asm__ volatile(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("6f")
		PCP_RSEQ_MAIN
		"movl 8(%%r10), %k[count]\n\t"
		"subq %%r9, %[count]\n\t"
		"jz 6f\n\t"
		"cmpq %[n], %[count]\n\t"
		"cmovaq %[n], %[count]\n\t"
		"leaq 16(%%r10, %%r9, 8), %%r9\n\t"
		"xorl %k[i], %k[i]\n"
		"5:\n\t"
		"movq (%[objs], %[i], 8), %[obj]\n\t"
		"movq %[obj], (%%r9, %[i], 8)\n\t"
		"incq %[i]\n\t"
		"cmpq %[count], %[i]\n\t"
		"jb 5b\n\t"
		"addq %[count], %%r11\n\t"
		"movq %%r11, (%%r10)"
		PCP_RSEQ_END_RESULT("count", "-1")
		: [count] "=&r"(count), [i] "=&r"(i), [obj] "=&r"(obj)
		: [slots] "r"(slots), [n] "rm"(n), [objs] "r"(objs),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "r10", "r11", "memory", "cc");
	/* clang-format on */
	if (pcp_unlikely(count + 1 <= 1))
		return count ? PCP_ABORTED : PCP_REFUSED;
	*done = count;
	return PCP_DONE;
}

PCP_INLINE enum pcp_section pcp_rseq_commit(void *slots, long expected_index,
					    size_t offset, const void *expect,
					    void *desired, const void *closed)
{
	/* clang-format off */
	__asm__ volatile goto(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("%l[refused]")
		"cmpq %[expected_index], %%r9\n\t"
		"jne %l[refused]\n\t"
		"shlq $6, %%r9\n\t"
		"addq %[slots], %%r9\n\t"
		"cmpq %[closed], (%%r9)\n\t"
		"je %l[refused]\n\t"
		"addq %[offset], %%r9\n\t"
		"cmpq %[expect], (%%r9)\n\t"
		"jne %l[refused]\n\t"
		"movq %[desired], (%%r9)"
		PCP_RSEQ_END
		:
		: [slots] "r"(slots), [expected_index] "r"(expected_index),
		  [offset] "r"(offset), [expect] "r"(expect),
		  [desired] "r"(desired), [closed] "r"(closed),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "memory", "cc"
		: refused, aborted);
	/* clang-format on */
	return PCP_DONE;
refused:
	return PCP_REFUSED;
aborted:
	return PCP_ABORTED;
}

PCP_INLINE enum pcp_section pcp_rseq_add_u64(void *p, size_t stride,
					     uint64_t value)
{
	/* clang-format off */
	__asm__ volatile goto(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("%l[refused]")
		"imulq %[stride], %%r9\n\t"
		"addq %[value], (%[p], %%r9)"
		PCP_RSEQ_END
		:
		: [p] "r"(p), [stride] "r"(stride), [value] "r"(value),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "memory", "cc"
		: refused, aborted);
	/* clang-format on */
	return PCP_DONE;
refused:
	return PCP_REFUSED;
aborted:
	return PCP_ABORTED;
}

PCP_INLINE enum pcp_section pcp_rseq_add_u32(void *p, size_t stride,
					     uint32_t value)
{
	/* clang-format off */
	__asm__ volatile goto(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("%l[refused]")
		"imulq %[stride], %%r9\n\t"
		"addl %[value], (%[p], %%r9)"
		PCP_RSEQ_END
		:
		: [p] "r"(p), [stride] "r"(stride), [value] "r"(value),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "memory", "cc"
		: refused, aborted);
	/* clang-format on */
	return PCP_DONE;
refused:
	return PCP_REFUSED;
aborted:
	return PCP_ABORTED;
}

PCP_INLINE enum pcp_section pcp_rseq_add_within(void *p, size_t stride,
						int64_t value, uint64_t span)
{
	/* clang-format off */
	__asm__ volatile goto(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("%l[refused]")
		"imulq %[stride], %%r9\n\t"
		"movq (%[p], %%r9), %%r10\n\t"
		"addq %[value], %%r10\n\t"
		"jo %l[refused]\n\t"
		"movq %%r10, %%r11\n\t"
		"addq %[span], %%r11\n\t"
		"cmpq %[twice], %%r11\n\t"
		"ja %l[refused]\n\t"
		"movq %%r10, (%[p], %%r9)"
		PCP_RSEQ_END
		:
		: [p] "r"(p), [stride] "r"(stride), [value] "r"(value),
		  [span] "re"(span), [twice] "re"(2 * span),
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)
		: "r9", "r10", "r11", "memory", "cc"
		: refused, aborted);
	/* clang-format on */
	return PCP_DONE;
refused:
	return PCP_REFUSED;
aborted:
	return PCP_ABORTED;
}

/* The assembler sees from the registers whether 4 or 8 bytes are meant. The
 * outcome has a register of its own, since any value may be the old one. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in any. */
/* clang-format off */
#define PCP_RSEQ_EXCHANGES(name, type)                                        \
PCP_INLINE enum pcp_section pcp_rseq_xchg_##name(void *p, size_t stride,      \
						 type value, type *old)       \
{                                                                             \
	uint64_t outcome;                                                     \
	type found;                                                           \
									      \
	__asm__ volatile(                                                     \
		PCP_RSEQ_BEGIN                                                \
		PCP_RSEQ_INDEX("6f")                                          \
		"imulq %[stride], %%r9\n\t"                                   \
		"mov (%[p], %%r9), %[found]\n\t"                              \
		"movl $2, %k[outcome]\n\t"                                    \
		"mov %[value], (%[p], %%r9)"                                  \
		PCP_RSEQ_END_RESULT("outcome", "1")                           \
		: [outcome] "=&r"(outcome), [found] "=&r"(found)              \
		: [p] "r"(p), [stride] "r"(stride), [value] "r"(value),       \
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)            \
		: "r9", "memory", "cc");                                      \
	if (pcp_unlikely(outcome <= 1))                                       \
		return outcome ? PCP_ABORTED : PCP_REFUSED;                   \
	*old = found;                                                         \
	return PCP_DONE;                                                      \
}                                                                             \
									      \
PCP_INLINE enum pcp_section pcp_rseq_cmpxchg_##name(void *p, size_t stride,   \
						    type expected,            \
						    type desired, type *old)  \
{                                                                             \
	uint64_t outcome;                                                     \
	type found;                                                           \
									      \
	__asm__ volatile(                                                     \
		PCP_RSEQ_BEGIN                                                \
		PCP_RSEQ_INDEX("6f")                                          \
		"imulq %[stride], %%r9\n\t"                                   \
		"mov (%[p], %%r9), %[found]\n\t"                              \
		"movl $2, %k[outcome]\n\t"                                    \
		"cmp %[expected], %[found]\n\t"                               \
		"jne 2f\n\t"                                                  \
		"mov %[desired], (%[p], %%r9)"                                \
		PCP_RSEQ_END_RESULT("outcome", "1")                           \
		: [outcome] "=&r"(outcome), [found] "=&r"(found)              \
		: [p] "r"(p), [stride] "r"(stride),                           \
		  [expected] "r"(expected), [desired] "r"(desired),           \
		  [area] "r"(pcp_rseq_area), [id] "r"(pcp_rseq_id)            \
		: "r9", "memory", "cc");                                      \
	if (pcp_unlikely(outcome <= 1))                                       \
		return outcome ? PCP_ABORTED : PCP_REFUSED;                   \
	*old = found;                                                         \
	return PCP_DONE;                                                      \
}
PCP_RSEQ_EXCHANGES(u64, uint64_t)
PCP_RSEQ_EXCHANGES(u32, uint32_t)
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

#endif /* PCP_CPU_RSEQ_X86_64_H */

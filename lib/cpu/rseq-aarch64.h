/* SPDX-License-Identifier: MIT */
/*
 * The sections of rseq.h for aarch64.
 *
 * Each fragment: a descriptor in __rseq_cs {version, flags, start, length,
 * abort}; the store of its address to rseq_cs arms it; "1:" to "2:" is the
 * section; "4:" the abort label, preceded by the signature the kernel insists
 * on, a break instruction. The area's fields: cpu_id at 4, rseq_cs at 8.
 *
 * As in rseq-x86-64.h no asm goto has outputs, and a section with a result is
 * plain asm whose result is cleared beforehand: refusing is to leave. Scratch
 * registers are fixed: x9 the index and other small things, x10 the sheaf, x11
 * its word.
 *
 * Refusals use b.cond, which reaches 1 MiB either way; tbz reaches 32 KiB
 * only, and the compiler may move the refused path far off. Commits to a sheaf
 * or to per-CPU data need no release: whoever reads them runs on the same CPU
 * or has fenced it, and all addresses read here depend on the pointer before.
 * pcp_rseq_commit() acquires main, for it must not see a slot reopened and its
 * spare as it was before (pairs with the release in take_closed() of
 * slot/drain.c), and releases what it hooks, for the books of a cache look at
 * sheaves of other CPUs.
 */
#ifndef PCP_CPU_RSEQ_AARCH64_H
#define PCP_CPU_RSEQ_AARCH64_H

/* The area and the id's place in it, of the calling thread. */
#define PCP_RSEQ_AREA                                                          \
	[area] "r"((char *)__builtin_thread_pointer() + pcp_rseq_area),        \
		[id] "r"((char *)__builtin_thread_pointer() + pcp_rseq_id)

/* clang-format off */
#define PCP_RSEQ_BEGIN                                                        \
	".pushsection __rseq_cs, \"aw\"\n\t"                                  \
	".balign 32\n"                                                        \
	"3:\n\t"                                                              \
	".long 0, 0\n\t"                                                      \
	".quad 1f, 2f - 1f, 4f\n\t"                                           \
	".popsection\n\t"                                                     \
	"adrp x9, 3b\n\t"                                                     \
	"add x9, x9, :lo12:3b\n\t"                                            \
	"str x9, [%[area], #8]\n"                                             \
	"1:\n\t"

/* x9 = index, or refused in an unregistered thread. */
#define PCP_RSEQ_INDEX(refused)                                               \
	"ldr w9, [%[area], #4]\n\t"                                           \
	"cmp w9, #0\n\t"                                                      \
	"b.lt " refused "\n\t"                                                \
	"ldrsw x9, [%[id]]\n\t"

/* x10 = main of the slot, x11 = its word. */
#define PCP_RSEQ_MAIN                                                         \
	"add x9, %[slots], x9, lsl #6\n\t"                                    \
	"ldr x10, [x9]\n\t"                                                   \
	"ldr x11, [x10]\n\t"

#define PCP_RSEQ_ABORT                                                        \
	"\n2:\n\t"                                                            \
	".pushsection __rseq_failure, \"ax\"\n\t"                             \
	".inst 0xd428bc00\n"                                                  \
	"4:\n\t"

#define PCP_RSEQ_END                                                          \
	PCP_RSEQ_ABORT                                                        \
	"b %l[aborted]\n\t"                                                   \
	".popsection"

#define PCP_RSEQ_BEGIN_RESULT(result)                                         \
	"mov %[" result "], #0\n\t"                                           \
	PCP_RSEQ_BEGIN

/* The result: 0 is refused, the one given is aborted. */
#define PCP_RSEQ_END_RESULT(result, aborted)                                  \
	PCP_RSEQ_ABORT                                                        \
	"mov %[" result "], #" aborted "\n\t"                                 \
	"b 2b\n\t"                                                            \
	".popsection"
/* clang-format on */

PCP_INLINE enum pcp_section pcp_rseq_pop(const void *slots, void **obj)
{
	void *got;

	/* clang-format off */
	__asm__ volatile(
		PCP_RSEQ_BEGIN_RESULT("got")
		PCP_RSEQ_INDEX("2f")
		PCP_RSEQ_MAIN
		"ands x9, x11, #0xffff\n\t"
		"b.eq 2f\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"ldr %[got], [x9, #8]\n\t"
		"add x11, x11, #16, lsl #12\n\t"
		"sub x11, x11, #1\n\t"
		"str x11, [x10]"
		PCP_RSEQ_END_RESULT("got", "1")
		: [got] "=&r"(got)
		: [slots] "r"(slots),
		  PCP_RSEQ_AREA
		: "x9", "x10", "x11", "memory", "cc");
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
		"and x9, x11, #0xffff\n\t"
		"ldr w12, [x10, #8]\n\t"
		"cmp w9, w12\n\t"
		"b.eq %l[refused]\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"str %[obj], [x9, #16]\n\t"
		"add x11, x11, #1\n\t"
		"str x11, [x10]"
		PCP_RSEQ_END
		:
		: [slots] "r"(slots), [obj] "r"(obj),
		  PCP_RSEQ_AREA
		: "x9", "x10", "x11", "x12", "memory", "cc"
		: refused, aborted);
	/* clang-format on */
	return PCP_DONE;
refused:
	return PCP_REFUSED;
aborted:
	return PCP_ABORTED;
}

/* Into the sheaf in another word of the slot than main; closed is what main is
 * while a drain has the slot. main is acquired as in pcp_rseq_commit(). */
PCP_INLINE enum pcp_section pcp_rseq_push_at(const void *slots, size_t offset,
					     void *obj, const void *closed)
{
	/* clang-format off */
	__asm__ volatile goto(
		PCP_RSEQ_BEGIN
		PCP_RSEQ_INDEX("%l[refused]")
		"add x9, %[slots], x9, lsl #6\n\t"
		"ldar x10, [x9]\n\t"
		"cmp x10, %[closed]\n\t"
		"b.eq %l[refused]\n\t"
		"ldr x10, [x9, %[offset]]\n\t"
		"cmp x10, #0\n\t"
		"b.eq %l[refused]\n\t"
		"ldr x11, [x10]\n\t"
		"and x9, x11, #0xffff\n\t"
		"ldr w12, [x10, #8]\n\t"
		"cmp w9, w12\n\t"
		"b.eq %l[refused]\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"str %[obj], [x9, #16]\n\t"
		"add x11, x11, #1\n\t"
		"str x11, [x10]"
		PCP_RSEQ_END
		:
		: [slots] "r"(slots), [offset] "r"(offset), [obj] "r"(obj),
		  [closed] "r"(closed),
		  PCP_RSEQ_AREA
		: "x9", "x10", "x11", "x12", "memory", "cc"
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
		PCP_RSEQ_BEGIN_RESULT("count")
		PCP_RSEQ_INDEX("2f")
		PCP_RSEQ_MAIN
		"ands x9, x11, #0xffff\n\t"
		"b.eq 2f\n\t"
		"cmp x9, %[n]\n\t"
		"csel %[count], x9, %[n], lo\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"add x9, x9, #8\n\t"
		"mov %[i], #0\n"
		"5:\n\t"
		"ldr %[obj], [x9], #-8\n\t"
		"str %[obj], [%[objs], %[i], lsl #3]\n\t"
		"add %[i], %[i], #1\n\t"
		"cmp %[i], %[count]\n\t"
		"b.lo 5b\n\t"
		"add x11, x11, %[count], lsl #16\n\t"
		"sub x11, x11, %[count]\n\t"
		"str x11, [x10]"
		PCP_RSEQ_END_RESULT("count", "-1")
		: [count] "=&r"(count), [i] "=&r"(i), [obj] "=&r"(obj)
		: [slots] "r"(slots), [n] "r"(n), [objs] "r"(objs),
		  PCP_RSEQ_AREA
		: "x9", "x10", "x11", "memory", "cc");
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
		PCP_RSEQ_BEGIN_RESULT("count")
		PCP_RSEQ_INDEX("2f")
		PCP_RSEQ_MAIN
		"and x9, x11, #0xffff\n\t"
		"ldr %w[count], [x10, #8]\n\t"
		"subs %[count], %[count], x9\n\t"
		"b.eq 2f\n\t"
		"cmp %[count], %[n]\n\t"
		"csel %[count], %[n], %[count], hi\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"add x9, x9, #16\n\t"
		"mov %[i], #0\n"
		"5:\n\t"
		"ldr %[obj], [%[objs], %[i], lsl #3]\n\t"
		"str %[obj], [x9, %[i], lsl #3]\n\t"
		"add %[i], %[i], #1\n\t"
		"cmp %[i], %[count]\n\t"
		"b.lo 5b\n\t"
		"add x11, x11, %[count]\n\t"
		"str x11, [x10]"
		PCP_RSEQ_END_RESULT("count", "-1")
		: [count] "=&r"(count), [i] "=&r"(i), [obj] "=&r"(obj)
		: [slots] "r"(slots), [n] "r"(n), [objs] "r"(objs),
		  PCP_RSEQ_AREA
		: "x9", "x10", "x11", "memory", "cc");
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
		"cmp x9, %[expected_index]\n\t"
		"b.ne %l[refused]\n\t"
		"add x9, %[slots], x9, lsl #6\n\t"
		"ldar x10, [x9]\n\t"
		"cmp x10, %[closed]\n\t"
		"b.eq %l[refused]\n\t"
		"add x9, x9, %[offset]\n\t"
		"ldr x10, [x9]\n\t"
		"cmp x10, %[expect]\n\t"
		"b.ne %l[refused]\n\t"
		"stlr %[desired], [x9]"
		PCP_RSEQ_END
		:
		: [slots] "r"(slots), [expected_index] "r"(expected_index),
		  [offset] "r"(offset), [expect] "r"(expect),
		  [desired] "r"(desired), [closed] "r"(closed),
		  PCP_RSEQ_AREA
		: "x9", "x10", "memory", "cc"
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
		"mul x9, x9, %[stride]\n\t"
		"ldr x10, [%[p], x9]\n\t"
		"add x10, x10, %[value]\n\t"
		"str x10, [%[p], x9]"
		PCP_RSEQ_END
		:
		: [p] "r"(p), [stride] "r"(stride), [value] "r"(value),
		  PCP_RSEQ_AREA
		: "x9", "x10", "memory", "cc"
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
		"mul x9, x9, %[stride]\n\t"
		"ldr w10, [%[p], x9]\n\t"
		"add w10, w10, %w[value]\n\t"
		"str w10, [%[p], x9]"
		PCP_RSEQ_END
		:
		: [p] "r"(p), [stride] "r"(stride), [value] "r"(value),
		  PCP_RSEQ_AREA
		: "x9", "x10", "memory", "cc"
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
		"mul x9, x9, %[stride]\n\t"
		"ldr x10, [%[p], x9]\n\t"
		"adds x10, x10, %[value]\n\t"
		"b.vs %l[refused]\n\t"
		"add x11, x10, %[span]\n\t"
		"cmp x11, %[twice]\n\t"
		"b.hi %l[refused]\n\t"
		"str x10, [%[p], x9]"
		PCP_RSEQ_END
		:
		: [p] "r"(p), [stride] "r"(stride), [value] "r"(value),
		  [span] "r"(span), [twice] "r"(2 * span),
		  PCP_RSEQ_AREA
		: "x9", "x10", "x11", "memory", "cc"
		: refused, aborted);
	/* clang-format on */
	return PCP_DONE;
refused:
	return PCP_REFUSED;
aborted:
	return PCP_ABORTED;
}

/* w names the registers of 4-byte values. The outcome has a register of its
 * own, since any value may be the old one. The stores release and the loads
 * acquire: a value may be a pointer, and by a concurrency id the next to find
 * it may run on another CPU. */
/* clang-format off */
#define PCP_RSEQ_EXCHANGES(name, type, w)                                     \
PCP_INLINE enum pcp_section pcp_rseq_xchg_##name(void *p, size_t stride,      \
						 type value, type *old)       \
{                                                                             \
	uint64_t outcome;                                                     \
	type found;                                                           \
									      \
	__asm__ volatile(                                                     \
		PCP_RSEQ_BEGIN_RESULT("outcome")                              \
		PCP_RSEQ_INDEX("2f")                                          \
		"madd x9, x9, %[stride], %[p]\n\t"                            \
		"ldar %" w "[found], [x9]\n\t"                                \
		"mov %[outcome], #2\n\t"                                      \
		"stlr %" w "[value], [x9]"                                    \
		PCP_RSEQ_END_RESULT("outcome", "1")                           \
		: [outcome] "=&r"(outcome), [found] "=&r"(found)              \
		: [p] "r"(p), [stride] "r"(stride), [value] "r"(value),       \
		  PCP_RSEQ_AREA                                               \
		: "x9", "memory", "cc");                                      \
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
		PCP_RSEQ_BEGIN_RESULT("outcome")                              \
		PCP_RSEQ_INDEX("2f")                                          \
		"madd x9, x9, %[stride], %[p]\n\t"                            \
		"ldar %" w "[found], [x9]\n\t"                                \
		"mov %[outcome], #2\n\t"                                      \
		"cmp %" w "[found], %" w "[expected]\n\t"                     \
		"b.ne 2f\n\t"                                                 \
		"stlr %" w "[desired], [x9]"                                  \
		PCP_RSEQ_END_RESULT("outcome", "1")                           \
		: [outcome] "=&r"(outcome), [found] "=&r"(found)              \
		: [p] "r"(p), [stride] "r"(stride),                           \
		  [expected] "r"(expected), [desired] "r"(desired),           \
		  PCP_RSEQ_AREA                                               \
		: "x9", "memory", "cc");                                      \
	if (pcp_unlikely(outcome <= 1))                                       \
		return outcome ? PCP_ABORTED : PCP_REFUSED;                   \
	*old = found;                                                         \
	return PCP_DONE;                                                      \
}
PCP_RSEQ_EXCHANGES(u64, uint64_t, "x")
PCP_RSEQ_EXCHANGES(u32, uint32_t, "w")
/* clang-format on */

#endif /* PCP_CPU_RSEQ_AARCH64_H */

/* SPDX-License-Identifier: MIT */
/*
 * Taking and giving back an object inline: what pcpool_alloc() and
 * pcpool_free() do when the CPU's stock serves, as some twenty instructions in
 * the caller, without the call; and pcpool_counter_add() where the part has room.
 * Not in pcpool.h: who wants it includes it.
 *
 * Everything else is left to the calls, and so is every cache that is not plain:
 * in lock mode, with a reset hook, with accounts, checking. A cache says so by
 * a word that pcpool_cache_create() writes, which holds the layout that its
 * library has. Where that is not the layout this header was written for, it
 * makes the calls too, so that a program built with one version may run with
 * another. The two ways may be mixed at will, on one cache and one object.
 *
 * Needed: gcc or clang, x86-64 or aarch64, and glibc 2.35 or later; elsewhere
 * the functions are the calls.
 *
 * A plug-in that may be unloaded: the kernel reads the descriptor of the last
 * section that a thread began, in the object file that has it, the next time it
 * interrupts the thread; it kills the thread if the file has gone. So each
 * section takes its address back when it is done, with one store. Code that is
 * never unloaded (a program, a library linked with -z nodelete) saves that
 * store by defining PCPOOL_FAST_RESIDENT before it includes this file.
 */
#ifndef PCPOOL_FAST_H
#define PCPOOL_FAST_H

#include <stddef.h>
#include <stdint.h>

#include <pcpool/cache.h>
#include <pcpool/counter.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The layout this header was written for. With any other number its functions
 *  are the calls; tests define one. */
#ifndef PCPOOL_FAST_LAYOUT
#define PCPOOL_FAST_LAYOUT 1
#endif

/*
 * Layout 1, which the library asserts. A cache begins with a word that never
 * changes:
 *
 *   bits 0 to 15   the layout; 0: calls only
 *   bit 16         the index of a slot is mm_cid, else cpu_id
 *   bits 17 to 31  0
 *   bits 32 to 63  the rseq area's distance from the thread pointer, signed
 *
 * The slots follow at PCPOOL_FAST_SLOTS_, 64 bytes each. Before them are two more,
 * which never have an object or room for one: those of a thread that is not
 * registered, whose cpu_id is -1 or -2. A slot begins with a pointer to its sheaf; at 0 of that is a word of 64 bits, the lowest 16 of
 * which say how many objects it has, the others how many were taken; at 8, in 32
 * bits, how many it can have; at 16 their addresses.
 */
#define PCPOOL_FAST_CID_ 0x10000
#define PCPOOL_FAST_AREA_SHIFT_ 32
#define PCPOOL_FAST_SLOTS_ 1024

/*
 * A counter has such a word too, of 32 bits:
 *
 *   bits 0 to 7    the layout
 *   bit 8          the index is mm_cid
 *   bits 9 to 11   0
 *   bits 12 to 31  these bits of the distance between the copies of two slots,
 *                  whose lower ones are 0
 *
 * A slot's part is an int64_t in its copy, and stays below the batch.
 */
#define PCPOOL_FAST_COUNTER_SPAN_ 1023
#define PCPOOL_FAST_COUNTER_CID_ 0x100
#define PCPOOL_FAST_COUNTER_STRIDE_MASK_ 0xfffff000U

/* Compilers guess from the length of what is mostly laid aside. */
#if defined(__GNUC__)
#define PCPOOL_FAST_ALWAYS_ __attribute__((__always_inline__))
#else
#define PCPOOL_FAST_ALWAYS_
#endif

/* PCPOOL_FAST_INLINE: 1 where the functions are more than the calls. */
#define PCPOOL_FAST_INLINE 0
#if defined(__GNUC__) && defined(__GLIBC__) && !defined(__ILP32__) &&         \
	(defined(__x86_64__) ||                                               \
	 (defined(__aarch64__) && defined(__AARCH64EL__)))
#if __GLIBC_PREREQ(2, 35)
#undef PCPOOL_FAST_INLINE
#define PCPOOL_FAST_INLINE 1
#endif
#endif

#if PCPOOL_FAST_INLINE

/*
 * Where the area is. The C library's constant is best, for the compiler may
 * keep it in a register over many calls. In position-independent code of a library
 * that is two loads each time, and the cache's word, which is at hand, has it as
 * well.
 */
extern const ptrdiff_t pcpool_fast_area_ __asm__("__rseq_offset");
#if defined(__PIC__) && !defined(__PIE__)
#define PCPOOL_FAST_AREA_(word) ((word) >> PCPOOL_FAST_AREA_SHIFT_)
#else
#define PCPOOL_FAST_AREA_(word) ((void)(word), pcpool_fast_area_)
#endif

/* The descriptor {version, flags, start, length, abort} and the abort code lie
 * in the group of the code around them ("?"): a linker that drops a second copy
 * of an inline function in C++ drops them with it. */
#define PCPOOL_FAST_DESCRIPTOR_                                               \
	".pushsection __rseq_cs, \"aw?\"\n\t"                                 \
	".balign 32\n"                                                        \
	"3:\n\t"                                                              \
	".long 0, 0\n\t"                                                      \
	".quad 1f, 2f - 1f, 4f\n\t"                                           \
	".popsection\n\t"
#define PCPOOL_FAST_ABORT_ ".pushsection __rseq_failure, \"ax?\"\n\t"

/*
 * All sections: the store of the descriptor's address to rseq_cs, at 8 in the
 * area, arms it; from "1:" to "2:" the kernel restarts it at "4:" when it
 * interrupted the thread; the last instruction before "2:" commits. "6:" is for
 * what is refused: a thread that is not registered, which has a negative cpu_id
 * at 4 (and an mm_cid of 0, somebody else's), no object, no room. Restarted or
 * refused, the call is made.
 */
#if defined(__x86_64__)

/* r9 = index. */
#define PCPOOL_FAST_BEGIN_                                                    \
	PCPOOL_FAST_DESCRIPTOR_                                               \
	"leaq 3b(%%rip), %%r9\n\t"                                            \
	"movq %%r9, %%fs:8(%[area])\n"                                        \
	"1:\n\t"
#define PCPOOL_FAST_BY_CPU_ "movslq %%fs:4(%[area]), %%r9\n\t"
/* Where no slot is for negative ones. */
#define PCPOOL_FAST_POSITIVE_                                                 \
	"testl %%r9d, %%r9d\n\t"                                              \
	"js 6f\n\t"
#define PCPOOL_FAST_BY_CID_                                                   \
	"cmpl $0, %%fs:4(%[area])\n\t"                                        \
	"js 6f\n\t"                                                           \
	"movslq %%fs:24(%[area]), %%r9\n\t"
/* r10 = the sheaf, r11 = its word, r9 = its size. */
#define PCPOOL_FAST_SHEAF_                                                    \
	"shlq $6, %%r9\n\t"                                                   \
	"movq %c[slots](%[cache], %%r9), %%r10\n\t"                           \
	"movq (%%r10), %%r11\n\t"                                             \
	"movzwl %%r11w, %%r9d\n\t"
#if defined(PCPOOL_FAST_RESIDENT)
#define PCPOOL_FAST_CLEAR_ ""
#else
#define PCPOOL_FAST_CLEAR_ "movq $0, %%fs:8(%[area])\n\t"
#endif
/* The signature, as the operand of an undefined instruction. */
#define PCPOOL_FAST_SIGNATURE_                                                \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                          \
	".long 0x53053053\n"                                                  \
	"4:\n\t"

/* clang-format off */
#define PCPOOL_FAST_SECTIONS_(by, index, checked)                             \
PCPOOL_FAST_ALWAYS_                                                           \
static inline void *pcpool_fast_pop_##by##_(struct pcpool_cache *cache,       \
					   ptrdiff_t area)                    \
{                                                                             \
	void *obj;                                                            \
                                                                              \
	__asm__ __volatile__(                                                 \
		PCPOOL_FAST_BEGIN_                                            \
		index                                                         \
		PCPOOL_FAST_SHEAF_                                            \
		"testl %%r9d, %%r9d\n\t"                                      \
		"jz 6f\n\t"                                                   \
		"movq 8(%%r10, %%r9, 8), %[obj]\n\t"                          \
		"addq $0xffff, %%r11\n\t"                                     \
		"movq %%r11, (%%r10)\n"                                       \
		"2:\n\t"                                                      \
		PCPOOL_FAST_ABORT_                                            \
		PCPOOL_FAST_SIGNATURE_                                        \
		"6:\n\t"                                                      \
		"xorl %k[obj], %k[obj]\n\t"                                   \
		"jmp 2b\n\t"                                                  \
		".popsection\n\t"                                             \
		PCPOOL_FAST_CLEAR_                                            \
		: [obj] "=&r"(obj)                                            \
		: [cache] "r"(cache), [area] "r"(area),                       \
		  [slots] "i"(PCPOOL_FAST_SLOTS_)                             \
		: "r9", "r10", "r11", "memory", "cc");                        \
	return obj;                                                           \
}                                                                             \
                                                                              \
PCPOOL_FAST_ALWAYS_                                                           \
static inline int pcpool_fast_push_##by##_(struct pcpool_cache *cache,        \
					  void *obj, ptrdiff_t area)          \
{                                                                             \
	__asm__ __volatile__ goto(                                            \
		PCPOOL_FAST_BEGIN_                                            \
		index                                                         \
		PCPOOL_FAST_SHEAF_                                            \
		"cmpl 8(%%r10), %%r9d\n\t"                                    \
		"je 6f\n\t"                                                   \
		"movq %[obj], 16(%%r10, %%r9, 8)\n\t"                         \
		"incq %%r11\n\t"                                              \
		"movq %%r11, (%%r10)\n"                                       \
		"2:\n\t"                                                      \
		PCPOOL_FAST_ABORT_                                            \
		PCPOOL_FAST_SIGNATURE_                                        \
		"6:\n\t"                                                      \
		PCPOOL_FAST_CLEAR_                                            \
		"jmp %l[call]\n\t"                                            \
		".popsection\n\t"                                             \
		PCPOOL_FAST_CLEAR_                                            \
		:                                                             \
		: [cache] "r"(cache), [obj] "r"(obj), [area] "r"(area),       \
		  [slots] "i"(PCPOOL_FAST_SLOTS_)                             \
		: "r9", "r10", "r11", "memory", "cc"                          \
		: call);                                                      \
	return 1;                                                             \
call:                                                                         \
	return 0;                                                             \
}                                                                             \
                                                                              \
PCPOOL_FAST_ALWAYS_                                                           \
static inline int pcpool_fast_add_##by##_(void *parts, size_t stride,         \
					 int64_t amount, ptrdiff_t area)      \
{                                                                             \
	__asm__ __volatile__ goto(                                            \
		PCPOOL_FAST_BEGIN_                                            \
		checked                                                       \
		"imulq %[stride], %%r9\n\t"                                   \
		"movq (%[parts], %%r9), %%r10\n\t"                            \
		"addq %[amount], %%r10\n\t"                                   \
		"jo 6f\n\t"                                                   \
		"leaq %c[span](%%r10), %%r11\n\t"                             \
		"cmpq %[twice], %%r11\n\t"                                    \
		"ja 6f\n\t"                                                   \
		"movq %%r10, (%[parts], %%r9)\n"                              \
		"2:\n\t"                                                      \
		PCPOOL_FAST_ABORT_                                            \
		PCPOOL_FAST_SIGNATURE_                                        \
		"6:\n\t"                                                      \
		PCPOOL_FAST_CLEAR_                                            \
		"jmp %l[call]\n\t"                                            \
		".popsection\n\t"                                             \
		PCPOOL_FAST_CLEAR_                                            \
		:                                                             \
		: [parts] "r"(parts), [stride] "r"(stride),                   \
		  [amount] "re"(amount), [area] "r"(area),                    \
		  [span] "i"(PCPOOL_FAST_COUNTER_SPAN_),                      \
		  [twice] "i"(2 * PCPOOL_FAST_COUNTER_SPAN_)                  \
		: "r9", "r10", "r11", "memory", "cc"                          \
		: call);                                                      \
	return 1;                                                             \
call:                                                                         \
	return 0;                                                             \
}
/* clang-format on */

#else /* aarch64 */

#if defined(__cplusplus)
#define PCPOOL_FAST_TP_ static_cast<char *>(__builtin_thread_pointer())
#else
#define PCPOOL_FAST_TP_ ((char *)__builtin_thread_pointer())
#endif

/* x9 = index. Conditional branches reach no other section, so refusing is to
 * leave with the result as it was set before. A linker may use x16 and x17 on the
 * way to the abort code. */
#define PCPOOL_FAST_BEGIN_                                                    \
	PCPOOL_FAST_DESCRIPTOR_                                               \
	"adrp x9, 3b\n\t"                                                     \
	"add x9, x9, :lo12:3b\n\t"                                            \
	"str x9, [%[area], #8]\n"                                             \
	"1:\n\t"
#define PCPOOL_FAST_BY_CPU_ "ldrsw x9, [%[area], #4]\n\t"
/* Where no slot is for negative ones. */
#define PCPOOL_FAST_POSITIVE_ "tbnz w9, #31, 2f\n\t"
#define PCPOOL_FAST_BY_CID_                                                   \
	"ldrsw x9, [%[area], #4]\n\t"                                         \
	"tbnz w9, #31, 2f\n\t"                                                \
	"ldrsw x9, [%[area], #24]\n\t"
/* x10 = the sheaf, x11 = its word. */
#define PCPOOL_FAST_SHEAF_                                                    \
	"add x9, %[cache], x9, lsl #6\n\t"                                    \
	"ldr x10, [x9, %[slots]]\n\t"                                         \
	"ldr x11, [x10]\n\t"
#if defined(PCPOOL_FAST_RESIDENT)
#define PCPOOL_FAST_CLEAR_ ""
#else
#define PCPOOL_FAST_CLEAR_ "str xzr, [%[area], #8]\n\t"
#endif
/* The signature, a break instruction. */
#define PCPOOL_FAST_SIGNATURE_                                                \
	".inst 0xd428bc00\n"                                                  \
	"4:\n\t"

/* clang-format off */
#define PCPOOL_FAST_SECTIONS_(by, index, checked)                             \
PCPOOL_FAST_ALWAYS_                                                           \
static inline void *pcpool_fast_pop_##by##_(struct pcpool_cache *cache,       \
					   ptrdiff_t area)                    \
{                                                                             \
	char *base = PCPOOL_FAST_TP_ + area;                                  \
	void *obj = NULL;                                                     \
                                                                              \
	__asm__ __volatile__(                                                 \
		PCPOOL_FAST_BEGIN_                                            \
		index                                                         \
		PCPOOL_FAST_SHEAF_                                            \
		"ands x9, x11, #0xffff\n\t"                                   \
		"b.eq 2f\n\t"                                                 \
		"add x9, x10, x9, lsl #3\n\t"                                 \
		"ldr %[obj], [x9, #8]\n\t"                                    \
		"add x11, x11, #16, lsl #12\n\t"                              \
		"sub x11, x11, #1\n\t"                                        \
		"str x11, [x10]\n"                                            \
		"2:\n\t"                                                      \
		PCPOOL_FAST_ABORT_                                            \
		PCPOOL_FAST_SIGNATURE_                                        \
		"mov %[obj], #0\n\t"                                          \
		"b 2b\n\t"                                                    \
		".popsection\n\t"                                             \
		PCPOOL_FAST_CLEAR_                                            \
		: [obj] "+&r"(obj)                                            \
		: [cache] "r"(cache), [area] "r"(base),                       \
		  [slots] "i"(PCPOOL_FAST_SLOTS_)                             \
		: "x9", "x10", "x11", "x16", "x17", "memory", "cc");          \
	return obj;                                                           \
}                                                                             \
                                                                              \
PCPOOL_FAST_ALWAYS_                                                           \
static inline int pcpool_fast_push_##by##_(struct pcpool_cache *cache,        \
					  void *obj, ptrdiff_t area)          \
{                                                                             \
	char *base = PCPOOL_FAST_TP_ + area;                                  \
	int done = 0;                                                         \
                                                                              \
	__asm__ __volatile__(                                                 \
		PCPOOL_FAST_BEGIN_                                            \
		index                                                         \
		PCPOOL_FAST_SHEAF_                                            \
		"and x9, x11, #0xffff\n\t"                                    \
		"ldr w12, [x10, #8]\n\t"                                      \
		"cmp w9, w12\n\t"                                             \
		"b.eq 2f\n\t"                                                 \
		"add x9, x10, x9, lsl #3\n\t"                                 \
		"str %[obj], [x9, #16]\n\t"                                   \
		"add x11, x11, #1\n\t"                                        \
		"mov %w[done], #1\n\t"                                        \
		"str x11, [x10]\n"                                            \
		"2:\n\t"                                                      \
		PCPOOL_FAST_ABORT_                                            \
		PCPOOL_FAST_SIGNATURE_                                        \
		"mov %w[done], #0\n\t"                                        \
		"b 2b\n\t"                                                    \
		".popsection\n\t"                                             \
		PCPOOL_FAST_CLEAR_                                            \
		: [done] "+&r"(done)                                          \
		: [cache] "r"(cache), [obj] "r"(obj), [area] "r"(base),       \
		  [slots] "i"(PCPOOL_FAST_SLOTS_)                             \
		: "x9", "x10", "x11", "x12", "x16", "x17", "memory", "cc");   \
	return done;                                                          \
}                                                                             \
                                                                              \
PCPOOL_FAST_ALWAYS_                                                           \
static inline int pcpool_fast_add_##by##_(void *parts, size_t stride,         \
					 int64_t amount, ptrdiff_t area)      \
{                                                                             \
	char *base = PCPOOL_FAST_TP_ + area;                                  \
	int done = 0;                                                         \
                                                                              \
	__asm__ __volatile__(                                                 \
		PCPOOL_FAST_BEGIN_                                            \
		checked                                                       \
		"madd x9, x9, %[stride], %[parts]\n\t"                        \
		"ldr x10, [x9]\n\t"                                           \
		"adds x10, x10, %[amount]\n\t"                                \
		"b.vs 2f\n\t"                                                 \
		"add x11, x10, %[span]\n\t"                                   \
		"cmp x11, %[twice]\n\t"                                       \
		"b.hi 2f\n\t"                                                 \
		"mov %w[done], #1\n\t"                                        \
		"str x10, [x9]\n"                                             \
		"2:\n\t"                                                      \
		PCPOOL_FAST_ABORT_                                            \
		PCPOOL_FAST_SIGNATURE_                                        \
		"mov %w[done], #0\n\t"                                        \
		"b 2b\n\t"                                                    \
		".popsection\n\t"                                             \
		PCPOOL_FAST_CLEAR_                                            \
		: [done] "+&r"(done)                                          \
		: [parts] "r"(parts), [stride] "r"(stride),                   \
		  [amount] "r"(amount), [area] "r"(base),                     \
		  [span] "i"(PCPOOL_FAST_COUNTER_SPAN_),                      \
		  [twice] "i"(2 * PCPOOL_FAST_COUNTER_SPAN_)                  \
		: "x9", "x10", "x11", "x16", "x17", "memory", "cc");          \
	return done;                                                          \
}
/* clang-format on */

#endif

/*
 * pcpool_fast_pop_*_(): an object, or NULL; pcpool_fast_push_*_() and
 * pcpool_fast_add_*_(): not 0 if done. What is not done is the call's. Each for both
 * indexes: one that looked which it is would take a tenth longer.
 */
PCPOOL_FAST_SECTIONS_(cpu, PCPOOL_FAST_BY_CPU_,
		      PCPOOL_FAST_BY_CPU_ PCPOOL_FAST_POSITIVE_)
PCPOOL_FAST_SECTIONS_(cid, PCPOOL_FAST_BY_CID_, PCPOOL_FAST_BY_CID_)

/* The word that a cache begins with. */
PCPOOL_FAST_ALWAYS_
static inline int64_t pcpool_fast_word_(const struct pcpool_cache *cache)
{
	int64_t word;

	__builtin_memcpy(&word, cache, sizeof(word));
	return word;
}

/* What a word says besides distances. */
#define PCPOOL_FAST_KIND_(word) ((word) & 0xffffffff)
#define PCPOOL_FAST_COUNTER_KIND_(word) ((word) & 0xfffU)
#define PCPOOL_FAST_LIKELY_(x) __builtin_expect(!!(x), 1)
#endif /* PCPOOL_FAST_INLINE */

/**
 * As pcpool_alloc(), in all ways but one: cache must be a cache, not NULL.
 */
PCPOOL_FAST_ALWAYS_
static inline void *pcpool_fast_alloc(struct pcpool_cache *cache)
{
#if PCPOOL_FAST_INLINE
	int64_t word = pcpool_fast_word_(cache);
	void *obj = NULL;

	if (PCPOOL_FAST_LIKELY_(PCPOOL_FAST_KIND_(word) == PCPOOL_FAST_LAYOUT))
		obj = pcpool_fast_pop_cpu_(cache, PCPOOL_FAST_AREA_(word));
	else if (PCPOOL_FAST_KIND_(word) ==
		 (PCPOOL_FAST_LAYOUT | PCPOOL_FAST_CID_))
		obj = pcpool_fast_pop_cid_(cache, PCPOOL_FAST_AREA_(word));
	if (PCPOOL_FAST_LIKELY_(obj != NULL))
		return obj;
#endif
	return pcpool_alloc(cache);
}

/**
 * As pcpool_free(). obj may be NULL, and if it is, cache may be too.
 */
PCPOOL_FAST_ALWAYS_
static inline void pcpool_fast_free(struct pcpool_cache *cache, void *obj)
{
#if PCPOOL_FAST_INLINE
	if (PCPOOL_FAST_LIKELY_(obj != NULL)) {
		int64_t word = pcpool_fast_word_(cache);
		int done = 0;

		if (PCPOOL_FAST_LIKELY_(PCPOOL_FAST_KIND_(word) ==
					PCPOOL_FAST_LAYOUT))
			done = pcpool_fast_push_cpu_(cache, obj,
						    PCPOOL_FAST_AREA_(word));
		else if (PCPOOL_FAST_KIND_(word) ==
			 (PCPOOL_FAST_LAYOUT | PCPOOL_FAST_CID_))
			done = pcpool_fast_push_cid_(cache, obj,
						    PCPOOL_FAST_AREA_(word));
		if (PCPOOL_FAST_LIKELY_(done))
			return;
	}
#endif
	pcpool_free(cache, obj);
}

/**
 * As pcpool_counter_add(): in a signal handler too.
 */
PCPOOL_FAST_ALWAYS_
static inline void pcpool_fast_counter_add(struct pcpool_counter *c,
					   int64_t amount)
{
#if PCPOOL_FAST_INLINE
	uint32_t word = c->pcpool_fast;
	size_t stride = word & PCPOOL_FAST_COUNTER_STRIDE_MASK_;
	int done = 0;

	if (PCPOOL_FAST_LIKELY_(PCPOOL_FAST_COUNTER_KIND_(word) ==
				PCPOOL_FAST_LAYOUT))
		done = pcpool_fast_add_cpu_(c->pcpool_parts, stride, amount,
					   pcpool_fast_area_);
	else if (PCPOOL_FAST_COUNTER_KIND_(word) ==
		 (PCPOOL_FAST_LAYOUT | PCPOOL_FAST_COUNTER_CID_))
		done = pcpool_fast_add_cid_(c->pcpool_parts, stride, amount,
					   pcpool_fast_area_);
	if (PCPOOL_FAST_LIKELY_(done))
		return;
#endif
	pcpool_counter_add(c, amount);
}

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_FAST_H */

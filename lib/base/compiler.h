/* SPDX-License-Identifier: MIT */
/*
 * What the rest of the library wants from the compiler: attributes, branch
 * hints, and the annotations that clang's thread-safety analysis, the thread
 * sanitizer and the static analysers read.
 */
#ifndef PCP_BASE_COMPILER_H
#define PCP_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define pcp_likely(x) __builtin_expect(!!(x), 1)
#define pcp_unlikely(x) __builtin_expect(!!(x), 0)

#define PCP_API __attribute__((visibility("default")))
/* For declarations of variables: -fvisibility only hides definitions, and code
 * that sees the declaration alone would go through the GOT. */
#define PCP_HIDDEN __attribute__((visibility("hidden")))
#define PCP_NOINLINE __attribute__((noinline))
#define PCP_COLD __attribute__((cold, noinline))
#define PCP_INLINE static inline __attribute__((always_inline))
#define PCP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Two lines: the adjacent-line prefetcher couples a pair. */
#define PCP_CACHELINE 64
#define PCP_ALIGNED(n) __attribute__((aligned(n)))

#define pcp_container_of(ptr, type, member)                                   \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#define PCP_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#if defined(__SANITIZE_THREAD__)
#define PCP_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PCP_TSAN 1
#endif
#endif
#ifndef PCP_TSAN
#define PCP_TSAN 0
#endif

#if defined(__clang__)
#define PCP_TSA(x) __attribute__((x))
#else
#define PCP_TSA(x)
#endif
#define PCP_CAPABILITY PCP_TSA(capability("mutex"))
#define PCP_ACQUIRES(...) PCP_TSA(acquire_capability(__VA_ARGS__))
#define PCP_TRY_ACQUIRES(...) PCP_TSA(try_acquire_capability(__VA_ARGS__))
#define PCP_RELEASES(...) PCP_TSA(release_capability(__VA_ARGS__))
#define PCP_REQUIRES(...) PCP_TSA(requires_capability(__VA_ARGS__))
#define PCP_EXCLUDES(...) PCP_TSA(locks_excluded(__VA_ARGS__))
#define PCP_NO_TSA PCP_TSA(no_thread_safety_analysis)

#endif /* PCP_BASE_COMPILER_H */

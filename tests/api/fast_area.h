/* SPDX-License-Identifier: MIT */
/* The caller's area for restartable sequences, where the libc tells. */
#ifndef PCP_TESTS_API_FAST_AREA_H
#define PCP_TESTS_API_FAST_AREA_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<sys/rseq.h>) && defined(SYS_rseq)
#include <sys/rseq.h>
#define HAVE_AREA 1
#endif
#endif
#ifndef HAVE_AREA
#define HAVE_AREA 0
#endif

#if HAVE_AREA
static inline char *fast_area(void)
{
	return (char *)__builtin_thread_pointer() + __rseq_offset;
}

/* The section that the thread is in, as far as the kernel knows. The kernel
 * clears it when it looks there and finds the thread elsewhere. */
static inline uint64_t fast_armed(void)
{
	uint64_t descriptor;

	__asm__ volatile("" : : : "memory");
	memcpy(&descriptor, fast_area() + 8, sizeof(descriptor));
	return descriptor;
}

/* Take the thread's registration away. */
static inline bool fast_unregister(void)
{
	/* glibc says 20 for an area it registered with 32 bytes. */
	const unsigned int length = __rseq_size <= 32 ? 32 : __rseq_size;

	return !syscall(SYS_rseq, fast_area(), length, 1, RSEQ_SIG);
}
#else
static inline uint64_t fast_armed(void)
{
	return 0;
}

static inline bool fast_unregister(void)
{
	return false;
}
#endif

#endif /* PCP_TESTS_API_FAST_AREA_H */

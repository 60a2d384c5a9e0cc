/* SPDX-License-Identifier: MIT */
/*
 * The clocks that part an operation into phases: time, and the processor's own
 * counter. The counter is the time stamp counter of x86-64: its cycles are
 * those of a fixed frequency, near the nominal one, and not those of a core
 * that the system runs faster or slower. Elsewhere a program cannot rely on
 * being allowed to read one, so there is none.
 */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <time.h>

#include "core.h"

#define BENCH_NS_PER_S UINT64_C(1000000000)

#ifdef __x86_64__
#define BENCH_HAVE_CYCLES 1
#else
#define BENCH_HAVE_CYCLES 0
#endif

BENCH_INLINE uint64_t bench_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * BENCH_NS_PER_S + (uint64_t)ts.tv_nsec;
}

BENCH_INLINE struct bench_clock bench_clock_read(void)
{
	struct bench_clock c = { .ns = bench_now(CLOCK_MONOTONIC) };

#if BENCH_HAVE_CYCLES
	c.cycles = __builtin_ia32_rdtsc();
#endif
	return c;
}

/* Add the span from start to end. */
BENCH_INLINE void bench_clock_add(struct bench_clock *sum,
				  const struct bench_clock *start,
				  const struct bench_clock *end)
{
	sum->ns += end->ns - start->ns;
	sum->cycles += end->cycles - start->cycles;
}

#endif /* BENCH_CLOCK_H */

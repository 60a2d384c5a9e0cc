/* SPDX-License-Identifier: MIT */
/* The touch every variant does alike on every object it took. */
#ifndef BENCH_TOUCH_H
#define BENCH_TOUCH_H

#include <stddef.h>

#include "core.h"

/* Between two operations: what a cache keeps in memory is stored and loaded
 * again, as it would be with other code around. Without it the compiler carries
 * an inlined list's head in a register through the whole loop. */
BENCH_INLINE void bench_forget(void)
{
	__asm__ volatile("" : : : "memory");
}

/* Write to the first and the last line. The stores are volatile, and the object
 * escapes to where the compiler cannot look, so that neither the touch nor the
 * allocation around it can be left out. */
BENCH_INLINE void bench_touch(void *obj, size_t size)
{
	volatile unsigned char *bytes = obj;

	bytes[0] = 1;
	bytes[size - 1] = 1;
	__asm__ volatile("" : : "r"(obj) : "memory");
}

#endif /* BENCH_TOUCH_H */

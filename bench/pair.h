/* SPDX-License-Identifier: MIT */
/*
 * The loop all pair variants share: take an object, touch its first and last
 * line, give it back. take and give are constants at each use, and so inlined;
 * ctx points to a local copy of what they need, which the compiler keeps in
 * registers, since its address goes nowhere else.
 */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include <errno.h>
#include <stddef.h>

#include "core.h"
#include "touch.h"

BENCH_INLINE int bench_pair_loop(size_t size, unsigned int n, const void *ctx,
				 void *(*take)(const void *ctx, size_t size),
				 void (*give)(const void *ctx, void *obj))
{
	for (unsigned int i = 0; i < n; i++) {
		void *obj = take(ctx, size);

		if (__builtin_expect(!obj, 0))
			return errno ? errno : ENOMEM;
		bench_touch(obj, size);
		give(ctx, obj);
		bench_forget();
	}
	return 0;
}

#endif /* BENCH_PAIR_H */

/* SPDX-License-Identifier: MIT */
/*
 * The loop all rcu variants share: take an object, touch it, give it up for a
 * grace period. See pair.h for how take, give and ctx come to cost nothing.
 *
 * Objects are given up faster than grace periods pass. So that memory stays
 * bounded, each thread looks at the backlog of all threads after every
 * BENCH_RCU_INTERVAL objects, and waits when it is past BENCH_RCU_BOUND;
 * looking and waiting belong to the time.
 */
#ifndef BENCH_RCU_H
#define BENCH_RCU_H

#include <errno.h>
#include <stddef.h>
#include <urcu.h>

#include "core.h"
#include "touch.h"

#define BENCH_RCU_INTERVAL 64U
#define BENCH_RCU_BOUND ((size_t)100000)

BENCH_INLINE int bench_rcu_loop(size_t size, unsigned int n, const void *ctx,
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

BENCH_INLINE void bench_rcu_note(struct bench_thread *t, size_t backlog)
{
	if (backlog > t->peak)
		t->peak = backlog;
}

#endif /* BENCH_RCU_H */

/* SPDX-License-Identifier: MIT */
/*
 * The loop all batch variants share: take n objects, touching each, then give
 * them all back, the last one first (LIFO) or the first one first (FIFO). See
 * pair.h for how take, give and ctx come to cost nothing.
 *
 * The pointers lie in an array of the thread's, t->own: writing and reading it
 * is a cost that all variants have alike.
 */
#ifndef BENCH_BATCH_H
#define BENCH_BATCH_H

#include <errno.h>
#include <stddef.h>

#include "clock.h"
#include "core.h"
#include "touch.h"

enum bench_batch_order { BENCH_LIFO, BENCH_FIFO };
enum bench_batch_phase { BENCH_ALLOC, BENCH_FREE };

/* The enter() and leave() of all batch variants, see job_batch.c. */
int bench_batch_enter(struct bench_thread *t);
void bench_batch_leave(struct bench_thread *t);

BENCH_INLINE unsigned int bench_batch_take(size_t size, void **objs,
					   unsigned int n, const void *ctx,
					   void *(*take)(const void *ctx,
							 size_t size))
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		void *obj = take(ctx, size);

		if (__builtin_expect(!obj, 0))
			break;
		bench_touch(obj, size);
		objs[i] = obj;
		bench_forget();
	}
	return i;
}

BENCH_INLINE void bench_batch_give(enum bench_batch_order order, void **objs,
				   unsigned int n, const void *ctx,
				   void (*give)(const void *ctx, void *obj))
{
	if (order == BENCH_LIFO) {
		while (n) {
			give(ctx, objs[--n]);
			bench_forget();
		}
	} else {
		for (unsigned int i = 0; i < n; i++) {
			give(ctx, objs[i]);
			bench_forget();
		}
	}
}

BENCH_INLINE int bench_batch_loop(struct bench_thread *t, unsigned int n,
				  const void *ctx,
				  void *(*take)(const void *ctx, size_t size),
				  void (*give)(const void *ctx, void *obj))
{
	struct bench_clock start, middle, end;
	void **objs = t->own;
	unsigned int taken;
	int err = 0;

	errno = 0;
	start = bench_clock_read();
	taken = bench_batch_take(t->params->size, objs, n, ctx, take);
	middle = bench_clock_read();
	if (__builtin_expect(taken < n, 0))
		err = errno ? errno : ENOMEM;
	bench_batch_give(t->params->order, objs, taken, ctx, give);
	end = bench_clock_read();
	bench_clock_add(&t->phase[BENCH_ALLOC], &start, &middle);
	bench_clock_add(&t->phase[BENCH_FREE], &middle, &end);
	return err;
}

#endif /* BENCH_BATCH_H */

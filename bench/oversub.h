/* SPDX-License-Identifier: MIT */
/*
 * Job oversub: what its variants are made of, and the loops they share. See
 * pair.h for how take, give and ctx come to cost nothing.
 */
#ifndef BENCH_OVERSUB_H
#define BENCH_OVERSUB_H

#include <errno.h>
#include <stddef.h>

#include "core.h"
#include "touch.h"

struct bench_oversub;

/** One thread: its objects, and where it finds what all share. */
struct bench_oversub_thread {
	struct bench_oversub *o;
	void **objs; /**< params->live of them; NULL where there is none */
	uint64_t random;
};

/**
 * A variant. Steps come in this order, each done by all threads before the
 * next one begins; start, shrink and stop are the first thread's alone.
 * Functions return 0 or an errno value; start, idle, shrink and stop may be
 * NULL.
 */
struct bench_oversub_ops {
	int (*start)(struct bench_oversub *o);
	int (*fill)(struct bench_oversub_thread *t);
	int (*replace)(struct bench_oversub_thread *t, unsigned int n);
	void (*empty)(struct bench_oversub_thread *t);
	/** Each thread, which has given back all: no more use for a while. */
	void (*idle)(struct bench_oversub_thread *t);
	int (*shrink)(struct bench_oversub *o);
	int (*stop)(struct bench_oversub *o);
};

/** What open() makes; shared is the variant's own, from start() on. */
struct bench_oversub {
	const struct bench_oversub_ops *ops;
	const struct bench_malloc *peer;
	const struct bench_params *params;
	void *shared;
};

int bench_oversub_open(const struct bench_oversub_ops *ops,
		       const struct bench_malloc *peer, void **shared);
int bench_oversub_close(void *shared);

/* Variants on pcpool differ in how they take and give. */
int bench_oversub_start_pcpool(struct bench_oversub *o);
int bench_oversub_shrink_pcpool(struct bench_oversub *o);
int bench_oversub_stop_pcpool(struct bench_oversub *o);

/** The job's window: all of it in a child process. */
int bench_oversub_window(void *shared, const struct bench_params *params,
			 double *value);

enum {
	BENCH_OVERSUB_OPS,
	BENCH_OVERSUB_PEAK,
	BENCH_OVERSUB_FREED,
	BENCH_OVERSUB_SHRUNK,
	BENCH_OVERSUB_VALUES
};

/* The same places in every run, others for each thread. */
BENCH_INLINE uint64_t bench_oversub_pick(struct bench_oversub_thread *t,
					 uint64_t live)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return ((t->random >> 32) * live) >> 32;
}

BENCH_INLINE void *bench_oversub_take(const void *ctx, size_t size,
				      void *(*take)(const void *ctx,
						    size_t size))
{
	void *obj = take(ctx, size);

	if (__builtin_expect(!!obj, 1))
		bench_touch(obj, size);
	bench_forget();
	return obj;
}

BENCH_INLINE int bench_oversub_fill(struct bench_oversub_thread *t,
				    const void *ctx,
				    void *(*take)(const void *ctx, size_t size))
{
	const struct bench_params *params = t->o->params;

	for (uint64_t i = 0; i < params->live; i++) {
		t->objs[i] = bench_oversub_take(ctx, params->size, take);
		if (!t->objs[i])
			return errno ? errno : ENOMEM;
	}
	return 0;
}

BENCH_INLINE int bench_oversub_replace(struct bench_oversub_thread *t,
				       unsigned int n, const void *ctx,
				       void *(*take)(const void *ctx,
						     size_t size),
				       void (*give)(const void *ctx, void *obj))
{
	const uint64_t live = t->o->params->live;
	const size_t size = t->o->params->size;

	for (unsigned int i = 0; i < n; i++) {
		void **place = &t->objs[bench_oversub_pick(t, live)];

		give(ctx, *place);
		*place = bench_oversub_take(ctx, size, take);
		if (__builtin_expect(!*place, 0))
			return errno ? errno : ENOMEM;
	}
	return 0;
}

BENCH_INLINE void bench_oversub_empty(struct bench_oversub_thread *t,
				      const void *ctx,
				      void (*give)(const void *ctx, void *obj))
{
	for (uint64_t i = 0; i < t->o->params->live; i++) {
		if (t->objs[i])
			give(ctx, t->objs[i]);
		t->objs[i] = NULL;
	}
}

#endif /* BENCH_OVERSUB_H */

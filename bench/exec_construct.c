/* SPDX-License-Identifier: MIT */
/*
 * Exec variants that build the object anew each time, in memory of malloc: what
 * a program without an object cache does. The two regions come from pcpool's
 * region allocator as in all variants, so that only the caching differs.
 */
#include <config.h>

#include <stdlib.h>

#include "exec.h"
#include "job.h"

struct construct {
	struct bench_malloc peer;
	size_t size;
};

static int open_construct(const struct bench_params *params,
			  const struct bench_malloc *peer, void **shared)
{
	struct construct *c = malloc(sizeof(*c));

	if (!c)
		return ENOMEM;
	c->peer = *peer;
	c->size = params->size;
	*shared = c;
	return 0;
}

static int close_construct(void *shared)
{
	free(shared);
	return 0;
}

/* No mm_env: counting the constructions would be a cost that the variant with
 * few constructions does not have. */
BENCH_INLINE struct mm_struct *take(const void *ctx)
{
	const struct construct *c = ctx;
	struct mm_struct *mm = c->peer.malloc(c->size);
	int err;

	if (!mm)
		return NULL;
	err = mm_ctor(mm, NULL);
	if (err) {
		c->peer.free(mm);
		errno = err;
		return NULL;
	}
	return mm;
}

BENCH_INLINE void give(const void *ctx, struct mm_struct *mm)
{
	const struct construct *c = ctx;

	mm_dtor(mm, NULL);
	c->peer.free(mm);
}

static int run(struct bench_thread *t, unsigned int n)
{
	const struct construct c = *(const struct construct *)t->shared;

	return bench_exec_loop(t, n, &c, take, give);
}

const struct bench_variant bench_exec_construct = {
	.name = "construct",
	.peer = "glibc",
	.open = open_construct,
	.enter = bench_exec_enter,
	.run = run,
	.leave = bench_exec_leave,
	.close = close_construct,
};

const struct bench_variant bench_exec_construct_jemalloc = {
	.name = "construct-jemalloc",
	.peer = "jemalloc",
	.open = open_construct,
	.enter = bench_exec_enter,
	.run = run,
	.leave = bench_exec_leave,
	.close = close_construct,
};

const struct bench_variant bench_exec_construct_mimalloc = {
	.name = "construct-mimalloc",
	.peer = "mimalloc",
	.open = open_construct,
	.enter = bench_exec_enter,
	.run = run,
	.leave = bench_exec_leave,
	.close = close_construct,
};

const struct bench_variant bench_exec_construct_tcmalloc = {
	.name = "construct-tcmalloc",
	.peer = "tcmalloc",
	.open = open_construct,
	.enter = bench_exec_enter,
	.run = run,
	.leave = bench_exec_leave,
	.close = close_construct,
};

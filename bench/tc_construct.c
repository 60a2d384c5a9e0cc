/* SPDX-License-Identifier: MIT */
/*
 * Tc variants that build the action anew for each filter, in memory of malloc:
 * what a program without an object cache does. The three regions come from
 * pcpool's region allocator as in all variants, so that only the caching
 * differs.
 */
#include <config.h>

#include <stdlib.h>

#include "job.h"
#include "tc.h"

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

/* No tc_env: counting the constructions would be a cost that the variants with
 * few constructions do not have. */
BENCH_INLINE struct tc_action *take(const void *ctx)
{
	const struct construct *c = ctx;
	struct tc_action *action = c->peer.malloc(c->size);
	int err;

	if (!action)
		return NULL;
	err = tc_action_ctor(action, NULL);
	if (err) {
		c->peer.free(action);
		errno = err;
		return NULL;
	}
	return action;
}

BENCH_INLINE void give(const void *ctx, struct tc_action *action)
{
	const struct construct *c = ctx;

	tc_action_dtor(action, NULL);
	c->peer.free(action);
}

static int run(struct bench_thread *t, unsigned int n)
{
	const struct construct c = *(const struct construct *)t->shared;

	return bench_tc_loop(t, n, &c, take, give);
}

const struct bench_variant bench_tc_construct = {
	.name = "construct",
	.peer = "glibc",
	.open = open_construct,
	.enter = bench_tc_enter,
	.run = run,
	.leave = bench_tc_leave,
	.close = close_construct,
};

const struct bench_variant bench_tc_construct_jemalloc = {
	.name = "construct-jemalloc",
	.peer = "jemalloc",
	.open = open_construct,
	.enter = bench_tc_enter,
	.run = run,
	.leave = bench_tc_leave,
	.close = close_construct,
};

const struct bench_variant bench_tc_construct_mimalloc = {
	.name = "construct-mimalloc",
	.peer = "mimalloc",
	.open = open_construct,
	.enter = bench_tc_enter,
	.run = run,
	.leave = bench_tc_leave,
	.close = close_construct,
};

const struct bench_variant bench_tc_construct_tcmalloc = {
	.name = "construct-tcmalloc",
	.peer = "tcmalloc",
	.open = open_construct,
	.enter = bench_tc_enter,
	.run = run,
	.leave = bench_tc_leave,
	.close = close_construct,
};

/* SPDX-License-Identifier: MIT */
/* Tc variants on pcpool: calls into the shared library. Regions come from the
 * constructor or are declared. */
#include <config.h>

#include <stdlib.h>

#include "job.h"
#include "tc.h"

struct pool {
	struct pcpool_cache *cache;
	struct tc_env env;
};

/* As tc_cache_create(), for objects that may be larger (--size). */
static int open_pool(const struct bench_params *params, enum tc_regions regions,
		     void **shared)
{
	struct pcpool_cache_attr attr;
	struct pool *pool = calloc(1, sizeof(*pool));
	int err;

	if (!pool)
		return ENOMEM;
	tc_cache_attr(&attr, regions, &pool->env);
	pool->cache = pcpool_cache_create("bench-tc", params->size, &attr);
	if (!pool->cache) {
		err = errno;
		free(pool);
		return err;
	}
	*shared = pool;
	return 0;
}

static int open_ctor(const struct bench_params *params,
		     const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return open_pool(params, TC_CTOR, shared);
}

static int open_declared(const struct bench_params *params,
			 const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return open_pool(params, TC_DECLARED, shared);
}

static int close_pool(void *shared)
{
	struct pool *pool = shared;
	int err = pcpool_cache_destroy(pool->cache);

	if (!err && atomic_load(&pool->env.ctor_ok) !=
			    atomic_load(&pool->env.dtor))
		err = EPROTO;
	free(pool);
	return err;
}

static struct pcpool_cache *cache_of(void *shared)
{
	return ((struct pool *)shared)->cache;
}

BENCH_INLINE struct tc_action *take(const void *ctx)
{
	struct pcpool_cache *const *cache = ctx;

	return pcpool_alloc(*cache);
}

BENCH_INLINE void give(const void *ctx, struct tc_action *action)
{
	struct pcpool_cache *const *cache = ctx;

	pcpool_free(*cache, action);
}

static int run(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = cache_of(t->shared);

	return bench_tc_loop(t, n, &cache, take, give);
}

const struct bench_variant bench_tc_pcpool = {
	.name = "pcpool",
	.open = open_ctor,
	.enter = bench_tc_enter,
	.run = run,
	.leave = bench_tc_leave,
	.close = close_pool,
	.cache = cache_of,
};

const struct bench_variant bench_tc_pcpool_declared = {
	.name = "pcpool-declared",
	.open = open_declared,
	.enter = bench_tc_enter,
	.run = run,
	.leave = bench_tc_leave,
	.close = close_pool,
	.cache = cache_of,
};

const struct bench_variant bench_tc_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_ctor,
	.enter = bench_tc_enter,
	.run = run,
	.leave = bench_tc_leave,
	.close = close_pool,
	.cache = cache_of,
};

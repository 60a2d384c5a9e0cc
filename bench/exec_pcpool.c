/* SPDX-License-Identifier: MIT */
/* Exec variants on pcpool: calls into the shared library. */
#include <config.h>

#include <stdlib.h>

#include "exec.h"
#include "job.h"

struct pool {
	struct pcpool_cache *cache;
	struct mm_env env;
};

/* As mm_cache_create(), for objects that may be larger (--size). */
int bench_exec_open(const struct bench_params *params,
		    const struct bench_malloc *peer, void **shared)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pool *pool = calloc(1, sizeof(*pool));
	int err;

	(void)peer;
	if (!pool)
		return ENOMEM;
	attr.align = _Alignof(struct mm_struct);
	attr.ctor = mm_ctor;
	attr.dtor = mm_dtor;
	attr.arg = &pool->env;
	pool->cache = pcpool_cache_create("bench-exec", params->size, &attr);
	if (!pool->cache) {
		err = errno;
		free(pool);
		return err;
	}
	*shared = pool;
	return 0;
}

int bench_exec_close(void *shared)
{
	struct pool *pool = shared;
	int err = pcpool_cache_destroy(pool->cache);

	if (!err)
		err = bench_exec_balance(&pool->env);
	free(pool);
	return err;
}

struct pcpool_cache *bench_exec_cache(void *shared)
{
	return ((struct pool *)shared)->cache;
}

BENCH_INLINE struct mm_struct *take(const void *ctx)
{
	struct pcpool_cache *const *cache = ctx;

	return pcpool_alloc(*cache);
}

BENCH_INLINE void give(const void *ctx, struct mm_struct *mm)
{
	struct pcpool_cache *const *cache = ctx;

	pcpool_free(*cache, mm);
}

static int run(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = bench_exec_cache(t->shared);

	return bench_exec_loop(t, n, &cache, take, give);
}

const struct bench_variant bench_exec_pcpool = {
	.name = "pcpool",
	.open = bench_exec_open,
	.enter = bench_exec_enter,
	.run = run,
	.leave = bench_exec_leave,
	.close = bench_exec_close,
	.cache = bench_exec_cache,
};

const struct bench_variant bench_exec_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = bench_exec_open,
	.enter = bench_exec_enter,
	.run = run,
	.leave = bench_exec_leave,
	.close = bench_exec_close,
	.cache = bench_exec_cache,
};

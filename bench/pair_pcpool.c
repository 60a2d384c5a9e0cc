/* SPDX-License-Identifier: MIT */
/* Pair variants on pcpool: calls into the shared library. */
#include <config.h>

#include <pcpool/pcpool.h>

#include "job.h"
#include "pair.h"

static int open_pcpool(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	*shared = pcpool_cache_create("bench-pair", params->size, NULL);
	return *shared ? 0 : errno;
}

static int close_pcpool(void *shared)
{
	return pcpool_cache_destroy(shared);
}

BENCH_INLINE void *take(const void *ctx, size_t size)
{
	struct pcpool_cache *const *cache = ctx;

	(void)size;
	return pcpool_alloc(*cache);
}

BENCH_INLINE void give(const void *ctx, void *obj)
{
	struct pcpool_cache *const *cache = ctx;

	pcpool_free(*cache, obj);
}

static int run(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	return bench_pair_loop(t->params->size, n, &cache, take, give);
}

const struct bench_variant bench_pair_pcpool = {
	.name = "pcpool",
	.open = open_pcpool,
	.run = run,
	.close = close_pcpool,
};

const struct bench_variant bench_pair_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_pcpool,
	.run = run,
	.close = close_pcpool,
};

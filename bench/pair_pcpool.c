/* SPDX-License-Identifier: MIT */
/* Pair variants on pcpool: calls into the shared library. */
#include <config.h>

#include "job.h"
#include "pair.h"
#include "plain.h"

static int run(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	return bench_pair_loop(t->params->size, n, &cache, bench_take_pcpool,
			       bench_give_pcpool);
}

const struct bench_variant bench_pair_pcpool = {
	.name = "pcpool",
	.open = bench_open_pcpool,
	.run = run,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_pair_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = bench_open_pcpool,
	.run = run,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

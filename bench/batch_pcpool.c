/* SPDX-License-Identifier: MIT */
/* Batch variants on pcpool: calls into the shared library. */
#include <config.h>

#include "batch.h"
#include "job.h"
#include "plain.h"

static int run(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	return bench_batch_loop(t, n, &cache, bench_take_pcpool,
				bench_give_pcpool);
}

const struct bench_variant bench_batch_pcpool = {
	.name = "pcpool",
	.open = bench_open_pcpool,
	.enter = bench_batch_enter,
	.run = run,
	.leave = bench_batch_leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_batch_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = bench_open_pcpool,
	.enter = bench_batch_enter,
	.run = run,
	.leave = bench_batch_leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

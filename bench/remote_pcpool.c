/* SPDX-License-Identifier: MIT */
/* Remote variants on pcpool: calls into the shared library. */
#include <config.h>

#include "job.h"
#include "plain.h"
#include "remote.h"

static int run(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	(void)n;
	return bench_remote_loop(t, &cache, bench_take_pcpool,
				 bench_give_pcpool);
}

static void leave(struct bench_thread *t)
{
	struct pcpool_cache *cache = t->shared;

	bench_remote_leave(t, &cache, bench_give_pcpool);
}

const struct bench_variant bench_remote_pcpool = {
	.name = "pcpool",
	.open = bench_open_pcpool,
	.enter = bench_remote_enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_remote_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = bench_open_pcpool,
	.enter = bench_remote_enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

/* SPDX-License-Identifier: MIT */
/* Oversub variants on pcpool: calls into the shared library, and what those of
 * fast.h have in common with them. */
#include <config.h>

#include "job.h"
#include "oversub.h"
#include "plain.h"

int bench_oversub_start_pcpool(struct bench_oversub *o)
{
	return bench_open_pcpool(o->params, NULL, &o->shared);
}

static int fill(struct bench_oversub_thread *t)
{
	struct pcpool_cache *cache = t->o->shared;

	return bench_oversub_fill(t, &cache, bench_take_pcpool);
}

static int replace(struct bench_oversub_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->o->shared;

	return bench_oversub_replace(t, n, &cache, bench_take_pcpool,
				     bench_give_pcpool);
}

static void empty(struct bench_oversub_thread *t)
{
	struct pcpool_cache *cache = t->o->shared;

	bench_oversub_empty(t, &cache, bench_give_pcpool);
}

int bench_oversub_shrink_pcpool(struct bench_oversub *o)
{
	int err = pcpool_cache_shrink(o->shared);

	return err ? err : pcpool_maintain(0);
}

int bench_oversub_stop_pcpool(struct bench_oversub *o)
{
	return bench_close_pcpool(o->shared);
}

static const struct bench_oversub_ops ops = {
	.start = bench_oversub_start_pcpool,
	.fill = fill,
	.replace = replace,
	.empty = empty,
	.shrink = bench_oversub_shrink_pcpool,
	.stop = bench_oversub_stop_pcpool,
};

static int open_ops(const struct bench_params *params,
		    const struct bench_malloc *peer, void **shared)
{
	(void)params;
	return bench_oversub_open(&ops, peer, shared);
}

const struct bench_variant bench_oversub_pcpool = {
	.name = "pcpool",
	.open = open_ops,
	.close = bench_oversub_close,
};

const struct bench_variant bench_oversub_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_ops,
	.close = bench_oversub_close,
};

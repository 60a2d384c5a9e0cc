/* SPDX-License-Identifier: MIT */
/* Job rcu's variants on pcpool. */
#include <config.h>

#include "job.h"
#include "plain.h"
#include "rcu.h"

/* Looks at the bound between two at the backlog. */
#define PEAK_INTERVAL 16U

static _Thread_local unsigned int looks;

static int open_pcpool(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	(void)peer;
	attr.rcu_backlog = BENCH_RCU_BOUND;
	return bench_open_deferred(params, &attr, shared);
}

BENCH_INLINE void give(const void *ctx, void *obj)
{
	struct pcpool_cache *const *cache = ctx;

	pcpool_free_rcu(*cache, obj);
}

static int run(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;
	int err = bench_rcu_loop(t->params->size, n, &cache, bench_take_pcpool,
				 give);

	if (err)
		return err;
	/* Asking whether it is past the bound costs a load; how much it is
	 * exactly, a look at all slots. */
	err = pcpool_rcu_wait(cache, BENCH_RCU_BOUND, 0);
	if (err || ++looks % PEAK_INTERVAL == 0)
		bench_rcu_note(t, pcpool_rcu_backlog(cache));
	return err == ETIMEDOUT ? pcpool_rcu_wait(cache, BENCH_RCU_BOUND, -1)
				: err;
}

const struct bench_variant bench_rcu_pcpool = {
	.name = "pcpool",
	.open = open_pcpool,
	.run = run,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_rcu_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_pcpool,
	.run = run,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

/* SPDX-License-Identifier: MIT */
/* Job account: what it costs to charge an object at its hand-out and to take
 * the charge back. Variants: an ordinary cache (pcpool); one whose objects can
 * be charged, charged to nobody; to an account; to one three below the root. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include <pcpool/account.h>

#include "job.h"
#include "pair.h"
#include "plain.h"

#define BELOW 3U

struct charged {
	struct pcpool_cache *cache;
	struct pcpool_account *account;
};

static int close_charged(void *shared)
{
	struct charged *c = shared;

	bench_close_pcpool(c->cache);
	pcpool_account_release(c->account);
	free(c);
	return 0;
}

static struct pcpool_cache *cache_charged(void *shared)
{
	struct charged *c = shared;

	return c->cache;
}

static int open_charged(const struct bench_params *params, unsigned int below,
			void **shared)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct charged *c = calloc(1, sizeof(*c));

	if (!c)
		return ENOMEM;
	attr.flags = PCPOOL_ACCOUNT;
	c->cache = pcpool_cache_create("bench", params->size, &attr);
	if (!c->cache) {
		int err = errno;

		free(c);
		return err;
	}
	*shared = c;
	for (unsigned int i = 0; i < below; i++) {
		struct pcpool_account *parent = c->account;

		c->account = pcpool_account_create(parent, UINT64_C(1) << 40);
		/* It keeps its parent. */
		pcpool_account_release(parent);
		if (!c->account) {
			int err = errno;

			close_charged(c);
			return err;
		}
	}
	return 0;
}

static int open_nobody(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return open_charged(params, 0, shared);
}

static int open_account(const struct bench_params *params,
			const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return open_charged(params, 1, shared);
}

static int open_below(const struct bench_params *params,
		      const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return open_charged(params, 1 + BELOW, shared);
}

/* ctx: struct charged ** */
BENCH_INLINE void *take_charged(const void *ctx, size_t size)
{
	struct charged *const *c = ctx;

	(void)size;
	return pcpool_alloc_charged((*c)->cache, (*c)->account);
}

BENCH_INLINE void give_charged(const void *ctx, void *obj)
{
	struct charged *const *c = ctx;

	pcpool_free((*c)->cache, obj);
}

static int run_charged(struct bench_thread *t, unsigned int n)
{
	struct charged *c = t->shared;

	return bench_pair_loop(t->params->size, n, &c, take_charged,
			       give_charged);
}

static int run_plain(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	return bench_pair_loop(t->params->size, n, &cache, bench_take_pcpool,
			       bench_give_pcpool);
}

static const struct bench_variant plain = {
	.name = "pcpool",
	.open = bench_open_pcpool,
	.run = run_plain,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

static const struct bench_variant nobody = {
	.name = "nobody",
	.open = open_nobody,
	.run = run_charged,
	.close = close_charged,
	.cache = cache_charged,
};

static const struct bench_variant account = {
	.name = "account",
	.open = open_account,
	.run = run_charged,
	.close = close_charged,
	.cache = cache_charged,
};

static const struct bench_variant below = {
	.name = "account-below",
	.open = open_below,
	.run = run_charged,
	.close = close_charged,
	.cache = cache_charged,
};

static const struct bench_variant account_lock = {
	.name = "account-lock",
	.options = "mode:lock",
	.open = open_account,
	.run = run_charged,
	.close = close_charged,
	.cache = cache_charged,
};

static const struct bench_variant *const variants[] = {
	&plain, &nobody, &account, &below, &account_lock,
};

static const uint64_t sizes[] = { 256, 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_pair", "ns/pair", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return 256;
}

static void measure(const struct bench_window *w, double *value)
{
	value[0] = bench_ns_per_op(w);
}

const struct bench_job bench_job_account = {
	.name = "account",
	.title = "allocate charged, touch, free",
	.default_sizes = sizes,
	.min_size = 1,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

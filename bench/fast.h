/* SPDX-License-Identifier: MIT */
/*
 * Variants on pcpool by its inline functions, of the jobs pair, batch, remote,
 * exec and oversub.
 * Included by fast_inline.c and fast_resident.c, which say what they are called
 * and whether sections take their address back:
 *
 *   BENCH_FAST_NAME     "pcpool-…"
 *   BENCH_FAST(job)     the name of the job's variant
 */
#ifndef BENCH_FAST_H
#define BENCH_FAST_H

#include <pcpool/fast.h>

#include "batch.h"
#include "exec.h"
#include "job.h"
#include "oversub.h"
#include "pair.h"
#include "plain.h"
#include "remote.h"

/* ctx: struct pcpool_cache ** */
BENCH_INLINE void *take_fast(const void *ctx, size_t size)
{
	struct pcpool_cache *const *cache = ctx;

	(void)size;
	return pcpool_fast_alloc(*cache);
}

BENCH_INLINE void give_fast(const void *ctx, void *obj)
{
	struct pcpool_cache *const *cache = ctx;

	pcpool_fast_free(*cache, obj);
}

BENCH_INLINE struct mm_struct *take_mm(const void *ctx)
{
	return take_fast(ctx, 0);
}

BENCH_INLINE void give_mm(const void *ctx, struct mm_struct *mm)
{
	give_fast(ctx, mm);
}

static int run_pair(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	return bench_pair_loop(t->params->size, n, &cache, take_fast,
			       give_fast);
}

static int run_batch(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	return bench_batch_loop(t, n, &cache, take_fast, give_fast);
}

static int run_remote(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	(void)n;
	return bench_remote_loop(t, &cache, take_fast, give_fast);
}

static void leave_remote(struct bench_thread *t)
{
	struct pcpool_cache *cache = t->shared;

	bench_remote_leave(t, &cache, give_fast);
}

static int run_exec(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = bench_exec_cache(t->shared);

	return bench_exec_loop(t, n, &cache, take_mm, give_mm);
}

static int fill_oversub(struct bench_oversub_thread *t)
{
	struct pcpool_cache *cache = t->o->shared;

	return bench_oversub_fill(t, &cache, take_fast);
}

static int replace_oversub(struct bench_oversub_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->o->shared;

	return bench_oversub_replace(t, n, &cache, take_fast, give_fast);
}

static void empty_oversub(struct bench_oversub_thread *t)
{
	struct pcpool_cache *cache = t->o->shared;

	bench_oversub_empty(t, &cache, give_fast);
}

static const struct bench_oversub_ops oversub_ops = {
	.start = bench_oversub_start_pcpool,
	.fill = fill_oversub,
	.replace = replace_oversub,
	.empty = empty_oversub,
	.shrink = bench_oversub_shrink_pcpool,
	.stop = bench_oversub_stop_pcpool,
};

static int open_oversub(const struct bench_params *params,
			const struct bench_malloc *peer, void **shared)
{
	(void)params;
	return bench_oversub_open(&oversub_ops, peer, shared);
}

const struct bench_variant BENCH_FAST(oversub) = {
	.name = BENCH_FAST_NAME,
	.open = open_oversub,
	.close = bench_oversub_close,
};

const struct bench_variant BENCH_FAST(pair) = {
	.name = BENCH_FAST_NAME,
	.open = bench_open_pcpool,
	.run = run_pair,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant BENCH_FAST(batch) = {
	.name = BENCH_FAST_NAME,
	.open = bench_open_pcpool,
	.enter = bench_batch_enter,
	.run = run_batch,
	.leave = bench_batch_leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant BENCH_FAST(remote) = {
	.name = BENCH_FAST_NAME,
	.open = bench_open_pcpool,
	.enter = bench_remote_enter,
	.run = run_remote,
	.leave = leave_remote,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant BENCH_FAST(exec) = {
	.name = BENCH_FAST_NAME,
	.open = bench_exec_open,
	.enter = bench_exec_enter,
	.run = run_exec,
	.leave = bench_exec_leave,
	.close = bench_exec_close,
	.cache = bench_exec_cache,
};

#endif /* BENCH_FAST_H */

/* SPDX-License-Identifier: MIT */
/*
 * The variants on the Apache Portable Runtime, a module.
 *
 * APR's pools free all they hold at once, which is not this. For blocks that
 * are freed one by one it has the allocator beneath them, which keeps what is
 * freed on lists by size; a block has a header and takes 8 KiB at least. As its
 * users do, each thread has an allocator of its own, without a mutex, where
 * what it frees is its own; and all share one with a mutex in job remote. The
 * lists of finished things in its companion library (reslist) take a mutex and
 * a clock for every use, and would be slower in all jobs.
 */
#include <config.h>

#include <apr_allocator.h>
#include <apr_general.h>
#include <apr_pools.h>
#include <apr_thread_mutex.h>
#include <apr_version.h>

#include "batch.h"
#include "module.h"
#include "pair.h"
#include "remote.h"

/* ctx: apr_allocator_t ** */
BENCH_INLINE void *take(const void *ctx, size_t size)
{
	apr_allocator_t *const *allocator = ctx;
	apr_memnode_t *node = apr_allocator_alloc(*allocator, size);

	return __builtin_expect(!!node, 1) ? (char *)node + APR_MEMNODE_T_SIZE
					   : NULL;
}

BENCH_INLINE void give(const void *ctx, void *obj)
{
	apr_allocator_t *const *allocator = ctx;

	apr_allocator_free(*allocator,
			   (apr_memnode_t *)(void *)((char *)obj -
						     APR_MEMNODE_T_SIZE));
}

/* --- an allocator for each thread ---------------------------------- */

static _Thread_local apr_allocator_t *own;

static int open_apr(const struct bench_params *params,
		    const struct bench_malloc *peer, void **shared)
{
	(void)params;
	(void)peer;
	*shared = NULL;
	return apr_initialize() ? EIO : 0;
}

static int enter(struct bench_thread *t)
{
	(void)t;
	return apr_allocator_create(&own) ? ENOMEM : 0;
}

static void leave(struct bench_thread *t)
{
	(void)t;
	apr_allocator_destroy(own);
}

static int run_pair(struct bench_thread *t, unsigned int n)
{
	apr_allocator_t *allocator = own;

	return bench_pair_loop(t->params->size, n, &allocator, take, give);
}

static const struct bench_variant pair = {
	.name = "apr",
	.open = open_apr,
	.enter = enter,
	.run = run_pair,
	.leave = leave,
};

static int enter_batch(struct bench_thread *t)
{
	int err = bench_batch_enter(t);

	if (!err && enter(t)) {
		bench_batch_leave(t);
		err = ENOMEM;
	}
	return err;
}

static int run_batch(struct bench_thread *t, unsigned int n)
{
	apr_allocator_t *allocator = own;

	return bench_batch_loop(t, n, &allocator, take, give);
}

static void leave_batch(struct bench_thread *t)
{
	leave(t);
	bench_batch_leave(t);
}

static const struct bench_variant batch = {
	.name = "apr",
	.open = open_apr,
	.enter = enter_batch,
	.run = run_batch,
	.leave = leave_batch,
};

/* --- one for all ---------------------------------- */

static int open_shared(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	apr_allocator_t *allocator;
	apr_thread_mutex_t *mutex;
	apr_pool_t *pool;

	if (open_apr(params, peer, shared))
		return EIO;
	if (apr_allocator_create(&allocator))
		return ENOMEM;
	/* The pool holds the mutex, and belongs to the allocator. */
	if (apr_pool_create_ex(&pool, NULL, NULL, allocator) ||
	    apr_thread_mutex_create(&mutex, APR_THREAD_MUTEX_DEFAULT, pool)) {
		apr_allocator_destroy(allocator);
		return ENOMEM;
	}
	apr_allocator_mutex_set(allocator, mutex);
	apr_allocator_owner_set(allocator, pool);
	*shared = allocator;
	return 0;
}

static int close_shared(void *shared)
{
	apr_pool_destroy(apr_allocator_owner_get(shared));
	return 0;
}

static int run_remote(struct bench_thread *t, unsigned int n)
{
	apr_allocator_t *allocator = t->shared;

	(void)n;
	return bench_remote_loop(t, &allocator, take, give);
}

static void leave_remote(struct bench_thread *t)
{
	apr_allocator_t *allocator = t->shared;

	bench_remote_leave(t, &allocator, give);
}

static const struct bench_variant remote = {
	.name = "apr",
	.open = open_shared,
	.enter = bench_remote_enter,
	.run = run_remote,
	.leave = leave_remote,
	.close = close_shared,
};

extern const struct bench_module bench_module;
const struct bench_module bench_module = {
	.version = apr_version_string,
	.jobs = {
		{ "pair", &pair },
		{ "batch", &batch },
		{ "remote", &remote },
	},
};

/* SPDX-License-Identifier: MIT */
/*
 * The variants on DPDK's rte_mempool, a module.
 *
 * It works without huge pages and devices, in one process. Threads are the
 * program's own, so each has a cache that it made, of the largest size there
 * is: with it, getting and putting an object are inline and look nothing up.
 * A pool has a fixed number of objects, all made at first: as many as the job
 * can have alive, and as the caches can hold.
 */
#include <config.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mempool.h>
#include <rte_version.h>

#include "batch.h"
#include "module.h"
#include "pair.h"
#include "remote.h"

/* A thread's cache holds up to half as much again before it gives back. */
#define CACHED (RTE_MEMPOOL_CACHE_MAX_SIZE * 3U / 2U)
/* Address space to take pools from; memory as it is used. */
#define MEMORY_MB "4096"

struct ctx {
	struct rte_mempool *pool;
	struct rte_mempool_cache *cache;
};

static _Thread_local struct rte_mempool_cache *own;

BENCH_INLINE void *take(const void *ctx, size_t size)
{
	const struct ctx *c = ctx;
	void *obj;

	(void)size;
	if (__builtin_expect(rte_mempool_generic_get(c->pool, &obj, 1,
						     c->cache), 0)) {
		errno = ENOMEM;
		return NULL;
	}
	return obj;
}

BENCH_INLINE void give(const void *ctx, void *obj)
{
	const struct ctx *c = ctx;

	rte_mempool_generic_put(c->pool, &obj, 1, c->cache);
}

/* Once in a process. The library pins the thread that calls it, which is not to
 * be passed on to threads that are made later. */
static int start_library(void)
{
	static bool done;
	char cores[32];
	char *argv[] = { (char *)(uintptr_t) "pcpool-bench",
			 (char *)(uintptr_t) "--no-huge",
			 (char *)(uintptr_t) "--no-pci",
			 (char *)(uintptr_t) "--no-shconf",
			 (char *)(uintptr_t) "--no-telemetry",
			 (char *)(uintptr_t) "--log-level=3",
			 (char *)(uintptr_t) "-m",
			 (char *)(uintptr_t) MEMORY_MB,
			 (char *)(uintptr_t) "-l",
			 cores };
	cpu_set_t set;
	int cpu = 0;

	if (done)
		return 0;
	if (sched_getaffinity(0, sizeof(set), &set))
		return errno;
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	snprintf(cores, sizeof(cores), "%d", cpu);
	if (rte_eal_init(sizeof(argv) / sizeof(argv[0]), argv) < 0)
		return rte_errno ? rte_errno : EIO;
	done = true;
	return sched_setaffinity(0, sizeof(set), &set) ? errno : 0;
}

static int open_pool(const struct bench_params *params, unsigned int live,
		     void **shared)
{
	unsigned int n = params->threads * (live + CACHED);
	int err = start_library();

	if (err)
		return err;
	*shared = rte_mempool_create("bench", n, params->size, 0, 0, NULL, NULL,
				     NULL, NULL, SOCKET_ID_ANY, 0);
	if (!*shared)
		return rte_errno ? rte_errno : ENOMEM;
	return 0;
}

static int close_pool(void *shared)
{
	int full = rte_mempool_full(shared);

	rte_mempool_free(shared);
	return full ? 0 : EPROTO;
}

static int enter(void)
{
	own = rte_mempool_cache_create(RTE_MEMPOOL_CACHE_MAX_SIZE,
				       SOCKET_ID_ANY);
	return own ? 0 : ENOMEM;
}

static void leave(const struct bench_thread *t)
{
	rte_mempool_cache_flush(own, t->shared);
	rte_mempool_cache_free(own);
}

/* --- job pair ---------------------------------- */

static int open_pair(const struct bench_params *params,
		     const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return open_pool(params, 1, shared);
}

static int enter_pair(struct bench_thread *t)
{
	(void)t;
	return enter();
}

static int run_pair(struct bench_thread *t, unsigned int n)
{
	struct ctx ctx = { t->shared, own };

	return bench_pair_loop(t->params->size, n, &ctx, take, give);
}

static void leave_pair(struct bench_thread *t)
{
	leave(t);
}

static const struct bench_variant pair = {
	.name = "rte_mempool",
	.sized_by_threads = true,
	.open = open_pair,
	.enter = enter_pair,
	.run = run_pair,
	.leave = leave_pair,
	.close = close_pool,
};

/* --- job batch ---------------------------------- */

static int open_batch(const struct bench_params *params,
		      const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return open_pool(params, params->batch, shared);
}

static int enter_batch(struct bench_thread *t)
{
	int err = bench_batch_enter(t);

	if (!err && enter()) {
		bench_batch_leave(t);
		err = ENOMEM;
	}
	return err;
}

static int run_batch(struct bench_thread *t, unsigned int n)
{
	struct ctx ctx = { t->shared, own };

	return bench_batch_loop(t, n, &ctx, take, give);
}

static void leave_batch(struct bench_thread *t)
{
	leave(t);
	bench_batch_leave(t);
}

static const struct bench_variant batch = {
	.name = "rte_mempool",
	.sized_by_threads = true,
	.open = open_batch,
	.enter = enter_batch,
	.run = run_batch,
	.leave = leave_batch,
	.close = close_pool,
};

/* --- job remote ---------------------------------- */

static int open_remote(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return open_pool(params, (BENCH_REMOTE_SLOTS + 1) * BENCH_REMOTE_BATCH,
			 shared);
}

static int enter_remote(struct bench_thread *t)
{
	int err = enter();

	if (!err) {
		err = bench_remote_enter(t);
		if (err)
			rte_mempool_cache_free(own);
	}
	return err;
}

static int run_remote(struct bench_thread *t, unsigned int n)
{
	struct ctx ctx = { t->shared, own };

	(void)n;
	return bench_remote_loop(t, &ctx, take, give);
}

static void leave_remote(struct bench_thread *t)
{
	struct ctx ctx = { t->shared, own };

	bench_remote_leave(t, &ctx, give);
	leave(t);
}

static const struct bench_variant remote = {
	.name = "rte_mempool",
	.sized_by_threads = true,
	.open = open_remote,
	.enter = enter_remote,
	.run = run_remote,
	.leave = leave_remote,
	.close = close_pool,
};

/* "DPDK 22.11.11": the number is enough. */
static const char *version(void)
{
	const char *text = rte_version();
	const char *space = strchr(text, ' ');

	return space ? space + 1 : text;
}

extern const struct bench_module bench_module;
const struct bench_module bench_module = {
	.version = version,
	.jobs = {
		{ "pair", &pair },
		{ "batch", &batch },
		{ "remote", &remote },
	},
};

/* SPDX-License-Identifier: MIT */
/* Deferred frees: the calls of pcpool/rcu.h. */
#include <config.h>

#include <errno.h>
#include <time.h>

#include <pcpool/rcu.h>

#include "base/report.h"
#include "cache/cache.h"
#include "slab/check.h"
#include "slot/ops.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

static PCP_NOINLINE void free_rcu_slow(struct pcpool_cache *cache, void *obj,
				       bool aborted, const void *caller)
{
	struct pcp_stock *stock;
	int saved = errno;
	uint32_t index;

	if (!obj)
		return;
	if (!cache)
		pcp_die(NULL, obj, caller, "freed to no cache");
	stock = &cache->stock;
	if (aborted)
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_RSEQ_ABORT);
	if (cache->accounted)
		pcp_cache_uncharge(cache, obj, caller);
	/* Being freed until the grace period has passed, so that a second free
	 * meanwhile is seen. */
	if (stock->bypass)
		(void)pcp_check_free(&stock->kind, obj, caller, &index);
	pcp_slot_defer_slow(stock, obj);
	errno = saved;
}

PCP_API void pcpool_free_rcu(struct pcpool_cache *cache, void *obj)
{
	enum pcp_section section = PCP_REFUSED;

	if (pcp_likely(cache && obj && !cache->accounted)) {
		section = pcp_rseq_push_at(cache->stock.slots,
					   offsetof(struct pcp_slot, rcu), obj,
					   PCP_CLOSED);
		if (pcp_likely(section == PCP_DONE))
			return;
	}
	free_rcu_slow(cache, obj, section == PCP_ABORTED,
		      __builtin_return_address(0));
}

PCP_API int pcpool_rcu_barrier(struct pcpool_cache *cache)
{
	struct pcp_defer *defer;
	int saved = errno, err, drained = 0;

	if (!cache)
		return EINVAL;
	defer = &cache->stock.defer;
	/* Asked before slots are bothered. */
	err = pcp_grace_may_wait(defer->grace.flavor);
	if (!err && pcp_load(&defer->used)) {
		drained = pcp_stock_hand_over(&cache->stock);
		err = pcp_defer_barrier(defer);
	}
	errno = saved;
	return err ? err : drained;
}

PCP_API size_t pcpool_rcu_backlog(struct pcpool_cache *cache)
{
	return cache ? (size_t)pcp_stock_deferred(&cache->stock) : 0;
}

struct limit {
	const struct pcp_defer *defer;
	size_t backlog;
};

static bool within(void *arg)
{
	const struct limit *limit = arg;

	/* Pairs with nothing: a number to compare. */
	return pcp_load(&limit->defer->pending) <= limit->backlog;
}

static uint64_t deadline_of(int timeout_ms)
{
	struct timespec now;

	if (timeout_ms < 0)
		return UINT64_MAX;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec +
	       (uint64_t)timeout_ms * NS_PER_MS;
}

PCP_API int pcpool_rcu_wait(struct pcpool_cache *cache, size_t backlog,
			    int timeout_ms)
{
	struct pcp_defer *defer;
	struct limit limit;
	int saved = errno, err;

	if (!cache || timeout_ms < -1)
		return EINVAL;
	defer = &cache->stock.defer;
	limit.defer = defer;
	limit.backlog = backlog ? backlog : defer->bound;
	if (within(&limit))
		return 0;
	if (!timeout_ms)
		return ETIMEDOUT;
	/* What a forked child inherited is not queued. */
	pcp_defer_kick(defer);
	err = pcp_grace_wait(defer->grace.flavor, within, &limit,
			     deadline_of(timeout_ms));
	errno = saved;
	return err;
}

/* SPDX-License-Identifier: MIT */
/* pcpool_free() and pcpool_discard(). */
#include <config.h>

#include <errno.h>

#include "base/report.h"
#include "cache/cache.h"
#include "slab/check.h"
#include "slot/ops.h"

static void free_checked(struct pcpool_cache *cache, void *obj,
			 const void *caller)
{
	struct pcp_kind *kind = &cache->stock.kind;
	uint32_t index;
	struct pcp_slab *slab = pcp_check_free(kind, obj, caller, &index);

	pcp_check_freed(slab, index, true);
}

void pcp_cache_free_slow(struct pcpool_cache *cache, void *obj, bool aborted,
			 const void *caller)
{
	struct pcp_stock *stock;
	int saved = errno;

	if (!obj)
		return;
	if (!cache)
		pcp_die(NULL, obj, caller, "freed to no cache");
	stock = &cache->stock;
	if (aborted)
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_RSEQ_ABORT);
	if (cache->accounted)
		pcp_cache_uncharge(cache, obj, caller);
	if (stock->bypass)
		free_checked(cache, obj, caller);
	if (stock->bypass ||
	    (!aborted && pcp_index.rseq && !cache->accounted) ||
	    !pcp_slot_push(stock, obj))
		pcp_slot_free_slow(stock, obj);
	errno = saved;
}

/* Where the shorter section of pcpool_free() is not for the cache or refused. */
PCP_NOINLINE static void free_any(struct pcpool_cache *cache, void *obj,
				  const void *caller)
{
	enum pcp_section section = PCP_REFUSED;

	if (pcp_likely(cache && obj && !cache->accounted)) {
		section = pcp_rseq_push(cache->stock.slots, obj);
		if (pcp_likely(section == PCP_DONE))
			return;
	}
	pcp_cache_free_slow(cache, obj, section == PCP_ABORTED, caller);
}

PCP_API void pcpool_free(struct pcpool_cache *cache, void *obj)
{
#if PCPOOL_FAST_INLINE
	if (pcp_likely(cache && obj && pcp_cache_is_plain(cache)) &&
	    pcp_likely(pcpool_fast_push_cpu_(cache, obj,
					     pcp_cache_area(cache))))
		return;
#endif
	free_any(cache, obj, __builtin_return_address(0));
}

PCP_API int pcpool_discard(struct pcpool_cache *cache, void *obj)
{
	const void *caller = __builtin_return_address(0);
	struct pcp_slab_link dead;
	struct pcp_stock *stock;
	struct pcp_slab *slab;
	uint32_t index;
	int saved = errno;

	if (!cache)
		return EINVAL;
	if (!obj)
		return 0;
	stock = &cache->stock;
	if (cache->accounted)
		pcp_cache_uncharge(cache, obj, caller);
	if (stock->bypass)
		slab = pcp_check_free(&stock->kind, obj, caller, &index);
	else
		slab = pcp_check_out(&stock->kind, obj, caller, &index);
	/* Counted first: no longer the caller's, should another thread fork. */
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_FREE);
	if (stock->kind.flags & PCPOOL_TYPESAFE_BY_RCU) {
		pcp_defer_object(stock, obj, PCP_DEFER_DISCARD);
		errno = saved;
		return 0;
	}
	pcp_unbuild(slab, index);
	if (stock->bypass)
		pcp_check_freed(slab, index, false);
	pcp_slabs_init(&dead);
	pcp_stock_give(stock, 1, &obj, &dead);
	pcp_stock_bury(stock, &dead, stock->kind.flags & PCPOOL_DTOR_ON_FREE);
	errno = saved;
	return 0;
}

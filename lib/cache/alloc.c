/* SPDX-License-Identifier: MIT */
/*
 * pcpool_alloc() and pcpool_alloc_node(). The fast path is one section, that of
 * pcpool/fast.h; see doc/fast-path.md for what it compiles to.
 */
#include <config.h>

#include <errno.h>

#include "cache/cache.h"
#include "slab/check.h"
#include "slot/ops.h"

/* Past the slots, checked. NULL with *err. */
static void *alloc_checked(struct pcpool_cache *cache, unsigned int node,
			   const void *caller, int *err)
{
	struct pcp_kind *kind = &cache->stock.kind;
	void *obj = pcp_stock_alloc(&cache->stock, node, err);

	if (obj) {
		struct pcp_slab *slab = pcp_slab_of(kind, obj);

		pcp_check_alloc(slab, pcp_slab_index(slab, obj), caller);
	}
	return obj;
}

void *pcp_cache_reset(struct pcpool_cache *cache, void *obj)
{
	struct pcp_kind *kind = &cache->stock.kind;

	pcp_assert_unlocked();
	kind->reset(obj, kind->arg);
	return obj;
}

void *pcp_cache_take_slow(struct pcpool_cache *cache, bool aborted,
			  const void *caller)
{
	struct pcp_stock *stock = &cache->stock;
	int err = 0;
	void *obj;

	if (aborted)
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_RSEQ_ABORT);
	if (stock->bypass)
		obj = alloc_checked(cache, pcp_this_node(), caller, &err);
	else if ((!aborted && pcp_index.rseq) || !pcp_slot_pop(stock, &obj))
		obj = pcp_slot_alloc_slow(stock, &err);
	if (!obj)
		errno = err;
	return obj;
}

void *pcp_cache_alloc_slow(struct pcpool_cache *cache, bool aborted,
			   const void *caller)
{
	void *obj;

	if (!cache) {
		errno = EINVAL;
		return NULL;
	}
	obj = pcp_cache_take_slow(cache, aborted, caller);
	return obj ? pcp_cache_hand_out(cache, obj) : NULL;
}

/* Where the shorter section of pcpool_alloc() is not for the cache or refused. */
PCP_NOINLINE static void *alloc_any(struct pcpool_cache *cache,
				    const void *caller)
{
	enum pcp_section section = PCP_REFUSED;
	void *obj;

	if (pcp_likely(cache)) {
		section = pcp_rseq_pop(cache->stock.slots, &obj);
		if (pcp_likely(section == PCP_DONE))
			return pcp_cache_hand_out(cache, obj);
	}
	return pcp_cache_alloc_slow(cache, section == PCP_ABORTED, caller);
}

PCP_API void *pcpool_alloc(struct pcpool_cache *cache)
{
#if PCPOOL_FAST_INLINE
	if (pcp_likely(cache && pcp_cache_is_plain(cache))) {
		void *obj = pcpool_fast_pop_cpu_(cache, pcp_cache_area(cache));

		if (pcp_likely(obj))
			return obj;
	}
#endif
	return alloc_any(cache, __builtin_return_address(0));
}

PCP_API void *pcpool_alloc_node(struct pcpool_cache *cache, int node)
{
	const void *caller = __builtin_return_address(0);
	int err = 0;
	void *obj;

	if (!cache || node < -1 ||
	    (node >= 0 && (unsigned int)node >= cache->stock.nr_nodes)) {
		errno = EINVAL;
		return NULL;
	}
	if (node < 0)
		return pcp_slot_pop(&cache->stock, &obj)
			       ? pcp_cache_hand_out(cache, obj)
			       : pcp_cache_alloc_slow(cache, false, caller);
	if (cache->stock.bypass)
		obj = alloc_checked(cache, (unsigned int)node, caller, &err);
	else
		obj = pcp_stock_alloc(&cache->stock, (unsigned int)node, &err);
	if (!obj) {
		errno = err;
		return NULL;
	}
	return pcp_cache_hand_out(cache, obj);
}

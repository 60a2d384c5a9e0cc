/* SPDX-License-Identifier: MIT */
/*
 * Which caches may be used inline, by the functions of pcpool/fast.h, which do
 * what pcpool_alloc() and pcpool_free() do until they leave the slot, and look at
 * nothing else: not whether there is a hook to run or an account to pay.
 *
 * All that this is decided by is fixed when a cache is made: the mode of the
 * process, also over a fork, and the attributes. What may happen later to a
 * cache that is used inline, being drained or destroyed, closes its slots, and
 * so sends inline calls to the ordinary ones as it does those to their slow path.
 */
#include <config.h>

#include "cache/cache.h"
#include "cpu/index.h"
#include "cpu/rseq.h"

/* That the layout is as fast.h says; what has no name there stands in its
 * sections as a number. A change here wants another PCPOOL_FAST_LAYOUT. */
_Static_assert(PCPOOL_FAST_LAYOUT == 1, "layout 1 is asserted below");
_Static_assert(PCP_SLOT_SHIFT == 6 && PCP_SLOT_MAIN == 0, "slot");
_Static_assert(PCP_SHEAF_WORD == 0 && PCP_SHEAF_CAPACITY == 8 &&
		       PCP_SHEAF_OBJECTS == 16,
	       "sheaf");
_Static_assert(PCP_SHEAF_SIZE_MASK == 0xffffU && PCP_SHEAF_ALLOC_SHIFT == 16,
	       "a sheaf's word");

int64_t pcp_cache_fast(const struct pcpool_cache *cache)
{
	if (!pcp_index.rseq || cache->accounted || cache->stock.bypass ||
	    cache->stock.kind.reset || pcp_rseq_area != (int32_t)pcp_rseq_area)
		return 0;
	return PCPOOL_FAST_LAYOUT | (pcp_index.cid ? PCPOOL_FAST_CID_ : 0) |
	       (int64_t)((uint64_t)pcp_rseq_area << PCPOOL_FAST_AREA_SHIFT_);
}

/* SPDX-License-Identifier: MIT */
/* pcpool_cache_destroy(): everything destructed, or nothing. */
#include <config.h>

#include <errno.h>

#include "base/osmem.h"
#include "cache/cache.h"
#include "slab/arena.h"

/* All objects are where pcpool can see them, so none is out, and no user has a
 * sheaf, be it empty. In a forked child objects and sheaves may be out for ever
 * in the hands of threads that do not exist: there only what was handed out
 * counts. */
static bool idle(struct pcpool_cache *cache)
{
	bool forked = pcp_cache_forked(cache);
	struct pcp_book book;

	if (!forked && pcp_kind_inuse(&cache->stock.kind))
		return false;
	pcp_stock_book(&cache->stock, &book, false);
	return !(forked ? book.live : book.held);
}

/* Every slab, wherever it is linked: nobody else reaches any of them. The lock
 * is for destructors that look at the cache's statistics. */
static void kill_all(struct pcp_kind *kind)
{
	for (;;) {
		struct pcp_slab *slab = NULL;

		pcp_lock(&kind->slabs_lock);
		if (!pcp_slabs_empty(&kind->all))
			slab = pcp_container_of(kind->all.next,
						struct pcp_slab, all);
		pcp_unlock(&kind->slabs_lock);
		if (!slab)
			return;
		pcp_slab_kill(slab);
	}
}

PCP_API int pcpool_cache_destroy(struct pcpool_cache *cache)
{
	struct pcp_slab_link dead;
	struct pcp_stock *stock;
	int saved = errno;

	if (!cache)
		return EINVAL;
	stock = &cache->stock;
	if (stock->dying || pcp_kind_busy_here(&stock->kind))
		return EBUSY;
	pcp_slabs_init(&dead);
	pcp_stock_drain_idle(stock, &dead);
	pcp_stock_empty_barns(stock, &dead);
	/* Slabs that flushing emptied; their destructors wait for the answer. */
	pcp_stock_bury(stock, &dead, false);
	if (!idle(cache)) {
		errno = saved;
		return EBUSY;
	}
	stock->dying = true;
	pcp_stock_close(stock);
	kill_all(&stock->kind);
	/* Blocks that nobody may ever want again. */
	if (pcp_registry_del(cache))
		pcp_block_purge();
	pcp_stock_destroy(stock);
	pcp_meta_free(cache);
	errno = saved;
	return 0;
}

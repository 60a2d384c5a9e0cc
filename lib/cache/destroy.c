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

/* Nothing deferred is left, and the library's thread is done with the cache: it
 * was idle before a barrier. */
static int finish_deferred(struct pcpool_cache *cache)
{
	struct pcp_defer *defer = &cache->stock.defer;
	bool done = !pcp_load(&defer->used);

	while (!done) {
		int err;

		done = pcp_defer_idle(defer);
		err = pcp_defer_barrier(defer);
		if (err)
			return err;
	}
	return 0;
}

/* Everything back in its slab, and nobody but this thread near it. 0, or why
 * not. */
static int clear(struct pcpool_cache *cache)
{
	struct pcp_stock *stock = &cache->stock;
	struct pcp_slab_link dead;
	int err;

	pcp_slabs_init(&dead);
	pcp_stock_drain_idle(stock, &dead);
	err = finish_deferred(cache);
	if (!err)
		pcp_stock_empty_barns(stock, &dead);
	/* Slabs that flushing emptied; their destructors wait for the answer.
	 * Those of a typesafe cache would be queued for a grace period again, and
	 * what is queued has been waited for. */
	if (stock->kind.flags & PCPOOL_TYPESAFE_BY_RCU)
		pcp_stock_set_aside(stock, &dead);
	else
		pcp_stock_bury(stock, &dead, false);
	if (!err && !idle(cache))
		err = EBUSY;
	return err;
}

PCP_API int pcpool_cache_destroy(struct pcpool_cache *cache)
{
	struct pcp_stock *stock;
	int saved = errno, err;

	if (!cache)
		return EINVAL;
	stock = &cache->stock;
	if (stock->dying || pcp_kind_busy_here(&stock->kind) ||
	    !pcp_registry_leave(cache))
		return EBUSY;
	err = clear(cache);
	errno = saved;
	if (err) {
		pcp_registry_stay(cache);
		return err;
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

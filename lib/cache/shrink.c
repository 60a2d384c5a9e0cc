/* SPDX-License-Identifier: MIT */
/* pcpool_cache_shrink(): free memory goes back to the system. */
#include <config.h>

#include <errno.h>

#include "cache/cache.h"
#include "slab/arena.h"

PCP_API int pcpool_cache_shrink(struct pcpool_cache *cache)
{
	struct pcp_slab_link dead;
	struct pcp_stock *stock;
	int saved = errno, err;

	if (!cache)
		return EINVAL;
	stock = &cache->stock;
	/* From a destructor that destroy runs: everything is going anyway. */
	if (stock->dying)
		return 0;
	pcp_slabs_init(&dead);
	err = pcp_stock_drain(stock, &dead);
	pcp_stock_empty_barns(stock, &dead);
	for (unsigned int i = 0; i < stock->nr_nodes; i++) {
		pcp_stock_kill(stock, &dead);
		pcp_node_trim(&stock->nodes[i], 0, &dead);
	}
	pcp_stock_kill(stock, &dead);
	/* Their memory is to be back on return, where that can be waited for. */
	if (stock->kind.flags & PCPOOL_TYPESAFE_BY_RCU)
		(void)pcp_defer_barrier(&stock->defer);
	pcp_block_purge();
	errno = saved;
	return err;
}

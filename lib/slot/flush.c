/* SPDX-License-Identifier: MIT */
/*
 * Where objects go when the slot's main has no room: the spare, the barn, the
 * slabs.
 */
#include <config.h>

#include "base/fault.h"
#include "slot/adapt.h"
#include "slot/ops.h"

/* A full sheaf of the time when capacities were smaller goes on as one of now,
 * which has room. Else it would come and go between slot and barn for good, and
 * bursts that sheaves of now can hold would miss every time. */
static struct pcp_sheaf *widen(struct pcp_stock *stock, unsigned int node,
			       struct pcp_sheaf *sheaf)
{
	struct pcp_sheaf *larger;

	if (pcp_likely(sheaf->capacity >= pcp_load(&stock->sheaves.capacity)))
		return sheaf;
	larger = pcp_stock_empty_sheaf(stock, node);
	if (!larger)
		return sheaf;
	if (larger->capacity <= sheaf->capacity) {
		/* Capacities fell just now, or there was no memory. */
		pcp_sheaf_retire(&stock->sheaves, larger);
		return sheaf;
	}
	pcp_sheaf_move(larger, sheaf);
	pcp_sheaf_retire(&stock->sheaves, sheaf);
	return larger;
}

/* A sheaf with room for the slot's next frees: the spare if it has any, else an
 * empty one. A full spare goes to the barn, or is emptied and serves. NULL: no
 * memory. */
static struct pcp_sheaf *get_roomy(struct pcp_stock *stock, long index,
				   unsigned int node,
				   struct pcp_slab_link *dead)
{
	struct pcp_barn *barn = &stock->barns[node];
	struct pcp_sheaf *spare = pcp_slot_unhook(stock, index, PCP_SPARE);

	PCP_HOOK(PCP_HOOK_FREE_UNHOOKED_SPARE);
	if (spare && !pcp_sheaf_size(spare))
		return pcp_stock_refit(stock, spare);
	if (spare)
		spare = widen(stock, node, spare);
	if (spare && pcp_sheaf_room(spare))
		return spare;
	pcp_adapt_miss(stock, index);
	if (spare && !pcp_barn_put_full(barn, spare)) {
		pcp_stock_flush(stock, spare, dead);
		return pcp_stock_refit(stock, spare);
	}
	return pcp_stock_empty_sheaf(stock, node);
}

static void free_to_slab(struct pcp_stock *stock, void *obj,
			 struct pcp_slab_link *dead)
{
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_BYPASS);
	pcp_stock_give(stock, 1, &obj, dead);
}

static void free_to_slot(struct pcp_stock *stock, long index, void *obj,
			 struct pcp_slab_link *dead)
{
	unsigned int node = pcp_slot_node(index);
	struct pcp_sheaf *sheaf = get_roomy(stock, index, node, dead);

	if (!sheaf) {
		free_to_slab(stock, obj, dead);
		return;
	}
	pcp_sheaf_push(sheaf, obj);
	pcp_slot_install(stock, index, node, sheaf, PCP_HOOK_FREE_HOOK_MAIN,
			 dead);
}

void pcp_slot_free_slow(struct pcp_stock *stock, void *obj)
{
	long index = pcp_this_index();
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	/* Counted first: no longer the caller's, should another thread fork. */
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_FREE);
	if (pcp_slot_usable(stock, index))
		free_to_slot(stock, index, obj, &dead);
	else
		free_to_slab(stock, obj, &dead);
	pcp_stock_bury(stock, &dead,
		       stock->kind.flags & PCPOOL_DTOR_ON_FREE);
}

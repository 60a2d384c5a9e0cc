/* SPDX-License-Identifier: MIT */
/*
 * Where objects come from when the slot's main has none: spare, barn, partial
 * slabs, waiting slabs, a new slab; and last, anything that is built.
 */
#include <config.h>

#include <errno.h>
#include <sched.h>

#include "base/fault.h"
#include "slot/adapt.h"
#include "slot/ops.h"

/* Looks beyond the first two before an allocation fails. */
#define SEARCH_AGAIN 1

/* Objects of one node into objs[]: from partial slabs as many as there are, up
 * to max; only when there are none from a waiting slab, only then from a new
 * one. They may be unbuilt. */
static uint32_t take_from_node(struct pcp_stock *stock, unsigned int node,
			       uint32_t max, void **objs,
			       struct pcp_slab_link *dead)
{
	struct pcp_node *n = &stock->nodes[node];
	uint32_t count = pcp_node_take(n, max, objs, dead);

	if (!count)
		count = pcp_node_take_waiting(n, max, objs, dead);
	if (!count)
		count = pcp_node_grow(n, node, max, objs, dead);
	return count;
}

uint32_t pcp_stock_fill(struct pcp_stock *stock, unsigned int node,
			uint32_t max, void **objs, int *err)
{
	struct pcp_slab_link dead;
	uint32_t count, built;

	pcp_slabs_init(&dead);
	count = take_from_node(stock, node, max, objs, &dead);
	/* No memory: another node's free objects serve. */
	for (unsigned int i = 0; !count && i < stock->nr_nodes; i++) {
		if (i == node)
			continue;
		count = pcp_node_take(&stock->nodes[i], max, objs, &dead);
		if (!count)
			count = pcp_node_take_waiting(&stock->nodes[i], max,
						      objs, &dead);
	}
	pcp_stock_bury(stock, &dead, false);
	if (!count) {
		*err = ENOMEM;
		return 0;
	}
	built = (uint32_t)pcp_build_many(&stock->kind, count, objs, err);
	if (built < count) {
		pcp_stock_give(stock, count - built, objs + built, &dead);
		pcp_stock_bury(stock, &dead, false);
	}
	return built;
}

/* A sheaf that holds objects, from the barn, to be hooked. */
static struct pcp_sheaf *from_barn(struct pcp_barn *barn)
{
	struct pcp_sheaf *sheaf = pcp_barn_get_full(barn);

	return sheaf ? sheaf : pcp_barn_get_partial(barn);
}

/* An empty sheaf to fill, or, if the main turns out not to be empty, that. */
static struct pcp_sheaf *to_fill(struct pcp_stock *stock, long index,
				 unsigned int node)
{
	struct pcp_sheaf *sheaf = pcp_slot_unhook(stock, index, PCP_MAIN);

	if (!sheaf)
		return pcp_stock_empty_sheaf(stock, node);
	return pcp_sheaf_size(sheaf) ? sheaf : pcp_stock_refit(stock, sheaf);
}

/* A sheaf with at least one object, owned by the caller, for the slot it is
 * on. NULL: *err says why, 0 that there was no memory for a sheaf. */
static struct pcp_sheaf *get_stocked(struct pcp_stock *stock, long index,
				     unsigned int node, int *err,
				     struct pcp_slab_link *dead)
{
	struct pcp_barn *barn = &stock->barns[node];
	struct pcp_sheaf *spare = pcp_slot_unhook(stock, index, PCP_SPARE);
	struct pcp_sheaf *sheaf;
	uint32_t count;

	*err = 0;
	PCP_HOOK(PCP_HOOK_ALLOC_UNHOOKED_SPARE);
	if (spare && pcp_sheaf_size(spare))
		return spare;
	pcp_adapt_miss(stock, index);
	sheaf = from_barn(barn);
	if (sheaf) {
		if (spare)
			pcp_stock_put_sheaf(stock, node, spare, dead);
		return sheaf;
	}
	sheaf = spare ? pcp_stock_refit(stock, spare)
		      : to_fill(stock, index, node);
	if (!sheaf || pcp_sheaf_size(sheaf))
		return sheaf;
	count = pcp_stock_fill(stock, node,
			       pcp_adapt_fill(stock, index, sheaf->capacity),
			       sheaf->objects, err);
	if (count) {
		pcp_sheaf_set_size(sheaf, count);
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_SHEAF_REFILL);
		return sheaf;
	}
	if (!pcp_slot_commit(stock, index, PCP_SPARE, NULL, sheaf))
		pcp_stock_put_sheaf(stock, node, sheaf, dead);
	return NULL;
}

void *pcp_slot_alloc_slow(struct pcp_stock *stock, int *err)
{
	long index = pcp_this_index();
	struct pcp_slab_link dead;
	struct pcp_sheaf *sheaf;
	unsigned int node;
	void *obj = NULL;

	if (!pcp_slot_usable(stock, index))
		return pcp_stock_alloc(stock, pcp_this_node(), err);
	pcp_slabs_init(&dead);
	node = pcp_slot_node(index);
	sheaf = get_stocked(stock, index, node, err, &dead);
	if (sheaf) {
		obj = pcp_sheaf_pop(sheaf);
		pcp_slot_install(stock, index, node, sheaf,
				 PCP_HOOK_ALLOC_HOOK_MAIN, &dead);
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_ALLOC);
	}
	pcp_stock_bury(stock, &dead, false);
	if (obj)
		return obj;
	return *err ? pcp_stock_search(stock, err)
		    : pcp_stock_alloc(stock, node, err);
}

/* One object of a barn's sheaf, which goes back less that one. */
static void *alloc_from_barn(struct pcp_stock *stock, unsigned int node)
{
	/* The partial one first, for what is left becomes the partial one. */
	struct pcp_sheaf *sheaf = pcp_barn_get_partial(&stock->barns[node]);
	struct pcp_slab_link dead;
	void *obj;

	if (!sheaf)
		sheaf = pcp_barn_get_full(&stock->barns[node]);
	if (!sheaf)
		return NULL;
	obj = pcp_sheaf_pop(sheaf);
	pcp_slabs_init(&dead);
	pcp_stock_put_sheaf(stock, node, sheaf, &dead);
	pcp_stock_bury(stock, &dead, false);
	return obj;
}

void *pcp_stock_alloc(struct pcp_stock *stock, unsigned int node, int *err)
{
	void *obj;

	if (stock->dying) {
		*err = ESHUTDOWN;
		return NULL;
	}
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_BYPASS);
	obj = alloc_from_barn(stock, node);
	if (!obj && !pcp_stock_fill(stock, node, 1, &obj, err))
		return pcp_stock_search(stock, err);
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_ALLOC);
	return obj;
}

/* Any built object outside the slots. */
static void *search_shared(struct pcp_stock *stock)
{
	struct pcp_slab_link dead;
	void *obj = NULL;

	pcp_slabs_init(&dead);
	for (unsigned int i = 0; !obj && i < stock->nr_nodes; i++) {
		obj = alloc_from_barn(stock, i);
		if (!obj)
			obj = pcp_node_take_built(&stock->nodes[i], &dead);
	}
	pcp_stock_bury(stock, &dead, false);
	return obj;
}

void *pcp_stock_find(struct pcp_stock *stock)
{
	uint64_t seen = pcp_load_acquire(&stock->drains);
	void *obj = search_shared(stock);

	if (!obj) {
		struct pcp_slab_link dead;

		pcp_slabs_init(&dead);
		/* What could not be fenced stays where it is; the constructor's
		 * errno value tells the caller more than membarrier's. */
		(void)pcp_stock_drain_shared(stock, seen, &dead);
		pcp_stock_bury(stock, &dead, false);
		obj = search_shared(stock);
	}
	/* Objects may be in the hands of other threads for a moment, between a
	 * slot, a barn and a slab. */
	for (int i = 0; !obj && i < SEARCH_AGAIN; i++) {
		sched_yield();
		obj = search_shared(stock);
	}
	return obj;
}

void *pcp_stock_search(struct pcp_stock *stock, int *err)
{
	void *obj = pcp_stock_find(stock);

	pcp_stat_inc(&stock->kind.stat,
		     obj ? PCP_STAT_SLOW_ALLOC : PCP_STAT_ALLOC_FAIL);
	if (obj)
		*err = 0;
	return obj;
}

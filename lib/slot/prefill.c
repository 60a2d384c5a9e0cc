/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves: filled for a user, held, topped up, returned.
 *
 * A sheaf is topped up from the barn before slabs are touched: from its partial
 * sheaf, then from full ones, until it is full; what a donor has left becomes
 * the partial sheaf. So objects move between sheaves, and a thread that takes
 * few of many finds them again.
 */
#include <config.h>

#include <errno.h>

#include "base/options.h"
#include "slot/adapt.h"
#include "slot/ops.h"

/* The user may have it from here on: what it takes is counted in the word. */
static struct pcp_sheaf *hand_over(struct pcp_stock *stock,
				   struct pcp_sheaf *sheaf)
{
	pcp_sheaf_tail(sheaf)->set = &stock->sheaves;
	pcp_store(&pcp_sheaf_tail(sheaf)->held, true);
	pcp_sheaf_begin(sheaf);
	return sheaf;
}

static void take_back(struct pcp_stock *stock, struct pcp_sheaf *sheaf)
{
	pcp_sheaf_end(sheaf, &stock->kind.stat);
	pcp_store(&pcp_sheaf_tail(sheaf)->held, false);
}

static bool oversize(struct pcp_sheaf *sheaf)
{
	return pcp_sheaf_tail(sheaf)->oversize;
}

static void top_up_from_barn(struct pcp_stock *stock, unsigned int node,
			     struct pcp_sheaf *sheaf, uint32_t want,
			     struct pcp_slab_link *dead)
{
	struct pcp_barn *barn = &stock->barns[node];

	while (pcp_sheaf_size(sheaf) < want) {
		struct pcp_sheaf *donor = pcp_barn_get_partial(barn);

		if (!donor)
			donor = pcp_barn_get_full(barn);
		if (!donor)
			return;
		pcp_sheaf_move(sheaf, donor);
		pcp_stock_put_sheaf(stock, node, donor, dead);
	}
}

/* At least n objects in a sheaf the caller owns: from the barn and from slabs as
 * many as fit, singly whatever can be found if nothing can be built. 0 or an
 * errno value. */
static int top_up(struct pcp_stock *stock, struct pcp_sheaf *sheaf, uint32_t n)
{
	/* An oversize sheaf may have room for far more than is wanted. */
	uint32_t want = oversize(sheaf) ? n : sheaf->capacity;
	unsigned int node = pcp_this_node();
	struct pcp_slab_link dead;
	int err = 0;

	pcp_slabs_init(&dead);
	if (!pcp_options.no_barn_refill && !stock->bypass)
		top_up_from_barn(stock, node, sheaf, want, &dead);
	while (pcp_sheaf_size(sheaf) < n) {
		uint32_t size = pcp_sheaf_size(sheaf);
		uint32_t count = 0;
		uint32_t fill = pcp_adapt_fill(stock, pcp_this_index(),
					       want - size);
		void *obj;

		if (!err)
			count = pcp_stock_fill(stock, node,
					       fill > n - size ? fill : n - size,
					       &sheaf->objects[size], &err);
		if (count) {
			pcp_sheaf_set_size(sheaf, size + count);
			continue;
		}
		obj = pcp_stock_find(stock);
		if (!obj)
			break;
		pcp_sheaf_push(sheaf, obj);
	}
	pcp_stock_bury(stock, &dead, false);
	return pcp_sheaf_size(sheaf) < n ? err : 0;
}

/* Where a sheaf with something in it is most likely to be had: the slot's
 * spare, then the barn; last an empty one. */
static struct pcp_sheaf *pick(struct pcp_stock *stock)
{
	struct pcp_barn *barn = &stock->barns[pcp_this_node()];
	long index = pcp_this_index();
	struct pcp_sheaf *sheaf = NULL;

	if (stock->bypass)
		return pcp_sheaf_new(&stock->sheaves);
	if (pcp_slot_usable(stock, index))
		sheaf = pcp_slot_unhook(stock, index, PCP_SPARE);
	if (!sheaf)
		sheaf = pcp_barn_get_full(barn);
	if (!sheaf)
		sheaf = pcp_barn_get_partial(barn);
	return sheaf ? sheaf : pcp_stock_empty_sheaf(stock, pcp_this_node());
}

/* The same with room for n objects. A sheaf from the time when capacities were
 * smaller may have too little. */
static struct pcp_sheaf *pick_roomy(struct pcp_stock *stock, uint32_t n)
{
	struct pcp_sheaf *sheaf = pick(stock), *larger;
	struct pcp_slab_link dead;

	if (!sheaf || sheaf->capacity >= n)
		return sheaf;
	larger = pcp_sheaf_new(&stock->sheaves);
	if (larger)
		pcp_sheaf_move(larger, sheaf);
	pcp_slabs_init(&dead);
	pcp_stock_put_sheaf(stock, pcp_this_node(), sheaf, &dead);
	pcp_stock_bury(stock, &dead, false);
	return larger;
}

/* A sheaf that is the caller's goes where it is of most use. Returns whether that
 * was the slot's spare. */
static bool place(struct pcp_stock *stock, struct pcp_sheaf *sheaf)
{
	long index = pcp_this_index();
	struct pcp_slab_link dead;

	if (!oversize(sheaf) && pcp_slot_usable(stock, index) &&
	    pcp_slot_commit(stock, index, PCP_SPARE, NULL, sheaf))
		return true;
	pcp_slabs_init(&dead);
	if (stock->bypass || oversize(sheaf)) {
		pcp_stock_flush(stock, sheaf, &dead);
		pcp_sheaf_retire(&stock->sheaves, sheaf);
	} else {
		pcp_stock_put_sheaf(stock, pcp_this_node(), sheaf, &dead);
	}
	pcp_stock_bury(stock, &dead, false);
	return false;
}

struct pcp_sheaf *pcp_stock_prefill(struct pcp_stock *stock, uint32_t n,
				    int *err)
{
	enum pcp_stat_id how = PCP_STAT_PREFILL_FAST;
	struct pcp_sheaf *sheaf;

	*err = ESHUTDOWN;
	if (stock->dying)
		return NULL;
	*err = ENOMEM;
	if (!pcp_adapt_suffices(stock, n)) {
		how = PCP_STAT_PREFILL_OVERSIZE;
		sheaf = pcp_sheaf_new_oversize(&stock->sheaves, n);
	} else {
		sheaf = pick_roomy(stock, n);
	}
	if (!sheaf || sheaf->capacity < n) {
		/* Capacities fell just now. */
		if (sheaf)
			place(stock, sheaf);
		how = PCP_STAT_PREFILL_OVERSIZE;
		sheaf = pcp_sheaf_new_oversize(&stock->sheaves, n);
	}
	if (!sheaf)
		return NULL;
	*err = 0;
	if (pcp_sheaf_size(sheaf) < n) {
		if (how == PCP_STAT_PREFILL_FAST)
			how = PCP_STAT_PREFILL_SLOW;
		*err = top_up(stock, sheaf, n);
	}
	if (*err) {
		place(stock, sheaf);
		return NULL;
	}
	pcp_stat_inc(&stock->kind.stat, how);
	return hand_over(stock, sheaf);
}

struct pcp_sheaf *pcp_stock_refill(struct pcp_stock *stock,
				   struct pcp_sheaf *sheaf, uint32_t n,
				   int *err)
{
	*err = 0;
	if (pcp_sheaf_size(sheaf) >= n)
		return sheaf;
	take_back(stock, sheaf);
	if (n > sheaf->capacity) {
		struct pcp_sheaf *larger =
			pcp_adapt_suffices(stock, n)
				? pcp_sheaf_new(&stock->sheaves)
				: pcp_sheaf_new_oversize(&stock->sheaves, n);

		if (!larger || larger->capacity < n) {
			if (larger)
				place(stock, larger);
			*err = ENOMEM;
			return hand_over(stock, sheaf);
		}
		pcp_sheaf_move(larger, sheaf);
		place(stock, sheaf);
		sheaf = larger;
	}
	*err = top_up(stock, sheaf, n);
	return hand_over(stock, sheaf);
}

void pcp_stock_return(struct pcp_stock *stock, struct pcp_sheaf *sheaf)
{
	take_back(stock, sheaf);
	pcp_stat_inc(&stock->kind.stat, place(stock, sheaf)
						? PCP_STAT_RETURN_FAST
						: PCP_STAT_RETURN_SLOW);
}

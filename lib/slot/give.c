/* SPDX-License-Identifier: MIT */
/*
 * Objects back to their slabs, and whole sheaves to a barn: what everything
 * above the nodes gives up ends here.
 */
#include <config.h>

#include "base/fault.h"
#include "base/options.h"
#include "slab/check.h"
#include "slot/stock.h"

/* Chain all objects of objs[0]'s slab; the others move to the front. Returns
 * how many are left. */
static size_t chain_one_slab(struct pcp_stock *stock, size_t n, void **objs,
			     struct pcp_chain *chain)
{
	struct pcp_kind *kind = &stock->kind;
	/* Copied, and the chain's head kept apart, so that the stores between
	 * do not have all of it loaded again for each object. */
	const struct pcp_layout layout = kind->layout;
	struct pcp_slab *slab;
	uint32_t first, index, count = 1;
	size_t left = 0;

	*chain = (struct pcp_chain){
		.slab = pcp_check_owner(kind, objs[0], NULL, &index),
	};
	pcp_chain_add(chain, index);
	slab = chain->slab;
	first = index;
	for (size_t i = 1; i < n; i++) {
		size_t offset = (uintptr_t)objs[i] - (uintptr_t)slab;

		if (offset >= layout.slab_size) {
			objs[left++] = objs[i];
			continue;
		}
		/* The slab is known by now; only the place is not. */
		if (pcp_unlikely(!pcp_slab_locate(&layout, slab, objs[i],
						  &index)))
			pcp_check_owner(kind, objs[i], NULL, &index);
		pcp_chain_link(slab, index, first);
		first = index;
		count++;
	}
	chain->first = first;
	chain->count = count;
	return left;
}

void pcp_stock_give(struct pcp_stock *stock, size_t n, void **objs,
		    struct pcp_slab_link *dead)
{
	uint64_t chains = 0;

	for (; n; chains++) {
		struct pcp_chain chain;

		n = chain_one_slab(stock, n, objs, &chain);
		pcp_node_give(&stock->nodes[chain.slab->node], &chain, dead);
	}
	/* Each was a swap of its slab's word. */
	pcp_stat_shared(&stock->kind.stat, chains);
}

void pcp_stock_flush(struct pcp_stock *stock, struct pcp_sheaf *sheaf,
		     struct pcp_slab_link *dead)
{
	uint32_t size = pcp_sheaf_size(sheaf);

	if (!size)
		return;
	/* The size first: a child forked in between loses the objects instead
	 * of having them twice. */
	pcp_sheaf_set_size(sheaf, 0);
	pcp_stock_give(stock, size, sheaf->objects, dead);
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_SHEAF_FLUSH);
}

struct pcp_sheaf *pcp_stock_empty_sheaf(struct pcp_stock *stock,
					unsigned int node)
{
	struct pcp_sheaf *sheaf = pcp_barn_get_empty(&stock->barns[node]);

	return sheaf ? pcp_stock_refit(stock, sheaf)
		     : pcp_sheaf_new(&stock->sheaves);
}

struct pcp_sheaf *pcp_stock_refit(struct pcp_stock *stock,
				  struct pcp_sheaf *sheaf)
{
	struct pcp_sheaf *other;

	if (pcp_likely(pcp_sheaf_fits(&stock->sheaves, sheaf)))
		return sheaf;
	other = pcp_sheaf_new(&stock->sheaves);
	if (!other)
		return sheaf;
	pcp_sheaf_retire(&stock->sheaves, sheaf);
	return other;
}

static void put_empty(struct pcp_stock *stock, unsigned int node,
		      struct pcp_sheaf *sheaf)
{
	if (!pcp_sheaf_fits(&stock->sheaves, sheaf) ||
	    !pcp_barn_put_empty(&stock->barns[node], sheaf))
		pcp_sheaf_retire(&stock->sheaves, sheaf);
}

/* A part-filled sheaf joins the one that lies in the barn: together they make a
 * full one and a rest, or one and an empty one. Returns what the caller still
 * has to place. */
static struct pcp_sheaf *put_partial(struct pcp_stock *stock,
				     unsigned int node,
				     struct pcp_sheaf *sheaf,
				     struct pcp_slab_link *dead)
{
	struct pcp_barn *barn = &stock->barns[node];
	struct pcp_sheaf *other = pcp_options.no_barn_refill
					  ? NULL
					  : pcp_barn_get_partial(barn);

	if (other) {
		PCP_HOOK(PCP_HOOK_BARN_JOIN);
		pcp_sheaf_move(sheaf, other);
	}
	if (other && !pcp_sheaf_size(other)) {
		put_empty(stock, node, other);
		other = NULL;
	}
	/* Now either sheaf is full and other the rest, or other is gone. */
	if (other) {
		struct pcp_sheaf *third = pcp_barn_put_partial(barn, other);

		if (third) {
			PCP_HOOK(PCP_HOOK_BARN_THIRD);
			/* Another was faster; one rest is enough. */
			pcp_stock_flush(stock, third, dead);
			pcp_sheaf_retire(&stock->sheaves, third);
		}
		return sheaf;
	}
	if (pcp_sheaf_full(sheaf))
		return sheaf;
	return pcp_barn_put_partial(barn, sheaf);
}

void pcp_stock_put_sheaf(struct pcp_stock *stock, unsigned int node,
			 struct pcp_sheaf *sheaf, struct pcp_slab_link *dead)
{
	struct pcp_barn *barn = &stock->barns[node];

	if (pcp_sheaf_size(sheaf) && !pcp_sheaf_full(sheaf)) {
		sheaf = put_partial(stock, node, sheaf, dead);
		if (!sheaf)
			return;
	}
	if (pcp_sheaf_full(sheaf) && pcp_barn_put_full(barn, sheaf))
		return;
	pcp_stock_flush(stock, sheaf, dead);
	put_empty(stock, node, sheaf);
}

static void empty_barn(struct pcp_stock *stock, struct pcp_barn *barn,
		       struct pcp_slab_link *dead)
{
	/* As many as it can hold and no more: others may go on putting. */
	for (size_t left = pcp_barn_nodes(barn) + 1; left; left--) {
		struct pcp_sheaf *sheaf = pcp_barn_get_partial(barn);

		if (!sheaf)
			sheaf = pcp_barn_get_full(barn);
		if (!sheaf)
			sheaf = pcp_barn_get_empty(barn);
		if (!sheaf)
			return;
		pcp_stock_flush(stock, sheaf, dead);
		pcp_sheaf_retire(&stock->sheaves, sheaf);
	}
}

void pcp_stock_empty_barns(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		empty_barn(stock, &stock->barns[i], dead);
	pcp_lock(&stock->drain_lock);
	pcp_sheaves_sweep(&stock->sheaves);
	pcp_unlock(&stock->drain_lock);
}

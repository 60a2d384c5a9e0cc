/* SPDX-License-Identifier: MIT */
/*
 * Where objects go when the slot's main has no room: the spare, the barn, the
 * slabs.
 */
#include <config.h>

#include "base/fault.h"
#include "slab/check.h"
#include "slot/ops.h"

/* Chain all objects of objs[0]'s slab; the others move to the front. Returns
 * how many are left. */
static size_t chain_one_slab(struct pcp_stock *stock, size_t n, void **objs,
			     struct pcp_chain *chain)
{
	struct pcp_kind *kind = &stock->kind;
	const void *caller = __builtin_return_address(0);
	size_t left = 0;
	uint32_t index;

	*chain = (struct pcp_chain){
		.slab = pcp_check_owner(kind, objs[0], caller, &index),
	};
	pcp_chain_add(chain, index);
	for (size_t i = 1; i < n; i++) {
		if (pcp_slab_of(kind, objs[i]) != chain->slab) {
			objs[left++] = objs[i];
			continue;
		}
		pcp_check_owner(kind, objs[i], caller, &index);
		pcp_chain_add(chain, index);
	}
	return left;
}

void pcp_stock_give(struct pcp_stock *stock, size_t n, void **objs,
		    struct pcp_slab_link *dead)
{
	while (n) {
		struct pcp_chain chain;

		n = chain_one_slab(stock, n, objs, &chain);
		pcp_node_give(&stock->nodes[chain.slab->node], &chain, dead);
	}
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

void pcp_stock_put_sheaf(struct pcp_stock *stock, unsigned int node,
			 struct pcp_sheaf *sheaf, struct pcp_slab_link *dead)
{
	struct pcp_barn *barn = &stock->barns[node];

	if (pcp_sheaf_size(sheaf)) {
		if (!pcp_sheaf_full(sheaf)) {
			sheaf = pcp_barn_put_partial(barn, sheaf);
			if (!sheaf)
				return;
		} else if (pcp_barn_put_full(barn, sheaf)) {
			return;
		}
		pcp_stock_flush(stock, sheaf, dead);
	}
	if (!pcp_barn_put_empty(barn, sheaf))
		pcp_sheaf_retire(&stock->sheaves, sheaf);
}

void pcp_stock_empty_barns(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	for (unsigned int i = 0; i < stock->nr_nodes; i++) {
		struct pcp_barn *barn = &stock->barns[i];
		struct pcp_sheaf *sheaf;

		while ((sheaf = pcp_barn_get_partial(barn)) ||
		       (sheaf = pcp_barn_get_full(barn)) ||
		       (sheaf = pcp_barn_get_empty(barn))) {
			pcp_stock_flush(stock, sheaf, dead);
			pcp_sheaf_retire(&stock->sheaves, sheaf);
		}
	}
	pcp_lock(&stock->drain_lock);
	pcp_sheaves_sweep(&stock->sheaves);
	pcp_unlock(&stock->drain_lock);
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
	struct pcp_sheaf *sheaf;

	PCP_HOOK(PCP_HOOK_FREE_UNHOOKED_SPARE);
	if (spare && pcp_sheaf_room(spare))
		return spare;
	if (spare && !pcp_barn_put_full(barn, spare)) {
		pcp_stock_flush(stock, spare, dead);
		return spare;
	}
	sheaf = pcp_barn_get_empty(barn);
	return sheaf ? sheaf : pcp_sheaf_new(&stock->sheaves, stock->capacity);
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
	if (pcp_slot_usable(stock, index))
		free_to_slot(stock, index, obj, &dead);
	else
		free_to_slab(stock, obj, &dead);
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_FREE);
	pcp_stock_bury(stock, &dead,
		       stock->kind.flags & PCPOOL_DTOR_ON_FREE);
}

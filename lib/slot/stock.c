/* SPDX-License-Identifier: MIT */
/* The stock of a cache: birth, burial, end. See stock.h. */
#include <config.h>

#include <errno.h>

#include "base/osmem.h"
#include "cpu/topology.h"
#include "slot/adapt.h"

_Static_assert(offsetof(struct pcp_stock, nobody) +
				       2 * sizeof(struct pcp_slot) ==
			       offsetof(struct pcp_stock, slots),
	       "right before the slots");

static void set_slots(struct pcp_stock *stock, struct pcp_sheaf *sheaf)
{
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(stock->nobody); i++)
		pcp_store(&stock->nobody[i].main, PCP_CLOSED);
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
		struct pcp_slot *slot = &stock->slots[i];

		pcp_store(&slot->main, pcp_index.rseq ? sheaf : PCP_CLOSED);
		pcp_store(&slot->local, sheaf);
	}
}

int pcp_stock_init(struct pcp_stock *stock, size_t size, size_t align,
		   uint32_t capacity, uint32_t min_partial)
{
	unsigned int nr = pcp_topology.nr_nodes;
	int err = pcp_kind_init(&stock->kind, size, align);

	if (err)
		return err;
	stock->nodes = pcp_meta_alloc(nr * sizeof(*stock->nodes), 128);
	stock->barns = pcp_meta_alloc(nr * sizeof(*stock->barns), 128);
	if (!stock->nodes || !stock->barns)
		goto no_memory;
	stock->nr_nodes = nr;
	for (unsigned int i = 0; i < nr; i++) {
		pcp_node_init(&stock->nodes[i], &stock->kind, min_partial);
		pcp_barn_init(&stock->barns[i], &stock->kind.stat);
	}
	stock->sheaves.stat = &stock->kind.stat;
	stock->bypass = stock->kind.layout.check;
	pcp_lock_init(&stock->drain_lock, PCP_RANK_DRAIN);
	set_slots(stock, stock->bypass ? PCP_CLOSED : PCP_EMPTY);
	pcp_adapt_init(stock, capacity);
	return 0;

no_memory:
	pcp_meta_free(stock->barns);
	pcp_meta_free(stock->nodes);
	pcp_kind_destroy(&stock->kind);
	return ENOMEM;
}

void pcp_stock_destroy(struct pcp_stock *stock)
{
	pcp_sheaves_free_all(&stock->sheaves);
	for (unsigned int i = 0; i < stock->nr_nodes; i++) {
		pcp_node_destroy(&stock->nodes[i]);
		pcp_barn_destroy(&stock->barns[i]);
	}
	pcp_meta_free(stock->nodes);
	pcp_meta_free(stock->barns);
	pcp_lock_destroy(&stock->drain_lock);
	pcp_kind_destroy(&stock->kind);
}

void pcp_stock_close(struct pcp_stock *stock)
{
	set_slots(stock, PCP_CLOSED);
}

static bool any_waiting(struct pcp_stock *stock)
{
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		if (pcp_load(&stock->nodes[i].nr_waiting))
			return true;
	return false;
}

static struct pcp_slab *next_death(struct pcp_stock *stock)
{
	struct pcp_slab *slab = NULL;

	for (unsigned int i = 0; !slab && i < stock->nr_nodes; i++)
		slab = pcp_node_pop_waiting(&stock->nodes[i]);
	return slab;
}

/* Kill what waits. One call at a time does it for all, so that destructors that
 * free, and so empty other slabs, do not pile up on the stack. */
static void run_deaths(struct pcp_stock *stock)
{
	struct pcp_slab *slab;

	while (any_waiting(stock) && !pcp_xchg(&stock->burying, true)) {
		while ((slab = next_death(stock)))
			pcp_slab_kill(slab);
		/* By exchange, which reads from that of whoever came by while
		 * the flag was up and so sees the slab it queued, in the look
		 * that follows. */
		(void)pcp_xchg(&stock->burying, false);
	}
}

void pcp_stock_kill(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	if (stock->kind.flags & PCPOOL_TYPESAFE_BY_RCU)
		pcp_defer_deaths(stock, dead);
	else
		pcp_slabs_kill(dead);
}

void pcp_stock_set_aside(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	while (!pcp_slabs_empty(dead)) {
		struct pcp_slab *slab = pcp_slab_of_list(dead->next);

		pcp_slabs_del(&slab->list);
		pcp_node_queue(&stock->nodes[slab->node], slab);
	}
}

void pcp_stock_bury(struct pcp_stock *stock, struct pcp_slab_link *dead,
		    bool may_run_dtors)
{
	if (!stock->kind.dtor) {
		pcp_stock_kill(stock, dead);
		return;
	}
	pcp_stock_set_aside(stock, dead);
	if (may_run_dtors)
		run_deaths(stock);
}

void pcp_stock_fork_child(struct pcp_stock *stock)
{
	/* A holder that does not exist here has either done its one store or
	 * not: the slot is whole. */
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++)
		pcp_store(&stock->slots[i].lock, 0U);
	pcp_store(&stock->burying, false);
	pcp_defer_fork_child(stock);
}

/* SPDX-License-Identifier: MIT */
/* The books of a stock. See book.h. */
#include <config.h>

#include "slot/book.h"
#include "slot/ops.h"

static uint64_t size_of(const struct pcp_sheaf *sheaf)
{
	return sheaf ? pcp_sheaf_size(sheaf) : 0;
}

/* CONTEXT: drain_lock held, so no sheaf is freed. */
static void count_deferred(struct pcp_stock *stock, struct pcp_book *book)
{
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++)
		book->deferring +=
			size_of(pcp_slot_peek(stock, (long)i, PCP_RCU));
	book->deferred = book->deferring + pcp_load(&stock->defer.pending);
}

/* The same. */
static void count_cached(struct pcp_stock *stock, struct pcp_book *book)
{
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
		long index = (long)i;

		book->cached +=
			size_of(pcp_slot_peek(stock, index, PCP_MAIN)) +
			size_of(pcp_slot_peek(stock, index, PCP_SPARE));
	}
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		book->cached += pcp_barn_objects(&stock->barns[i]);
}

static void count_slabs(struct pcp_stock *stock, struct pcp_book *book,
			bool out)
{
	struct pcp_kind *kind = &stock->kind;

	pcp_lock(&kind->slabs_lock);
	for (struct pcp_slab_link *link = kind->all.next; link != &kind->all;
	     link = link->next) {
		struct pcp_slab *slab =
			pcp_container_of(link, struct pcp_slab, all);

		book->slabs++;
		book->inuse += pcp_slab_inuse(slab);
		if (out)
			book->out += pcp_slab_built_inuse(slab);
	}
	pcp_unlock(&kind->slabs_lock);
	for (unsigned int i = 0; i < stock->nr_nodes; i++) {
		book->partial += pcp_load(&stock->nodes[i].nr_partial);
		book->waiting += pcp_load(&stock->nodes[i].nr_waiting);
	}
}

void pcp_stock_book(struct pcp_stock *stock, struct pcp_book *book, bool out)
{
	const struct pcp_stat *stat = &stock->kind.stat;
	struct pcp_sheaves_sum sum;
	uint64_t gone;

	*book = (struct pcp_book){ 0 };
	pcp_lock(&stock->drain_lock);
	count_cached(stock, book);
	count_deferred(stock, book);
	pcp_sheaves_sum(&stock->sheaves, &sum);
	book->held = sum.held;
	book->cached += sum.held_objects;
	count_slabs(stock, book, out);
	book->alloc_fast = pcp_stat_sum(stat, PCP_STAT_FAST_ALLOC) + sum.allocs;
	book->free_fast = pcp_stat_sum(stat, PCP_STAT_FAST_FREE) + sum.frees;
	book->alloc_slow = pcp_stat_sum(stat, PCP_STAT_SLOW_ALLOC);
	book->free_slow = pcp_stat_sum(stat, PCP_STAT_SLOW_FREE);
	pcp_unlock(&stock->drain_lock);
	book->sheaves = sum.sheaves;
	book->sheaf_bytes = sum.bytes;
	/* Read one after the other while threads run, frees may be ahead. */
	book->live = book->alloc_fast + book->alloc_slow;
	gone = book->free_fast + book->free_slow +
	       pcp_stat_sum(stat, PCP_STAT_BULK_HELD);
	book->live -= gone < book->live ? gone : book->live;
}

uint64_t pcp_stock_deferred(struct pcp_stock *stock)
{
	struct pcp_book book = { 0 };

	pcp_lock(&stock->drain_lock);
	count_deferred(stock, &book);
	pcp_unlock(&stock->drain_lock);
	return book.deferred;
}

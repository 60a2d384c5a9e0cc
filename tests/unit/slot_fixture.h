/* SPDX-License-Identifier: MIT */
/* The stock that the tests of lib/slot work on, with small sheaves, and the
 * caller on its first CPU. */
#ifndef TESTS_UNIT_SLOT_FIXTURE_H
#define TESTS_UNIT_SLOT_FIXTURE_H

#include "stocks.h"

#define CAPACITY 6U

static struct sheet sheet;
static struct pcp_stock *stock;
static long here;
static struct pcp_slab_link dead;

static inline void setup(void)
{
	sheet = (struct sheet){ .fill = STOCK_OBJECT };
	pin_to(0);
	/* A CPU's number stays what it is, a concurrency id may change. */
	pcp_init();
	if (pcp_index.cid)
		decide("index:cpu");
	stock = stock_make(&sheet, CAPACITY);
	here = pcp_this_index();
	pcp_slabs_init(&dead);
}

static inline void teardown(void)
{
	pcp_stock_bury(stock, &dead, true);
	stock_drop(stock);
	sheet_balanced(&sheet);
}

static inline uint64_t count(enum pcp_stat_id id)
{
	return stock_stat(stock, id);
}

static inline struct pcp_sheaf *peek(enum pcp_slot_word word)
{
	return pcp_slot_peek(stock, here, word);
}

/* A sheaf with n objects from the slabs, the caller's. */
static inline struct pcp_sheaf *stocked(uint32_t n)
{
	struct pcp_sheaf *sheaf = pcp_sheaf_new(&stock->sheaves);
	struct pcp_node *node = &stock->nodes[0];
	uint32_t got = 0;
	int err;

	expect(sheaf);
	while (got < n) {
		uint32_t more = pcp_node_take(node, n - got,
					      sheaf->objects + got, &dead);

		if (!more)
			more = pcp_node_grow(node, 0, n - got,
					     sheaf->objects + got, &dead);
		expect(more);
		got += more;
	}
	expect_eq(pcp_build_many(&stock->kind, n, sheaf->objects, &err), n);
	pcp_sheaf_set_size(sheaf, n);
	return sheaf;
}

static inline void empty_sheaf(struct pcp_sheaf *sheaf)
{
	pcp_stock_flush(stock, sheaf, &dead);
	pcp_sheaf_retire(&stock->sheaves, sheaf);
}

/* Empty slots and barns, from whatever CPU. */
static inline void drain_there(void *arg)
{
	struct pcp_slab_link mine;

	(void)arg;
	pcp_slabs_init(&mine);
	expect_eq(pcp_stock_drain(stock, &mine), 0);
	pcp_stock_empty_barns(stock, &mine);
	pcp_stock_bury(stock, &mine, true);
}

#endif /* TESTS_UNIT_SLOT_FIXTURE_H */

/* SPDX-License-Identifier: MIT */
/* A node made by hand, with all its lists to check. */
#ifndef TESTS_UNIT_NODE_FIXTURE_H
#define TESTS_UNIT_NODE_FIXTURE_H

#include "floors.h"

#include "node/node.h"

#define OBJECT 3000U
#define OBJECTS_MAX 64U

static struct pcp_kind kind;
static struct pcp_node node;
static struct sheet sheet;
static struct pcp_slab_link dead;

/* A slab and all its objects. */
struct whole {
	struct pcp_slab *slab;
	void *objs[OBJECTS_MAX];
};

static inline uint32_t all(void)
{
	return kind.layout.objects;
}

static inline void make(struct sheet *with, unsigned int flags, uint32_t min_partial)
{
	kind_make(&kind, OBJECT, 0, with, flags);
	expect_cmp(all(), >=, 8);
	expect_cmp(all(), <=, OBJECTS_MAX);
	pcp_node_init(&node, &kind, min_partial);
	pcp_slabs_init(&dead);
}

static inline void setup(void)
{
	sheet = (struct sheet){ 0 };
	make(&sheet, 0, 1);
}

/* Every slab is on one list, and the numbers are those of the lists. */
static inline void check_lists(void)
{
	uint32_t on_list = 0;

	expect_eq(links(&node.partial), node.nr_partial);
	expect_eq(links(&node.waiting), node.nr_waiting);
	for (struct pcp_slab_link *link = kind.all.next; link != &kind.all;
	     link = link->next) {
		struct pcp_slab *slab =
			pcp_container_of(link, struct pcp_slab, all);

		slab_verify(slab);
		on_list += slab->on_list;
		/* A full slab is nobody's. */
		expect(!slab->on_list || pcp_slab_inuse(slab) < all());
	}
	expect_eq(on_list, node.nr_partial);
	for (struct pcp_slab_link *link = node.partial.next;
	     link != &node.partial; link = link->next)
		expect(pcp_slab_of_list(link)->on_list);
	for (struct pcp_slab_link *link = node.waiting.next;
	     link != &node.waiting; link = link->next) {
		expect(!pcp_slab_of_list(link)->on_list);
		expect_eq(pcp_slab_inuse(pcp_slab_of_list(link)), 0);
	}
	expect_eq(kind_stat(&kind, PCP_STAT_ADD_PARTIAL) -
			  kind_stat(&kind, PCP_STAT_REMOVE_PARTIAL),
		  node.nr_partial);
}

/* Everything is in its slab. */
static inline void teardown(void)
{
	check_lists();
	expect_eq(pcp_kind_inuse(&kind), 0);
	pcp_slabs_kill(&dead);
	pcp_node_trim(&node, 0, &dead);
	expect_eq(node.nr_partial, 0);
	expect_eq(node.nr_waiting, 0);
	pcp_slabs_kill(&dead);
	expect_eq(kind.nr_slabs, 0);
	pcp_node_destroy(&node);
	kind_drop(&kind);
	sheet_balanced(&sheet);
}

/* A new slab with n of its objects out; it is linked unless full. */
static inline struct whole grow(uint32_t n)
{
	struct whole whole = { 0 };

	expect_eq(pcp_node_grow(&node, 0, n, whole.objs, &dead), n);
	whole.slab = pcp_slab_of(&kind, whole.objs[0]);
	expect_eq(whole.slab->on_list, n < all());
	expect_eq(pcp_slab_inuse(whole.slab), n);
	return whole;
}

/* Give objects from to to-1 of a slab as one chain. */
static inline void give(const struct whole *whole, uint32_t from, uint32_t to)
{
	struct pcp_chain chain = { .slab = whole->slab };

	for (uint32_t i = from; i < to; i++)
		pcp_chain_add(&chain, pcp_slab_index(whole->slab,
						     whole->objs[i]));
	pcp_node_give(&node, &chain, &dead);
}

static inline void expect_state(uint32_t partial, uint32_t waiting, uint32_t nr_dead)
{
	expect_eq(node.nr_partial, partial);
	expect_eq(node.nr_waiting, waiting);
	expect_eq(links(&dead), nr_dead);
	check_lists();
}

#endif /* TESTS_UNIT_NODE_FIXTURE_H */

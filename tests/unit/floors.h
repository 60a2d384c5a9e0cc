/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the inner floors share: a kind or a stock made by hand, and
 * checks of all there is in them.
 */
#ifndef TESTS_UNIT_FLOORS_H
#define TESTS_UNIT_FLOORS_H

#include "common.h"
#include "suite.h"

#include "base/fault.h"
#include "base/options.h"
#include "base/osmem.h"
#include "cpu/index.h"
#include "cpu/init.h"
#include "cpu/topology.h"
#include "slab/build.h"
#include "slab/slab.h"

/* Wake the library up and decide again with these options on top of those of the
 * environment. Before any other thread exists. */
static inline void decide(const char *options)
{
	pcp_init();
	expect_eq(pcp_options_parse(options), 0);
	pcp_topology_init();
	pcp_index_init();
}

/* Construct one object the caller owns: 0 or the constructor's errno value. */
static inline int build_one(struct pcp_slab *slab, uint32_t index)
{
	void *obj = pcp_slab_object(slab, index);
	int err;

	pcp_build_many(slab->kind, 1, &obj, &err);
	return err;
}

/* A kind with the sheet's constructor and destructor; sheet NULL: neither. */
static inline void kind_make(struct pcp_kind *kind, size_t size, size_t align,
			     struct sheet *sheet, unsigned int flags)
{
	pcp_init();
	memset(kind, 0, sizeof(*kind));
	kind->name = "unit";
	kind->flags = flags;
	kind->arg = sheet;
	if (sheet) {
		kind->ctor = sheet_ctor;
		kind->dtor = sheet_dtor;
	}
	expect_eq(pcp_kind_init(kind, size, align), 0);
}

/* Slabs and all. */
static inline void kind_drop(struct pcp_kind *kind)
{
	while (!pcp_slabs_empty(&kind->all))
		pcp_slab_kill(pcp_container_of(kind->all.next, struct pcp_slab,
					       all));
	expect_eq(kind->nr_slabs, 0);
	expect_eq(pcp_stat_sum(&kind->stat, PCP_STAT_ALLOC_SLAB),
		  pcp_stat_sum(&kind->stat, PCP_STAT_FREE_SLAB));
	pcp_kind_destroy(kind);
}

static inline uint64_t kind_stat(struct pcp_kind *kind, enum pcp_stat_id id)
{
	return pcp_stat_sum(&kind->stat, id);
}

static inline uint32_t links(const struct pcp_slab_link *head)
{
	uint32_t n = 0;

	for (const struct pcp_slab_link *link = head->next; link != head;
	     link = link->next) {
		expect(link->next->prev == link && link->prev->next == link);
		n++;
	}
	return n;
}

/* Marks the objects of one half of slab->chain as seen. Returns how many. */
static inline uint32_t half_verify(const struct pcp_slab *slab, uint64_t half,
				   unsigned char *seen)
{
	uint32_t index = half & 0xffff, count = half >> 16 & 0xffff;

	for (uint32_t i = 0; i < count; i++) {
		expect_cmp(index, <, slab->kind->layout.objects);
		expect(!seen[index]);
		seen[index] = 1;
		index = slab->next[index];
	}
	return count;
}

/* Objects that wait for a grace period chained, not in a sheaf. */
static inline uint32_t slab_chained(const struct pcp_slab *slab)
{
	return (uint32_t)((slab->chain >> 16 & 0xffff) + (slab->chain >> 48));
}

/* Walks the free list; nobody uses the slab meanwhile. Fails unless every
 * object is either on it once, or deferred once, or marked as out, as the word
 * says. */
static inline void slab_verify(const struct pcp_slab *slab)
{
	uint32_t n = slab->kind->layout.objects;
	uint32_t index = pcp_word_head(slab->word), nr_free = 0, out = 0;
	unsigned char *seen = calloc(n, 1);

	expect(seen);
	for (; index != PCP_INDEX_END; index = slab->next[index]) {
		expect_cmp(index, <, n);
		expect(!seen[index]);
		seen[index] = 1;
		nr_free++;
	}
	out = half_verify(slab, slab->chain & 0xffffffff, seen);
	out += half_verify(slab, slab->chain >> 32, seen);
	for (uint32_t i = 0; i < n; i++) {
		if (seen[i])
			continue;
		expect_eq(slab->next[i], PCP_INDEX_OUT);
		out++;
	}
	expect_eq(pcp_word_inuse(slab->word), out);
	expect_eq(nr_free + out, n);
	free(seen);
}

/* Give n objects of one slab back, however often the swap is lost. */
static inline void slab_give(struct pcp_slab *slab, uint32_t n, void **objs)
{
	struct pcp_chain chain = { .slab = slab };
	uint64_t word;

	if (!n)
		return;
	for (uint32_t i = 0; i < n; i++)
		pcp_chain_add(&chain, pcp_slab_index(slab, objs[i]));
	word = pcp_load(&slab->word);
	while (!pcp_slab_give(&chain, &word))
		;
}

/* What a child that must abort does. */
#define must_abort(fn, arg, ...)                                              \
	do {                                                                  \
		struct child child_;                                          \
		run_child((fn), (arg), 20, &child_);                          \
		expect_child_abort(&child_, __VA_ARGS__, NULL);               \
	} while (0)

#endif /* TESTS_UNIT_FLOORS_H */

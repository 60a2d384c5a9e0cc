/* SPDX-License-Identifier: MIT */
/* Sheaves and the set of them. See sheaf.h. */
#include <config.h>

#include <string.h>

#include "base/osmem.h"
#include "sheaf/sheaf.h"

const struct pcp_sheaf pcp_sheaf_empty PCP_ALIGNED(64) = { .base = -1 };
const struct pcp_sheaf pcp_sheaf_closed PCP_ALIGNED(64) = { .base = -1 };

static size_t sheaf_bytes(uint32_t capacity)
{
	size_t bytes = sizeof(struct pcp_sheaf) + capacity * sizeof(void *) +
		       sizeof(struct pcp_sheaf_tail);

	return (bytes + PCP_CACHELINE - 1) & ~(size_t)(PCP_CACHELINE - 1);
}

void pcp_sheaf_end_in(struct pcp_sheaf *sheaf, struct pcp_stat *stat,
		      unsigned int slot)
{
	uint64_t allocs, frees;

	/* Not one store: a child forked by another thread between these lines
	 * has its books off by what the sheaf counted (doc/design.md, "Fork"). */
	pcp_sheaf_counts(sheaf, &allocs, &frees);
	pcp_store(&sheaf->base, -1);
	pcp_store(&sheaf->word, (uint64_t)pcp_sheaf_size(sheaf));
	if (allocs)
		pcp_stat_add_to(stat, slot, PCP_STAT_FAST_ALLOC, allocs);
	if (frees)
		pcp_stat_add_to(stat, slot, PCP_STAT_FAST_FREE, frees);
}

/* Release: pairs with the exchange in take_list(). */
static void push(struct pcp_sheaf **list, struct pcp_sheaf *sheaf)
{
	struct pcp_sheaf *head = pcp_load(list);

	do
		pcp_sheaf_tail(sheaf)->next = head;
	while (!pcp_cas(list, &head, sheaf));
}

static struct pcp_sheaf *take_list(struct pcp_sheaf **list)
{
	if (!pcp_load(list))
		return NULL;
	return pcp_xchg(list, NULL);
}

static bool serves(struct pcp_sheaf *sheaf, uint32_t capacity, bool oversize)
{
	if (pcp_sheaf_tail(sheaf)->oversize != oversize)
		return false;
	return oversize ? sheaf->capacity >= capacity
			: sheaf->capacity == capacity;
}

/* A retired sheaf of that capacity, or, oversize, of at least that. The list is
 * taken whole. Mostly its first serves and nobody retired one meanwhile: then the
 * rest is put back in one piece. Else sheaf by sheaf, less what does not fit any
 * more, so that nobody meets it again. */
static struct pcp_sheaf *reuse(struct pcp_sheaves *set, uint32_t capacity,
			       bool oversize)
{
	struct pcp_sheaf *sheaf = take_list(&set->retired), *found = NULL;
	struct pcp_sheaf *next, *none = NULL;

	if (sheaf)
		pcp_stat_shared(set->stat, 2);
	if (sheaf && serves(sheaf, capacity, oversize)) {
		found = sheaf;
		sheaf = pcp_sheaf_tail(sheaf)->next;
		if (!sheaf || pcp_cas(&set->retired, &none, sheaf))
			return found;
	}
	for (; sheaf; sheaf = next) {
		next = pcp_sheaf_tail(sheaf)->next;
		if (!found && serves(sheaf, capacity, oversize))
			found = sheaf;
		else
			pcp_sheaf_retire(set, sheaf);
	}
	return found;
}

static struct pcp_sheaf *sheaf_new(struct pcp_sheaves *set, uint32_t capacity,
				   bool oversize)
{
	struct pcp_sheaf *sheaf = reuse(set, capacity, oversize), *head;

	if (sheaf)
		return sheaf;
	sheaf = pcp_meta_alloc(sheaf_bytes(capacity), PCP_CACHELINE);
	if (!sheaf)
		return NULL;
	sheaf->capacity = capacity;
	sheaf->base = -1;
	pcp_sheaf_tail(sheaf)->oversize = oversize;
	head = pcp_load(&set->all);
	do
		pcp_sheaf_tail(sheaf)->all = head;
	while (!pcp_cas(&set->all, &head, sheaf));
	pcp_stat_shared(set->stat, 1);
	pcp_stat_inc(set->stat, PCP_STAT_SHEAF_ALLOC);
	return sheaf;
}

struct pcp_sheaf *pcp_sheaf_new(struct pcp_sheaves *set)
{
	return sheaf_new(set, pcp_load(&set->capacity), false);
}

struct pcp_sheaf *pcp_sheaf_new_oversize(struct pcp_sheaves *set,
					 uint32_t capacity)
{
	uint32_t rounded = 64;

	/* Few sizes, so that those given up serve again: they are freed by a
	 * shrink or maintenance only. */
	while (rounded < capacity)
		rounded *= 2;
	return sheaf_new(set,
			 rounded < PCP_SHEAF_SIZE_MASK ? rounded
						       : PCP_SHEAF_SIZE_MASK,
			 true);
}

void pcp_sheaf_move(struct pcp_sheaf *to, struct pcp_sheaf *from)
{
	uint32_t have = pcp_sheaf_size(from), room = pcp_sheaf_room(to);
	uint32_t n = have < room ? have : room, size = pcp_sheaf_size(to);

	/* Out of the one before into the other, so that a child forked in
	 * between loses objects instead of having them twice. */
	pcp_sheaf_set_size(from, have - n);
	memcpy(&to->objects[size], &from->objects[have - n],
	       n * sizeof(*to->objects));
	pcp_sheaf_set_size(to, size + n);
}

void pcp_sheaf_retire(struct pcp_sheaves *set, struct pcp_sheaf *sheaf)
{
	pcp_stat_shared(set->stat, 1);
	if (pcp_sheaf_tail(sheaf)->oversize || pcp_sheaf_fits(set, sheaf)) {
		push(&set->retired, sheaf);
		return;
	}
	pcp_add(&set->nr_misfits, 1U);
	push(&set->misfits, sheaf);
}

static void sheaf_free(struct pcp_sheaves *set, struct pcp_sheaf *sheaf)
{
	pcp_meta_free(sheaf);
	pcp_stat_inc(set->stat, PCP_STAT_SHEAF_FREE);
}

static uint32_t mark_dead(struct pcp_sheaf *sheaf)
{
	uint32_t n = 0;

	for (; sheaf; sheaf = pcp_sheaf_tail(sheaf)->next, n++)
		pcp_sheaf_tail(sheaf)->dead = true;
	return n;
}

/* CONTEXT: drain lock held. */
static void free_dead(struct pcp_sheaves *set)
{
	struct pcp_sheaf *head, *prev;

	/* Others push in front meanwhile and nobody else unlinks, so only the
	 * head needs a swap. */
	head = pcp_load_acquire(&set->all);
	while (head && pcp_sheaf_tail(head)->dead)
		if (pcp_cas(&set->all, &head, pcp_sheaf_tail(head)->all)) {
			sheaf_free(set, head);
			head = pcp_load_acquire(&set->all);
		}
	for (prev = head; prev;) {
		struct pcp_sheaf *sheaf = pcp_sheaf_tail(prev)->all;

		if (sheaf && pcp_sheaf_tail(sheaf)->dead) {
			pcp_sheaf_tail(prev)->all = pcp_sheaf_tail(sheaf)->all;
			sheaf_free(set, sheaf);
		} else {
			prev = sheaf;
		}
	}
}

void pcp_sheaves_sweep_misfits(struct pcp_sheaves *set)
{
	pcp_sub(&set->nr_misfits, mark_dead(take_list(&set->misfits)));
	free_dead(set);
}

void pcp_sheaves_sweep(struct pcp_sheaves *set)
{
	(void)mark_dead(take_list(&set->retired));
	pcp_sheaves_sweep_misfits(set);
}

void pcp_sheaves_free_all(struct pcp_sheaves *set)
{
	struct pcp_sheaf *sheaf = pcp_load_acquire(&set->all);

	while (sheaf) {
		struct pcp_sheaf *next = pcp_sheaf_tail(sheaf)->all;

		sheaf_free(set, sheaf);
		sheaf = next;
	}
	set->all = set->retired = set->misfits = NULL;
}

void pcp_sheaves_sum(const struct pcp_sheaves *set,
		     struct pcp_sheaves_sum *sum)
{
	*sum = (struct pcp_sheaves_sum){ 0 };
	for (struct pcp_sheaf *sheaf = pcp_load_acquire(&set->all); sheaf;
	     sheaf = pcp_sheaf_tail(sheaf)->all) {
		uint64_t allocs, frees;

		pcp_sheaf_counts(sheaf, &allocs, &frees);
		sum->sheaves++;
		sum->bytes += sheaf_bytes(sheaf->capacity);
		sum->allocs += allocs;
		sum->frees += frees;
		if (pcp_load(&pcp_sheaf_tail(sheaf)->held)) {
			sum->held++;
			sum->held_objects += pcp_sheaf_size(sheaf);
		}
	}
}

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

/* The more an object weighs the fewer a CPU hoards: about 16 KiB of small ones
 * in a sheaf. The numbers fill 512, 256 and 128 bytes. */
uint32_t pcp_sheaf_default_capacity(size_t object_size)
{
	if (object_size <= 256)
		return 59;
	if (object_size <= 1024)
		return 27;
	if (object_size <= 4096)
		return 11;
	return object_size <= 65536 ? 3 : 1;
}

void pcp_sheaf_end(struct pcp_sheaf *sheaf, struct pcp_stat *stat)
{
	uint64_t allocs, frees;

	/* Not one store: a child forked by another thread between these lines
	 * has its books off by what the sheaf counted (doc/design.md, "Fork"). */
	pcp_sheaf_counts(sheaf, &allocs, &frees);
	pcp_store(&sheaf->base, -1);
	pcp_store(&sheaf->word, (uint64_t)pcp_sheaf_size(sheaf));
	if (allocs)
		pcp_stat_add(stat, PCP_STAT_FAST_ALLOC, allocs);
	if (frees)
		pcp_stat_add(stat, PCP_STAT_FAST_FREE, frees);
}

/* Push a list whose last tail is `last`. Release: pairs with the exchange in
 * take_retired(). */
static void push_retired(struct pcp_sheaves *set, struct pcp_sheaf *first,
			 struct pcp_sheaf *last)
{
	struct pcp_sheaf *head = pcp_load(&set->retired);

	do
		pcp_sheaf_tail(last)->next = head;
	while (!pcp_cas(&set->retired, &head, first));
}

static struct pcp_sheaf *take_retired(struct pcp_sheaves *set)
{
	if (!pcp_load(&set->retired))
		return NULL;
	return pcp_xchg(&set->retired, NULL);
}

/* A retired sheaf of that capacity, or, oversize, of at least that. The list is
 * taken whole and the rest put back; what retires meanwhile joins it. */
static struct pcp_sheaf *reuse(struct pcp_sheaves *set, uint32_t capacity)
{
	struct pcp_sheaf *sheaf = take_retired(set), *found = NULL, *next;
	bool oversize = capacity > set->capacity;

	for (; sheaf; sheaf = next) {
		next = pcp_sheaf_tail(sheaf)->next;
		if (!found && (oversize ? sheaf->capacity >= capacity
					: sheaf->capacity == capacity))
			found = sheaf;
		else
			push_retired(set, sheaf, sheaf);
	}
	return found;
}

static struct pcp_sheaf *sheaf_new(struct pcp_sheaves *set, uint32_t capacity)
{
	struct pcp_sheaf *sheaf = reuse(set, capacity), *head;

	if (sheaf)
		return sheaf;
	sheaf = pcp_meta_alloc(sheaf_bytes(capacity), PCP_CACHELINE);
	if (!sheaf)
		return NULL;
	sheaf->capacity = capacity;
	sheaf->base = -1;
	head = pcp_load(&set->all);
	do
		pcp_sheaf_tail(sheaf)->all = head;
	while (!pcp_cas(&set->all, &head, sheaf));
	pcp_stat_inc(set->stat, PCP_STAT_SHEAF_ALLOC);
	return sheaf;
}

struct pcp_sheaf *pcp_sheaf_new(struct pcp_sheaves *set)
{
	return sheaf_new(set, set->capacity);
}

struct pcp_sheaf *pcp_sheaf_new_oversize(struct pcp_sheaves *set,
					 uint32_t capacity)
{
	uint32_t rounded = 2 * set->capacity;

	/* Few sizes, so that those given up serve again: they are freed by a
	 * shrink only. */
	while (rounded < capacity)
		rounded *= 2;
	return sheaf_new(set, rounded < PCP_SHEAF_SIZE_MASK
				      ? rounded
				      : PCP_SHEAF_SIZE_MASK);
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
	push_retired(set, sheaf, sheaf);
}

static void sheaf_free(struct pcp_sheaves *set, struct pcp_sheaf *sheaf)
{
	pcp_meta_free(sheaf);
	pcp_stat_inc(set->stat, PCP_STAT_SHEAF_FREE);
}

void pcp_sheaves_sweep(struct pcp_sheaves *set)
{
	struct pcp_sheaf *head, *prev;

	for (struct pcp_sheaf *sheaf = take_retired(set); sheaf;
	     sheaf = pcp_sheaf_tail(sheaf)->next)
		pcp_sheaf_tail(sheaf)->dead = true;
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

void pcp_sheaves_free_all(struct pcp_sheaves *set)
{
	struct pcp_sheaf *sheaf = pcp_load_acquire(&set->all);

	while (sheaf) {
		struct pcp_sheaf *next = pcp_sheaf_tail(sheaf)->all;

		sheaf_free(set, sheaf);
		sheaf = next;
	}
	set->all = set->retired = NULL;
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

/* SPDX-License-Identifier: MIT */
/*
 * Quick lists: the small regions freed last, by size, for the next that asks.
 *
 * They stay taken in the maps and are held (map.h), so that to free one again
 * is found out as ever. That spares a region that comes and goes the search and
 * the rewriting of bits and bins, which is most of what it costs. What is kept
 * so is little (PCP_QUICK_GRANULES of each unit), goes to the maps before a
 * chunk is made for want of room, and never keeps a chunk alive.
 *
 * Nothing here takes a lock: the caller holds the leaf lock.
 *
 * Reference: the fast bins of malloc(3) implementations that descend from Doug
 * Lea's; what differs is that the links are beside the memory, not in it.
 */
#ifndef PCP_PERCPU_QUICK_H
#define PCP_PERCPU_QUICK_H

#include "base/compiler.h"
#include "percpu/map.h"

#define PCP_QUICK_DEPTH 64U
#define PCP_QUICK_GRANULES 2048U

struct pcp_quick {
	uint64_t used; /* sizes that have any */
	uint8_t n[PCP_SMALL_GRANULES];
	struct pcp_quick_entry {
		struct pcp_chunk *chunk;
		unsigned int pos;
	} entries[PCP_SMALL_GRANULES][PCP_QUICK_DEPTH];
};

/* All of them to the maps. */
void pcp_quick_flush(struct pcp_quick *quick, struct pcp_map *map);

/* The region of this size freed last, if there is one and it lies right; 0
 * otherwise. It is to be zeroed. */
static inline uintptr_t pcp_quick_take(struct pcp_quick *quick,
				       struct pcp_map *map,
				       unsigned int granules,
				       unsigned int align)
{
	const struct pcp_quick_entry *entry;
	struct pcp_place place;
	unsigned int n;

	if (granules > PCP_SMALL_GRANULES || !quick->n[granules - 1])
		return 0;
	n = quick->n[granules - 1] - 1U;
	entry = &quick->entries[granules - 1][n];
	/* A chunk is aligned to more than any region. */
	if (entry->pos & (align - 1))
		return 0;
	quick->n[granules - 1] = (uint8_t)n;
	if (!n)
		quick->used &= ~(UINT64_C(1) << (granules - 1));
	place = (struct pcp_place){ entry->chunk, entry->pos,
				    entry->pos + granules };
	pcp_map_unhold(map, &place);
	return place.chunk->base + ((uintptr_t)place.pos << PCP_GRANULE_SHIFT);
}

/* Keep a live region. Whether there was place. */
static inline bool pcp_quick_keep(struct pcp_quick *quick, struct pcp_map *map,
				  const struct pcp_place *place)
{
	const unsigned int granules = place->end - place->pos;
	unsigned int n;

	if (granules > PCP_SMALL_GRANULES)
		return false;
	n = quick->n[granules - 1];
	if (n == PCP_QUICK_DEPTH)
		return false;
	/* Sizes that are not asked for any more must not fill it for good. What
	 * is borrowed (discard.h) counts too, for the moment that it is. */
	if (pcp_unlikely(map->held_granules >= PCP_QUICK_GRANULES)) {
		pcp_quick_flush(quick, map);
		n = 0;
	}
	quick->entries[granules - 1][n] =
		(struct pcp_quick_entry){ place->chunk, place->pos };
	quick->n[granules - 1] = (uint8_t)(n + 1);
	quick->used |= UINT64_C(1) << (granules - 1);
	pcp_map_hold(map, place);
	return true;
}

#endif /* PCP_PERCPU_QUICK_H */

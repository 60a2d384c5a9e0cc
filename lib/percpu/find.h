/* SPDX-License-Identifier: MIT */
/*
 * From an address to the region that starts there, by the address alone: what
 * is at it, which may be anything, is not looked at.
 *
 * A chunk is aligned to a power of two above the size of a unit, so there is
 * one base that an address in a first unit can have, and a hash table knows
 * those that are chunks. The caller holds the leaf lock.
 */
#ifndef PCP_PERCPU_FIND_H
#define PCP_PERCPU_FIND_H

#include "percpu/bits.h"
#include "percpu/map.h"

static inline struct pcp_chunk **pcp_map_bucket(struct pcp_map *map,
						uintptr_t base)
{
	uint64_t key = (uint64_t)(base >> map->shift);

	key *= UINT64_C(0x9e3779b97f4a7c15);
	return &map->buckets[(key >> 32) % PCP_MAP_BUCKETS];
}

static inline struct pcp_chunk *pcp_map_chunk(struct pcp_map *map, uintptr_t p)
{
	uintptr_t base = p >> map->shift << map->shift;
	struct pcp_chunk *chunk = *pcp_map_bucket(map, base);

	while (chunk && chunk->base != base)
		chunk = chunk->hashed;
	if (chunk && (p - base) >> PCP_BLOCK_SHIFT >= chunk->nr_blocks)
		return NULL;
	return chunk;
}

/* The end of the region that starts at pos. */
static inline unsigned int pcp_region_end(const struct pcp_chunk *chunk,
					  unsigned int pos)
{
	const unsigned int words = chunk->nr_blocks * PCP_BLOCK_WORDS;
	unsigned int i = ++pos / 64;
	uint64_t w;

	if (i == words)
		return pos;
	w = (~chunk->taken[i] | chunk->mark[i]) & (~UINT64_C(0) << (pos % 64));
	while (!w) {
		if (++i == words)
			return words * 64;
		w = ~chunk->taken[i] | chunk->mark[i];
	}
	return i * 64 + pcp_ctz(w);
}

/* Where the region that starts at p is. Anything but the start of a live region
 * is refused. */
static inline enum pcp_map_fault pcp_map_find(struct pcp_map *map, uintptr_t p,
					      struct pcp_place *place)
{
	struct pcp_chunk *chunk = pcp_map_chunk(map, p);
	unsigned int pos;
	uint64_t bit;

	if (!chunk)
		return PCP_MAP_STRAY;
	pos = (unsigned int)((p - chunk->base) >> PCP_GRANULE_SHIFT);
	bit = UINT64_C(1) << (pos % 64);
	if (!(chunk->taken[pos / 64] & bit))
		return PCP_MAP_FREE;
	if (!(chunk->mark[pos / 64] & bit) ||
	    p & ((1U << PCP_GRANULE_SHIFT) - 1))
		return PCP_MAP_INTERIOR;
	if (chunk->held[pos / 64] & bit)
		return PCP_MAP_FREE;
	place->chunk = chunk;
	place->pos = pos;
	place->end = pcp_region_end(chunk, pos);
	return PCP_MAP_OK;
}

#endif /* PCP_PERCPU_FIND_H */

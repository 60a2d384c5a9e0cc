/* SPDX-License-Identifier: MIT */
/* Giving pages of free space back: the bookkeeping. See discard.h. */
#include <config.h>

#include <string.h>

#include "percpu/bits.h"
#include "percpu/discard.h"

#define WORDS (PCP_CHUNK_BLOCKS_MAX / 64)

void pcp_discard_look(struct pcp_chunk *chunk)
{
	uint64_t touched[WORDS] = { 0 };

	for (unsigned int i = 0; i < chunk->nr_blocks; i++)
		if (chunk->blocks[i].touched)
			touched[i / 64] |= UINT64_C(1) << (i % 64);
	for (unsigned int i = 0; i < WORDS; i++) {
		/* Use clears the bits of idle; blocks that are no blocks are
		 * busy. */
		chunk->due[i] = chunk->idle[i] & touched[i];
		chunk->idle[i] = ~chunk->busy[i];
	}
}

static bool is_due(const struct pcp_chunk *chunk, unsigned int i)
{
	return chunk->due[i / 64] >> (i % 64) & 1;
}

bool pcp_discard_borrow(struct pcp_map *map, struct pcp_chunk *chunk,
			unsigned int unit, struct pcp_place *place)
{
	unsigned int first = 0, end;
	bool recycled;

	for (;;) {
		first = pcp_bits_next(chunk->due, PCP_CHUNK_BLOCKS_MAX, first,
				      true);
		if (first == PCP_CHUNK_BLOCKS_MAX)
			return false;
		for (end = first;
		     end < PCP_CHUNK_BLOCKS_MAX && is_due(chunk, end); end++)
			;
		/* Whole pages only. */
		first = (first + unit - 1) & ~(unit - 1);
		if ((end & ~(unit - 1)) > first)
			break;
		first = end;
		if (first >= PCP_CHUNK_BLOCKS_MAX)
			return false;
	}
	end &= ~(unit - 1);
	*place = (struct pcp_place){ chunk, first * PCP_BLOCK_GRANULES,
				     end * PCP_BLOCK_GRANULES };
	/* That they are taken makes them due no longer. */
	pcp_map_take_at(map, chunk, place->pos, place->end - place->pos,
			&recycled);
	pcp_map_hold(map, place);
	return true;
}

void pcp_discard_return(struct pcp_map *map, const struct pcp_place *place,
			bool zeroed)
{
	struct pcp_chunk *chunk = place->chunk;
	unsigned int first = place->pos / PCP_BLOCK_GRANULES;
	unsigned int end = place->end / PCP_BLOCK_GRANULES;

	pcp_map_unhold(map, place);
	pcp_map_give(map, place);
	if (!zeroed)
		return;
	memset(&chunk->mark[place->pos / 64], 0, (place->end - place->pos) / 8);
	for (unsigned int i = first; i < end; i++)
		chunk->blocks[i].touched = false;
	chunk->nr_touched -= end - first;
	map->touched -= end - first;
}

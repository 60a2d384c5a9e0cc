/* SPDX-License-Identifier: MIT */
/* Debug builds: recount the maps bit by bit and compare with what they keep. */
#include <config.h>

#include "percpu/bits.h"
#include "percpu/map.h"

#if PCP_DEBUG
#define CHECK(cond)                                                            \
	do {                                                                   \
		if (!(cond))                                                   \
			return __LINE__;                                       \
	} while (0)

struct count {
	uint64_t regions, granules, touched, held, held_granules, busy;
	unsigned int chunks, empty, partial, wide;
};

static bool bit(const uint64_t *words, unsigned int pos)
{
	return words[pos / 64] >> (pos % 64) & 1;
}

static int verify_block(const struct pcp_chunk *chunk, unsigned int index,
			struct count *count)
{
	const struct pcp_block *block = &chunk->blocks[index];
	unsigned int first = index * PCP_BLOCK_GRANULES;
	unsigned int taken = 0, run = 0, longest = 0;

	for (unsigned int i = first; i < first + PCP_BLOCK_GRANULES; i++) {
		run = bit(chunk->taken, i) ? 0 : run + 1;
		longest = run > longest ? run : longest;
		taken += bit(chunk->taken, i);
		if (bit(chunk->taken, i) && bit(chunk->mark, i))
			count->regions++;
		/* Only a region's start is held. */
		if (bit(chunk->held, i)) {
			CHECK(bit(chunk->taken, i) && bit(chunk->mark, i));
			count->held++;
		}
		/* A region's further granule follows a granule of it. */
		if (bit(chunk->taken, i) && !bit(chunk->mark, i))
			CHECK(i && bit(chunk->taken, i - 1));
		if (bit(chunk->mark, i))
			CHECK(block->touched);
	}
	count->granules += taken;
	CHECK(block->index == index);
	CHECK(block->taken == taken);
	CHECK(bit(chunk->busy, index) == (taken != 0));
	CHECK(!taken || !(bit(chunk->idle, index) || bit(chunk->due, index)));
	CHECK(!bit(chunk->due, index) || block->touched);
	count->busy += taken != 0;
	if (!taken || taken == PCP_BLOCK_GRANULES)
		CHECK(block->span.longest == 0);
	else
		CHECK(block->span.longest >= longest);
	count->partial += block->span.longest != 0;
	return 0;
}

static int verify_chunk(const struct pcp_map *map,
			const struct pcp_chunk *chunk, struct count *count)
{
	unsigned int nr_free = 0, touched = 0, taken = 0;

	CHECK(chunk->base >> map->shift << map->shift == chunk->base);
	for (unsigned int i = 0; i < chunk->nr_blocks; i++) {
		int line = verify_block(chunk, i, count);

		if (line)
			return line;
		nr_free += !chunk->blocks[i].taken;
		touched += chunk->blocks[i].touched;
		taken += chunk->blocks[i].taken;
	}
	CHECK(chunk->nr_free == nr_free);
	CHECK(chunk->nr_touched == touched);
	CHECK(chunk->taken_granules == taken);
	CHECK(chunk->span.longest >=
	      pcp_bits_longest(chunk->taken, chunk->span.words));
	CHECK(chunk->held_granules <= taken);
	count->held_granules += chunk->held_granules;
	count->touched += touched;
	count->chunks++;
	count->wide += chunk->span.longest != 0;
	count->empty += nr_free == chunk->nr_blocks;
	return 0;
}

/* Each span with a bound is in the bin of that bound, and the bins hold as many
 * spans as there should be. */
static int verify_bins(const struct pcp_bins *bins, unsigned int spans)
{
	for (unsigned int bin = 0; bin < PCP_SPAN_BINS; bin++) {
		struct pcp_link *head = bins->heads[bin], *link = head;

		CHECK((bins->used[bin / 64] >> (bin % 64) & 1) == !!head);
		if (!head)
			continue;
		do {
			struct pcp_span *span =
				pcp_container_of(link, struct pcp_span, link);

			CHECK(link->next->prev == link);
			CHECK(span->bin == bin && span->longest);
			CHECK(bin >= 64 || span->longest == bin + 1);
			CHECK(spans-- > 0);
			link = link->next;
		} while (link != head);
	}
	CHECK(spans == 0);
	return 0;
}

static int verify_list(const struct pcp_map *map, unsigned int nr_free,
		       struct count *count)
{
	struct pcp_link *head = map->lists[nr_free], *link = head;

	CHECK((map->lists_used[nr_free / 64] >> (nr_free % 64) & 1) == !!head);
	if (!head)
		return 0;
	do {
		struct pcp_chunk *chunk =
			pcp_container_of(link, struct pcp_chunk, link);
		int line = verify_chunk(map, chunk, count);

		if (line)
			return line;
		CHECK(chunk->nr_free == nr_free);
		CHECK(link->next->prev == link);
		link = link->next;
	} while (link != head);
	return 0;
}

int pcp_map_verify(const struct pcp_map *map)
{
	struct count count = { 0 };
	unsigned int hashed = 0;
	int line;

	for (unsigned int i = 0; i < PCP_MAP_BUCKETS; i++)
		for (struct pcp_chunk *c = map->buckets[i]; c; c = c->hashed)
			hashed++;
	for (unsigned int i = 0; i < PCP_CHUNK_LISTS; i++) {
		line = verify_list(map, i, &count);
		if (line)
			return line;
	}
	CHECK(count.chunks == map->chunks && hashed == map->chunks);
	CHECK(count.empty == map->empty);
	CHECK(count.touched == map->touched);
	CHECK(count.regions == map->regions);
	CHECK(count.granules == map->granules);
	CHECK(count.held == map->held_regions);
	CHECK(count.held_granules == map->held_granules);
	CHECK(count.busy == map->busy);
	line = verify_bins(&map->partial, count.partial);
	return line ? line : verify_bins(&map->wide, count.wide);
}
#endif

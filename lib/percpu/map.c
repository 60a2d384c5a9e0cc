/* SPDX-License-Identifier: MIT */
/*
 * The maps of the chunks, and the search. See map.h.
 *
 * A span's `longest` is an upper bound: taking leaves it as it is where the
 * truth is not known for nothing, and a search that finds it wrong puts it
 * right. Each take makes at most one bound of each kind wrong, so that the
 * corrections cost at most as many looks as there are takes.
 */
#include <config.h>

#include <string.h>

#include "percpu/bits.h"
#include "percpu/find.h"

/* How many spans one search may look at, and how many that are not stale but do
 * not fit (their run lies wrong for the alignment, or the bin holds shorter
 * ones too) before it goes on where any span fits. */
#define LOOKS_MAX 16U
#define MISSES_MAX 1U

/* Bounds may be too high by SLACK where SLACK_FROM granules are free. */
#define SLACK 64U
#define SLACK_FROM 128U

/* --- lists and bins --------------------------------------------------------
 */

static void list_insert(struct pcp_link **lists, uint64_t *used, unsigned int i,
			struct pcp_link *link)
{
	struct pcp_link *head = lists[i];

	if (head) {
		link->next = head;
		link->prev = head->prev;
		head->prev->next = link;
		head->prev = link;
	} else {
		link->next = link->prev = link;
		used[i / 64] |= UINT64_C(1) << (i % 64);
	}
	lists[i] = link;
}

static void list_remove(struct pcp_link **lists, uint64_t *used, unsigned int i,
			struct pcp_link *link)
{
	if (link->next == link) {
		lists[i] = NULL;
		used[i / 64] &= ~(UINT64_C(1) << (i % 64));
		return;
	}
	link->next->prev = link->prev;
	link->prev->next = link->next;
	if (lists[i] == link)
		lists[i] = link->next;
}

static unsigned int bin_of(unsigned int run)
{
	unsigned int top;

	if (run <= 64)
		return run - 1;
	top = 31U - (unsigned int)__builtin_clz(run);
	return 64 + (top - 6) * 8 + ((run >> (top - 3)) & 7);
}

/* Set the bound of a span's longest run; with 0 it is in no bin. */
static void set_longest(struct pcp_bins *bins, struct pcp_span *span,
			unsigned int longest)
{
	unsigned int bin = longest ? bin_of(longest) : 0;

	if (!(span->longest && longest && bin == span->bin)) {
		if (span->longest)
			list_remove(bins->heads, bins->used, span->bin,
				    &span->link);
		if (longest)
			list_insert(bins->heads, bins->used, bin, &span->link);
		span->bin = (uint8_t)bin;
	}
	span->longest = longest;
}

/* Its free granules are fewer than the bound. Where it is still large a little
 * too high a bound does no harm, and a region that comes and goes then leaves
 * the bins alone. */
static void lower_longest(struct pcp_bins *bins, struct pcp_span *span,
			  unsigned int free_granules)
{
	if (free_granules < SLACK_FROM || free_granules + SLACK < span->longest)
		set_longest(bins, span, free_granules);
}

static struct pcp_span *span_of(struct pcp_link *link)
{
	return pcp_container_of(link, struct pcp_span, link);
}

static struct pcp_chunk *chunk_of(struct pcp_block *block)
{
	return pcp_container_of(block - block->index, struct pcp_chunk, blocks);
}

static void chunk_link(struct pcp_map *map, struct pcp_chunk *chunk)
{
	list_insert(map->lists, map->lists_used, chunk->nr_free, &chunk->link);
	if (chunk->nr_free == chunk->nr_blocks)
		map->empty++;
}

static void chunk_unlink(struct pcp_map *map, struct pcp_chunk *chunk)
{
	list_remove(map->lists, map->lists_used, chunk->nr_free, &chunk->link);
	if (chunk->nr_free == chunk->nr_blocks)
		map->empty--;
}

/* --- chunks ----------------------------------------------------------------
 */

size_t pcp_chunk_meta_size(unsigned int nr_blocks)
{
	return sizeof(struct pcp_chunk) +
	       nr_blocks * (sizeof(struct pcp_block) +
			    3 * PCP_BLOCK_WORDS * sizeof(uint64_t));
}

void pcp_chunk_meta_init(struct pcp_chunk *chunk, uintptr_t base,
			 unsigned int nr_blocks)
{
	chunk->base = base;
	chunk->nr_blocks = chunk->nr_free = nr_blocks;
	chunk->taken = (uint64_t *)(void *)&chunk->blocks[nr_blocks];
	chunk->mark = chunk->taken + nr_blocks * PCP_BLOCK_WORDS;
	chunk->held = chunk->mark + nr_blocks * PCP_BLOCK_WORDS;
	chunk->span.bits = chunk->taken;
	chunk->span.words = (uint16_t)(nr_blocks * PCP_BLOCK_WORDS);
	for (unsigned int i = 0; i < nr_blocks; i++) {
		struct pcp_block *block = &chunk->blocks[i];

		block->index = (uint16_t)i;
		block->span.bits = chunk->taken + i * PCP_BLOCK_WORDS;
		block->span.words = PCP_BLOCK_WORDS;
	}
	for (unsigned int i = nr_blocks; i < PCP_CHUNK_BLOCKS_MAX; i++)
		chunk->busy[i / 64] |= UINT64_C(1) << (i % 64);
}

void pcp_chunk_meta_fresh(struct pcp_chunk *chunk)
{
	memset(chunk->mark, 0,
	       chunk->nr_blocks * PCP_BLOCK_WORDS * sizeof(uint64_t));
	for (unsigned int i = 0; i < chunk->nr_blocks; i++)
		chunk->blocks[i].touched = false;
	/* What has no pages is not due. */
	memset(chunk->due, 0, sizeof(chunk->due));
	chunk->nr_touched = 0;
}

void pcp_map_add(struct pcp_map *map, struct pcp_chunk *chunk)
{
	struct pcp_chunk **bucket = pcp_map_bucket(map, chunk->base);

	chunk->hashed = *bucket;
	*bucket = chunk;
	chunk_link(map, chunk);
	set_longest(&map->wide, &chunk->span,
		    chunk->nr_blocks * PCP_BLOCK_GRANULES);
	map->touched += chunk->nr_touched;
	map->chunks++;
}

struct pcp_chunk *pcp_map_surplus(struct pcp_map *map, unsigned int keep)
{
	unsigned int i = PCP_CHUNK_LISTS - 1;
	struct pcp_chunk **hashed, *chunk;

	if (map->empty <= keep)
		return NULL;
	/* Chunks are of one size: the last list is that of the empty ones. */
	while (!map->lists[i])
		i--;
	chunk = pcp_container_of(map->lists[i], struct pcp_chunk, link);
	chunk_unlink(map, chunk);
	set_longest(&map->wide, &chunk->span, 0);
	for (hashed = pcp_map_bucket(map, chunk->base); *hashed != chunk;)
		hashed = &(*hashed)->hashed;
	*hashed = chunk->hashed;
	map->touched -= chunk->nr_touched;
	map->chunks--;
	return chunk;
}

/* --- taking ----------------------------------------------------------------
 */

/* Turn free granules into a region. Whether any of them was in use before. */
static bool mark_taken(struct pcp_chunk *chunk, unsigned int pos,
		       unsigned int n)
{
	uint64_t *const first = &chunk->mark[pos / 64];
	const uint64_t start = UINT64_C(1) << (pos % 64);
	uint64_t before = 0;

	while (n) {
		unsigned int part = 64 - pos % 64;
		uint64_t mask = pcp_bits_mask(pos, n);

		part = part < n ? part : n;
		before |= chunk->mark[pos / 64] & mask;
		chunk->mark[pos / 64] &= ~mask;
		chunk->taken[pos / 64] |= mask;
		pos += part;
		n -= part;
	}
	*first |= start;
	return before != 0;
}

/* n granules of a block are taken. Whether it was wholly free. */
static bool take_in_block(struct pcp_map *map, struct pcp_chunk *chunk,
			  struct pcp_block *block, unsigned int n)
{
	const uint64_t bit = UINT64_C(1) << (block->index % 64);
	const unsigned int word = block->index / 64;
	bool was_free = !block->taken;
	unsigned int left;

	block->taken = (uint16_t)(block->taken + n);
	left = PCP_BLOCK_GRANULES - block->taken;
	if (pcp_unlikely(was_free)) {
		chunk->busy[word] |= bit;
		chunk->idle[word] &= ~bit;
		chunk->due[word] &= ~bit;
		map->busy++;
		set_longest(&map->partial, &block->span, left);
	} else if (left < block->span.longest) {
		lower_longest(&map->partial, &block->span, left);
	}
	if (pcp_unlikely(!block->touched)) {
		block->touched = true;
		chunk->nr_touched++;
		map->touched++;
	}
	return was_free;
}

uintptr_t pcp_map_take_at(struct pcp_map *map, struct pcp_chunk *chunk,
			  unsigned int pos, unsigned int n, bool *recycled)
{
	unsigned int end = pos + n, opened = 0, free_granules;

	*recycled = mark_taken(chunk, pos, n);
	map->regions++;
	map->granules += n;
	for (unsigned int i = pos; i < end;) {
		unsigned int part = PCP_BLOCK_GRANULES - i % PCP_BLOCK_GRANULES;

		part = part < end - i ? part : end - i;
		opened += take_in_block(map, chunk,
					&chunk->blocks[i / PCP_BLOCK_GRANULES],
					part);
		i += part;
	}
	if (pcp_unlikely(opened)) {
		chunk_unlink(map, chunk);
		chunk->nr_free -= opened;
		chunk_link(map, chunk);
	}
	chunk->taken_granules += n;
	free_granules =
		chunk->nr_blocks * PCP_BLOCK_GRANULES - chunk->taken_granules;
	if (free_granules < chunk->span.longest)
		lower_longest(&map->wide, &chunk->span, free_granules);
	return chunk->base + ((uintptr_t)pos << PCP_GRANULE_SHIFT);
}

/* The first list or bin in use from this one on, or count. */
static unsigned int next_used(const uint64_t *used, unsigned int count,
			      unsigned int i)
{
	i = pcp_bits_next(used, (count + 63) / 64 * 64, i, true);
	return i < count ? i : count;
}

/* Put a bound right that a search found too high. Whether it was. */
static bool tighten(struct pcp_bins *bins, struct pcp_span *span)
{
	unsigned int longest = pcp_bits_longest(span->bits, span->words);

	if (longest == span->longest)
		return false;
	set_longest(bins, span, longest);
	return true;
}

/*
 * Find a span with an aligned free run of n granules, from the tightest bin up,
 * and the run. A span may be in vain because its bound was stale, which moves
 * it down for good, or because its run does not fit, which turns it to the end
 * of its list.
 */
static struct pcp_span *search(struct pcp_map *map, struct pcp_bins *bins,
			       unsigned int n, unsigned int align,
			       bool thorough, unsigned int *pos)
{
	unsigned int looks = thorough ? ~0U : LOOKS_MAX;
	unsigned int limit = thorough ? ~0U : MISSES_MAX;
	unsigned int bin = bin_of(n), misses = 0;
	struct pcp_span *first = NULL;

	for (; looks; looks--) {
		unsigned int next = next_used(bins->used, PCP_SPAN_BINS, bin);
		struct pcp_span *span;

		if (next == PCP_SPAN_BINS)
			break;
		if (next != bin)
			first = NULL;
		bin = next;
		span = span_of(bins->heads[bin]);
		map->scans++;
		*pos = PCP_BITS_NONE;
		if (pcp_likely(span->longest >= n))
			*pos = pcp_bits_run(span->bits, span->words, n, align);
		if (pcp_likely(*pos != PCP_BITS_NONE))
			return span;
		if (tighten(bins, span)) {
			first = NULL;
			continue;
		}
		if (!first)
			first = span;
		bins->heads[bin] = span->link.next;
		if (++misses >= limit && bin <= bin_of(n + align - 1))
			bin = bin_of(n + align - 1) + 1;
		else if (span->link.next == &first->link)
			bin++;
		else
			continue;
		/* A lap ends in the list it began in. */
		first = NULL;
	}
	return NULL;
}

static uintptr_t take_partial(struct pcp_map *map, unsigned int n,
			      unsigned int align, bool thorough, bool *recycled)
{
	struct pcp_span *span;
	struct pcp_block *block;
	unsigned int pos;

	span = search(map, &map->partial, n, align, thorough, &pos);
	if (!span)
		return 0;
	block = pcp_container_of(span, struct pcp_block, span);
	return pcp_map_take_at(map, chunk_of(block),
			       block->index * PCP_BLOCK_GRANULES + pos, n,
			       recycled);
}

/* At the start of a wholly free block of the fullest chunk that has one. */
static uintptr_t take_block(struct pcp_map *map, unsigned int n, bool *recycled)
{
	unsigned int i = next_used(map->lists_used, PCP_CHUNK_LISTS, 1);
	struct pcp_chunk *chunk;

	if (i == PCP_CHUNK_LISTS)
		return 0;
	chunk = pcp_container_of(map->lists[i], struct pcp_chunk, link);
	i = pcp_bits_next(chunk->busy, PCP_CHUNK_BLOCKS_MAX, 0, false);
	return pcp_map_take_at(map, chunk, i * PCP_BLOCK_GRANULES, n, recycled);
}

static uintptr_t take_wide(struct pcp_map *map, unsigned int n,
			   unsigned int align, bool thorough, bool *recycled)
{
	struct pcp_span *span;
	unsigned int pos;

	span = search(map, &map->wide, n, align, thorough, &pos);
	if (!span)
		return 0;
	return pcp_map_take_at(map,
			       pcp_container_of(span, struct pcp_chunk, span),
			       pos, n, recycled);
}

uintptr_t pcp_map_take(struct pcp_map *map, unsigned int granules,
		       unsigned int align, bool thorough, bool *recycled)
{
	uintptr_t p = 0;

	if (granules < PCP_BLOCK_GRANULES)
		p = take_partial(map, granules, align, thorough, recycled);
	if (p)
		return p;
	if (granules <= PCP_SMALL_GRANULES)
		return take_block(map, granules, recycled);
	return take_wide(map, granules, align, thorough, recycled);
}

/* --- giving back -----------------------------------------------------------
 */

static void mark_free(struct pcp_chunk *chunk, unsigned int pos, unsigned int n)
{
	while (n) {
		unsigned int part = 64 - pos % 64;
		uint64_t mask = pcp_bits_mask(pos, n);

		part = part < n ? part : n;
		chunk->taken[pos / 64] &= ~mask;
		chunk->mark[pos / 64] |= mask;
		pos += part;
		n -= part;
	}
}

/* The end of the free run that goes on at pos; wholly free blocks are stepped
 * over by the bit map of blocks. */
static unsigned int run_end(const struct pcp_chunk *chunk, unsigned int pos)
{
	unsigned int block =
		(pos + PCP_BLOCK_GRANULES - 1) / PCP_BLOCK_GRANULES;
	unsigned int edge = block * PCP_BLOCK_GRANULES;

	pos = pcp_bits_next(chunk->taken, edge, pos, true);
	if (pos < edge)
		return pos;
	block = pcp_bits_next(chunk->busy, PCP_CHUNK_BLOCKS_MAX, block, true);
	if (block >= chunk->nr_blocks)
		return chunk->nr_blocks * PCP_BLOCK_GRANULES;
	return pcp_bits_next(chunk->taken, (block + 1) * PCP_BLOCK_GRANULES,
			     block * PCP_BLOCK_GRANULES, true);
}

/* The start of the free run that ends at pos. */
static unsigned int run_start(const struct pcp_chunk *chunk, unsigned int pos)
{
	unsigned int block = pos / PCP_BLOCK_GRANULES;
	unsigned int edge = block * PCP_BLOCK_GRANULES;

	pos -= pcp_bits_zeros_before(chunk->taken, edge, pos);
	if (pos > edge)
		return pos;
	block -= pcp_bits_zeros_before(chunk->busy, 0, block);
	pos = block * PCP_BLOCK_GRANULES;
	if (!block)
		return 0;
	return pos - pcp_bits_zeros_before(chunk->taken,
					   pos - PCP_BLOCK_GRANULES, pos);
}

/* n granules of a block have become free, in a free run of the chunk from start
 * to stop. Whether the whole block has. */
static bool give_in_block(struct pcp_map *map, struct pcp_chunk *chunk,
			  struct pcp_block *block, unsigned int n,
			  unsigned int start, unsigned int stop)
{
	unsigned int from = block->index * PCP_BLOCK_GRANULES;
	unsigned int to = from + PCP_BLOCK_GRANULES;

	block->taken = (uint16_t)(block->taken - n);
	if (!block->taken) {
		set_longest(&map->partial, &block->span, 0);
		chunk->busy[block->index / 64] &=
			~(UINT64_C(1) << (block->index % 64));
		map->busy--;
		return true;
	}
	start = start > from ? start : from;
	stop = stop < to ? stop : to;
	if (stop - start > block->span.longest)
		set_longest(&map->partial, &block->span, stop - start);
	return false;
}

/* Whether a freed region lies in one block, which stays in use, and the bounds
 * hold whatever run it becomes part of. */
static bool bounds_hold(const struct pcp_chunk *chunk,
			const struct pcp_block *block, unsigned int pos,
			unsigned int n)
{
	return pos % PCP_BLOCK_GRANULES + n <= PCP_BLOCK_GRANULES &&
	       chunk->span.longest >= chunk->nr_blocks * PCP_BLOCK_GRANULES -
					      chunk->taken_granules &&
	       block->taken != n &&
	       block->span.longest >= PCP_BLOCK_GRANULES - block->taken + n;
}

void pcp_map_give(struct pcp_map *map, const struct pcp_place *place)
{
	struct pcp_chunk *const chunk = place->chunk;
	const unsigned int pos = place->pos, end = place->end;
	struct pcp_block *block = &chunk->blocks[pos / PCP_BLOCK_GRANULES];
	unsigned int freed = 0, start, stop;

	map->regions--;
	map->granules -= end - pos;
	chunk->taken_granules -= end - pos;
	mark_free(chunk, pos, end - pos);
	if (pcp_likely(bounds_hold(chunk, block, pos, end - pos))) {
		block->taken = (uint16_t)(block->taken - (end - pos));
		return;
	}
	start = run_start(chunk, pos);
	stop = run_end(chunk, end);
	for (unsigned int i = pos; i < end; block++) {
		unsigned int n = PCP_BLOCK_GRANULES - i % PCP_BLOCK_GRANULES;

		n = n < end - i ? n : end - i;
		freed += give_in_block(map, chunk, block, n, start, stop);
		i += n;
	}
	if (freed) {
		chunk_unlink(map, chunk);
		chunk->nr_free += freed;
		chunk_link(map, chunk);
	}
	if (stop - start > chunk->span.longest)
		set_longest(&map->wide, &chunk->span, stop - start);
}

/* SPDX-License-Identifier: MIT */
/*
 * Which bytes of the chunks are taken: maps, bins and the search.
 *
 * A unit is cut into blocks of 4 KiB and those into granules of 8 bytes. A
 * region of up to 512 bytes lies inside one block. A larger one may also cross
 * from the end of one block into wholly free ones; what it leaves of the last
 * is used like any other block's space. Two bits for each granule say all there
 * is to know:
 *
 *	taken  mark
 *	  0     0    free and never handed out: known to be zero
 *	  0     1    free, was in use: must be zeroed before it is handed out
 *	  1     1    first granule of a region
 *	  1     0    a further granule of a region
 *
 * A third bit, held, at the first granule says that the region is nobody's: the
 * allocator keeps it for the next that asks (quick.h) or is giving its pages
 * back (discard.h). It is as little to be freed as free space.
 *
 * A span is a stretch of granules that is searched: a block, or the whole of a
 * chunk. Spans hang in bins by (an upper bound of) their longest free run, so
 * that a search looks at one that fits, the tightest first. Small regions are
 * looked for in partly free blocks, then go to a wholly free block of the
 * fullest chunk that has one, so that the other chunks can become empty; for
 * these, chunks hang in lists by how many such blocks they have. Larger regions
 * are looked for in blocks, then in chunks.
 *
 * Nothing here touches the memory it keeps account of, or takes a lock: the
 * caller holds the leaf lock (PCP_RANK_PERCPU_MAP).
 */
#ifndef PCP_PERCPU_MAP_H
#define PCP_PERCPU_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCP_GRANULE_SHIFT 3
#define PCP_BLOCK_SHIFT 12
#define PCP_BLOCK_GRANULES (1U << (PCP_BLOCK_SHIFT - PCP_GRANULE_SHIFT))
#define PCP_BLOCK_WORDS (PCP_BLOCK_GRANULES / 64)
#define PCP_CHUNK_BLOCKS_MAX 128U

/* Regions of up to so many granules never cross the end of a block. */
#define PCP_SMALL_GRANULES 64U

/* Bins of spans: one for each run of 1 to 64 granules, then eight for each
 * doubling up to the largest unit. */
#define PCP_SPAN_BINS 152U
/* Lists of chunks: one for each number of wholly free blocks. */
#define PCP_CHUNK_LISTS (PCP_CHUNK_BLOCKS_MAX + 1U)
#define PCP_MAP_BUCKETS 1024U

struct pcp_link { /* of a circular list */
	struct pcp_link *next, *prev;
};

struct pcp_span {
	struct pcp_link link;
	const uint64_t *bits; /* its part of the chunk's `taken` */
	unsigned int longest; /* no free run is longer; 0: in no bin */
	uint16_t words;
	uint8_t bin;
};

struct pcp_block {
	struct pcp_span span; /* longest is 0 while the block is wholly free */
	uint16_t taken;	      /* granules */
	uint16_t index;	      /* in the chunk */
	bool touched;	      /* was ever handed out */
};

struct pcp_chunk {
	struct pcp_span span;
	struct pcp_link link;	  /* of the list of its nr_free */
	uintptr_t base;		  /* of slot 0's unit */
	struct pcp_chunk *hashed; /* next of the same bucket */
	unsigned int nr_blocks;
	unsigned int nr_free; /* wholly free blocks */
	unsigned int taken_granules;
	unsigned int nr_touched;		  /* blocks */
	uint64_t busy[PCP_CHUNK_BLOCKS_MAX / 64]; /* blocks not wholly free */
	/* Of blocks: free at the last look and since; the same for a whole
	 * period, with pages to give back. */
	uint64_t idle[PCP_CHUNK_BLOCKS_MAX / 64];
	uint64_t due[PCP_CHUNK_BLOCKS_MAX / 64];
	unsigned int held_granules;
	uint64_t *taken; /* bits of all granules */
	uint64_t *mark;
	uint64_t *held;
	struct pcp_block blocks[];
};

struct pcp_bins {
	uint64_t used[(PCP_SPAN_BINS + 63) / 64];
	struct pcp_link *heads[PCP_SPAN_BINS];
};

struct pcp_map {
	unsigned int shift; /* chunks are aligned to 1 << shift */
	unsigned int chunks;
	unsigned int empty;    /* chunks without a region */
	uint64_t regions;      /* taken, those that are held too */
	uint64_t granules;     /* in them */
	uint64_t held_regions; /* of these, nobody's */
	uint64_t held_granules;
	uint64_t busy;		 /* blocks not wholly free, of all chunks */
	uint64_t touched;	 /* blocks of all chunks ever handed out */
	uint64_t scans;		 /* spans searched: what the bounds keep low */
	struct pcp_bins partial; /* blocks neither free nor full */
	struct pcp_bins wide;	 /* chunks */
	uint64_t lists_used[(PCP_CHUNK_LISTS + 63) / 64];
	struct pcp_link *lists[PCP_CHUNK_LISTS]; /* chunks by nr_free */
	struct pcp_chunk *buckets[PCP_MAP_BUCKETS];
};

enum pcp_map_fault {
	PCP_MAP_OK,
	PCP_MAP_STRAY,	  /* in no chunk's first unit */
	PCP_MAP_INTERIOR, /* inside a live region */
	PCP_MAP_FREE	  /* in free space, or held: freed before, or never
			   * taken */
};

/* Bytes that a chunk's metadata takes. */
size_t pcp_chunk_meta_size(unsigned int nr_blocks);

/* Make *chunk, zeroed memory of that size, describe a unit without regions
 * whose memory is zero. */
void pcp_chunk_meta_init(struct pcp_chunk *chunk, uintptr_t base,
			 unsigned int nr_blocks);

/* Note that the memory of a chunk without regions is zero again. */
void pcp_chunk_meta_fresh(struct pcp_chunk *chunk);

/* Enter a chunk without regions. */
void pcp_map_add(struct pcp_map *map, struct pcp_chunk *chunk);

/* Take out and return a chunk without regions when there are more than keep of
 * them; NULL otherwise. */
struct pcp_chunk *pcp_map_surplus(struct pcp_map *map, unsigned int keep);

/*
 * Take a region of so many granules (1 to 8192), aligned to a power of two of
 * granules (1 to PCP_BLOCK_GRANULES). Returns its address, or 0. *recycled says
 * whether part of it was in use before. With thorough every span is searched
 * rather than a few promising ones.
 */
uintptr_t pcp_map_take(struct pcp_map *map, unsigned int granules,
		       unsigned int align, bool thorough, bool *recycled);

/* Take these granules of a chunk, all free, as a region. Returns its address;
 * *recycled as above. */
uintptr_t pcp_map_take_at(struct pcp_map *map, struct pcp_chunk *chunk,
			  unsigned int pos, unsigned int granules,
			  bool *recycled);

/* A region; find.h finds it by its address. */
struct pcp_place {
	struct pcp_chunk *chunk;
	unsigned int pos, end; /* granules */
};

/* Give a region that is there back, one that is not held. */
void pcp_map_give(struct pcp_map *map, const struct pcp_place *place);

/* Make a region one that is held, or no longer. */
static inline void pcp_map_hold(struct pcp_map *map,
				const struct pcp_place *place)
{
	unsigned int n = place->end - place->pos;

	place->chunk->held[place->pos / 64] |= UINT64_C(1) << (place->pos % 64);
	place->chunk->held_granules += n;
	map->held_regions++;
	map->held_granules += n;
}

static inline void pcp_map_unhold(struct pcp_map *map,
				  const struct pcp_place *place)
{
	unsigned int n = place->end - place->pos;

	place->chunk->held[place->pos / 64] &=
		~(UINT64_C(1) << (place->pos % 64));
	place->chunk->held_granules -= n;
	map->held_regions--;
	map->held_granules -= n;
}

#if PCP_DEBUG
/* Recount everything the slow way and compare: 0, or the line of verify.c whose
 * check failed. */
int pcp_map_verify(const struct pcp_map *map);
#endif

#endif /* PCP_PERCPU_MAP_H */

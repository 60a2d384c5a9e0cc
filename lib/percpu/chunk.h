/* SPDX-License-Identifier: MIT */
/*
 * Chunks: the address space that regions are cut from.
 *
 * A chunk has one unit for every slot, at a distance that is the same in all
 * chunks of the process, so that a slot's copy of p is p + slot * stride with
 * nothing to look up. Offsets 0 to stride - 1 of slot 0's unit are what the
 * maps (map.h) keep account of.
 */
#ifndef PCP_PERCPU_CHUNK_H
#define PCP_PERCPU_CHUNK_H

#include <stdbool.h>
#include <stddef.h>

#include "percpu/map.h"

/* Fixed by pcp_chunk_init(), before the first chunk. */
struct pcp_chunk_geometry {
	size_t stride;	    /* bytes from a slot's unit to the next one's */
	size_t size;	    /* bytes of address space of a chunk */
	unsigned int shift; /* a chunk is aligned to 1 << shift >= stride */
	unsigned int slots; /* units of a chunk */
};

extern PCP_HIDDEN struct pcp_chunk_geometry pcp_chunk_geometry;

/* After pcp_init(). Gives the same each time. */
void pcp_chunk_init(void);

/* Make a chunk: no memory but its metadata's until something is touched. NULL
 * without memory, with nothing left behind; errno is not kept. */
struct pcp_chunk *pcp_chunk_create(void);

/* Give a chunk, which is in no map, back to the system. False when the system
 * refuses, which munmap(2) may do for lack of a map entry: the chunk then still
 * exists, its memory is zero where it could be had back, and errno is not
 * kept. */
bool pcp_chunk_destroy(struct pcp_chunk *chunk);

#endif /* PCP_PERCPU_CHUNK_H */

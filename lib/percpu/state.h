/* SPDX-License-Identifier: MIT */
/* What the files behind region.h share: the leaf lock and all that it guards.
 */
#ifndef PCP_PERCPU_STATE_H
#define PCP_PERCPU_STATE_H

#include "base/lock.h"
#include "percpu/quick.h"
#include "percpu/region.h"

/* Chunks without a region that are kept. */
#define PCP_KEEP_EMPTY 1U

/* The lock and what it guards, in lines of their own. */
extern struct pcp_percpu_state {
	struct pcp_lock lock; /* rank PCP_RANK_PERCPU_MAP: all of this */
	uint64_t holds;
	uint64_t alloc_holds; /* of these, by single allocations */
	uint64_t chunk_alloc;
	uint64_t chunk_free;
	uint64_t discarded;		  /* blocks */
	uint64_t sizes[PCP_SIZE_CLASSES]; /* live regions */
	struct pcp_map map;
	struct pcp_quick quick;
	/* What a tending gives the pages back of just now; no chunk: nothing.
	 */
	struct pcp_place borrowed;
} pcp_regions;

/* Set, with a release, once the lock may be taken. */
extern int pcp_percpu_ready;

/* Unmap a chunk that pcp_map_surplus() took out, and more that are too many;
 * NULL is none. No lock held. errno is kept. */
void pcp_region_give_back(struct pcp_chunk *chunk);

/* In a forked child, the leaf lock held: who was tending is not here. */
void pcp_region_tend_forked(void) PCP_REQUIRES(pcp_regions.lock);

#endif /* PCP_PERCPU_STATE_H */

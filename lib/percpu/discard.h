/* SPDX-License-Identifier: MIT */
/*
 * Which pages of free space to give back, and the bookkeeping around it.
 *
 * A wholly free block whose pages were ever used is *due* when it was free at
 * one look and is at the next, and was not used in between. Due blocks are
 * borrowed, as a region that is held, while their pages are given back without
 * a lock; then they are free again, and known to be zero.
 *
 * Nothing here takes a lock: the caller holds the leaf lock.
 */
#ifndef PCP_PERCPU_DISCARD_H
#define PCP_PERCPU_DISCARD_H

#include "percpu/map.h"

/* Look at a chunk: what was idle at the last look and is still is due. */
void pcp_discard_look(struct pcp_chunk *chunk);

/* Borrow the first run of due blocks of a chunk, a multiple of unit blocks (a
 * power of two) from a multiple of it. Whether there was one. */
bool pcp_discard_borrow(struct pcp_map *map, struct pcp_chunk *chunk,
			unsigned int unit, struct pcp_place *place);

/* What was borrowed is free again; zeroed: and as good as never used. */
void pcp_discard_return(struct pcp_map *map, const struct pcp_place *place,
			bool zeroed);

#endif /* PCP_PERCPU_DISCARD_H */

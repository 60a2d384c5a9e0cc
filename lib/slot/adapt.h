/* SPDX-License-Identifier: MIT */
/*
 * How large sheaves and barns are: as large as CPUs' use of a cache asks for.
 *
 * A call that finds neither the main nor the spare of its slot of use is a
 * miss. Where misses come often, measured over a few of them on one slot, the
 * cache's capacity goes one step up the ladder, so that a burst which is too
 * large for a slot has reached a capacity that holds it, or the largest, after
 * a few thousand operations. It comes down in maintenance: a step where there
 * was no miss since the last, to the floor where there was no use at all.
 *
 * The largest capacity is that for which main and spare together hold 256 KiB
 * of objects. A barn's limit follows likewise: it rises when the barn is full
 * now and was empty not long ago, within a budget of bytes.
 *
 * A sheaf is not filled from slabs to a capacity that this CPU never needed: a
 * slot's first refill takes what the floor holds, each further one twice as
 * much.
 *
 * Reference: cache_nice_tune() of libumem's ancestor sets magazine sizes by the
 * contention of the depot; the question why the slow path is hit so often was
 * asked in the review of slab parking.
 */
#ifndef PCP_SLOT_ADAPT_H
#define PCP_SLOT_ADAPT_H

#include "slot/stock.h"

/* fixed: the capacity for good; 0: adapt. */
void pcp_adapt_init(struct pcp_stock *stock, uint32_t fixed);

/* A miss on a slot. */
void pcp_adapt_miss(struct pcp_stock *stock, long index);

/* How many objects a refill of a slot may take from slabs, of those there is
 * room for. */
uint32_t pcp_adapt_fill(struct pcp_stock *stock, long index, uint32_t room);

/* Whether sheaves hold n objects, or do now that somebody wants that many. */
bool pcp_adapt_suffices(struct pcp_stock *stock, uint32_t n);

/* Since the last call there were misses, or none, or no use at all. */
enum pcp_use { PCP_USE_MISSES, PCP_USE_HITS, PCP_USE_NONE };
void pcp_adapt_relax(struct pcp_stock *stock, enum pcp_use use);

#endif /* PCP_SLOT_ADAPT_H */

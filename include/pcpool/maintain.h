/* SPDX-License-Identifier: MIT */
/*
 * Maintenance: what caches and regions hold more of than they lately needed goes
 * back, a little at a time, when the application says so.
 *
 * Nothing here runs by itself. A daemon calls pcpool_maintain() every second or
 * so from its loop, or when it has nothing else to do. "Lately" is the time
 * since the call before.
 *
 * References: the working-set trimming of FreeBSD UMA and of libumem's depot.
 */
#ifndef PCPOOL_MAINTAIN_H
#define PCPOOL_MAINTAIN_H

#include <pcpool/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Tend all caches, one after the other, going on where the last call ended:
 *   - link slabs that frees parked;
 *   - empty the stock of CPUs that did not touch it since the call before;
 *   - give back sheaves of barns and empty slabs that were not needed since
 *     then, destructing their objects;
 *   - let the capacity of sheaves and barns fall where CPUs no longer run out
 *     of stock: a cache that is idle is at the floor after two calls;
 *   - hand objects of idle CPUs that were given to pcpool_free_rcu() to the
 *     thread that waits for grace periods.
 * Then the per-CPU regions: pages that no region lay in at the call before and
 * since go back.
 *
 * budget: most steps of this call, 0 for no bound. A step is a slab released,
 *         with a destructor call for each built object; or a sheaf of a barn, or
 *         the up to three of a CPU, emptied into slabs; or adjacent free pages
 *         of the regions of 16 CPUs, of which the last go back together even if
 *         there are more CPUs than steps. Looking costs a few loads for each CPU
 *         and cache, and for each page of regions, besides.
 *
 * May call destructors, with no pcpool lock held. One thread at a time tends.
 *
 * Returns 0: all was seen. Or an errno value:
 *   EAGAIN   the budget was used up before the end; call again;
 *   EBUSY    another thread is at it, or this very thread (from a destructor);
 *   EPERM, ENOSYS, ENOMEM and others of membarrier(2): some CPUs' stock could
 *            not be emptied; everything else was done.
 */
int pcpool_maintain(unsigned int budget);

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_MAINTAIN_H */

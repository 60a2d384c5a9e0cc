/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees: an object goes back to its cache once every reader that may
 * have seen it has left, by the read-copy-update of liburcu.
 *
 * pcpool_free_rcu() costs what a free costs: the object goes into a sheaf of
 * the CPU, and full sheaves wait for a grace period together, on one thread of
 * the library. That thread starts with the first full sheaf, blocks all
 * signals, and sleeps when there is nothing to wait for.
 *
 * The flavour of RCU is the application's. A cache is told of it by the `rcu`
 * attribute, which is &rcu_flavor in a file that includes the flavour's header
 * (<urcu-qsbr.h> or another); NULL is that of liburcu-memb, which a plain
 * <urcu.h> gives.
 *
 *   what                     blocks?                      inside a reader?
 *   pcpool_free_rcu()        never                        yes
 *   pcpool_rcu_backlog()     on a lock of the library     yes
 *   pcpool_rcu_wait()        until readers have left      EDEADLK
 *   pcpool_rcu_barrier()     the same                     EDEADLK
 *   pcpool_cache_destroy()   the same, if pcpool_free_rcu()
 *                            or PCPOOL_TYPESAFE_BY_RCU
 *                            was ever used on it          EDEADLK
 *   pcpool_cache_shrink()    the same, if TYPESAFE        waits for nothing
 *
 * Where the library's thread cannot be had, waiting calls do its work, and then
 * run the destructors of a typesafe cache; they may overrun their time by that.
 *
 * "Inside a reader" is between the flavour's read lock and unlock. With QSBR a
 * thread that is online is no obstacle: it counts as quiescent while it waits.
 * Callers need not be registered with the flavour.
 *
 * Reference: the rcu_free sheaves and SLAB_TYPESAFE_BY_RCU of Linux SLUB.
 */
#ifndef PCPOOL_RCU_H
#define PCPOOL_RCU_H

#include <pcpool/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Give an object back after a grace period. The caller must have made sure that
 * no new reader can find it; readers that have it may go on reading. Until then
 * it is not handed out, and it is neither live nor cached: it counts as
 * rcu_backlog in the cache's statistics. Its destructor does not run.
 *
 * Never fails, never blocks, keeps errno, may be called inside a reader and
 * from any thread. obj may be NULL: nothing happens. Misuse is reported as by
 * pcpool_free(); an object freed twice, deferred or not, counts.
 */
void pcpool_free_rcu(struct pcpool_cache *cache, void *obj);

/**
 * Wait until every object given to pcpool_free_rcu() before this call, by any
 * thread and on any CPU, is free.
 *
 * Returns 0, or an errno value:
 *   EINVAL   cache is NULL;
 *   EDEADLK  called inside a reader, or on the thread that waits for grace
 *            periods (from a destructor it runs): nothing was waited for;
 *   ENOTRECOVERABLE  in a forked child: the flavour was in the middle of a
 *            grace period when the fork came and cannot be used any more;
 *   EPERM, ENOSYS, ENOMEM and others of membarrier(2): some CPU's objects could
 *            not be taken; those are not waited for.
 */
int pcpool_rcu_barrier(struct pcpool_cache *cache);

/**
 * How many objects are given to pcpool_free_rcu() and not free yet. Stale as
 * soon as it is returned. 0 for NULL.
 */
size_t pcpool_rcu_backlog(struct pcpool_cache *cache);

/**
 * Hold back a thread that defers frees faster than grace periods pass: wait
 * until the backlog is at most `backlog` objects, other than those still in
 * CPUs' part-filled sheaves, which nobody waits for.
 *
 * backlog:    objects; 0 for the bound the cache was created with.
 * timeout_ms: milliseconds, -1 for ever. 0 only asks.
 *
 * Returns 0, or an errno value:
 *   EINVAL     cache is NULL or timeout_ms is below -1;
 *   ETIMEDOUT  the backlog was larger still;
 *   EDEADLK, ENOTRECOVERABLE  as pcpool_rcu_barrier(), when it had to wait.
 */
int pcpool_rcu_wait(struct pcpool_cache *cache, size_t backlog, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_RCU_H */

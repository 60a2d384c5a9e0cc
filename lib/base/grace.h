/* SPDX-License-Identifier: MIT */
/*
 * Grace periods: work that runs once every reader of a flavour of liburcu's RCU
 * that was inside when the work was queued has left.
 *
 * One thread of the library, started with the first piece of work, takes all
 * that is queued, waits for one grace period of each flavour among it, and does
 * the work; then the next batch. So work that comes fast shares grace periods.
 * It lingers a moment before it begins, to gather more, unless it is hurried.
 * All signals are blocked in it, and it sleeps when there is nothing to do.
 *
 * Not liburcu's call_rcu(): its callers have to be registered, its thread is
 * lost in a forked child unless the application does something about it, and it
 * cannot be hurried (doc/rcu.md).
 *
 * A fork waits until no grace period is under way (for a second at most, and
 * not at all when the forking thread is itself inside a reader): liburcu's lock
 * would stay taken in the child. A child that was forked in the middle all the
 * same is *lost*: nothing deferred comes back there.
 */
#ifndef PCP_BASE_GRACE_H
#define PCP_BASE_GRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct rcu_flavor_struct;

/* Seconds a fork waits for a grace period under way. */
#define PCP_GRACE_FORK_WAIT_S 1U

/* A piece of work, part of whatever it is about. Whoever queues it makes sure
 * that it is not queued already: from the call of fn on it may be again. */
struct pcp_grace {
	struct pcp_grace *next;
	const struct rcu_flavor_struct *flavor;
	/* Before the grace period begins: what is gathered until here is covered
	 * by it. NULL: nothing to do. */
	void (*seal)(struct pcp_grace *grace);
	/* After it. No lock is held. */
	void (*fn)(struct pcp_grace *grace);
	/* fn may call the user: the thread is registered with the flavour then. */
	bool user_code;
	/* fn runs when those of all other work in its batch have: for barriers,
	 * since work that is queued again by its fn comes after a barrier that
	 * was queued meanwhile. */
	bool last;
};

/* The flavour of liburcu-memb. */
const struct rcu_flavor_struct *pcp_grace_default(void);

/* Fork handlers, once. */
void pcp_grace_init(void);

/* Never fails, never blocks, takes no lock. Release: pairs with the worker's
 * taking of the queue. To be followed by pcp_grace_kick(), outside of whatever
 * others wait for. */
void pcp_grace_queue(struct pcp_grace *grace);

/* Start the thread if there is work and it does not exist: the libc's work, with
 * malloc. */
void pcp_grace_kick(void);

/* What is queued shall not wait for more. Returns whether that was news. */
bool pcp_grace_hurry(void);

/* Whether this thread may wait for readers of the flavour: 0, or as below. */
int pcp_grace_may_wait(const struct rcu_flavor_struct *flavor);

/* Wait until everything that was queued before has been done. No lock held. 0,
 * or EDEADLK: called inside a reader or from work; or ENOTRECOVERABLE: lost in a
 * fork. */
int pcp_grace_barrier(const struct rcu_flavor_struct *flavor);

/* The same for a piece of work, queued or about to be by somebody: seals it, and
 * runs `finish` on it instead of fn, which is to do the same but not to say that
 * the work may be queued again. */
int pcp_grace_barrier_of(struct pcp_grace *work,
			 void (*finish)(struct pcp_grace *work));

/* Wait until `done(arg)`, which is asked again after each batch; until
 * CLOCK_MONOTONIC is at deadline_ns (UINT64_MAX: never). No lock held. As above,
 * and ETIMEDOUT. */
int pcp_grace_wait(const struct rcu_flavor_struct *flavor,
		   bool (*done)(void *arg), void *arg, uint64_t deadline_ns);

/* Batches done, for the statistics. */
uint64_t pcp_grace_batches(void);

#endif /* PCP_BASE_GRACE_H */

/* SPDX-License-Identifier: MIT */
/*
 * Mutexes with ranks: the library's whole lock order in one enum.
 *
 * A thread may take a lock only if its rank is higher than that of every lock
 * it holds (two of one rank only where the table says so). Debug builds check
 * it at every acquisition, and check that no lock at all is held when a user's
 * callback runs. Release builds pay nothing for it.
 */
#ifndef PCP_BASE_LOCK_H
#define PCP_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/compiler.h"

enum pcp_rank {
	PCP_RANK_FORK,	      /* one fork at a time walks the locks */
	PCP_RANK_GRACE,	      /* who waits for grace periods */
	PCP_RANK_REGISTRY,    /* the list of caches */
	PCP_RANK_DRAIN,	      /* a cache's drains and the life of its sheaves;
			       * fork takes those of all caches */
	PCP_RANK_LIST,	      /* a node's partial slabs; fork takes all */
	PCP_RANK_DEATH,	      /* a cache's queue of waiting slabs; same */
	PCP_RANK_SLABS,	      /* a cache's list of all slabs; same */
	PCP_RANK_COUNTER,     /* folds of per-CPU counters; fork takes all */
	PCP_RANK_PERCPU_GROW, /* search and population of chunks */
	PCP_RANK_PERCPU_MAP,  /* which bytes of a chunk are taken */
	PCP_RANK_LEDGER,      /* the tree of accounts */
	PCP_RANK_ARENA,	      /* which blocks of an arena are taken */
	PCP_RANK_COUNT
};

struct PCP_CAPABILITY pcp_lock {
	pthread_mutex_t mutex;
	enum pcp_rank rank;
};

#define PCP_LOCK_INIT(r) { PTHREAD_MUTEX_INITIALIZER, (r) }

void pcp_lock_init(struct pcp_lock *lock, enum pcp_rank rank);
void pcp_lock_destroy(struct pcp_lock *lock);

/* What debug builds note; a second lock of one rank only if nested. */
#if PCP_DEBUG
void pcp_note_acquire(const struct pcp_lock *lock, bool nested);
void pcp_note_leaf(const struct pcp_lock *lock);
void pcp_note_release(const struct pcp_lock *lock);
#else
static inline void pcp_note_acquire(const struct pcp_lock *lock, bool nested)
{
	(void)lock;
	(void)nested;
}
static inline void pcp_note_leaf(const struct pcp_lock *lock)
{
	(void)lock;
}
static inline void pcp_note_release(const struct pcp_lock *lock)
{
	(void)lock;
}
#endif

PCP_NO_TSA static inline void pcp_lock(struct pcp_lock *lock)
	PCP_ACQUIRES(lock)
{
	pcp_note_acquire(lock, false);
	pthread_mutex_lock(&lock->mutex);
}

PCP_NO_TSA static inline bool pcp_trylock(struct pcp_lock *lock)
	PCP_TRY_ACQUIRES(true, lock)
{
	if (pthread_mutex_trylock(&lock->mutex))
		return false;
	/* A try cannot deadlock, but is held to the order all the same. */
	pcp_note_acquire(lock, false);
	return true;
}

/* The same for who may be a signal handler that interrupted any holder, and
 * takes no lock under this one: not held to the order. */
PCP_NO_TSA static inline bool pcp_trylock_leaf(struct pcp_lock *lock)
	PCP_TRY_ACQUIRES(true, lock)
{
	if (pthread_mutex_trylock(&lock->mutex))
		return false;
	pcp_note_leaf(lock);
	return true;
}

PCP_NO_TSA static inline void pcp_unlock(struct pcp_lock *lock)
	PCP_RELEASES(lock)
{
	pcp_note_release(lock);
	pthread_mutex_unlock(&lock->mutex);
}

/* Between two looks at what another thread is a few instructions from ending,
 * unless it was preempted: sleeping lets it run whatever the priorities are. look
 * counts from 0. No cancellation point, for a lock may be held. */
void pcp_back_off(unsigned int look);

/* Fork: take a lock that may share its rank with others held by this thread,
 * and, in the child, make it a fresh unlocked one. */
void pcp_lock_nested(struct pcp_lock *lock) PCP_ACQUIRES(lock);
void pcp_lock_reinit(struct pcp_lock *lock) PCP_RELEASES(lock);

#if PCP_DEBUG
/* Aborts unless this thread holds a lock of this rank. */
void pcp_assert_held(enum pcp_rank rank);
/* Aborts if this thread holds any lock: stands before every callback. */
void pcp_assert_unlocked(void);
#else
static inline void pcp_assert_held(enum pcp_rank rank)
{
	(void)rank;
}
static inline void pcp_assert_unlocked(void)
{
}
#endif

#endif /* PCP_BASE_LOCK_H */

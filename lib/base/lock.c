/* SPDX-License-Identifier: MIT */
/*
 * Mutexes with ranks. In a debug build each thread keeps how many locks of
 * each rank it holds; that is the only per-thread state, and only there.
 */
#include <config.h>

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/report.h"

#if PCP_DEBUG
static __thread unsigned int held[PCP_RANK_COUNT];

void pcp_note_acquire(const struct pcp_lock *lock, bool nested)
{
	unsigned int limit = (unsigned int)lock->rank + (nested ? 1U : 0U);

	for (unsigned int rank = limit; rank < PCP_RANK_COUNT; rank++)
		if (held[rank])
			pcp_die(NULL, lock, __builtin_return_address(0),
				"lock of rank %d taken while rank %u is held",
				(int)lock->rank, rank);
	held[lock->rank]++;
}

void pcp_note_leaf(const struct pcp_lock *lock)
{
	held[lock->rank]++;
}

void pcp_note_release(const struct pcp_lock *lock)
{
	if (!held[lock->rank])
		pcp_die(NULL, lock, __builtin_return_address(0),
			"lock of rank %d released but not held",
			(int)lock->rank);
	held[lock->rank]--;
}

void pcp_assert_held(enum pcp_rank rank)
{
	if (!held[rank])
		pcp_die(NULL, NULL, __builtin_return_address(0),
			"a lock of rank %d should be held here", (int)rank);
}

void pcp_assert_unlocked(void)
{
	for (unsigned int rank = 0; rank < PCP_RANK_COUNT; rank++)
		if (held[rank])
			pcp_die(NULL, NULL, __builtin_return_address(0),
				"a callback runs with a lock of rank %u held",
				rank);
}
#endif

void pcp_back_off(unsigned int look)
{
	const struct timespec pause = { .tv_nsec = 50000 };

	if (look < 16)
		sched_yield();
	else
		/* Not the libc's, which is a cancellation point. */
		(void)syscall(SYS_nanosleep, &pause, NULL);
}

void pcp_lock_init(struct pcp_lock *lock, enum pcp_rank rank)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->rank = rank;
}

void pcp_lock_destroy(struct pcp_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

PCP_NO_TSA void pcp_lock_nested(struct pcp_lock *lock)
{
	pcp_note_acquire(lock, true);
	pthread_mutex_lock(&lock->mutex);
}

PCP_NO_TSA void pcp_lock_reinit(struct pcp_lock *lock)
{
	pcp_note_release(lock);
	/* The forking thread is this thread, so it owns the mutex and may
	 * unlock it; waiters that the parent had do not exist here. */
	pthread_mutex_unlock(&lock->mutex);
	pthread_mutex_init(&lock->mutex, NULL);
}

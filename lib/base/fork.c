/* SPDX-License-Identifier: MIT */
/* The library's fork handlers. See fork.h. */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/fork.h"
#include "base/lock.h"

static const struct pcp_fork_ops *levels[PCP_FORK_COUNT];

/* Rank PCP_RANK_FORK. Guards depth; held from prepare to parent or child. */
static struct pcp_lock fork_lock = PCP_LOCK_INIT(PCP_RANK_FORK);

/* The libc calls the handlers twice per fork in a child of a process that was
 * forked in the middle of pcp_fork_init(): the outermost pair counts. */
static uintptr_t forker; /* pthread_self() of the thread that forks; 0: none. One
			  * word, so that only that thread can take itself for
			  * it. */
static unsigned int depth;

static bool held_by_me(void)
{
	/* Only this thread can have made itself the owner. */
	return pcp_load(&forker) == (uintptr_t)pthread_self();
}

PCP_NO_TSA static void prepare(void)
{
	if (held_by_me()) {
		depth++;
		return;
	}
	pcp_lock(&fork_lock);
	pcp_store(&forker, (uintptr_t)pthread_self());
	depth = 1;
	for (int i = 0; i < PCP_FORK_COUNT; i++) {
		const struct pcp_fork_ops *ops = pcp_load_acquire(&levels[i]);

		if (ops && ops->prepare)
			ops->prepare();
	}
}

static void finish(bool child)
{
	for (int i = PCP_FORK_COUNT - 1; i >= 0; i--) {
		const struct pcp_fork_ops *ops = pcp_load_acquire(&levels[i]);
		void (*fn)(void) = NULL;

		if (ops)
			fn = child ? ops->child : ops->parent;
		if (fn)
			fn();
	}
}

PCP_NO_TSA static void parent(void)
{
	if (--depth)
		return;
	finish(false);
	pcp_store(&forker, (uintptr_t)0);
	pcp_unlock(&fork_lock);
}

PCP_NO_TSA static void child(void)
{
	if (--depth)
		return;
	finish(true);
	pcp_store(&forker, (uintptr_t)0);
	pcp_lock_reinit(&fork_lock);
}

/* A level entered between a prepare and its end would be released without
 * having been taken: levels are entered once, inside pcp_init(), and a fork by
 * another thread meanwhile waits here or comes first. */
void pcp_fork_register(enum pcp_fork_level level,
		       const struct pcp_fork_ops *ops)
{
	pcp_lock(&fork_lock);
	pcp_store_release(&levels[level], ops);
	pcp_unlock(&fork_lock);
}

/* Early, so that these handlers run outside of the application's, which may then
 * call in: prepare handlers run in reverse order of registration. What loads
 * this library later is too late for that. */
__attribute__((constructor(101))) static void register_early(void)
{
	(void)pcp_fork_init();
}

PCP_NO_TSA void pcp_fork_hold(void)
{
	pcp_lock(&fork_lock);
}

PCP_NO_TSA void pcp_fork_let(void)
{
	pcp_unlock(&fork_lock);
}

int pcp_fork_init(void)
{
	static bool done;
	int err;

	if (pcp_load(&done))
		return 0;
	err = pthread_atfork(prepare, parent, child);
	if (!err)
		pcp_store(&done, true);
	return err;
}

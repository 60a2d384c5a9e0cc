/* SPDX-License-Identifier: MIT */
/*
 * Fork: every lock of the library is taken before, in rank order, and is
 * released in the parent and made new in the child, so that the child works at
 * once whatever the parent's other threads were doing.
 *
 * Each floor that has locks enters its three handlers here; they run from the
 * highest floor down (prepare) and back up (parent, child), which is the order
 * of the ranks.
 */
#ifndef PCP_BASE_FORK_H
#define PCP_BASE_FORK_H

enum pcp_fork_level {
	PCP_FORK_GRACE,	 /* no grace period begins; waits with no other lock */
	PCP_FORK_CACHE,	 /* registry, drain, list, death, slabs */
	PCP_FORK_COUNTER,
	PCP_FORK_PERCPU, /* growth, map */
	PCP_FORK_LEDGER,
	PCP_FORK_ARENA,
	PCP_FORK_FENCE,	 /* no lock: the child registers anew */
	PCP_FORK_COUNT
};

struct pcp_fork_ops {
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
};

/* Called by the library's initialisation before it counts as done. ops must
 * live for ever. Entering the same level again replaces it. */
void pcp_fork_register(enum pcp_fork_level level,
		       const struct pcp_fork_ops *ops);

/* Enter the handlers at the libc, once. 0 or ENOMEM. */
int pcp_fork_init(void);

/* Forks by other threads wait in between: around calls of libraries whose own
 * locks a child would find taken. */
void pcp_fork_hold(void);
void pcp_fork_let(void);

#endif /* PCP_BASE_FORK_H */

/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees of a cache: what waits for a grace period, and gets it.
 *
 * Objects wait in rcu sheaves. A full one, or one that a drain took, is handed
 * over: it goes on the list `open`, and the cache's piece of work to the thread
 * that waits for readers (base/grace.h). Before a grace period the thread seals:
 * what is open becomes ripe. After it the ripe sheaves go to the barn whole, or
 * to the slabs. Where there is no sheaf the object is chained through its
 * slab's next[], and the slab put on `open_slabs`. Slabs of a typesafe cache wait
 * for their death in the same way.
 *
 * A barrier must cover sheaves on their way from a slot to `open`, and chains
 * whose slab is on its way to `open_slabs`: objects of other threads are in them.
 * So a hand-over is counted, in the count of the phase, before it begins, until
 * it is done. A barrier takes the sheaves from the slots, flips the phase, and
 * waits for the old count: whoever took a sheaf out of a slot before the barrier
 * came to it is in there. (Flipped before, a hand-over in the new phase might
 * still take one out of a slot the barrier has yet to close.) The phase is read
 * again after it was counted, so that a barrier which does not see the count is
 * not missed by the hand-over. Nothing waits between the two.
 *
 * Reference: rcu_free sheaves and their barrier in Linux SLUB; the two counts
 * are those of SRCU.
 */
#ifndef PCP_SLOT_DEFER_H
#define PCP_SLOT_DEFER_H

#include "base/grace.h"
#include "sheaf/sheaf.h"
#include "slab/slab.h"

struct pcp_stock;

enum pcp_defer_state { PCP_DEFER_IDLE, PCP_DEFER_QUEUED };

struct pcp_defer {
	/* What hand-overs write, once per sheaf. */
	uint32_t state PCP_ALIGNED(128); /* enum pcp_defer_state: whether grace
					  * is queued, or its fn will look */
	uint32_t phase;
	uint32_t handing[2];
	struct pcp_stack open_slabs;
	struct pcp_stack open_dying;
	struct pcp_sheaf *open; /* linked by their tails, taken whole */
	size_t pending;		/* objects handed over and not free */
	size_t peak;

	size_t bound; /* objects waiting that make a grace period hurry */
	struct pcp_grace grace;

	/* The runner's alone. */
	struct pcp_sheaf *ripe;
	struct pcp_slab *ripe_slabs;
	struct pcp_stack_node *ripe_dying;

	bool used; /* ever; so that a destroy need not wait in vain */
};

void pcp_defer_init(struct pcp_stock *stock,
		    const struct rcu_flavor_struct *flavor, size_t bound);

/* Around a hand-over: see above. Returns what the end takes. */
uint32_t pcp_defer_begin(struct pcp_defer *defer);
void pcp_defer_end(struct pcp_defer *defer, uint32_t phase);

/* Hand over a sheaf the caller owns, which sections no longer count on. */
void pcp_defer_sheaf(struct pcp_stock *stock, struct pcp_sheaf *sheaf,
		     unsigned int node);

/* One object the caller owns, past the slots. */
void pcp_defer_object(struct pcp_stock *stock, void *obj,
		      enum pcp_deferral how);

/* Slabs nobody else can reach die after a grace period. */
void pcp_defer_deaths(struct pcp_stock *stock, struct pcp_slab_link *dead);

/* Flip the phase. CONTEXT: drain lock held, until the wait is done. */
uint32_t pcp_defer_flip(struct pcp_defer *defer);
/* Wait for hand-overs of the old phase: each a few instructions from its end
 * unless it was preempted. */
void pcp_defer_await(struct pcp_defer *defer, uint32_t phase);

/* Queue what is open, if it is not. */
void pcp_defer_kick(struct pcp_defer *defer);

/* Wait until what is open is free. As pcp_grace_barrier(). */
int pcp_defer_barrier(struct pcp_defer *defer);

/* Whether nothing waits and the library's thread is done with it. */
bool pcp_defer_idle(struct pcp_defer *defer);

/* CONTEXT: in a forked child, drain and slabs lock held. */
void pcp_defer_fork_child(struct pcp_stock *stock);

#endif /* PCP_SLOT_DEFER_H */

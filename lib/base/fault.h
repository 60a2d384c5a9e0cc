/* SPDX-License-Identifier: MIT */
/*
 * Test builds only (PCP_FAULTS): places where a resource can be made to run
 * out, and hooks between the steps of a protocol that a test can widen.
 *
 * PCP_FAULT(point) is true when the step behind it shall fail; PCP_HOOK(hook)
 * calls what the test installed, outside sections and, unless its comment says
 * so, outside locks. In release builds both are nothing.
 */
#ifndef PCP_BASE_FAULT_H
#define PCP_BASE_FAULT_H

#include <stdbool.h>

#include "base/compiler.h"

enum pcp_fault_point {
	PCP_FAULT_META,	  /* malloc of metadata: sheaf, cache, barn */
	PCP_FAULT_RESERVE, /* address space for an arena or chunk */
	PCP_FAULT_COMMIT, /* making reserved pages usable */
	PCP_FAULT_SLAB,	  /* a block for a slab */
	PCP_FAULT_FENCE,  /* membarrier */
	PCP_FAULT_NO_FENCE, /* not a shortage: leave the fence out and say it
			     * was made, so that a test can show it notices */
	PCP_FAULT_BIND,	  /* mbind */
	PCP_FAULT_THREAD, /* pthread_create */
	PCP_FAULT_DISCARD, /* madvise: giving pages back */
	PCP_FAULT_COUNT
};

enum pcp_hook_id {
	PCP_HOOK_ALLOC_UNHOOKED_SPARE, /* owns what was the spare */
	PCP_HOOK_ALLOC_HOOK_MAIN,      /* about to hook a sheaf as main */
	PCP_HOOK_ALLOC_PUT_OLD,	       /* owns the replaced main; the id after
					* HOOK_MAIN's, here and below */
	PCP_HOOK_FREE_UNHOOKED_SPARE,
	PCP_HOOK_FREE_HOOK_MAIN,
	PCP_HOOK_FREE_PUT_OLD,
	PCP_HOOK_DRAIN_CLOSED,	/* main is CLOSED, no fence yet; drain lock */
	PCP_HOOK_DRAIN_FENCED,	/* fence done, main not re-read; drain lock */
	PCP_HOOK_DRAIN_TAKEN,	/* sheaves taken, slot not reopened; same */
	PCP_HOOK_BARN_RESERVED, /* a place is reserved, nothing pushed */
	PCP_HOOK_SLAB_TAKE,	/* word read and walked, CAS not done; perhaps
				 * with list_lock */
	PCP_HOOK_SLAB_GIVE,	/* chain linked, CAS not done */
	PCP_HOOK_LIST_LOCKED,	/* list_lock held */
	PCP_HOOK_GROW_UNPUBLISHED, /* a new slab nobody else can see */
	PCP_HOOK_PARK,		/* the lock was busy, the slab is not parked */
	PCP_HOOK_UNPARKED,	/* slabs taken off the park stack; list_lock */
	PCP_HOOK_BARN_JOIN,	/* owns what was the barn's partial sheaf */
	PCP_HOOK_BARN_THIRD,	/* owns the partial sheaf another was faster
				 * to put */
	PCP_HOOK_DEFER_RAISED,	/* hand-over counted, nothing unhooked yet */
	PCP_HOOK_DEFER_UNHOOKED, /* owns a full rcu sheaf, not queued yet */
	PCP_HOOK_DEFER_CHAINED,	/* first of a slab's chain, which is not yet
				 * queued */
	PCP_HOOK_DEFER_FREED,	/* all that was ripe is free, state is QUEUED */
	PCP_HOOK_GRACE_SEALED,	/* gathered, no grace period begun */
	PCP_HOOK_GRACE_BEGUN,	/* about to wait for readers */
	PCP_HOOK_BARRIER_FLIPPED, /* slots taken, phase changed; drain lock */
	PCP_HOOK_COUNTER_TAKEN,	/* a part taken away, not yet in the shared
				 * word; the counter's lock */
	PCP_HOOK_COUNT
};

#if PCP_FAULTS
/* Fail the nth passing of a point from now (1: the next); 0: never. With
 * every, fail each nth passing. */
void pcp_fault_set(enum pcp_fault_point point, unsigned long nth, bool every);
/* How often a point was passed since the last pcp_fault_set(). */
unsigned long pcp_fault_passed(enum pcp_fault_point point);
bool pcp_fault_hit(enum pcp_fault_point point);
/* Install what all hooks call; NULL takes it away. */
void pcp_hook_set(void (*fn)(enum pcp_hook_id id));
void pcp_hook_run(enum pcp_hook_id id);
/* "point/n" or "point%n" (every nth) of the fault: option. */
bool pcp_fault_parse(const char *text);
#define PCP_FAULT(point) pcp_unlikely(pcp_fault_hit(point))
#define PCP_HOOK(id) pcp_hook_run(id)
#else
#define PCP_FAULT(point) (false)
#define PCP_HOOK(id) ((void)(id))
#endif

#endif /* PCP_BASE_FAULT_H */

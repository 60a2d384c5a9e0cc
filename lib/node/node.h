/* SPDX-License-Identifier: MIT */
/*
 * A memory node's share of a cache: the list of partial slabs, and the queue of
 * empty ones that wait, still built, for their death or for reuse.
 *
 * What a free does, by what its slab was and becomes:
 *
 *   was -> becomes     on the list?  action
 *   partial -> partial either        swap only
 *   partial -> empty   no: held      lock, swap, unlock; the holder decides
 *   partial -> empty   yes           lock, swap; unlink and retire it when
 *                                    there are enough partials, else it stays
 *   full -> empty      no            retire it when there are enough, else as
 *                                    below
 *   full -> partial    no            try the lock: had, look again, link or
 *                                    retire; busy, park
 *
 * Objects are taken from a listed slab by whoever has the list_lock. A slab is
 * *held* by the thread that unlinked it to take all its objects, or that created
 * it, until that thread found it full or put it back. A full slab is
 * nobody's: the free whose swap saw "full" has to link it, and holds it until
 * then. Where the lock is busy it *parks* it instead, on a lock-free stack of the
 * node, and the next one who takes the lock to look for slabs links it in its
 * place; the stack is the holder until then. So at any time exactly one party
 * may link a slab, and only a slab that is linked, read under the lock, can be
 * unlinked for death.
 *
 * A free that would empty a partial slab takes the lock *before* its swap:
 * after it, a refill could take the slab, hand its objects out, and the late
 * locker would bury a live slab. And it reads on_list before its swap: after
 * it, a holder could take everything, give it all back and bury the slab, which
 * needs no lock, under the reader.
 *
 * Retired means: queued for death when the cache has a destructor (frees never
 * run user code), else collected for release by the caller, after the lock.
 */
#ifndef PCP_NODE_NODE_H
#define PCP_NODE_NODE_H

#include "base/lock.h"
#include "slab/slab.h"

struct pcp_node {
	/* Rank PCP_RANK_LIST. Guards partial, nr_partial, every on_list of the
	 * node's slabs, and their list links while they are linked. */
	struct pcp_lock list_lock;
	struct pcp_slab_link partial;
	/* Written under the lock; read without it where a stale value only
	 * costs a detour. */
	uint32_t nr_partial;
	uint32_t min_partial;
	bool parking; /* else frees wait for the lock */
	struct pcp_kind *kind;
	/* Rank PCP_RANK_DEATH, a leaf. Guards waiting and nr_waiting. */
	struct pcp_lock death_lock;
	struct pcp_slab_link waiting;
	uint32_t nr_waiting; /* also read without the lock, as a hint */
	uint32_t low;	     /* fewest waiting since pcp_node_unused_waiting() */
	uint32_t surplus;    /* that tending still has to release */
	/* Slabs to be linked, pushed by anyone, taken whole under the
	 * list_lock: a popped one might be unmapped under another popper. */
	struct pcp_stack parked;
} PCP_ALIGNED(128);

void pcp_node_init(struct pcp_node *node, struct pcp_kind *kind,
		   uint32_t min_partial);
void pcp_node_destroy(struct pcp_node *node);

/* Link or retire what is parked, as everyone does who looks for slabs: for a
 * caller that only wants it done. */
void pcp_node_unpark(struct pcp_node *node, struct pcp_slab_link *dead);

/* Take up to max objects from partial slabs. They may be unbuilt. Returns how
 * many. Takes the list_lock. Slabs that a free emptied meanwhile are retired
 * into *dead, as everywhere below. */
uint32_t pcp_node_take(struct pcp_node *node, uint32_t max, void **objs,
		       struct pcp_slab_link *dead);

/* Take up to max objects from waiting slabs, which are wholly built unless
 * they were never used in full. Takes the death lock, and the list_lock for
 * what is left over. */
uint32_t pcp_node_take_waiting(struct pcp_node *node, uint32_t max,
			       void **objs, struct pcp_slab_link *dead);

/* Create a slab and take up to max objects before anyone can see it. 0 with
 * errno ENOMEM. The rest is linked. No lock is held while it is born. */
uint32_t pcp_node_grow(struct pcp_node *node, unsigned int number,
		       uint32_t max, void **objs, struct pcp_slab_link *dead);

/* Give a chain back to its slab, which is of this node. */
void pcp_node_give(struct pcp_node *node, const struct pcp_chain *chain,
		   struct pcp_slab_link *dead);

/* Unlink empty slabs beyond `keep` from the list, and all waiting ones, into
 * *dead. Holds the list_lock for a bounded number of slabs at a time. */
void pcp_node_trim(struct pcp_node *node, uint32_t keep,
		   struct pcp_slab_link *dead);

/* Unlink all empty slabs from the list into *dead. Holds the lock likewise. */
void pcp_node_trim_empty(struct pcp_node *node, struct pcp_slab_link *dead);

/* The youngest waiting slab, whose memory is the warmest, now the caller's;
 * NULL: none. */
struct pcp_slab *pcp_node_pop_waiting(struct pcp_node *node);

/* The one that waits longest, the same. */
struct pcp_slab *pcp_node_pop_oldest(struct pcp_node *node);

/* Slabs that waited all the time since the last call. */
uint32_t pcp_node_unused_waiting(struct pcp_node *node);

/* Queue an empty slab nobody else can reach as waiting. */
void pcp_node_queue(struct pcp_node *node, struct pcp_slab *slab);

/* Take one built object from any partial or waiting slab. NULL: there is none.
 * Slow: looks through the free lists of all. The waiting ones become partial,
 * and wait again when a free empties them once more. */
void *pcp_node_take_built(struct pcp_node *node, struct pcp_slab_link *dead);

#endif /* PCP_NODE_NODE_H */

/* SPDX-License-Identifier: MIT */
/*
 * The stock of a cache: slots over barns over nodes over slabs.
 *
 * An allocation is served by the first of: the slot's main sheaf (a section);
 * its spare; a sheaf of the barn; a sheaf filled from partial slabs, from
 * waiting slabs, from a new slab; and, when nothing can be constructed, any
 * built object that can be found anywhere. A free goes to the main, the spare,
 * the barn, the slabs.
 *
 * A slot's pointers in rseq mode change only by a section on its own CPU
 * (pcp_slot_commit(), one word at a time), or by a drain that has closed and
 * fenced it. A thread owns a sheaf from the commit that unhooked it until the
 * commit that hooks it; between any two steps it may find itself on another
 * CPU, and then goes on with what it holds. doc/drain.md has the protocol.
 *
 * In lock mode `main` is CLOSED for ever, which sends every section to the slow
 * path, and `local` is what main is in rseq mode, guarded by `lock`. Alloc and
 * free only try that lock; only a drain waits for it. Every change of a sheaf
 * is one store there too, so that a forked child finds it whole.
 */
#ifndef PCP_SLOT_STOCK_H
#define PCP_SLOT_STOCK_H

#include "node/node.h"
#include "sheaf/barn.h"
#include "slab/build.h"
#include "slot/defer.h"

/* Whether tending is to empty a slot, and whether the drain at hand is to. */
enum pcp_trim { PCP_TRIM_NO, PCP_TRIM_IDLE, PCP_TRIM_NOW };

struct pcp_slot {
	struct pcp_sheaf *main;
	struct pcp_sheaf *spare;
	struct pcp_sheaf *rcu;
	struct pcp_sheaf *local;
	uint32_t lock; /* lock mode: guards spare, rcu, local and what local
			* holds; nothing is taken under it, no rank */
	/* For slot/adapt.h and slot/tend.c, on slow paths: hints that may get
	 * lost when a thread moves on in between. */
	uint32_t misses; /* since the window began */
	uint64_t window; /* operations when it began */
	uint64_t seen;	 /* what tending saw the last time */
	uint32_t fill;	 /* objects the next refill from slabs may take */
	uint8_t trim;	 /* enum pcp_trim; drain lock, as seen */
} PCP_ALIGNED(PCP_CACHELINE);

_Static_assert(sizeof(struct pcp_slot) == 1U << PCP_SLOT_SHIFT, "sections");
_Static_assert(offsetof(struct pcp_slot, main) == PCP_SLOT_MAIN, "sections");
_Static_assert(sizeof(void *) != 8 ||
		       (offsetof(struct pcp_slot, spare) == PCP_SLOT_SPARE &&
			offsetof(struct pcp_slot, rcu) == PCP_SLOT_RCU),
	       "sections");

/* For slot/tend.c, of the one thread that tends. */
struct pcp_tending {
	uint64_t misses, slow; /* what the last look saw */
	unsigned int use;      /* enum pcp_use, since the look before */
	bool pending;	       /* not all was given back yet */
	bool gathered;	       /* empty slabs are among what waits */
};

struct pcp_stock {
	struct pcp_kind kind;
	unsigned int nr_nodes;
	struct pcp_node *nodes;
	struct pcp_barn *barns; /* one per node */
	struct pcp_sheaves sheaves;
	bool bypass; /* a checking cache: its slots are never used */
	bool dying;  /* destroy runs destructors; no allocation any more */
	bool burying; /* a free runs destructors of waiting slabs */
	/* Sheaf capacities to choose from; equal: fixed. */
	uint32_t floor, ceiling;
	/* Rank PCP_RANK_DRAIN. Serialises drains; guards the freeing of
	 * sheaves and `drains`. Never held over a callback. */
	struct pcp_lock drain_lock;
	uint64_t drains; /* begun; also read without the lock */
	struct pcp_tending tending;
	struct pcp_defer defer;
	/* CLOSED for ever: slots -2 and -1, which the sections of pcpool/fast.h
	 * reach in a thread that is not registered. */
	struct pcp_slot nobody[2] PCP_ALIGNED(128);
	struct pcp_slot slots[] PCP_ALIGNED(128); /* pcp_index.nr_ids */
};

/* 0 or ENOMEM. kind's callbacks, flags and name are filled in. The memory is
 * zeroed and has room for pcp_index.nr_ids slots. capacity 0: adapted to use. To
 * be followed by pcp_defer_init(). */
int pcp_stock_init(struct pcp_stock *stock, size_t size, size_t align,
		   uint32_t capacity, uint32_t min_partial);

/* Frees everything but the slabs, which must be gone, and *stock itself. */
void pcp_stock_destroy(struct pcp_stock *stock);

/* One object past the slots, preferring a node. NULL with *err. */
void *pcp_stock_alloc(struct pcp_stock *stock, unsigned int node, int *err);

/* One object where the slot's main had none. NULL with *err. */
void *pcp_slot_alloc_slow(struct pcp_stock *stock, int *err);

/* Up to max built objects into objs[], from slabs, preferring a node. 0 with
 * *err: a constructor's value, or ENOMEM. */
uint32_t pcp_stock_fill(struct pcp_stock *stock, unsigned int node,
			uint32_t max, void **objs, int *err);

/* A sheaf of at least n objects that are the caller's to take, for a user to
 * hold. NULL with *err; then nothing was lost. */
struct pcp_sheaf *pcp_stock_prefill(struct pcp_stock *stock, uint32_t n,
				    int *err);

/* The same with a sheaf the user holds. Returns the one to go on with, which has
 * no fewer objects than before; *err is 0 or why it has less than n. */
struct pcp_sheaf *pcp_stock_refill(struct pcp_stock *stock,
				   struct pcp_sheaf *sheaf, uint32_t n,
				   int *err);

/* The user gives a sheaf back. */
void pcp_stock_return(struct pcp_stock *stock, struct pcp_sheaf *sheaf);

/* Last resort: any built object in partial and waiting slabs, barns and, by a
 * drain that concurrent failures share, slots. NULL: there is none. */
void *pcp_stock_find(struct pcp_stock *stock);

/* The same for an allocation, *err being why nothing could be built, and counts
 * how that ended. */
void *pcp_stock_search(struct pcp_stock *stock, int *err);

/* Objects the caller owns go back to their slabs, past slots and barns; objs[]
 * is reordered. Slabs to be released are added to *dead. */
void pcp_stock_give(struct pcp_stock *stock, size_t n, void **objs,
		    struct pcp_slab_link *dead);

/* One object whose slot's main had no room. */
void pcp_slot_free_slow(struct pcp_stock *stock, void *obj);

/* One object to be freed after a grace period, which the slot's rcu sheaf did
 * not take. */
void pcp_slot_defer_slow(struct pcp_stock *stock, void *obj);

/* Slabs nobody else can reach are destructed and released: now, or, in a typesafe
 * cache, after a grace period. */
void pcp_stock_kill(struct pcp_stock *stock, struct pcp_slab_link *dead);

/* Slabs of *dead wait, whatever the cache, until they serve again or are given
 * back. */
void pcp_stock_set_aside(struct pcp_stock *stock, struct pcp_slab_link *dead);

/* Slabs of *dead are released where there is no destructor. Else they join those
 * that wait, and if it may, this call destructs and releases what waits, unless
 * another is at it. */
void pcp_stock_bury(struct pcp_stock *stock, struct pcp_slab_link *dead,
		    bool may_run_dtors);

/* An empty sheaf of the capacity of now, from the barn, or new. NULL: no
 * memory. */
struct pcp_sheaf *pcp_stock_empty_sheaf(struct pcp_stock *stock,
					unsigned int node);

/* An empty sheaf the caller owns is exchanged if it does not fit any more and
 * another can be had. */
struct pcp_sheaf *pcp_stock_refit(struct pcp_stock *stock,
				  struct pcp_sheaf *sheaf);

/* A sheaf the caller owns goes to the barn of a node, or is emptied. */
void pcp_stock_put_sheaf(struct pcp_stock *stock, unsigned int node,
			 struct pcp_sheaf *sheaf, struct pcp_slab_link *dead);

/* Empty a sheaf the caller owns into the slabs. */
void pcp_stock_flush(struct pcp_stock *stock, struct pcp_sheaf *sheaf,
		     struct pcp_slab_link *dead);

/* Empty every slot into the slabs; what is deferred is handed over. 0, or an errno value when some slot could
 * not be fenced; what could be emptied was. */
int pcp_stock_drain(struct pcp_stock *stock, struct pcp_slab_link *dead);

/* The same for slots that are marked to be trimmed. */
int pcp_stock_drain_trimmed(struct pcp_stock *stock,
			    struct pcp_slab_link *dead);

/* The same for a cache that nobody else uses, which takes no fence. */
void pcp_stock_drain_idle(struct pcp_stock *stock, struct pcp_slab_link *dead);

/* The same as pcp_stock_drain() for slots that seem to hold objects, unless one
 * began after the caller read `seen` from stock->drains,
 * before it looked elsewhere: what slots held then has been moved. */
int pcp_stock_drain_shared(struct pcp_stock *stock, uint64_t seen,
			   struct pcp_slab_link *dead);

/* When it returns, every object deferred before this call waits for a grace period
 * that has not begun, or has had it. 0, or an errno value when some slot could
 * not be fenced. */
int pcp_stock_hand_over(struct pcp_stock *stock);

/* Empty the barns into the slabs and free what sheaves are not in use. */
void pcp_stock_empty_barns(struct pcp_stock *stock, struct pcp_slab_link *dead);

/* Slots for good: every call takes the slow path. Nobody uses the cache. */
void pcp_stock_close(struct pcp_stock *stock);

/* Reset slot locks in a forked child. */
void pcp_stock_fork_child(struct pcp_stock *stock);

#endif /* PCP_SLOT_STOCK_H */

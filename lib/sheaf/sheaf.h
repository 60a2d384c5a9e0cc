/* SPDX-License-Identifier: MIT */
/*
 * A sheaf: an array of built objects of one cache, and the set of all sheaves
 * of the cache.
 *
 * word holds the size in its low 16 bits and the number of allocations in the
 * rest, so that a section commits and counts with one store. Frees follow from
 * the size: what went in is what came out plus what the size grew by.
 *
 * A sheaf is hooked in a slot, kept in a barn, or owned by one thread. Its
 * fields are touched only by its owner, by sections of the slot whose main it
 * is, and (reads of word and base, for the books) by holders of the cache's
 * drain lock: sheaves are freed only under that lock.
 */
#ifndef PCP_SHEAF_SHEAF_H
#define PCP_SHEAF_SHEAF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "cpu/rseq.h"
#include "cpu/stat.h"

struct pcp_sheaf {
	uint64_t word;
	uint32_t capacity;
	int32_t base; /* size when it became a main; -1: it is none */
	void *objects[];
};

_Static_assert(offsetof(struct pcp_sheaf, word) == PCP_SHEAF_WORD, "sections");
_Static_assert(offsetof(struct pcp_sheaf, capacity) == PCP_SHEAF_CAPACITY,
	       "sections");
_Static_assert(sizeof(void *) != 8 || offsetof(struct pcp_sheaf, objects) ==
					      PCP_SHEAF_OBJECTS,
	       "sections");

/* Behind the objects, out of the hot line. */
struct pcp_sheaf_tail {
	struct pcp_sheaf *all;	/* next in the set */
	union {
		struct pcp_sheaf *next; /* in the retired list or a private
					 * one */
		const struct pcp_sheaves *set; /* it is of, while held: then it
						* is in no list */
	};
	bool dead;		/* being swept; drain lock */
	bool held;		/* a user has it, prefilled */
	bool oversize;		/* made for a user who wants more than any slot:
				 * must not get into a slot or barn */
	uint16_t node;		/* of the slot it was unhooked from, while it
				 * waits for a grace period */
};

/* Two sheaves of size 0 and capacity 0: empty and full at once, so that every
 * section refuses. EMPTY may be replaced by whoever is on its slot; CLOSED only
 * by the drain that put it there. Read-only, so that a stray store shows. */
extern PCP_HIDDEN const struct pcp_sheaf pcp_sheaf_empty, pcp_sheaf_closed;
#define PCP_EMPTY ((struct pcp_sheaf *)(uintptr_t)&pcp_sheaf_empty)
#define PCP_CLOSED ((struct pcp_sheaf *)(uintptr_t)&pcp_sheaf_closed)

static inline bool pcp_is_sentinel(const struct pcp_sheaf *sheaf)
{
	return sheaf == PCP_EMPTY || sheaf == PCP_CLOSED;
}

/* The following are for the owner of a sheaf. */
static inline uint32_t pcp_sheaf_size(const struct pcp_sheaf *sheaf)
{
	return (uint32_t)(pcp_load(&sheaf->word) & PCP_SHEAF_SIZE_MASK);
}

static inline bool pcp_sheaf_full(const struct pcp_sheaf *sheaf)
{
	return pcp_sheaf_size(sheaf) == sheaf->capacity;
}

static inline uint32_t pcp_sheaf_room(const struct pcp_sheaf *sheaf)
{
	return sheaf->capacity - pcp_sheaf_size(sheaf);
}

static inline void pcp_sheaf_set_size(struct pcp_sheaf *sheaf, uint32_t size)
{
	uint64_t word = pcp_load(&sheaf->word);

	pcp_store(&sheaf->word,
		  (word & ~(uint64_t)PCP_SHEAF_SIZE_MASK) | size);
}

/* The sheaf is not empty. */
static inline void *pcp_sheaf_pop(struct pcp_sheaf *sheaf)
{
	uint32_t size = pcp_sheaf_size(sheaf);

	pcp_sheaf_set_size(sheaf, size - 1);
	return sheaf->objects[size - 1];
}

/* The sheaf is not full. */
static inline void pcp_sheaf_push(struct pcp_sheaf *sheaf, void *obj)
{
	uint32_t size = pcp_sheaf_size(sheaf);

	sheaf->objects[size] = obj;
	pcp_sheaf_set_size(sheaf, size + 1);
}

static inline struct pcp_sheaf_tail *pcp_sheaf_tail(struct pcp_sheaf *sheaf)
{
	return (struct pcp_sheaf_tail *)(void *)&sheaf
		->objects[sheaf->capacity];
}

/* The owner is about to hook it as a main: count from here. */
static inline void pcp_sheaf_begin(struct pcp_sheaf *sheaf)
{
	pcp_store(&sheaf->base, (int32_t)pcp_sheaf_size(sheaf));
}

/* Allocations and frees that sections made on it since pcp_sheaf_begin(). */
static inline void pcp_sheaf_counts(const struct pcp_sheaf *sheaf,
				    uint64_t *allocs, uint64_t *frees)
{
	uint64_t word = pcp_load(&sheaf->word);
	int32_t base = pcp_load(&sheaf->base);

	*allocs = word >> PCP_SHEAF_ALLOC_SHIFT;
	*frees = *allocs + (word & PCP_SHEAF_SIZE_MASK) - (uint64_t)base;
	if (base < 0)
		*allocs = *frees = 0;
}

/* The owner has unhooked a main: move its counts to the books, of the slot it was
 * in; or of the caller's. */
void pcp_sheaf_end_in(struct pcp_sheaf *sheaf, struct pcp_stat *stat,
		      unsigned int slot);

static inline void pcp_sheaf_end(struct pcp_sheaf *sheaf, struct pcp_stat *stat)
{
	pcp_sheaf_end_in(sheaf, stat, pcp_this_slot());
}

/* The set of all sheaves of a cache. */
struct pcp_sheaves {
	struct pcp_sheaf *all;	   /* pushed to by anyone; unlinked from under
				    * the drain lock */
	struct pcp_sheaf *retired; /* empty, to be used again or freed; taken
				    * whole, so that no node is popped */
	struct pcp_sheaf *misfits; /* empty, of another capacity, to be freed */
	uint32_t nr_misfits;	   /* about how many */
	struct pcp_stat *stat;
	uint32_t capacity; /* of sheaves made now; slots and barns may still
			    * have smaller and larger ones */
};

/* Whether it is as large as sheaves are now. */
static inline bool pcp_sheaf_fits(const struct pcp_sheaves *set,
				  const struct pcp_sheaf *sheaf)
{
	return sheaf->capacity == pcp_load(&set->capacity);
}

/* An empty sheaf, owned by the caller: a retired one, or new. NULL: no
 * memory. */
struct pcp_sheaf *pcp_sheaf_new(struct pcp_sheaves *set);

/* The same for at least `capacity` objects, for a user. */
struct pcp_sheaf *pcp_sheaf_new_oversize(struct pcp_sheaves *set,
					 uint32_t capacity);

/* Move objects from one sheaf to another, both the caller's, as many as fit. */
void pcp_sheaf_move(struct pcp_sheaf *to, struct pcp_sheaf *from);

/* The owner gives up an empty sheaf. Takes no lock. */
void pcp_sheaf_retire(struct pcp_sheaves *set, struct pcp_sheaf *sheaf);

/* CONTEXT: drain lock held. Free all retired sheaves. */
void pcp_sheaves_sweep(struct pcp_sheaves *set);

/* CONTEXT: the same. Free those that will not be used again. */
void pcp_sheaves_sweep_misfits(struct pcp_sheaves *set);

/* Free every sheaf of a cache that is going away. */
void pcp_sheaves_free_all(struct pcp_sheaves *set);

/* CONTEXT: drain lock held. Number and bytes of all sheaves, and what sections
 * counted on those that are mains now. */
struct pcp_sheaves_sum {
	uint64_t sheaves, bytes, allocs, frees;
	uint64_t held; /* sheaves that users have */
	uint64_t held_objects;
};
void pcp_sheaves_sum(const struct pcp_sheaves *set,
		     struct pcp_sheaves_sum *sum);

#endif /* PCP_SHEAF_SHEAF_H */

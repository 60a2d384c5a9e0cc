/* SPDX-License-Identifier: MIT */
/*
 * One slab: its free objects, and what all slabs of a cache share.
 *
 * The free objects form a list of indexes in next[]. Its head, the number of
 * objects that are out, and a tag live in one 64-bit word, so that taking all,
 * taking some and giving a chain back are one compare-and-swap each and need
 * no lock. The tag grows with every successful swap, so that a word that was
 * changed and changed back is not mistaken for the old one.
 *
 * Who may touch what:
 *   word        anyone, by the functions here
 *   next[i]     the owner of object i, until its swap gives the object back;
 *               then the one who may take from the slab (node.h)
 *   built bit   the owner of object i
 *   on_list     under the node's list_lock
 *   all links   under the cache's slabs lock
 * The owner of an object is whoever took it and has not given it back: a
 * caller, a sheaf, or a thread inside the library.
 */
#ifndef PCP_SLAB_SLAB_H
#define PCP_SLAB_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include <pcpool/cache.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "cpu/stat.h"
#include "slab/layout.h"

/* Values of next[] that are no index. */
#define PCP_INDEX_END 0xffffU /* end of the free list */
#define PCP_INDEX_OUT 0xfffeU /* the object is out */

struct pcp_slab_link {
	struct pcp_slab_link *prev, *next;
};

struct pcp_slab {
	uint64_t word;
	uintptr_t magic;	    /* says that a slab begins here */
	struct pcp_kind *kind;	    /* whose it is */
	uint16_t node;		    /* memory node */
	bool on_list;		    /* linked in the node's partial list */
	uint32_t barren;	    /* tag of the word when a search found no
				     * built object here; under list_lock */
	struct pcp_slab_link list;  /* partial list, death queue, or a private
				     * list of whoever holds the slab */
	struct pcp_slab_link all;   /* every slab of the cache */
	struct pcp_stack_node park; /* in the node's park stack; of a slab that
				     * is out of reach, among the dying */
	/* Deferred frees (slot/defer.h). */
	struct pcp_stack_node defer; /* in the cache's stack of slabs with a
				      * chain */
	uint64_t chain;		     /* two chains of objects, by swap */
	uint64_t ripe;		     /* the same, past their grace period */
	struct pcp_slab *next_ripe;
	void **regions; /* of declared fields (fields.h), or NULL */
	struct pcpool_account **owners; /* who is charged for each object that
					 * is out; its holder's; or NULL */
	uint16_t next[] PCP_ALIGNED(PCP_SLAB_HEADER);
};

_Static_assert(offsetof(struct pcp_slab, next) == PCP_SLAB_HEADER,
	       "layout.h reserves the header");

/* A thread that runs callbacks of a cache, on its stack. */
struct pcp_busy {
	struct pcp_busy *next, **link;
	pthread_t thread;
};

/* What the slabs of one cache have in common: shape, callbacks, books. */
struct pcp_kind {
	struct pcp_layout layout;
	struct pcp_fields *fields; /* declared per-CPU fields, or NULL */
	pcpool_ctor_fn ctor;
	pcpool_dtor_fn dtor;
	pcpool_reset_fn reset;
	void *arg;
	unsigned int flags; /* PCPOOL_DTOR_ON_FREE, PCPOOL_CHECK */
	const char *name;
	uint64_t random; /* seed for the next slab */
	uint16_t *order; /* of objects, begun anywhere; or not yet made */
	struct pcp_stat stat;
	/* Rank PCP_RANK_SLABS, a leaf. Guards all, nr_slabs and busy. */
	struct pcp_lock slabs_lock;
	struct pcp_slab_link all;
	uint64_t nr_slabs;
	struct pcp_busy *busy; /* threads inside callbacks */
};

/* Private lists of slabs. */
static inline void pcp_slabs_init(struct pcp_slab_link *head)
{
	head->prev = head->next = head;
}

static inline bool pcp_slabs_empty(const struct pcp_slab_link *head)
{
	return head->next == head;
}

static inline void pcp_slabs_add_tail(struct pcp_slab_link *head,
				      struct pcp_slab_link *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

static inline void pcp_slabs_del(struct pcp_slab_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

static inline struct pcp_slab *pcp_slab_of_list(struct pcp_slab_link *link)
{
	return pcp_container_of(link, struct pcp_slab, list);
}

/* Move all of src to the tail of dst. */
void pcp_slabs_splice(struct pcp_slab_link *dst, struct pcp_slab_link *src);

/* The word. */
static inline uint32_t pcp_word_head(uint64_t word)
{
	return (uint32_t)(word & 0xffff);
}

static inline uint32_t pcp_word_inuse(uint64_t word)
{
	return (uint32_t)(word >> 16 & 0xffff);
}

static inline uint32_t pcp_word_tag(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline uint64_t pcp_word_next(uint64_t word, uint32_t head,
				     uint32_t inuse)
{
	uint64_t tag = (word >> 32) + 1;

	return tag << 32 | (uint64_t)inuse << 16 | head;
}

/* The built bit of an object; without a bitmap all count as built. */
static inline uint64_t *pcp_built_word(struct pcp_slab *slab, uint32_t index)
{
	return (uint64_t *)(void *)((char *)slab + slab->kind->layout.built) +
	       index / 64;
}

static inline bool pcp_is_built(struct pcp_slab *slab, uint32_t index)
{
	if (!slab->kind->layout.built)
		return true;
	return pcp_load(pcp_built_word(slab, index)) >> (index % 64) & 1;
}

static inline uint32_t pcp_slab_inuse(const struct pcp_slab *slab)
{
	return pcp_word_inuse(pcp_load_acquire(&slab->word));
}

static inline void *pcp_slab_object(const struct pcp_slab *slab,
				    uint32_t index)
{
	const struct pcp_layout *layout = &slab->kind->layout;

	return (char *)(uintptr_t)slab + layout->first +
	       index * layout->stride;
}

static inline struct pcp_slab *pcp_slab_of(const struct pcp_kind *kind,
					   const void *obj)
{
	return (struct pcp_slab *)((uintptr_t)obj &
				   ~(uintptr_t)(kind->layout.slab_size - 1));
}

/* The index of an object known to be of this slab. */
static inline uint32_t pcp_slab_index(const struct pcp_slab *slab,
				      const void *obj)
{
	const struct pcp_layout *layout = &slab->kind->layout;

	return pcp_layout_index(layout, (size_t)((const char *)obj -
						 (const char *)slab) -
						layout->first);
}

/* The index of an object by its address in a slab that is known to be one of
 * this layout; false when no object starts there. */
static inline bool pcp_slab_locate(const struct pcp_layout *layout,
				   const struct pcp_slab *slab,
				   const void *obj, uint32_t *index)
{
	size_t offset = (size_t)((const char *)obj - (const char *)slab) -
			layout->first;

	/* In the tables the offset wraps to something huge. */
	if (pcp_unlikely(offset >= layout->slab_size))
		return false;
	*index = pcp_layout_index(layout, offset);
	return *index < layout->objects && *index * layout->stride == offset;
}

/* The slab of a pointer of unknown origin, or NULL when it is not the start of
 * an object of this cache. Takes no lock, touches no memory that may be
 * unmapped. *index is the object's. */
struct pcp_slab *pcp_slab_check(const struct pcp_kind *kind, const void *obj,
				uint32_t *index);

/* 0 or ENOMEM. The caller has filled the callbacks, name, flags and fields, of
 * which the last are the kind's from here on, whatever it returns. */
int pcp_kind_init(struct pcp_kind *kind, size_t size, size_t align);
void pcp_kind_destroy(struct pcp_kind *kind);

/* A new slab with all objects unbuilt, in the cache's list of all slabs, seen
 * by nobody else. The first `max` objects, or all there are, are the caller's,
 * in objs[]; the others are free. NULL with errno ENOMEM. Takes the arena's and
 * the slabs lock. */
struct pcp_slab *pcp_slab_create(struct pcp_kind *kind, unsigned int node,
				 uint32_t max, void **objs);

/* Release a slab that nobody else can reach and that has no built object. */
void pcp_slab_release(struct pcp_slab *slab);

/* Take up to max free objects. Returns how many; objs[] gets pointers. The
 * caller owns them then. *full: the swap left no free object. Acquire: pairs
 * with the release of a give. */
uint32_t pcp_slab_take(struct pcp_slab *slab, uint32_t max, void **objs,
		       bool *full);

/* A chain of objects of one slab, linked through next[]. */
struct pcp_chain {
	struct pcp_slab *slab;
	uint32_t first, last, count;
};

_Noreturn PCP_COLD void pcp_chain_die(const struct pcp_slab *slab,
				      uint32_t index);

/* Deferred objects of a slab: two chains in one word, of objects to be freed and
 * to be discarded. Each half is the head in its low 16 bits, the number of
 * objects in the others. */
enum pcp_deferral { PCP_DEFER_FREE, PCP_DEFER_DISCARD };

/* Defer an object the caller owns: one swap, release. Returns whether it is the
 * first, so that the caller has to see to the slab. Aborts when the object is
 * free or deferred already. */
bool pcp_slab_defer(struct pcp_slab *slab, uint32_t index,
		    enum pcp_deferral how);

/* In a forked child: what is ripe goes in front of what is deferred. */
void pcp_slab_defer_again(struct pcp_slab *slab);

/* Objects in both chains of a word. */
static inline uint32_t pcp_chained(uint64_t word)
{
	return (uint32_t)((word >> 16 & 0xffff) + (word >> 48));
}

/* Take one of a word's chains, whole. Its count may be 0. */
struct pcp_chain pcp_slab_deferred(struct pcp_slab *slab, uint64_t word,
				   enum pcp_deferral how);

/* Mark an object the caller owns as free, with `next` after it. Aborts with a
 * message when it is free already. */
static inline void pcp_chain_link(struct pcp_slab *slab, uint32_t index,
				  uint32_t next)
{
	if (pcp_unlikely(pcp_load(&slab->next[index]) != PCP_INDEX_OUT))
		pcp_chain_die(slab, index);
	pcp_store(&slab->next[index], (uint16_t)next);
}

/* Add such an object to a chain. */
static inline void pcp_chain_add(struct pcp_chain *chain, uint32_t index)
{
	/* Linked in front: what chain->first was comes next. The last one's
	 * link is set when the chain is given. */
	pcp_chain_link(chain->slab, index,
		       chain->count ? chain->first : PCP_INDEX_END);
	if (!chain->count)
		chain->last = index;
	chain->first = index;
	chain->count++;
}

/* Give a chain back if the word is still *word: one swap, release. On success
 * *word is what it was and true is returned; else *word is what it is now. */
bool pcp_slab_give(const struct pcp_chain *chain, uint64_t *word);

/* Take the first built free object. Only for a slab of which the caller alone
 * takes: links then only change in front. NULL when there is none. What lay
 * before it was taken with it and is left in *rest, to be given back. */
void *pcp_slab_take_built(struct pcp_slab *slab, struct pcp_chain *rest,
			  bool *full);

/* Objects out of their slabs, over all slabs. Takes the slabs lock. */
uint64_t pcp_kind_inuse(struct pcp_kind *kind);

#endif /* PCP_SLAB_SLAB_H */

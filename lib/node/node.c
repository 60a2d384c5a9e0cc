/* SPDX-License-Identifier: MIT */
/* A memory node's share of a cache. See node.h. */
#include <config.h>

#include "base/fault.h"
#include "base/options.h"
#include "node/node.h"

/* Slabs looked at per hold of the list_lock where all have to be. */
#define SLABS_PER_HOLD 64U

void pcp_node_init(struct pcp_node *node, struct pcp_kind *kind,
		   uint32_t min_partial)
{
	pcp_lock_init(&node->list_lock, PCP_RANK_LIST);
	pcp_slabs_init(&node->partial);
	node->nr_partial = 0;
	node->min_partial = min_partial;
	node->kind = kind;
	pcp_lock_init(&node->death_lock, PCP_RANK_DEATH);
	pcp_slabs_init(&node->waiting);
	node->nr_waiting = 0;
	node->low = 0;
	node->parking = !pcp_options.no_parking;
	pcp_stack_init(&node->parked);
}

void pcp_node_destroy(struct pcp_node *node)
{
	pcp_lock_destroy(&node->list_lock);
	pcp_lock_destroy(&node->death_lock);
}

static void list_lock(struct pcp_node *node) PCP_ACQUIRES(&node->list_lock)
{
	if (!pcp_trylock(&node->list_lock)) {
		pcp_lock(&node->list_lock);
		pcp_stat_inc(&node->kind->stat, PCP_STAT_LIST_LOCK_CONTENDED);
	}
	pcp_stat_inc(&node->kind->stat, PCP_STAT_LIST_LOCK);
	PCP_HOOK(PCP_HOOK_LIST_LOCKED);
}

static bool list_trylock(struct pcp_node *node)
	PCP_TRY_ACQUIRES(true, &node->list_lock)
{
	if (!pcp_trylock(&node->list_lock)) {
		pcp_stat_inc(&node->kind->stat, PCP_STAT_LIST_LOCK_CONTENDED);
		return false;
	}
	pcp_stat_inc(&node->kind->stat, PCP_STAT_LIST_LOCK);
	PCP_HOOK(PCP_HOOK_LIST_LOCKED);
	return true;
}

static void list_unlock(struct pcp_node *node) PCP_RELEASES(&node->list_lock)
{
	pcp_unlock(&node->list_lock);
}

/* CONTEXT: list_lock held. */
static void link_locked(struct pcp_node *node, struct pcp_slab *slab)
	PCP_REQUIRES(&node->list_lock)
{
	pcp_assert_held(PCP_RANK_LIST);
	slab->on_list = true;
	pcp_slabs_add_tail(&node->partial, &slab->list);
	pcp_store(&node->nr_partial, node->nr_partial + 1);
	pcp_stat_inc(&node->kind->stat, PCP_STAT_ADD_PARTIAL);
}

/* CONTEXT: list_lock held. */
static void unlink_locked(struct pcp_node *node, struct pcp_slab *slab)
	PCP_REQUIRES(&node->list_lock)
{
	pcp_assert_held(PCP_RANK_LIST);
	slab->on_list = false;
	pcp_slabs_del(&slab->list);
	pcp_store(&node->nr_partial, node->nr_partial - 1);
	pcp_stat_inc(&node->kind->stat, PCP_STAT_REMOVE_PARTIAL);
}

static bool enough_partials(const struct pcp_node *node)
{
	return pcp_load(&node->nr_partial) >= node->min_partial;
}

/* A slab that is empty, not linked, and the caller's. */
static void retire(struct pcp_node *node, struct pcp_slab *slab,
		   struct pcp_slab_link *dead)
{
	if (!node->kind->dtor || node->kind->flags & PCPOOL_DTOR_ON_FREE) {
		pcp_slabs_add_tail(dead, &slab->list);
		return;
	}
	pcp_node_queue(node, slab);
}

void pcp_node_queue(struct pcp_node *node, struct pcp_slab *slab)
{
	pcp_lock(&node->death_lock);
	pcp_slabs_add_tail(&node->waiting, &slab->list);
	pcp_store(&node->nr_waiting, node->nr_waiting + 1);
	pcp_unlock(&node->death_lock);
	pcp_stat_inc(&node->kind->stat, PCP_STAT_OTHER_LOCK);
}

/* CONTEXT: list_lock held. A slab the caller holds, which has a free object, is
 * linked; or retired when it is empty and there are enough. */
static void settle_locked(struct pcp_node *node, struct pcp_slab *slab,
			  struct pcp_slab_link *dead)
	PCP_REQUIRES(&node->list_lock)
{
	pcp_assert_held(PCP_RANK_LIST);
	/* Held, so nothing but a give can have happened to it meanwhile. */
	if (!pcp_slab_inuse(slab) && enough_partials(node))
		retire(node, slab, dead);
	else
		link_locked(node, slab);
}

/* CONTEXT: list_lock held. Before any look at the list, or parked slabs would be
 * grown past for ever. */
static void unpark_locked(struct pcp_node *node, struct pcp_slab_link *dead)
	PCP_REQUIRES(&node->list_lock)
{
	struct pcp_stack_node *parked, *next;
	uint64_t count = 0;

	pcp_assert_held(PCP_RANK_LIST);
	if (pcp_stack_seems_empty(&node->parked))
		return;
	parked = pcp_stack_take_all(&node->parked);
	PCP_HOOK(PCP_HOOK_UNPARKED);
	for (; parked; parked = next, count++) {
		next = pcp_stack_next_taken(parked);
		settle_locked(node, pcp_container_of(parked, struct pcp_slab,
						     park), dead);
	}
	if (count) {
		pcp_stat_shared(&node->kind->stat, 1);
		pcp_stat_inc(&node->kind->stat, PCP_STAT_UNPARK_EVENT);
		pcp_stat_add(&node->kind->stat, PCP_STAT_UNPARK_SLAB, count);
	}
}

void pcp_node_unpark(struct pcp_node *node, struct pcp_slab_link *dead)
{
	if (pcp_stack_seems_empty(&node->parked))
		return;
	list_lock(node);
	unpark_locked(node, dead);
	list_unlock(node);
}

static void put_back(struct pcp_node *node, struct pcp_slab *slab,
		     struct pcp_slab_link *dead)
{
	list_lock(node);
	settle_locked(node, slab, dead);
	list_unlock(node);
}

/* Take from a slab the caller holds. The swap that leaves nothing free ends the
 * hold: from then on the slab is the next free's to link. */
static uint32_t take_held(struct pcp_node *node, struct pcp_slab *slab,
			  uint32_t max, void **objs,
			  struct pcp_slab_link *dead)
{
	bool full;
	uint32_t count = pcp_slab_take(slab, max, objs, &full);

	if (!full)
		put_back(node, slab, dead);
	return count;
}

uint32_t pcp_node_take(struct pcp_node *node, uint32_t max, void **objs,
		       struct pcp_slab_link *dead)
{
	uint32_t objects = node->kind->layout.objects;
	uint32_t count = 0, expected = 0;
	struct pcp_slab_link held;

	/* Stale is fine: whoever finds nothing grows, and another finds what
	 * was linked meanwhile. */
	if (!pcp_load(&node->nr_partial) &&
	    pcp_stack_seems_empty(&node->parked))
		return 0;
	pcp_slabs_init(&held);
	list_lock(node);
	unpark_locked(node, dead);
	while (expected < max && !pcp_slabs_empty(&node->partial)) {
		struct pcp_slab *slab = pcp_slab_of_list(node->partial.next);
		uint32_t free = objects - pcp_slab_inuse(slab);

		if (free > max - expected) {
			/* Some stay behind, and the slab stays listed: no
			 * second hold of the lock, and no moment in which
			 * others find nothing. */
			bool full;

			count = pcp_slab_take(slab, max - expected, objs,
					      &full);
			break;
		}
		unlink_locked(node, slab);
		pcp_slabs_add_tail(&held, &slab->list);
		expected += free;
	}
	list_unlock(node);
	while (!pcp_slabs_empty(&held)) {
		struct pcp_slab *slab = pcp_slab_of_list(held.next);

		pcp_slabs_del(&slab->list);
		if (count < max)
			count += take_held(node, slab, max - count,
					   objs + count, dead);
		else
			put_back(node, slab, dead);
	}
	return count;
}

static struct pcp_slab *pop_waiting(struct pcp_node *node, bool oldest)
{
	struct pcp_slab *slab = NULL;

	if (!pcp_load(&node->nr_waiting))
		return NULL;
	pcp_lock(&node->death_lock);
	if (!pcp_slabs_empty(&node->waiting)) {
		slab = pcp_slab_of_list(oldest ? node->waiting.next
					       : node->waiting.prev);
		pcp_slabs_del(&slab->list);
		pcp_store(&node->nr_waiting, node->nr_waiting - 1);
		if (node->nr_waiting < node->low)
			node->low = node->nr_waiting;
	}
	pcp_unlock(&node->death_lock);
	pcp_stat_inc(&node->kind->stat, PCP_STAT_OTHER_LOCK);
	return slab;
}

struct pcp_slab *pcp_node_pop_waiting(struct pcp_node *node)
{
	return pop_waiting(node, false);
}

struct pcp_slab *pcp_node_pop_oldest(struct pcp_node *node)
{
	return pop_waiting(node, true);
}

uint32_t pcp_node_unused_waiting(struct pcp_node *node)
{
	uint32_t low;

	pcp_lock(&node->death_lock);
	low = node->low;
	node->low = node->nr_waiting;
	pcp_unlock(&node->death_lock);
	return low;
}

uint32_t pcp_node_take_waiting(struct pcp_node *node, uint32_t max,
			       void **objs, struct pcp_slab_link *dead)
{
	struct pcp_slab *slab = pcp_node_pop_waiting(node);

	return slab ? take_held(node, slab, max, objs, dead) : 0;
}

uint32_t pcp_node_grow(struct pcp_node *node, unsigned int number,
		       uint32_t max, void **objs, struct pcp_slab_link *dead)
{
	uint32_t objects = node->kind->layout.objects;
	struct pcp_slab *slab = pcp_slab_create(node->kind, number, max, objs);

	if (!slab)
		return 0;
	if (max >= objects)
		return objects;
	put_back(node, slab, dead);
	return max;
}

/* The slab was full and is the caller's now, partial or empty. */
static void link_or_retire(struct pcp_node *node, struct pcp_slab *slab,
			   bool empty, struct pcp_slab_link *dead)
{
	if (empty && enough_partials(node)) {
		retire(node, slab, dead);
	} else if (!node->parking) {
		put_back(node, slab, dead);
	} else if (list_trylock(node)) {
		settle_locked(node, slab, dead);
		list_unlock(node);
	} else {
		PCP_HOOK(PCP_HOOK_PARK);
		/* The slab is the stack's with this push: not touched after. */
		pcp_stat_inc(&node->kind->stat, PCP_STAT_PARK_SLAB);
		pcp_stat_shared(&node->kind->stat, 1);
		pcp_stack_push(&node->parked, &slab->park);
	}
}

/* The lock is taken in one turn of the loop and released after it, which the
 * analysis cannot follow. */
PCP_NO_TSA
void pcp_node_give(struct pcp_node *node, const struct pcp_chain *chain,
		   struct pcp_slab_link *dead)
{
	struct pcp_slab *slab = chain->slab;
	uint32_t objects = node->kind->layout.objects;
	uint64_t word = pcp_load(&slab->word);
	bool locked = false, listed = false, full, empty;

	do {
		full = pcp_word_inuse(word) == objects;
		empty = pcp_word_inuse(word) == chain->count;
		if (empty && !full && !locked) {
			list_lock(node);
			locked = true;
			listed = slab->on_list;
			word = pcp_load(&slab->word);
			full = pcp_word_inuse(word) == objects;
			empty = pcp_word_inuse(word) == chain->count;
		}
	} while (!pcp_slab_give(chain, &word));

	if (locked) {
		/* Not listed, it is its holder's to judge, and may be gone
		 * since the swap. */
		bool surplus = empty && !full && listed &&
			       node->nr_partial > node->min_partial;

		if (surplus)
			unlink_locked(node, slab);
		list_unlock(node);
		if (surplus)
			retire(node, slab, dead);
	}
	if (full)
		link_or_retire(node, slab, empty, dead);
}

/* Up to SLABS_PER_HOLD of the first `left` slabs of the list: empty ones to
 * *dead, the others to its end. Returns how many were looked at. */
static uint32_t trim_some(struct pcp_node *node, uint32_t keep, uint32_t left,
			  struct pcp_slab_link *dead)
{
	uint32_t seen = 0;

	list_lock(node);
	while (seen < left && seen < SLABS_PER_HOLD &&
	       !pcp_slabs_empty(&node->partial)) {
		struct pcp_slab *slab = pcp_slab_of_list(node->partial.next);

		seen++;
		if (!pcp_slab_inuse(slab) && node->nr_partial > keep) {
			unlink_locked(node, slab);
			pcp_slabs_add_tail(dead, &slab->list);
		} else {
			pcp_slabs_del(&slab->list);
			pcp_slabs_add_tail(&node->partial, &slab->list);
		}
	}
	list_unlock(node);
	return seen;
}

static void trim_list(struct pcp_node *node, uint32_t keep,
		      struct pcp_slab_link *dead)
{
	uint32_t left;

	pcp_node_unpark(node, dead);
	left = pcp_load(&node->nr_partial);
	while (left) {
		uint32_t seen = trim_some(node, keep, left, dead);

		if (!seen)
			break;
		left -= seen;
	}
}

void pcp_node_trim_empty(struct pcp_node *node, struct pcp_slab_link *dead)
{
	trim_list(node, 0, dead);
}

void pcp_node_trim(struct pcp_node *node, uint32_t keep,
		   struct pcp_slab_link *dead)
{
	trim_list(node, keep, dead);
	pcp_lock(&node->death_lock);
	pcp_slabs_splice(dead, &node->waiting);
	pcp_store(&node->nr_waiting, 0U);
	pcp_unlock(&node->death_lock);
}

/* CONTEXT: list_lock held. Waiting slabs become partial ones. */
static void list_waiting_locked(struct pcp_node *node)
	PCP_REQUIRES(&node->list_lock)
{
	if (!pcp_load(&node->nr_waiting))
		return;
	pcp_lock(&node->death_lock);
	while (!pcp_slabs_empty(&node->waiting)) {
		struct pcp_slab *slab = pcp_slab_of_list(node->waiting.prev);

		pcp_slabs_del(&slab->list);
		link_locked(node, slab);
	}
	pcp_store(&node->nr_waiting, 0U);
	pcp_unlock(&node->death_lock);
}

/* CONTEXT: list_lock held. A built object of the first slab of the list, which
 * goes to its end. */
static void *take_built_locked(struct pcp_node *node, struct pcp_chain *rest)
	PCP_REQUIRES(&node->list_lock)
{
	struct pcp_slab *slab = pcp_slab_of_list(node->partial.next);
	bool full;
	void *obj = pcp_slab_take_built(slab, rest, &full);

	if (full) {
		unlink_locked(node, slab);
	} else {
		pcp_slabs_del(&slab->list);
		pcp_slabs_add_tail(&node->partial, &slab->list);
	}
	return obj;
}

void *pcp_node_take_built(struct pcp_node *node, struct pcp_slab_link *dead)
{
	struct pcp_chain rest;
	void *obj = NULL;
	uint32_t left;

	/* All under the lock and listed: when many allocations fail at once, no
	 * slab may be hidden from one by another's search. The lock is let go
	 * between slabs. */
	list_lock(node);
	unpark_locked(node, dead);
	list_waiting_locked(node);
	left = node->nr_partial;
	for (; left && !obj && !pcp_slabs_empty(&node->partial); left--) {
		obj = take_built_locked(node, &rest);
		list_unlock(node);
		if (rest.count) {
			pcp_node_give(node, &rest, dead);
			pcp_stat_shared(&node->kind->stat, 1);
		}
		list_lock(node);
	}
	list_unlock(node);
	return obj;
}

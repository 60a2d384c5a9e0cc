/* SPDX-License-Identifier: MIT */
/* One slab: birth, take, give, lookup, release. See slab.h. */
#include <config.h>

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "base/osmem.h"
#include "base/report.h"
#include "slab/arena.h"
#include "slab/fields.h"
#include "slab/slab.h"

/* Differs from process to process and from slab to slab, so that no user data
 * looks like a slab by accident. */
static uintptr_t magic_of(const struct pcp_slab *slab)
{
	static const char anchor;

	return (uintptr_t)slab ^ ((uintptr_t)&anchor << 7) ^
	       (uintptr_t)0x5ca1ab1e5ab0b0c5ULL;
}

void pcp_slabs_splice(struct pcp_slab_link *dst, struct pcp_slab_link *src)
{
	if (pcp_slabs_empty(src))
		return;
	src->next->prev = dst->prev;
	dst->prev->next = src->next;
	src->prev->next = dst;
	dst->prev = src->prev;
	pcp_slabs_init(src);
}

int pcp_kind_init(struct pcp_kind *kind, size_t size, size_t align)
{
	bool check = kind->flags & PCPOOL_CHECK;
	struct timespec now;
	int err;

	/* With fields an object has to be made one, too. */
	pcp_layout_init(&kind->layout, size, align,
			kind->ctor || kind->dtor || kind->fields, check);
	err = pcp_stat_init(&kind->stat);
	if (err) {
		pcp_meta_free(kind->fields);
		return err;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	kind->random = ((uint64_t)now.tv_nsec << 20 ^ (uintptr_t)kind) | 1;
	pcp_lock_init(&kind->slabs_lock, PCP_RANK_SLABS);
	pcp_slabs_init(&kind->all);
	kind->nr_slabs = 0;
	return 0;
}

void pcp_kind_destroy(struct pcp_kind *kind)
{
	pcp_lock_destroy(&kind->slabs_lock);
	pcp_stat_destroy(&kind->stat);
	pcp_meta_free(kind->fields);
	pcp_meta_free(kind->order);
}

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)((*state >> 32) * bound >> 32);
}

/* The cache's order of objects; the first slab has it made. NULL without
 * memory. */
static const uint16_t *order_of(struct pcp_kind *kind, uint64_t seed)
{
	/* Pairs with the release below. */
	uint16_t *order = pcp_load_acquire(&kind->order), *none = NULL;
	uint32_t n = kind->layout.objects;

	if (pcp_likely(order))
		return order;
	order = pcp_meta_alloc(n * sizeof(*order), sizeof(void *));
	if (!order)
		return NULL;
	/* Fisher and Yates' shuffle, from inside out. */
	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = random_below(&seed, i + 1);

		order[i] = order[j];
		order[j] = (uint16_t)i;
	}
	if (pcp_cas(&kind->order, &none, order))
		return order;
	pcp_meta_free(order);
	return none;
}

/* Where a slab's walk through the order is. */
struct walk {
	const uint16_t *order; /* NULL: that of memory */
	uint32_t n, at;
};

static uint32_t step(struct walk *walk)
{
	uint32_t at = walk->at;

	walk->at = at + 1 < walk->n ? at + 1 : 0;
	return walk->order ? walk->order[at] : at;
}

/* The first `count` objects are out, in objs[]; the others linked. In random
 * order, so that neither neighbours in memory nor the order of hand-out can be
 * foretold from one object. A cache's slabs share one order and begin anywhere
 * in it: a shuffle for each took half of the time that it takes to make a slab.
 * Handed out from here rather than from the links, which have to be followed
 * one after the other. Reference: the freelist randomization of Linux SLUB. */
static void deal(struct pcp_slab *slab, uint64_t seed, uint32_t count,
		 void **objs)
{
	const struct pcp_layout layout = slab->kind->layout;
	struct walk walk = { order_of(slab->kind, seed), layout.objects, 0 };
	uint16_t *next = slab->next;
	char *first = (char *)slab + layout.first;
	uint32_t index;

	walk.at = random_below(&seed, walk.n);
	for (uint32_t i = 0; i < count; i++) {
		index = step(&walk);
		objs[i] = first + index * layout.stride;
		next[index] = PCP_INDEX_OUT;
	}
	index = count < walk.n ? step(&walk) : PCP_INDEX_END;
	slab->word = pcp_word_next(0, index, count);
	for (uint32_t i = count + 1; i < walk.n; i++) {
		uint32_t after = step(&walk);

		next[index] = (uint16_t)after;
		index = after;
	}
	if (count < walk.n)
		next[index] = PCP_INDEX_END;
}

/* What a slab has besides its block. */
static bool take_beside(struct pcp_slab *slab)
{
	struct pcp_kind *kind = slab->kind;

	if (kind->flags & PCPOOL_ACCOUNT) {
		slab->owners = pcp_meta_alloc(kind->layout.objects *
						      sizeof(*slab->owners),
					      sizeof(*slab->owners));
		if (!slab->owners)
			return false;
	}
	if (!kind->fields || !pcp_fields_take(slab))
		return true;
	pcp_meta_free(slab->owners);
	return false;
}

static void give_beside(struct pcp_slab *slab)
{
	if (slab->kind->fields)
		pcp_fields_give(slab);
	pcp_meta_free(slab->owners);
}

struct pcp_slab *pcp_slab_create(struct pcp_kind *kind, unsigned int node,
				 uint32_t max, void **objs)
{
	const struct pcp_layout *layout = &kind->layout;
	struct pcp_slab *slab = pcp_block_alloc(layout->slab_size, node);
	uint64_t seed = pcp_add(&kind->random, UINT64_C(0x9e3779b97f4a7c15));

	if (!slab) {
		pcp_stat_inc(&kind->stat, PCP_STAT_MEM_FAIL);
		return NULL;
	}
	/* Header and tables; next[] is written by deal(). */
	memset(slab, 0, PCP_SLAB_HEADER);
	if (layout->built || layout->check)
		memset(slab->next + layout->objects, 0,
		       layout->first - PCP_SLAB_HEADER -
			       layout->objects * sizeof(*slab->next));
	slab->kind = kind;
	slab->node = (uint16_t)node;
	if (!take_beside(slab)) {
		pcp_block_free(slab, layout->slab_size);
		pcp_stat_inc(&kind->stat, PCP_STAT_MEM_FAIL);
		errno = ENOMEM;
		return NULL;
	}
	slab->magic = magic_of(slab);
	deal(slab, (seed ^ seed >> 29) | 1,
	     max < layout->objects ? max : layout->objects, objs);
	/* With the header, which names what lies beside the slab. */
	pcp_lsan_add_root(slab, layout->slab_size);
	pcp_lock(&kind->slabs_lock);
	pcp_slabs_add_tail(&kind->all, &slab->all);
	kind->nr_slabs++;
	pcp_unlock(&kind->slabs_lock);
	/* That one, and the arenas'. */
	pcp_stat_add(&kind->stat, PCP_STAT_OTHER_LOCK, 2);
	pcp_stat_inc(&kind->stat, PCP_STAT_ALLOC_SLAB);
	PCP_HOOK(PCP_HOOK_GROW_UNPUBLISHED);
	return slab;
}

void pcp_slab_release(struct pcp_slab *slab)
{
	struct pcp_kind *kind = slab->kind;
	const struct pcp_layout *layout = &kind->layout;

	pcp_lock(&kind->slabs_lock);
	pcp_slabs_del(&slab->all);
	kind->nr_slabs--;
	pcp_unlock(&kind->slabs_lock);
	pcp_lsan_del_root(slab, layout->slab_size);
	slab->magic = 0;
	give_beside(slab);
	pcp_block_free(slab, layout->slab_size);
	pcp_stat_add(&kind->stat, PCP_STAT_OTHER_LOCK, 2);
	pcp_stat_inc(&kind->stat, PCP_STAT_FREE_SLAB);
}

struct pcp_slab *pcp_slab_check(const struct pcp_kind *kind, const void *obj,
				uint32_t *index)
{
	const struct pcp_layout *layout = &kind->layout;
	struct pcp_slab *slab = pcp_slab_of(kind, obj);

	if (!pcp_block_readable(slab, layout->slab_size) ||
	    slab->magic != magic_of(slab) || slab->kind != kind ||
	    !pcp_slab_locate(layout, slab, obj, index))
		return NULL;
	return slab;
}

/* One thread at a time takes from a slab (node.h), and gives change the list in
 * front only, so the links of free objects stand still under a walk: one that
 * leads nowhere was overwritten by whoever wrote beyond an object. */
static uint32_t checked(const struct pcp_slab *slab, uint32_t index)
{
	if (pcp_unlikely(index >= slab->kind->layout.objects &&
			 index != PCP_INDEX_END))
		pcp_die(slab->kind->name, slab, NULL,
			"free list of a slab is corrupt");
	return index;
}

static uint32_t follow(const struct pcp_slab *slab, uint32_t index)
{
	return checked(slab, pcp_load(&slab->next[index]));
}

/* Mark the first count objects of a chain the caller has just taken. */
static void mark_out(struct pcp_slab *slab, uint32_t index, uint32_t count)
{
	while (count--) {
		uint32_t next = pcp_load(&slab->next[index]);

		pcp_store(&slab->next[index], (uint16_t)PCP_INDEX_OUT);
		index = next;
	}
}

uint32_t pcp_slab_take(struct pcp_slab *slab, uint32_t max, void **objs,
		       bool *full)
{
	size_t stride = slab->kind->layout.stride;
	char *first = pcp_slab_object(slab, 0);
	uint64_t word = pcp_load_acquire(&slab->word);
	uint32_t count, rest;

	for (;;) {
		rest = checked(slab, pcp_word_head(word));
		for (count = 0; count < max && rest != PCP_INDEX_END; count++) {
			objs[count] = first + rest * stride;
			rest = follow(slab, rest);
		}
		*full = rest == PCP_INDEX_END;
		if (!count)
			return 0;
		PCP_HOOK(PCP_HOOK_SLAB_TAKE);
		if (pcp_cas(&slab->word, &word,
			    pcp_word_next(word, rest,
					  pcp_word_inuse(word) + count)))
			break;
		pcp_stat_inc(&slab->kind->stat, PCP_STAT_CMPXCHG_FAIL);
	}
	pcp_stat_shared(&slab->kind->stat, 1);
	mark_out(slab, pcp_word_head(word), count);
	return count;
}

/* The chain from the word's head up to a free object, taken in one swap. */
static uint32_t take_up_to(struct pcp_slab *slab, uint32_t target, bool *full)
{
	uint64_t word = pcp_load_acquire(&slab->word);
	uint32_t rest = follow(slab, target);

	*full = rest == PCP_INDEX_END;
	for (;;) {
		uint32_t head = checked(slab, pcp_word_head(word)), count = 1;

		for (uint32_t i = head; i != target; i = follow(slab, i))
			count++;
		if (pcp_cas(&slab->word, &word,
			    pcp_word_next(word, rest,
					  pcp_word_inuse(word) + count)))
			return head;
		pcp_stat_inc(&slab->kind->stat, PCP_STAT_CMPXCHG_FAIL);
	}
}

void *pcp_slab_take_built(struct pcp_slab *slab, struct pcp_chain *rest,
			  bool *full)
{
	uint64_t word = pcp_load_acquire(&slab->word);
	uint32_t left = slab->kind->layout.objects - pcp_word_inuse(word);
	uint32_t target = checked(slab, pcp_word_head(word)), index;

	*rest = (struct pcp_chain){ .slab = slab };
	*full = false;
	/* Nothing was taken or given since a search in vain: an outage does not
	 * walk every list for each allocation that fails. */
	if (pcp_word_tag(word) == slab->barren)
		return NULL;
	for (; left && target != PCP_INDEX_END; left--) {
		if (pcp_is_built(slab, target))
			break;
		target = follow(slab, target);
	}
	if (!left || target == PCP_INDEX_END) {
		slab->barren = pcp_word_tag(word);
		return NULL;
	}
	index = take_up_to(slab, target, full);
	while (index != target) {
		uint32_t next = follow(slab, index);

		pcp_store(&slab->next[index], (uint16_t)PCP_INDEX_OUT);
		pcp_chain_add(rest, index);
		index = next;
	}
	pcp_store(&slab->next[target], (uint16_t)PCP_INDEX_OUT);
	return pcp_slab_object(slab, target);
}

void pcp_chain_die(const struct pcp_slab *slab, uint32_t index)
{
	pcp_die(slab->kind->name, pcp_slab_object(slab, index), NULL,
		"object freed twice, found when it came back to its slab");
}

bool pcp_slab_give(const struct pcp_chain *chain, uint64_t *word)
{
	struct pcp_slab *slab = chain->slab;
	uint32_t inuse = pcp_word_inuse(*word);

	if (pcp_unlikely(inuse < chain->count))
		pcp_die(slab->kind->name, slab, NULL,
			"slab has %u objects out and gets %u back", inuse,
			chain->count);
	pcp_store(&slab->next[chain->last], (uint16_t)pcp_word_head(*word));
	PCP_HOOK(PCP_HOOK_SLAB_GIVE);
	if (pcp_cas(&slab->word, word,
		    pcp_word_next(*word, chain->first, inuse - chain->count)))
		return true;
	pcp_stat_inc(&slab->kind->stat, PCP_STAT_CMPXCHG_FAIL);
	return false;
}

bool pcp_slab_defer(struct pcp_slab *slab, uint32_t index,
		    enum pcp_deferral how)
{
	unsigned int shift = how == PCP_DEFER_DISCARD ? 32 : 0;
	uint64_t word = pcp_load(&slab->chain), next;

	if (pcp_unlikely(pcp_load(&slab->next[index]) != PCP_INDEX_OUT))
		pcp_chain_die(slab, index);
	do {
		uint64_t half = word >> shift & 0xffffffff;
		uint64_t count = half >> 16;

		pcp_store(&slab->next[index],
			  (uint16_t)(count ? half & 0xffff : PCP_INDEX_END));
		half = (count + 1) << 16 | index;
		next = (word & ~(UINT64_C(0xffffffff) << shift)) |
		       half << shift;
	} while (!pcp_cas(&slab->chain, &word, next));
	return !word;
}

struct pcp_chain pcp_slab_deferred(struct pcp_slab *slab, uint64_t word,
				   enum pcp_deferral how)
{
	uint64_t half =
		how == PCP_DEFER_DISCARD ? word >> 32 : word & 0xffffffff;
	struct pcp_chain chain = {
		.slab = slab,
		.first = (uint32_t)(half & 0xffff),
		.count = (uint32_t)(half >> 16),
	};

	chain.last = chain.first;
	for (uint32_t i = 1; i < chain.count; i++)
		chain.last = follow(slab, chain.last);
	return chain;
}

static uint64_t join(struct pcp_slab *slab, enum pcp_deferral how)
{
	struct pcp_chain ripe = pcp_slab_deferred(slab, slab->ripe, how);
	struct pcp_chain open = pcp_slab_deferred(slab, slab->chain, how);

	if (ripe.count && open.count)
		pcp_store(&slab->next[ripe.last], (uint16_t)open.first);
	return (uint64_t)(ripe.count + open.count) << 16 |
	       (ripe.count ? ripe.first : open.first);
}

void pcp_slab_defer_again(struct pcp_slab *slab)
{
	slab->chain = join(slab, PCP_DEFER_DISCARD) << 32 |
		      join(slab, PCP_DEFER_FREE);
	slab->ripe = 0;
}

uint64_t pcp_kind_inuse(struct pcp_kind *kind)
{
	uint64_t inuse = 0;

	pcp_lock(&kind->slabs_lock);
	for (struct pcp_slab_link *link = kind->all.next; link != &kind->all;
	     link = link->next)
		inuse += pcp_slab_inuse(
			pcp_container_of(link, struct pcp_slab, all));
	pcp_unlock(&kind->slabs_lock);
	return inuse;
}

/* SPDX-License-Identifier: MIT */
/* Construction and destruction. See build.h. */
#include <config.h>

#include "base/lock.h"
#include "slab/build.h"
#include "slab/check.h"
#include "slab/fields.h"

/* Around callbacks: who runs them, for a destroy that is called from one. Once
 * per batch, slab or discarded object. */
static void busy_begin(struct pcp_kind *kind, struct pcp_busy *busy)
{
	pcp_assert_unlocked();
	busy->thread = pthread_self();
	pcp_lock(&kind->slabs_lock);
	busy->next = kind->busy;
	busy->link = &kind->busy;
	if (busy->next)
		busy->next->link = &busy->next;
	kind->busy = busy;
	pcp_unlock(&kind->slabs_lock);
}

static void busy_end(struct pcp_kind *kind, struct pcp_busy *busy)
{
	pcp_lock(&kind->slabs_lock);
	*busy->link = busy->next;
	if (busy->next)
		busy->next->link = busy->link;
	pcp_unlock(&kind->slabs_lock);
}

bool pcp_kind_busy_here(struct pcp_kind *kind)
{
	bool here = false;

	pcp_lock(&kind->slabs_lock);
	for (struct pcp_busy *busy = kind->busy; busy; busy = busy->next)
		here |= pthread_equal(busy->thread, pthread_self()) != 0;
	pcp_unlock(&kind->slabs_lock);
	return here;
}

void pcp_kind_fork_child(struct pcp_kind *kind)
{
	struct pcp_busy **link = &kind->busy, *busy;

	/* The others' stacks may be used again. */
	while ((busy = *link)) {
		if (pthread_equal(busy->thread, pthread_self())) {
			busy->link = link;
			link = &busy->next;
		} else {
			*link = busy->next;
		}
	}
}

/* Construct an object the caller owns unless it is built. 0, or the errno
 * value of its constructor. */
static int build(struct pcp_slab *slab, uint32_t index)
{
	struct pcp_kind *kind = slab->kind;
	int err = 0;

	if (pcp_is_built(slab, index))
		return 0;
	pcp_assert_unlocked();
	if (kind->fields)
		pcp_fields_set(slab, index);
	if (kind->ctor)
		err = kind->ctor(pcp_slab_object(slab, index), kind->arg);
	if (err) {
		if (kind->fields)
			pcp_fields_zero(slab, index);
		pcp_stat_inc(&kind->stat, PCP_STAT_CTOR_FAIL);
		return err;
	}
	/* The bit's word is shared with objects of other owners, hence atomic;
	 * the object itself passes to its next owner by the slab's word or a
	 * sheaf, which order what the constructor wrote. */
	pcp_or(pcp_built_word(slab, index), UINT64_C(1) << (index % 64));
	pcp_stat_inc(&kind->stat, PCP_STAT_CTOR_OK);
	return 0;
}

static void unbuild(struct pcp_slab *slab, uint32_t index)
{
	struct pcp_kind *kind = slab->kind;

	if (!kind->layout.built || !pcp_is_built(slab, index))
		return;
	pcp_assert_unlocked();
	if (kind->layout.check)
		pcp_check_death(slab, index);
	/* Counted and cleared first: a child forked while the destructor runs
	 * must not begin it again, and a call that has begun counts as made. */
	pcp_and(pcp_built_word(slab, index), ~(UINT64_C(1) << (index % 64)));
	pcp_stat_inc(&kind->stat, PCP_STAT_DTOR);
	if (kind->dtor)
		kind->dtor(pcp_slab_object(slab, index), kind->arg);
}

void pcp_unbuild(struct pcp_slab *slab, uint32_t index)
{
	struct pcp_kind *kind = slab->kind;
	struct pcp_busy busy;

	if (!kind->layout.built)
		return;
	busy_begin(kind, &busy);
	unbuild(slab, index);
	busy_end(kind, &busy);
	if (kind->fields)
		pcp_fields_zero(slab, index);
}

size_t pcp_build_many(struct pcp_kind *kind, size_t n, void **objs, int *err)
{
	struct pcp_busy busy;
	size_t good = 0;

	*err = 0;
	if (!kind->layout.built)
		return n;
	busy_begin(kind, &busy);
	for (size_t i = 0; i < n; i++) {
		void *obj = objs[i];
		struct pcp_slab *slab = pcp_slab_of(kind, obj);
		uint32_t index = pcp_slab_index(slab, obj);

		if (*err) {
			/* One refusal is enough; what is built is still good
			 * to have. */
			if (!pcp_is_built(slab, index))
				continue;
		} else {
			*err = build(slab, index);
			if (*err)
				continue;
		}
		objs[i] = objs[good];
		objs[good++] = obj;
	}
	busy_end(kind, &busy);
	return good;
}

void pcp_slab_kill(struct pcp_slab *slab)
{
	struct pcp_kind *kind = slab->kind;
	uint32_t n = kind->layout.objects;
	uint64_t word = pcp_load_acquire(&slab->word);

	/* All objects are out while their destructors run: a destroy called
	 * from one of them sees that the cache is in use. Nobody else can reach
	 * the slab, so a store would do, were it not for walkers that still
	 * look at the word they lost. */
	while (!pcp_cas(&slab->word, &word,
			pcp_word_next(word, PCP_INDEX_END, n)))
		;
	if (kind->layout.built) {
		struct pcp_busy busy;

		busy_begin(kind, &busy);
		/* Marked as out is what another thread of the parent had when
		 * this child was forked: its state is not known. */
		for (uint32_t i = 0; i < n; i++)
			if (pcp_likely(pcp_load(&slab->next[i]) !=
				       PCP_INDEX_OUT))
				unbuild(slab, i);
		busy_end(kind, &busy);
	}
	pcp_slab_release(slab);
}

void pcp_slabs_kill(struct pcp_slab_link *dead)
{
	while (!pcp_slabs_empty(dead)) {
		struct pcp_slab *slab = pcp_slab_of_list(dead->next);

		pcp_slabs_del(&slab->list);
		pcp_slab_kill(slab);
	}
}

uint32_t pcp_slab_built_inuse(struct pcp_slab *slab)
{
	const struct pcp_layout *layout = &slab->kind->layout;
	uint32_t built = 0;

	for (uint32_t i = 0; i < layout->objects; i++)
		if (pcp_load(&slab->next[i]) == PCP_INDEX_OUT &&
		    layout->built && pcp_is_built(slab, i))
			built++;
	/* Deferred ones are marked by their links instead. */
	if (layout->built)
		built += pcp_chained(pcp_load(&slab->chain)) +
			 pcp_chained(pcp_load(&slab->ripe));
	return built;
}

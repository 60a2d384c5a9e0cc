/* SPDX-License-Identifier: MIT */
/*
 * Remote drain: take the sheaves of slots other CPUs are using.
 *
 * Steps, each with what holds after it (doc/drain.md, doc/models):
 *   close   main becomes CLOSED: sections that begin now refuse; one that read
 *           the old main before may still commit.
 *   fence   every section that had begun before the close has committed or was
 *           aborted.
 *   look    main still CLOSED: the old sheaf was not replaced by one of them,
 *           and as sections that change spare and rcu refuse while main is
 *           CLOSED, nobody touches those either. Else a local commit won, the
 *           old sheaf is its owner's, and the slot is closed again.
 *   take    old main, spare and rcu are the drain's.
 *   reopen  main becomes EMPTY, with release: whoever sees it sees spare and
 *           rcu gone. (A barrier's reopens with the old main, as another drain
 *           may have reopened it before: a section that read the old main
 *           before the close was aborted by the fence.)
 * In lock mode the slot's lock does all of it.
 *
 * A sheaf taken from rcu is handed over to wait for a grace period, whatever the
 * drain is for. A barrier takes only those, and reopens with the old main.
 */
#include <config.h>

#include "base/fault.h"
#include "base/osmem.h"
#include "cpu/fence.h"
#include "slot/ops.h"

/* Sheaves in the drain's hands, linked by their tails. */
struct haul {
	struct pcp_sheaf *stock;
	struct pcp_sheaf *deferred;
	bool only_deferred;
};

static void haul_add(struct pcp_sheaf **list, struct pcp_sheaf *sheaf)
{
	if (!sheaf || pcp_is_sentinel(sheaf))
		return;
	pcp_sheaf_tail(sheaf)->next = *list;
	*list = sheaf;
}

/* The slot is nobody else's. Returns what it reopens with. */
static struct pcp_sheaf *take_sheaves(struct pcp_stock *stock,
				      struct pcp_slot *slot,
				      struct pcp_sheaf *main, struct haul *haul)
{
	unsigned int index = (unsigned int)(slot - stock->slots);
	struct pcp_sheaf *rcu = slot->rcu;

	if (rcu) {
		pcp_sheaf_end_in(rcu, &stock->kind.stat, index);
		pcp_sheaf_tail(rcu)->node = (uint16_t)pcp_slot_node(index);
		haul_add(&haul->deferred, rcu);
		pcp_store(&slot->rcu, NULL);
	}
	if (haul->only_deferred)
		return main;
	if (!pcp_is_sentinel(main))
		pcp_sheaf_end_in(main, &stock->kind.stat, index);
	haul_add(&haul->stock, main);
	haul_add(&haul->stock, slot->spare);
	pcp_store(&slot->spare, NULL);
	return PCP_EMPTY;
}

static void drain_locked_slot(struct pcp_stock *stock, struct pcp_slot *slot,
			      struct haul *haul)
{
	pcp_slot_lock(slot);
	if (slot->local != PCP_CLOSED)
		pcp_store(&slot->local,
			  take_sheaves(stock, slot, slot->local, haul));
	pcp_slot_unlock(slot);
}

/* Which slots a drain bothers with. One that becomes used just now is as good as
 * one that is used later. */
enum reach { USED, STOCKED, DEFERRED, TRIMMED };

/* CONTEXT: drain_lock held, so that a sheaf seen is not freed. */
static bool has_objects(struct pcp_sheaf *sheaf)
{
	return sheaf && pcp_sheaf_size(sheaf);
}

static bool in_reach(struct pcp_slot *slot, enum reach reach)
{
	struct pcp_sheaf *main = pcp_load_acquire(&slot->main);
	struct pcp_sheaf *spare = pcp_load_acquire(&slot->spare);
	struct pcp_sheaf *rcu = pcp_load_acquire(&slot->rcu);

	if (reach == TRIMMED)
		return slot->trim == PCP_TRIM_NOW;
	if (main == PCP_CLOSED)
		return false;
	if (reach == USED)
		return main != PCP_EMPTY || spare || rcu;
	if (reach == DEFERRED)
		return rcu;
	return has_objects(main) || has_objects(spare) || has_objects(rcu);
}

/* The second half for a slot whose main was `old` when it was closed, after the
 * fence. False: a local commit won. */
static bool take_closed(struct pcp_stock *stock, struct pcp_slot *slot,
			struct pcp_sheaf *old, struct haul *haul)
{
	struct pcp_sheaf *main;

	/* Pairs with nothing: the fence ordered the commit before this. */
	if (pcp_load(&slot->main) != PCP_CLOSED)
		return false;
	main = take_sheaves(stock, slot, old, haul);
	PCP_HOOK(PCP_HOOK_DRAIN_TAKEN);
	/* Pairs with pcp_rseq_commit()'s and pcp_rseq_push_at()'s load of main,
	 * which comes before that of spare or rcu. */
	pcp_store_release(&slot->main, main);
	return true;
}

/* Undo a close whose fence failed. A local commit may have won: then old is its
 * owner's and main must stay as it is, hence the compare. */
static void reopen(struct pcp_slot *slot, struct pcp_sheaf *old)
{
	struct pcp_sheaf *closed = PCP_CLOSED;

	(void)pcp_cas(&slot->main, &closed, old);
}

static int drain_slot(struct pcp_stock *stock, unsigned int index,
		      struct haul *haul)
{
	struct pcp_slot *slot = &stock->slots[index];
	struct pcp_sheaf *old;
	int err;

	for (;;) {
		old = pcp_xchg(&slot->main, PCP_CLOSED);
		PCP_HOOK(PCP_HOOK_DRAIN_CLOSED);
		err = pcp_fence_slot(index);
		if (err) {
			reopen(slot, old);
			pcp_stat_inc(&stock->kind.stat, PCP_STAT_DRAIN_FAIL);
			return err;
		}
		PCP_HOOK(PCP_HOOK_DRAIN_FENCED);
		if (take_closed(stock, slot, old, haul))
			return 0;
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_DRAIN_RETRY);
	}
}

/* CONTEXT: drain_lock held. All slots in use are closed, one fence serves them
 * all, and those a local commit won are drained singly. */
static int drain_slots(struct pcp_stock *stock, enum reach reach,
		       struct pcp_sheaf **old, struct haul *haul)
{
	int fence, err = 0;

	for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
		struct pcp_slot *slot = &stock->slots[i];

		old[i] = NULL;
		if (in_reach(slot, reach))
			old[i] = pcp_xchg(&slot->main, PCP_CLOSED);
	}
	PCP_HOOK(PCP_HOOK_DRAIN_CLOSED);
	fence = pcp_fence_all();
	PCP_HOOK(PCP_HOOK_DRAIN_FENCED);
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
		struct pcp_slot *slot = &stock->slots[i];

		if (!old[i])
			continue;
		if (fence) {
			reopen(slot, old[i]);
			pcp_stat_inc(&stock->kind.stat, PCP_STAT_DRAIN_FAIL);
		} else if (!take_closed(stock, slot, old[i], haul)) {
			int again;

			pcp_stat_inc(&stock->kind.stat, PCP_STAT_DRAIN_RETRY);
			again = drain_slot(stock, i, haul);
			err = again ? again : err;
		}
	}
	return fence ? fence : err;
}

static unsigned int count_reach(struct pcp_stock *stock, enum reach reach,
				unsigned int *last)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
		if (!in_reach(&stock->slots[i], reach))
			continue;
		count++;
		*last = i;
	}
	return count;
}

/* CONTEXT: drain_lock held. */
static int drain_rseq(struct pcp_stock *stock, enum reach reach,
		      struct haul *haul)
{
	struct pcp_sheaf *few[64] = { NULL }, **old = few;
	unsigned int last = 0, used = count_reach(stock, reach, &last);
	int err = 0;

	if (used == 1)
		return drain_slot(stock, last, haul);
	if (pcp_index.nr_ids > PCP_ARRAY_SIZE(few))
		old = pcp_meta_alloc(pcp_index.nr_ids * sizeof(*old),
				     sizeof(*old));
	if (used && old) {
		err = drain_slots(stock, reach, old, haul);
	} else if (used) {
		/* No memory to remember all at once: one fence each. */
		for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
			int err1 = 0;

			if (in_reach(&stock->slots[i], reach))
				err1 = drain_slot(stock, i, haul);
			err = err1 ? err1 : err;
		}
	}
	if (old != few)
		pcp_meta_free(old);
	return err;
}

/* CONTEXT: drain_lock held. Still under it, so that another failing allocation
 * that waits for this drain finds the objects in their slabs. No callback runs:
 * slabs that die are collected. */
static void unload(struct pcp_stock *stock, struct haul *haul,
		   struct pcp_slab_link *dead)
{
	struct pcp_sheaf *next;

	for (; haul->stock; haul->stock = next) {
		next = pcp_sheaf_tail(haul->stock)->next;
		pcp_stock_flush(stock, haul->stock, dead);
		pcp_sheaf_retire(&stock->sheaves, haul->stock);
	}
	for (; haul->deferred; haul->deferred = next) {
		next = pcp_sheaf_tail(haul->deferred)->next;
		pcp_defer_sheaf(stock, haul->deferred,
				pcp_sheaf_tail(haul->deferred)->node);
	}
}

/* CONTEXT: drain_lock held. */
static int drain_all(struct pcp_stock *stock, enum reach reach,
		     struct pcp_slab_link *dead)
{
	struct haul haul = { .only_deferred = reach == DEFERRED };
	int err = 0;

	pcp_assert_held(PCP_RANK_DRAIN);
	if (stock->bypass || stock->dying)
		return 0;
	if (!haul.only_deferred)
		pcp_store_release(&stock->drains, stock->drains + 1);
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_DRAIN);
	if (pcp_index.rseq)
		err = drain_rseq(stock, reach, &haul);
	else
		for (unsigned int i = 0; i < pcp_index.nr_ids; i++)
			if (reach != TRIMMED ||
			    stock->slots[i].trim == PCP_TRIM_NOW)
				drain_locked_slot(stock, &stock->slots[i],
						  &haul);
	unload(stock, &haul, dead);
	return err;
}

int pcp_stock_drain(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	int err;

	pcp_lock(&stock->drain_lock);
	err = drain_all(stock, USED, dead);
	pcp_unlock(&stock->drain_lock);
	pcp_grace_kick();
	return err;
}

int pcp_stock_drain_trimmed(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	int err;

	pcp_lock(&stock->drain_lock);
	err = drain_all(stock, TRIMMED, dead);
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++)
		if (stock->slots[i].trim == PCP_TRIM_NOW)
			stock->slots[i].trim = PCP_TRIM_NO;
	pcp_unlock(&stock->drain_lock);
	pcp_grace_kick();
	return err;
}

void pcp_stock_drain_idle(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	struct haul haul = { .only_deferred = false };

	pcp_lock(&stock->drain_lock);
	for (unsigned int i = 0; !stock->bypass && i < pcp_index.nr_ids; i++) {
		struct pcp_slot *slot = &stock->slots[i];

		if (!pcp_index.rseq) {
			drain_locked_slot(stock, slot, &haul);
		} else if (in_reach(slot, USED)) {
			/* What others did here happened before this call, or
			 * the caller broke the rule. */
			pcp_store_release(&slot->main,
					  take_sheaves(stock, slot, slot->main,
						       &haul));
		}
	}
	unload(stock, &haul, dead);
	pcp_unlock(&stock->drain_lock);
}

int pcp_stock_drain_shared(struct pcp_stock *stock, uint64_t seen,
			   struct pcp_slab_link *dead)
{
	int err = 0;

	pcp_lock(&stock->drain_lock);
	if (stock->drains == seen)
		err = drain_all(stock, STOCKED, dead);
	pcp_unlock(&stock->drain_lock);
	return err;
}

int pcp_stock_hand_over(struct pcp_stock *stock)
{
	uint32_t phase;
	int err;

	pcp_lock(&stock->drain_lock);
	err = drain_all(stock, DEFERRED, NULL);
	/* After the last slot: see defer.h. */
	phase = pcp_defer_flip(&stock->defer);
	PCP_HOOK(PCP_HOOK_BARRIER_FLIPPED);
	pcp_defer_await(&stock->defer, phase);
	pcp_unlock(&stock->drain_lock);
	pcp_grace_kick();
	return err;
}

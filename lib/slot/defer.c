/* SPDX-License-Identifier: MIT */
/* Deferred frees of a cache. See defer.h. */
#include <config.h>

#include "slab/check.h"
#include "slot/ops.h"

/* Tries to hook a new rcu sheaf before the object is deferred by itself. */
#define HOOK_TRIES 3

/* Sheaves of an old capacity that are worth a walk over all sheaves to be rid
 * of. */
#define MISFITS 256U

/* Memory that may wait for readers before they are hurried, and objects. */
#define BOUND_BYTES ((size_t)8 << 20)
#define BOUND_MIN ((size_t)256)
#define BOUND_MAX ((size_t)65536)

static size_t default_bound(size_t size)
{
	size_t bound = BOUND_BYTES / size;

	if (bound < BOUND_MIN)
		return BOUND_MIN;
	return bound < BOUND_MAX ? bound : BOUND_MAX;
}

/* --- handing over --------------------------------------------------------- */

uint32_t pcp_defer_begin(struct pcp_defer *defer)
{
	for (;;) {
		uint32_t phase = pcp_load(&defer->phase);

		/* Sequentially consistent with the flip and the look in
		 * pcp_defer_flip() and _await(): either this sees the phase
		 * flipped, or the barrier sees the count. */
		__atomic_fetch_add(&defer->handing[phase], 1U,
				   __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&defer->phase, __ATOMIC_SEQ_CST) == phase)
			return phase;
		pcp_defer_end(defer, phase);
	}
}

void pcp_defer_end(struct pcp_defer *defer, uint32_t phase)
{
	/* Pairs with the acquire in pcp_defer_await(). */
	__atomic_fetch_sub(&defer->handing[phase], 1U, __ATOMIC_RELEASE);
}

uint32_t pcp_defer_flip(struct pcp_defer *defer)
{
	uint32_t phase = pcp_load(&defer->phase);

	__atomic_store_n(&defer->phase, phase ^ 1, __ATOMIC_SEQ_CST);
	return phase;
}

void pcp_defer_await(struct pcp_defer *defer, uint32_t phase)
{
	for (unsigned int i = 0;
	     __atomic_load_n(&defer->handing[phase], __ATOMIC_SEQ_CST); i++)
		pcp_back_off(i);
}

static bool anything(const struct pcp_defer *defer)
{
	return pcp_load(&defer->open) ||
	       !pcp_stack_seems_empty(&defer->open_slabs) ||
	       !pcp_stack_seems_empty(&defer->open_dying);
}

void pcp_defer_kick(struct pcp_defer *defer)
{
	/* By exchange, as ripen() lowers it: of two that meet here one sees
	 * what the other did. */
	if (pcp_xchg(&defer->state, PCP_DEFER_QUEUED) == PCP_DEFER_IDLE)
		pcp_grace_queue(&defer->grace);
}

bool pcp_defer_idle(struct pcp_defer *defer)
{
	/* Pairs with the exchange in ripen(). */
	return pcp_load_acquire(&defer->state) == PCP_DEFER_IDLE &&
	       !anything(defer);
}

static void add_pending(struct pcp_stock *stock, size_t n)
{
	struct pcp_defer *defer = &stock->defer;
	size_t pending = pcp_add(&defer->pending, n) + n;
	size_t peak = pcp_load(&defer->peak);

	while (pending > peak && !pcp_cas(&defer->peak, &peak, pending))
		;
	if (pending > defer->bound && pcp_grace_hurry())
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_RCU_HURRY);
}

void pcp_defer_sheaf(struct pcp_stock *stock, struct pcp_sheaf *sheaf,
		     unsigned int node)
{
	struct pcp_defer *defer = &stock->defer;
	struct pcp_sheaf_tail *tail = pcp_sheaf_tail(sheaf);
	uint32_t size = pcp_sheaf_size(sheaf);
	struct pcp_sheaf *head = pcp_load(&defer->open);

	pcp_stat_add(&stock->kind.stat, PCP_STAT_FREE_RCU_SHEAF, size);
	tail->node = (uint16_t)node;
	/* Before it can be subtracted. */
	add_pending(stock, size);
	/* Pairs with the exchange in seal(). */
	do
		tail->next = head;
	while (!pcp_cas(&defer->open, &head, sheaf));
	pcp_defer_kick(defer);
}

void pcp_defer_object(struct pcp_stock *stock, void *obj,
		      enum pcp_deferral how)
{
	struct pcp_defer *defer = &stock->defer;
	struct pcp_slab *slab;
	uint32_t index, phase;

	slab = pcp_check_owner(&stock->kind, obj, NULL, &index);
	pcp_store(&defer->used, true);
	phase = pcp_defer_begin(defer);
	add_pending(stock, 1);
	/* The object is out, so the slab stays until it is ripe. */
	if (pcp_slab_defer(slab, index, how)) {
		PCP_HOOK(PCP_HOOK_DEFER_CHAINED);
		pcp_stack_push(&defer->open_slabs, &slab->defer);
		pcp_defer_kick(defer);
	}
	pcp_defer_end(defer, phase);
	pcp_grace_kick();
}

void pcp_defer_deaths(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	struct pcp_defer *defer = &stock->defer;

	if (pcp_slabs_empty(dead))
		return;
	pcp_store(&defer->used, true);
	while (!pcp_slabs_empty(dead)) {
		struct pcp_slab *slab = pcp_slab_of_list(dead->next);

		pcp_slabs_del(&slab->list);
		pcp_stack_push(&defer->open_dying, &slab->park);
	}
	pcp_defer_kick(defer);
	pcp_grace_kick();
}

/* --- the caller's slot ---------------------------------------------------- */

/* Hook a sheaf in the place of a full one, or of none, and hand that over.
 * False: the slot changed meanwhile, or it is another's. */
static bool hook_rcu(struct pcp_stock *stock, long index,
		     struct pcp_sheaf *fresh)
{
	struct pcp_defer *defer = &stock->defer;
	struct pcp_sheaf *old = pcp_slot_peek(stock, index, PCP_RCU);
	uint32_t phase = pcp_defer_begin(defer);
	bool done;

	PCP_HOOK(PCP_HOOK_DEFER_RAISED);
	done = pcp_slot_commit(stock, index, PCP_RCU, old, fresh);
	if (done && old) {
		PCP_HOOK(PCP_HOOK_DEFER_UNHOOKED);
		pcp_sheaf_end(old, &stock->kind.stat);
		pcp_defer_sheaf(stock, old, pcp_slot_node(index));
	}
	pcp_defer_end(defer, phase);
	pcp_grace_kick();
	return done;
}

/* An object into the slot's rcu sheaf, which has no room or is none. */
static bool defer_to_slot(struct pcp_stock *stock, void *obj)
{
	struct pcp_sheaf *fresh = NULL;
	bool done = false;

	for (int i = 0; !done && i < HOOK_TRIES; i++) {
		long index = pcp_this_index();

		if (!pcp_slot_usable(stock, index))
			break;
		/* It may be another slot than the one that refused. */
		if (pcp_slot_push_rcu(stock, obj)) {
			done = true;
			break;
		}
		if (!fresh)
			fresh = pcp_stock_empty_sheaf(stock,
						      pcp_slot_node(index));
		if (!fresh)
			break;
		/* Counted as a section would have. */
		pcp_sheaf_begin(fresh);
		pcp_sheaf_push(fresh, obj);
		done = hook_rcu(stock, index, fresh);
		if (done)
			return true;
		(void)pcp_sheaf_pop(fresh);
		pcp_sheaf_end(fresh, &stock->kind.stat);
	}
	if (fresh) {
		struct pcp_slab_link dead;

		pcp_slabs_init(&dead);
		pcp_stock_put_sheaf(stock, pcp_this_node(), fresh, &dead);
	}
	return done;
}

void pcp_slot_defer_slow(struct pcp_stock *stock, void *obj)
{
	if (!pcp_load(&stock->defer.used))
		pcp_store(&stock->defer.used, true);
	if (!stock->bypass && defer_to_slot(stock, obj))
		return;
	/* Counted first: no longer the caller's, should another thread fork. */
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_FREE);
	pcp_stat_inc(&stock->kind.stat, PCP_STAT_FREE_RCU_SHEAF_FAIL);
	pcp_defer_object(stock, obj, PCP_DEFER_FREE);
}

/* --- the runner ----------------------------------------------------------- */

static struct pcp_stock *stock_of(struct pcp_grace *grace)
{
	return pcp_container_of(grace, struct pcp_stock, defer.grace);
}

/* What is open becomes ripe with the grace period that begins after this. */
static void seal(struct pcp_grace *grace)
{
	struct pcp_defer *defer = &stock_of(grace)->defer;
	struct pcp_stack_node *node, *next;

	/* Sealed in this batch already, by the work of a barrier or by the
	 * cache's own: what that covers was open when the batch was taken. */
	if (defer->ripe || defer->ripe_slabs || defer->ripe_dying)
		return;
	/* Pairs with the swap in pcp_defer_sheaf(). */
	defer->ripe = pcp_xchg(&defer->open, NULL);
	for (node = pcp_stack_take_all(&defer->open_slabs); node; node = next) {
		struct pcp_slab *slab =
			pcp_container_of(node, struct pcp_slab, defer);

		next = pcp_stack_next_taken(node);
		/* From here on another object is the first again, and the slab
		 * may get on the stack while it is on this list. Pairs with the
		 * swap in pcp_slab_defer(). */
		pcp_store(&slab->ripe, pcp_xchg(&slab->chain, UINT64_C(0)));
		slab->next_ripe = defer->ripe_slabs;
		defer->ripe_slabs = slab;
	}
	defer->ripe_dying = pcp_stack_take_all(&defer->open_dying);
}

static void free_ripe_sheaves(struct pcp_stock *stock,
			      struct pcp_slab_link *dead)
{
	struct pcp_defer *defer = &stock->defer;

	while (defer->ripe) {
		struct pcp_sheaf *sheaf = defer->ripe;
		size_t size = pcp_sheaf_size(sheaf);

		defer->ripe = pcp_sheaf_tail(sheaf)->next;
		pcp_stock_put_sheaf(stock, pcp_sheaf_tail(sheaf)->node, sheaf,
				    dead);
		pcp_sub(&defer->pending, size);
	}
}

/* The objects are nobody else's: their destructors, if they were discarded, and
 * the check table. */
static void unlock_objects(struct pcp_stock *stock,
			   const struct pcp_chain *chain, bool discard)
{
	uint32_t index = chain->first;

	for (uint32_t i = 0; i < chain->count; i++) {
		uint32_t next = pcp_load(&chain->slab->next[index]);

		if (discard)
			pcp_unbuild(chain->slab, index);
		if (stock->bypass)
			pcp_check_freed(chain->slab, index, !discard);
		index = next;
	}
}

static void free_ripe_chain(struct pcp_stock *stock,
			    const struct pcp_chain *chain, bool discard,
			    struct pcp_slab_link *dead)
{
	if (!chain->count)
		return;
	if (discard || stock->bypass)
		unlock_objects(stock, chain, discard);
	pcp_node_give(&stock->nodes[chain->slab->node], chain, dead);
	pcp_stat_shared(&stock->kind.stat, 1);
	pcp_sub(&stock->defer.pending, (size_t)chain->count);
}

static void free_ripe_slabs(struct pcp_stock *stock, struct pcp_slab_link *dead)
{
	struct pcp_defer *defer = &stock->defer;

	while (defer->ripe_slabs) {
		struct pcp_slab *slab = defer->ripe_slabs;
		struct pcp_chain frees, discards;

		defer->ripe_slabs = slab->next_ripe;
		frees = pcp_slab_deferred(slab, slab->ripe, PCP_DEFER_FREE);
		discards = pcp_slab_deferred(slab, slab->ripe,
					     PCP_DEFER_DISCARD);
		pcp_store(&slab->ripe, UINT64_C(0));
		/* With the last of these the slab may be gone. */
		free_ripe_chain(stock, &frees, false, dead);
		free_ripe_chain(stock, &discards, true, dead);
	}
}

static void kill_ripe(struct pcp_stock *stock)
{
	struct pcp_defer *defer = &stock->defer;

	while (defer->ripe_dying) {
		struct pcp_slab *slab = pcp_container_of(
			defer->ripe_dying, struct pcp_slab, park);

		defer->ripe_dying = pcp_stack_next_taken(defer->ripe_dying);
		pcp_slab_kill(slab);
	}
}

static void free_ripe(struct pcp_grace *grace)
{
	struct pcp_stock *stock = stock_of(grace);
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	free_ripe_sheaves(stock, &dead);
	free_ripe_slabs(stock, &dead);
	pcp_stock_bury(stock, &dead, false);
	kill_ripe(stock);
	/* A backlog can be many sheaves, all of which a new capacity makes
	 * misfits. */
	if (pcp_load(&stock->sheaves.nr_misfits) >= MISFITS) {
		pcp_lock(&stock->drain_lock);
		pcp_sheaves_sweep_misfits(&stock->sheaves);
		pcp_unlock(&stock->drain_lock);
	}
}

/* Its state says QUEUED one step before the work is in the queue: a thread that
 * stops between the two keeps others from queueing it. So a barrier seals and
 * frees by itself. */
int pcp_defer_barrier(struct pcp_defer *defer)
{
	return pcp_grace_barrier_of(&defer->grace, free_ripe);
}

static void ripen(struct pcp_grace *grace)
{
	struct pcp_defer *defer = &stock_of(grace)->defer;

	free_ripe(grace);
	PCP_HOOK(PCP_HOOK_DEFER_FREED);
	/* By exchange, which reads from that of whoever came by while it was
	 * queued and so sees what that one left, in the look that follows. */
	(void)pcp_xchg(&defer->state, PCP_DEFER_IDLE);
	if (anything(defer))
		pcp_defer_kick(defer);
}

void pcp_defer_init(struct pcp_stock *stock,
		    const struct rcu_flavor_struct *flavor, size_t bound)
{
	struct pcp_defer *defer = &stock->defer;
	bool typesafe = stock->kind.flags & PCPOOL_TYPESAFE_BY_RCU;

	defer->grace = (struct pcp_grace){
		.flavor = flavor ? flavor : pcp_grace_default(),
		.seal = seal,
		.fn = ripen,
		/* Otherwise objects come back, and nothing dies. */
		.user_code = typesafe && stock->kind.dtor,
	};
	defer->bound = bound ? bound : default_bound(stock->kind.layout.size);
	defer->used = typesafe;
	pcp_stack_init(&defer->open_slabs);
	pcp_stack_init(&defer->open_dying);
}

static size_t sheaves_size(struct pcp_sheaf *sheaf)
{
	size_t size = 0;

	for (; sheaf; sheaf = pcp_sheaf_tail(sheaf)->next)
		size += pcp_sheaf_size(sheaf);
	return size;
}

/* What was ripe waits again, in front of what is open: the next batch would not
 * seal otherwise. */
static void unripen(struct pcp_defer *defer)
{
	struct pcp_sheaf *sheaf;

	while ((sheaf = defer->ripe)) {
		defer->ripe = pcp_sheaf_tail(sheaf)->next;
		pcp_sheaf_tail(sheaf)->next = defer->open;
		defer->open = sheaf;
	}
	for (struct pcp_slab *slab = defer->ripe_slabs; slab;
	     slab = slab->next_ripe)
		pcp_slab_defer_again(slab);
	defer->ripe_slabs = NULL;
	while (defer->ripe_dying) {
		struct pcp_stack_node *node = defer->ripe_dying;

		defer->ripe_dying = pcp_stack_next_taken(node);
		pcp_stack_push(&defer->open_dying, node);
	}
}

/* Hand-overs of threads that do not exist never end; a slab they had yet to put
 * on the stack would never get there. And the queue is gone: the next kick, a
 * barrier's at the latest, queues what there is. */
void pcp_defer_fork_child(struct pcp_stock *stock)
{
	struct pcp_defer *defer = &stock->defer;
	struct pcp_kind *kind = &stock->kind;
	size_t pending;

	if (!defer->used)
		return;
	defer->handing[0] = defer->handing[1] = 0;
	pcp_store(&defer->state, (uint32_t)PCP_DEFER_IDLE);
	unripen(defer);
	pending = sheaves_size(defer->open);
	pcp_stack_init(&defer->open_slabs);
	for (struct pcp_slab_link *link = kind->all.next; link != &kind->all;
	     link = link->next) {
		struct pcp_slab *slab =
			pcp_container_of(link, struct pcp_slab, all);

		if (!slab->chain)
			continue;
		pending += pcp_chained(slab->chain);
		pcp_stack_push(&defer->open_slabs, &slab->defer);
	}
	pcp_store(&defer->pending, pending);
}

/* SPDX-License-Identifier: MIT */
/* Tending a stock. See tend.h. */
#include <config.h>

#include "slot/adapt.h"
#include "slot/ops.h"
#include "slot/tend.h"

/* Waiting slabs kept whatever happens, in multiples of the partial ones a node
 * keeps. */
#define WAITING_MAX 4U

static uint64_t mix(uint64_t sum, uint64_t value)
{
	sum = (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return sum ^ sum >> 29;
}

static uint64_t mix_sheaf(uint64_t sum, const struct pcp_sheaf *sheaf)
{
	sum = mix(sum, (uintptr_t)sheaf);
	return sheaf ? mix(sum, pcp_load(&sheaf->word)) : sum;
}

/* What every use of a slot leaves a trace in: the words of sheaves that are in
 * it, and what has moved from such words to the counters. */
static uint64_t mix_counts(uint64_t sum, const struct pcp_stock *stock,
			   unsigned int index)
{
	static const enum pcp_stat_id uses[] = {
		PCP_STAT_FAST_ALLOC,   PCP_STAT_FAST_FREE,
		PCP_STAT_SLOW_ALLOC,   PCP_STAT_SLOW_FREE,
		PCP_STAT_PREFILL_FAST, PCP_STAT_PREFILL_SLOW,
	};

	for (size_t i = 0; i < PCP_ARRAY_SIZE(uses); i++)
		sum = mix(sum, pcp_stat_of(&stock->kind.stat, index, uses[i]));
	return sum;
}

/* CONTEXT: drain lock held, so that no sheaf is freed. Something that changes
 * with every use; 0: the slot holds nothing. */
static uint64_t signature(struct pcp_stock *stock, unsigned int index)
{
	const struct pcp_sheaf *main = pcp_slot_peek(stock, index, PCP_MAIN);
	const struct pcp_sheaf *spare = pcp_slot_peek(stock, index, PCP_SPARE);
	const struct pcp_sheaf *rcu = pcp_slot_peek(stock, index, PCP_RCU);

	if (pcp_is_sentinel(main) && !spare && !rcu)
		return 0;
	return mix_counts(mix_sheaf(mix_sheaf(mix_sheaf(1, main), spare), rcu),
			  stock, index) | 1;
}

/* --- looking --------------------------------------------------------------- */

/* CONTEXT: drain lock held. Mark the slots that were not used since the last
 * look. Returns whether any was. */
static bool look_at_slots(struct pcp_stock *stock, bool *deferred)
{
	bool busy = false;

	pcp_assert_held(PCP_RANK_DRAIN);
	*deferred = false;
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
		struct pcp_slot *slot = &stock->slots[i];
		const struct pcp_sheaf *rcu = pcp_slot_peek(stock, i, PCP_RCU);
		uint64_t now = signature(stock, i);

		*deferred |= rcu && pcp_sheaf_size(rcu);
		slot->trim = now && now == slot->seen ? PCP_TRIM_IDLE
						      : PCP_TRIM_NO;
		busy |= now != slot->seen;
		slot->seen = now;
	}
	return busy;
}

/* CONTEXT: drain lock held. How the cache was used since the last look. */
static enum pcp_use use_of(struct pcp_stock *stock, bool busy)
{
	const struct pcp_stat *stat = &stock->kind.stat;
	struct pcp_tending *t = &stock->tending;
	uint64_t misses = pcp_stat_sum(stat, PCP_STAT_SLOT_MISS);
	uint64_t slow = pcp_stat_sum(stat, PCP_STAT_SLOW_ALLOC) +
			pcp_stat_sum(stat, PCP_STAT_SLOW_FREE);
	enum pcp_use use = PCP_USE_HITS;

	if (misses != t->misses)
		use = PCP_USE_MISSES;
	else if (!busy && slow == t->slow)
		use = PCP_USE_NONE;
	t->misses = misses;
	t->slow = slow;
	return use;
}

static uint32_t surplus_of(struct pcp_node *node)
{
	uint32_t waiting = pcp_load(&node->nr_waiting);
	uint32_t surplus = pcp_node_unused_waiting(node);
	uint32_t most = WAITING_MAX * node->min_partial;

	return waiting > most && waiting - most > surplus ? waiting - most
							  : surplus;
}

/* Decide what goes. */
static void look(struct pcp_stock *stock, int *err)
{
	struct pcp_tending *t = &stock->tending;
	struct pcp_slab_link dead;
	bool busy, deferred;
	int err1 = 0;

	pcp_stat_inc(&stock->kind.stat, PCP_STAT_TENDED);
	pcp_slabs_init(&dead);
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		pcp_node_unpark(&stock->nodes[i], &dead);
	/* A few at most; they are looked at like all that wait. */
	pcp_stock_set_aside(stock, &dead);
	pcp_lock(&stock->drain_lock);
	busy = look_at_slots(stock, &deferred);
	t->use = use_of(stock, busy);
	pcp_unlock(&stock->drain_lock);
	if (deferred)
		err1 = pcp_stock_hand_over(stock);
	*err = err1 ? err1 : *err;
	for (unsigned int i = 0; i < stock->nr_nodes; i++) {
		stock->barns[i].surplus = pcp_barn_unused(&stock->barns[i]);
		stock->nodes[i].surplus = surplus_of(&stock->nodes[i]);
	}
	t->pending = true;
	t->gathered = false;
}

/* --- giving back ------------------------------------------------------------ */

/* As many idle slots as the budget allows. Whether that were all. */
static bool trim_slots(struct pcp_stock *stock, struct pcp_budget *budget,
		       struct pcp_slab_link *dead, int *err)
{
	bool all = true, any = false;
	int err1;

	pcp_lock(&stock->drain_lock);
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
		struct pcp_slot *slot = &stock->slots[i];

		if (slot->trim == PCP_TRIM_NO)
			continue;
		if (signature(stock, i) != slot->seen) {
			/* In use again since the look. */
			slot->trim = PCP_TRIM_NO;
		} else if (!pcp_budget_take(budget, 1)) {
			all = false;
		} else {
			slot->trim = PCP_TRIM_NOW;
			any = true;
			/* As one never used, for what comes next. */
			slot->seen = 0;
			pcp_store(&slot->fill, 0U);
			pcp_store(&slot->misses, 0U);
		}
	}
	pcp_unlock(&stock->drain_lock);
	err1 = any ? pcp_stock_drain_trimmed(stock, dead) : 0;
	*err = err1 ? err1 : *err;
	return all;
}

/* A sheaf of a barn that nobody needs. */
static void give_up(struct pcp_stock *stock, struct pcp_sheaf *sheaf,
		    struct pcp_slab_link *dead)
{
	pcp_stock_flush(stock, sheaf, dead);
	pcp_sheaf_retire(&stock->sheaves, sheaf);
}

static bool tend_barn(struct pcp_stock *stock, struct pcp_barn *barn,
		      struct pcp_budget *budget, struct pcp_slab_link *dead)
{
	bool unused = stock->tending.use == PCP_USE_NONE;
	struct pcp_sheaf *sheaf = NULL;

	if (unused)
		sheaf = pcp_barn_get_partial(barn);
	if (sheaf)
		give_up(stock, sheaf, dead);
	while (barn->surplus && pcp_budget_take(budget, 1)) {
		sheaf = pcp_barn_get_full(barn);
		barn->surplus = sheaf ? barn->surplus - 1 : 0;
		if (sheaf)
			give_up(stock, sheaf, dead);
	}
	/* Empty ones cost little and are found again among the retired. */
	while (unused && (sheaf = pcp_barn_get_empty(barn)))
		pcp_sheaf_retire(&stock->sheaves, sheaf);
	return !barn->surplus;
}

/* Where nothing was used, all slabs that are empty when slots and barns are. */
static void gather_slabs(struct pcp_stock *stock)
{
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	for (unsigned int i = 0; i < stock->nr_nodes; i++) {
		struct pcp_node *node = &stock->nodes[i];

		pcp_node_trim_empty(node, &dead);
		pcp_stock_set_aside(stock, &dead);
		node->surplus = pcp_load(&node->nr_waiting);
	}
}

/* Slabs that waited long enough. */
static bool tend_node(struct pcp_stock *stock, struct pcp_node *node,
		      struct pcp_budget *budget)
{
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	while (node->surplus && pcp_budget_take(budget, 1)) {
		struct pcp_slab *slab = pcp_node_pop_oldest(node);

		node->surplus = slab ? node->surplus - 1 : 0;
		if (!slab)
			break;
		pcp_slabs_add_tail(&dead, &slab->list);
		pcp_stock_kill(stock, &dead);
	}
	return !node->surplus;
}

bool pcp_stock_tend(struct pcp_stock *stock, bool anew,
		    struct pcp_budget *budget, int *err)
{
	struct pcp_tending *t = &stock->tending;
	struct pcp_slab_link dead;
	bool done;

	if (stock->dying)
		return true;
	if (anew && !t->pending)
		look(stock, err);
	if (!t->pending)
		return true;
	pcp_slabs_init(&dead);
	done = trim_slots(stock, budget, &dead, err);
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		done &= tend_barn(stock, &stock->barns[i], budget, &dead);
	/* What that emptied waits, since releasing each is a step of its own, and
	 * is given back below or the next time. */
	pcp_stock_set_aside(stock, &dead);
	if (done && t->use == PCP_USE_NONE && !t->gathered) {
		gather_slabs(stock);
		t->gathered = true;
	}
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		done &= tend_node(stock, &stock->nodes[i], budget);
	if (!done)
		return false;
	t->pending = false;
	pcp_adapt_relax(stock, t->use);
	pcp_lock(&stock->drain_lock);
	pcp_sheaves_sweep(&stock->sheaves);
	pcp_unlock(&stock->drain_lock);
	return true;
}

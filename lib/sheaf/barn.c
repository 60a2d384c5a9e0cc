/* SPDX-License-Identifier: MIT */
/* Barns. See barn.h. */
#include <config.h>

#include "base/fault.h"
#include "sheaf/barn.h"

void pcp_barn_init(struct pcp_barn *barn, struct pcp_stat *stat)
{
	pcp_stack_init(&barn->full);
	pcp_stack_init(&barn->empty);
	pcp_stack_init(&barn->unused);
	barn->nr_full = barn->nr_empty = 0;
	barn->partial = NULL;
	barn->stat = stat;
	for (size_t i = 0; i < PCP_ARRAY_SIZE(barn->nodes); i++)
		pcp_stack_push(&barn->unused, &barn->nodes[i].link);
}

static struct pcp_sheaf *get(struct pcp_barn *barn, struct pcp_stack *stack,
			     uint32_t *count)
{
	struct pcp_stack_node *link;
	struct pcp_barn_node *node;
	struct pcp_sheaf *sheaf;

	if (pcp_stack_seems_empty(stack))
		return NULL;
	link = pcp_stack_pop(stack);
	if (!link)
		return NULL;
	node = pcp_container_of(link, struct pcp_barn_node, link);
	sheaf = pcp_load(&node->sheaf);
	/* An unused node must not name a sheaf that may be freed: see
	 * pcp_barn_objects(). */
	pcp_store(&node->sheaf, NULL);
	/* The node first, the place after: whoever gets the place finds a
	 * node. Pairs with the acquire in put(). */
	pcp_stack_push(&barn->unused, link);
	__atomic_fetch_sub(count, 1U, __ATOMIC_RELEASE);
	return sheaf;
}

static bool put(struct pcp_barn *barn, struct pcp_stack *stack,
		uint32_t *count, uint32_t limit, struct pcp_sheaf *sheaf)
{
	struct pcp_stack_node *link = NULL;

	/* Read first: a full barn is the common refusal and should not make
	 * its line bounce. */
	if (pcp_load(count) >= limit)
		return false;
	if (__atomic_fetch_add(count, 1U, __ATOMIC_ACQUIRE) < limit) {
		PCP_HOOK(PCP_HOOK_BARN_RESERVED);
		link = pcp_stack_pop(&barn->unused);
	}
	if (!link) {
		pcp_sub(count, 1U);
		return false;
	}
	pcp_store_release(
		&pcp_container_of(link, struct pcp_barn_node, link)->sheaf,
		sheaf);
	pcp_stack_push(stack, link);
	return true;
}

struct pcp_sheaf *pcp_barn_get_full(struct pcp_barn *barn)
{
	struct pcp_sheaf *sheaf = get(barn, &barn->full, &barn->nr_full);

	pcp_stat_inc(barn->stat, sheaf ? PCP_STAT_BARN_GET
				       : PCP_STAT_BARN_GET_FAIL);
	return sheaf;
}

struct pcp_sheaf *pcp_barn_get_empty(struct pcp_barn *barn)
{
	return get(barn, &barn->empty, &barn->nr_empty);
}

struct pcp_sheaf *pcp_barn_get_partial(struct pcp_barn *barn)
{
	if (!pcp_load(&barn->partial))
		return NULL;
	/* Pairs with the exchange in pcp_barn_put_partial(). */
	return pcp_xchg(&barn->partial, NULL);
}

bool pcp_barn_put_full(struct pcp_barn *barn, struct pcp_sheaf *sheaf)
{
	bool done = put(barn, &barn->full, &barn->nr_full, PCP_BARN_FULL,
			sheaf);

	pcp_stat_inc(barn->stat, done ? PCP_STAT_BARN_PUT
				      : PCP_STAT_BARN_PUT_FAIL);
	return done;
}

bool pcp_barn_put_empty(struct pcp_barn *barn, struct pcp_sheaf *sheaf)
{
	return put(barn, &barn->empty, &barn->nr_empty, PCP_BARN_EMPTY, sheaf);
}

struct pcp_sheaf *pcp_barn_put_partial(struct pcp_barn *barn,
				       struct pcp_sheaf *sheaf)
{
	return pcp_xchg(&barn->partial, sheaf);
}

uint64_t pcp_barn_objects(const struct pcp_barn *barn)
{
	const struct pcp_sheaf *partial = pcp_load_acquire(&barn->partial);
	const struct pcp_stack_node *link = pcp_stack_first(&barn->full);
	uint64_t objects = partial ? pcp_sheaf_size(partial) : 0;

	for (size_t i = 0; link && i < PCP_ARRAY_SIZE(barn->nodes); i++) {
		const struct pcp_barn_node *node = pcp_container_of(
			link, const struct pcp_barn_node, link);
		/* Sheaves are freed under the lock the caller holds, and a node
		 * forgets its sheaf before that can be. Pairs with put(). */
		const struct pcp_sheaf *sheaf = pcp_load_acquire(&node->sheaf);

		if (sheaf)
			objects += pcp_sheaf_size(sheaf);
		link = pcp_stack_next(link);
	}
	return objects;
}

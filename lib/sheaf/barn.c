/* SPDX-License-Identifier: MIT */
/* Barns. See barn.h. */
#include <config.h>

#include <errno.h>

#include "base/fault.h"
#include "base/osmem.h"
#include "cpu/index.h"
#include "sheaf/barn.h"

void pcp_barn_init(struct pcp_barn *barn, struct pcp_stat *stat)
{
	for (size_t i = 0; i < PCP_BARN_STACKS; i++)
		pcp_stack_init(&barn->full[i].sheaves);
	pcp_stack_init(&barn->empty);
	pcp_stack_init(&barn->unused);
	barn->nr_full = barn->nr_empty = 0;
	barn->partial = NULL;
	barn->limit = barn->most = PCP_BARN_FULL;
	barn->low = 0;
	barn->starved = false;
	barn->stat = stat;
	barn->more = NULL;
	barn->nr_more = 0;
	for (size_t i = 0; i < PCP_ARRAY_SIZE(barn->nodes); i++)
		pcp_stack_push(&barn->unused, &barn->nodes[i].link);
}

void pcp_barn_destroy(struct pcp_barn *barn)
{
	struct pcp_barn_more *more = barn->more, *next;

	for (; more; more = next) {
		next = more->next;
		pcp_meta_free(more);
	}
}

size_t pcp_barn_nodes(const struct pcp_barn *barn)
{
	return PCP_ARRAY_SIZE(barn->nodes) +
	       (size_t)pcp_load(&barn->nr_more) * PCP_BARN_NODES;
}

size_t pcp_barn_bytes(const struct pcp_barn *barn)
{
	return sizeof(*barn) +
	       pcp_load(&barn->nr_more) * sizeof(struct pcp_barn_more);
}

/* One node of a new lot, of which the others go to the unused ones. NULL
 * without memory. Several threads may come here at once, and each brings a lot:
 * there are never more lots than places and threads ask for. */
static struct pcp_stack_node *more_nodes(struct pcp_barn *barn)
{
	int saved = errno;
	struct pcp_barn_more *more =
		pcp_meta_alloc(sizeof(*more), _Alignof(struct pcp_barn_more));

	errno = saved;
	if (!more)
		return NULL;
	for (size_t i = 1; i < PCP_ARRAY_SIZE(more->nodes); i++)
		pcp_stack_push(&barn->unused, &more->nodes[i].link);
	/* Nobody looks at the list but the end, which is ordered after. */
	more->next = pcp_load(&barn->more);
	while (!pcp_cas(&barn->more, &more->next, more))
		;
	pcp_add(&barn->nr_more, 1U);
	return &more->nodes[0].link;
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
	pcp_stat_shared(barn->stat, 3);
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
		if (pcp_unlikely(!link))
			link = more_nodes(barn);
	}
	if (!link) {
		pcp_sub(count, 1U);
		pcp_stat_shared(barn->stat, 2);
		return false;
	}
	pcp_store_release(
		&pcp_container_of(link, struct pcp_barn_node, link)->sheaf,
		sheaf);
	pcp_stack_push(stack, link);
	pcp_stat_shared(barn->stat, 3);
	return true;
}

/* The nth stack from where the caller's CPU begins. */
static struct pcp_stack *full_stack(struct pcp_barn *barn, unsigned int here,
				    unsigned int nth)
{
	return &barn->full[(here + nth) % PCP_BARN_STACKS].sheaves;
}

struct pcp_sheaf *pcp_barn_get_full(struct pcp_barn *barn)
{
	unsigned int here = pcp_this_slot();
	struct pcp_sheaf *sheaf = NULL;
	uint32_t left;

	for (unsigned int i = 0; !sheaf && i < PCP_BARN_STACKS; i++)
		sheaf = get(barn, full_stack(barn, here, i), &barn->nr_full);
	left = pcp_load(&barn->nr_full);
	pcp_stat_inc(barn->stat, sheaf ? PCP_STAT_BARN_GET
				       : PCP_STAT_BARN_GET_FAIL);
	/* Hints, read before they are written: the common case writes
	 * nothing. */
	if (left < pcp_load(&barn->low))
		pcp_store(&barn->low, left);
	if (!sheaf && !pcp_load(&barn->starved))
		pcp_store(&barn->starved, true);
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
	pcp_stat_shared(barn->stat, 1);
	/* Pairs with the exchange in pcp_barn_put_partial(). */
	return pcp_xchg(&barn->partial, NULL);
}

/* Full now and empty not long ago: a larger one would have saved the way to the
 * slabs and back. */
static bool raise_limit(struct pcp_barn *barn)
{
	uint32_t limit = pcp_load(&barn->limit), most = pcp_load(&barn->most);
	uint32_t next = limit + limit / 2;

	if (limit >= most || !pcp_load(&barn->starved))
		return false;
	pcp_store(&barn->starved, false);
	pcp_store(&barn->limit, next < most ? next : most);
	pcp_stat_inc(barn->stat, PCP_STAT_BARN_LIMIT_UP);
	return true;
}

bool pcp_barn_put_full(struct pcp_barn *barn, struct pcp_sheaf *sheaf)
{
	bool done;

	do
		done = put(barn, full_stack(barn, pcp_this_slot(), 0),
			   &barn->nr_full, pcp_load(&barn->limit), sheaf);
	while (!done && raise_limit(barn));
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
	pcp_stat_shared(barn->stat, 1);
	return pcp_xchg(&barn->partial, sheaf);
}

void pcp_barn_bound(struct pcp_barn *barn, uint32_t most)
{
	pcp_store(&barn->most, most);
	if (pcp_load(&barn->limit) > most)
		pcp_store(&barn->limit, most);
	else if (most >= PCP_BARN_FULL &&
		 pcp_load(&barn->limit) < PCP_BARN_FULL)
		pcp_store(&barn->limit, PCP_BARN_FULL);
}

void pcp_barn_relax(struct pcp_barn *barn)
{
	uint32_t most = pcp_load(&barn->most);

	pcp_store(&barn->limit, most < PCP_BARN_FULL ? most : PCP_BARN_FULL);
	pcp_store(&barn->starved, false);
}

uint32_t pcp_barn_unused(struct pcp_barn *barn)
{
	uint32_t now = pcp_load(&barn->nr_full);
	uint32_t low = pcp_xchg(&barn->low, now);

	return low < now ? low : now;
}

/* CONTEXT: drain lock held. */
static uint64_t objects_on(const struct pcp_stack *stack, size_t nodes)
{
	const struct pcp_stack_node *link = pcp_stack_first(stack);
	uint64_t objects = 0;

	/* Nodes move while this walks: it ends all the same. */
	for (size_t i = 0; link && i < nodes; i++) {
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

uint64_t pcp_barn_objects(const struct pcp_barn *barn)
{
	const struct pcp_sheaf *partial = pcp_load_acquire(&barn->partial);
	uint64_t objects = partial ? pcp_sheaf_size(partial) : 0;
	size_t nodes = pcp_barn_nodes(barn);

	for (size_t i = 0; i < PCP_BARN_STACKS; i++)
		objects += objects_on(&barn->full[i].sheaves, nodes);
	return objects;
}

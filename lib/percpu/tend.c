/* SPDX-License-Identifier: MIT */
/* Tending the regions: pages of free space go back to the system, a step of the
 * budget at a time. discard.h says which. */
#include <config.h>

#include "base/osmem.h"
#include "percpu/discard.h"
#include "percpu/state.h"

/* Slots whose pages one step gives back. */
#define SLOTS_PER_STEP 16U

/* Where the round is, the tending thread's alone: the next bucket of the map, and
 * whether its chunks were looked at. */
static unsigned int tended;
static bool looked;

/* The pages of what is borrowed, of each slot. Whether all are zero now. */
static bool discard(const struct pcp_place *place)
{
	const struct pcp_chunk_geometry *geometry = &pcp_chunk_geometry;
	const size_t size = (size_t)(place->end - place->pos)
			    << PCP_GRANULE_SHIFT;
	char *copy = (char *)place->chunk->base +
		     ((size_t)place->pos << PCP_GRANULE_SHIFT);

	if (size == geometry->stride)
		return !pcp_os_discard(copy, geometry->size);
	for (unsigned int i = 0; i < geometry->slots; i++)
		if (pcp_os_discard(copy + i * geometry->stride, size))
			return false;
	return true;
}

/* Borrow what is due of the chunks of the bucket the round is at. */
static bool borrow_locked(void) PCP_REQUIRES(pcp_regions.lock)
{
	const unsigned int unit =
		(unsigned int)(pcp_page_size() >> PCP_BLOCK_SHIFT);

	for (struct pcp_chunk *c = pcp_regions.map.buckets[tended]; c;
	     c = c->hashed)
		if (pcp_discard_borrow(&pcp_regions.map, c, unit,
				       &pcp_regions.borrowed))
			return true;
	return false;
}

static void return_locked(bool zeroed) PCP_REQUIRES(pcp_regions.lock)
{
	const struct pcp_place *place = &pcp_regions.borrowed;

	pcp_discard_return(&pcp_regions.map, place, zeroed);
	if (zeroed)
		pcp_regions.discarded +=
			(place->end - place->pos) / PCP_BLOCK_GRANULES;
	pcp_regions.borrowed.chunk = NULL;
}

static void look_locked(void) PCP_REQUIRES(pcp_regions.lock)
{
	/* What is held would keep its blocks from being due for ever. */
	if (!tended)
		pcp_quick_flush(&pcp_regions.quick, &pcp_regions.map);
	for (struct pcp_chunk *c = pcp_regions.map.buckets[tended]; c;
	     c = c->hashed)
		pcp_discard_look(c);
	looked = true;
}

/* Give back what is due in the bucket the round is at, one run of blocks. What
 * else there is to do: whether the bucket has more. */
static bool tend_bucket(struct pcp_budget *budget)
{
	struct pcp_chunk *surplus = NULL;
	struct pcp_place place;
	bool due, zeroed;

	pcp_lock(&pcp_regions.lock);
	if (!looked)
		look_locked();
	due = !pcp_budget_spent(budget) && borrow_locked();
	place = pcp_regions.borrowed;
	pcp_unlock(&pcp_regions.lock);
	if (!due)
		return false;
	(void)pcp_budget_take(budget,
			      1 + pcp_chunk_geometry.slots / SLOTS_PER_STEP);
	zeroed = discard(&place);
	pcp_lock(&pcp_regions.lock);
	return_locked(zeroed);
	if (pcp_regions.map.empty > PCP_KEEP_EMPTY)
		surplus = pcp_map_surplus(&pcp_regions.map, PCP_KEEP_EMPTY);
	pcp_unlock(&pcp_regions.lock);
	pcp_region_give_back(surplus);
	return true;
}

bool pcp_region_tend(struct pcp_budget *budget)
{
	/* Pairs with the release in init_once(). */
	if (!pcp_load_acquire(&pcp_percpu_ready))
		return true;
	while (tended < PCP_MAP_BUCKETS) {
		if (tend_bucket(budget))
			continue;
		if (pcp_budget_spent(budget))
			return false;
		looked = false;
		tended++;
	}
	tended = 0;
	return true;
}

void pcp_region_tend_forked(void)
{
	/* Some of what was borrowed may have lost its pages already. */
	if (pcp_regions.borrowed.chunk)
		return_locked(false);
}

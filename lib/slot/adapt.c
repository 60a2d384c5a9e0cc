/* SPDX-License-Identifier: MIT */
/* How large sheaves and barns are. See adapt.h. */
#include <config.h>

#include "slot/adapt.h"

/* Capacities for which a sheaf fills whole cache lines: 64 bytes to 8 KiB. */
static const uint32_t ladder[] = { 3, 11, 27, 59, 123, 251, 507, 1019 };
#define RUNGS PCP_ARRAY_SIZE(ladder)

/* Bytes of objects that the main and the spare of a slot may hold. A barn may
 * hold as much for each CPU of its node, and at least what bursts of a few CPUs
 * need to keep away from the slabs. */
#define SLOT_BYTES ((size_t)256 << 10)
#define BARN_BYTES ((size_t)8 << 20)

/* Misses that make a window, and the capacities' worth of operations which
 * they have to be spread over to be few. */
#define WINDOW_MISSES 4U
#define RARE 8U

/* The more an object weighs the fewer an idle CPU keeps. */
static uint32_t floor_of(size_t size)
{
	if (size <= 256)
		return 27;
	if (size <= 1024)
		return 11;
	return size <= 65536 ? 3 : 1;
}

/* All that the budget allows: a rung lower would be up to half of it. */
static uint32_t ceiling_of(size_t size, uint32_t floor)
{
	size_t ceiling = SLOT_BYTES / 2 / size;

	if (ceiling > ladder[RUNGS - 1])
		return ladder[RUNGS - 1];
	return ceiling > floor ? (uint32_t)ceiling : floor;
}

static bool fixed(const struct pcp_stock *stock)
{
	return stock->floor == stock->ceiling;
}

/* What barns may grow to with sheaves of that capacity. */
static void bound_barns(struct pcp_stock *stock, uint32_t capacity)
{
	size_t slots = pcp_index.nr_ids / stock->nr_nodes;
	size_t bytes = slots * SLOT_BYTES;
	size_t sheaf = capacity * stock->kind.layout.size;
	size_t max, sheaves;

	if (bytes < BARN_BYTES)
		bytes = BARN_BYTES;
	/* Not in more sheaves than that is with large ones. */
	sheaves = bytes / (SLOT_BYTES / 2);
	max = bytes / sheaf;
	if (max < PCP_BARN_FULL_MIN)
		max = PCP_BARN_FULL_MIN;
	if (max > sheaves)
		max = sheaves;
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		pcp_barn_bound(&stock->barns[i], (uint32_t)max);
}

void pcp_adapt_init(struct pcp_stock *stock, uint32_t capacity)
{
	size_t size = stock->kind.layout.size;

	stock->floor = capacity ? capacity : floor_of(size);
	stock->ceiling = capacity ? capacity : ceiling_of(size, stock->floor);
	stock->sheaves.capacity = stock->floor;
	if (!fixed(stock))
		bound_barns(stock, stock->floor);
}

/* Change the capacity, unless another was faster. */
static bool change(struct pcp_stock *stock, uint32_t from, uint32_t to,
		   enum pcp_stat_id id)
{
	if (!pcp_cas(&stock->sheaves.capacity, &from, to))
		return false;
	bound_barns(stock, to);
	pcp_stat_inc(&stock->kind.stat, id);
	return true;
}

static uint32_t above(const struct pcp_stock *stock, uint32_t capacity)
{
	for (size_t i = 0; i < RUNGS; i++)
		if (ladder[i] > capacity)
			return ladder[i] < stock->ceiling ? ladder[i]
							  : stock->ceiling;
	return stock->ceiling;
}

static uint32_t below(const struct pcp_stock *stock, uint32_t capacity)
{
	uint32_t next = stock->floor;

	for (size_t i = 0; i < RUNGS; i++)
		if (ladder[i] < capacity && ladder[i] > next)
			next = ladder[i];
	return next;
}

/* Operations of a slot, but for what its present main counted. */
static uint64_t ops_of(const struct pcp_stock *stock)
{
	const struct pcp_stat *stat = &stock->kind.stat;

	return pcp_stat_here(stat, PCP_STAT_FAST_ALLOC) +
	       pcp_stat_here(stat, PCP_STAT_FAST_FREE);
}

void pcp_adapt_miss(struct pcp_stock *stock, long index)
{
	struct pcp_slot *slot = &stock->slots[index];
	uint32_t capacity = pcp_load(&stock->sheaves.capacity);
	uint32_t misses = pcp_load(&slot->misses) + 1;
	uint64_t ops;

	pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOT_MISS);
	if (capacity >= stock->ceiling)
		return;
	if (misses < WINDOW_MISSES) {
		pcp_store(&slot->misses, misses);
		return;
	}
	ops = ops_of(stock);
	/* A thread that moved on may have read another slot's number: then the
	 * difference is anything, once. */
	if (ops - pcp_load(&slot->window) <
	    (uint64_t)misses * RARE * capacity)
		(void)change(stock, capacity, above(stock, capacity),
			     PCP_STAT_CAPACITY_UP);
	pcp_store(&slot->window, ops);
	pcp_store(&slot->misses, 0U);
}

uint32_t pcp_adapt_fill(struct pcp_stock *stock, long index, uint32_t room)
{
	struct pcp_slot *slot;
	uint32_t fill;

	if (fixed(stock) || index < 0)
		return room;
	slot = &stock->slots[index];
	fill = pcp_load(&slot->fill);
	if (fill < stock->floor)
		fill = stock->floor;
	pcp_store(&slot->fill, fill < stock->ceiling ? 2 * fill : fill);
	return fill < room ? fill : room;
}

bool pcp_adapt_suffices(struct pcp_stock *stock, uint32_t n)
{
	uint32_t capacity;

	while ((capacity = pcp_load(&stock->sheaves.capacity)) < n) {
		uint32_t to = capacity;

		if (n > stock->ceiling)
			return false;
		while (to < n)
			to = above(stock, to);
		(void)change(stock, capacity, to, PCP_STAT_CAPACITY_UP);
	}
	return true;
}

void pcp_adapt_relax(struct pcp_stock *stock, enum pcp_use use)
{
	uint32_t capacity = pcp_load(&stock->sheaves.capacity);

	if (fixed(stock) || use == PCP_USE_MISSES)
		return;
	if (capacity > stock->floor)
		(void)change(stock, capacity,
			     use == PCP_USE_NONE ? stock->floor
						 : below(stock, capacity),
			     PCP_STAT_CAPACITY_DOWN);
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		pcp_barn_relax(&stock->barns[i]);
}

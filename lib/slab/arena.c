/* SPDX-License-Identifier: MIT */
/* Arenas. See arena.h. */
#include <config.h>

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/fault.h"
#include "base/fork.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/osmem.h"
#include "cpu/topology.h"
#include "slab/arena.h"

#if UINTPTR_MAX > UINT32_MAX
#define ARENA_SHIFT 26
#define ADDRESS_BITS 48
#else
#define ARENA_SHIFT 24
#define ADDRESS_BITS 32
#endif
#define ARENA_SIZE ((size_t)1 << ARENA_SHIFT)

/* Cells: the smallest blocks. The first holds the arena's own header. */
#define CELL_SHIFT 14
#define CELLS (ARENA_SIZE >> CELL_SHIFT)
#define ORDERS 10 /* 2^14 to 2^23 bytes */

/* Usable memory grows by this much at a time: few changes of protection, and
 * little is charged that is not used where the system does not overcommit. */
#define COMMIT_STEP ((size_t)1 << 21)

/* Idle blocks: as many bytes as are in use, or as were in use lately, so that a
 * load that comes and goes does not fault its memory in each time, but not less
 * than this; and for how long, which is what "lately" is too. Each return gives
 * back a few at most, so that none takes long. */
#define IDLE_BYTES ((uint64_t)16 << 20)
#define IDLE_NS UINT64_C(1000000000)
#define PURGE_FEW 4U

#define WORD_BITS 64U

struct arena {
	struct arena *next; /* of the same node, with a free cell */
	struct arena **link; /* NULL: it has none and is not listed */
	unsigned int node;
	unsigned int used;    /* cells taken, the header's included */
	size_t committed;     /* usable bytes from the start; read without the
			       * lock by pcp_block_readable() */
	uint32_t hint[ORDERS]; /* no free block of that order starts below */
	uint64_t taken[CELLS / WORD_BITS];
};

/* An idle block, in its own memory. */
struct idle {
	struct idle *newer, *older;   /* of all, by time of return */
	struct idle *next;	      /* of the same node and order */
	struct idle **link;
	unsigned int node, order;
	uint64_t since;
};

_Static_assert(sizeof(struct arena) <= PCP_BLOCK_MIN, "header fits its cell");
_Static_assert(PCP_BLOCK_MIN == (size_t)1 << CELL_SHIFT, "cells");
_Static_assert(PCP_BLOCK_MAX == PCP_BLOCK_MIN << (ORDERS - 1), "orders");

/* Rank PCP_RANK_ARENA. Guards everything below and every arena's header. */
static struct pcp_lock arena_lock = PCP_LOCK_INIT(PCP_RANK_ARENA);
static struct arena *arenas[PCP_OPTION_NODES_MAX];
static unsigned int empty_arenas[PCP_OPTION_NODES_MAX];
static uint64_t block_bytes, idle_bytes, nr_arenas;
/* The most block_bytes has been since, and in the IDLE_NS before that. */
static uint64_t peak_bytes, last_peak_bytes, peak_since;
static struct idle *newest, *oldest;
static struct idle *idle_blocks[PCP_OPTION_NODES_MAX][ORDERS];

/* One bit per arena-sized piece of address space; read without the lock. */
static uint64_t known[((uint64_t)1 << (ADDRESS_BITS - ARENA_SHIFT)) / WORD_BITS];

static uint64_t *known_word(uintptr_t address, uint64_t *bit)
{
	uintptr_t number = address >> ARENA_SHIFT;

	*bit = UINT64_C(1) << (number % WORD_BITS);
	return &known[number / WORD_BITS];
}

static struct arena *arena_of(const void *p)
{
	return (struct arena *)((uintptr_t)p & ~(uintptr_t)(ARENA_SIZE - 1));
}

static bool cells_free(const struct arena *arena, size_t first, size_t count)
{
	if (count >= WORD_BITS) {
		for (size_t i = 0; i < count / WORD_BITS; i++)
			if (arena->taken[first / WORD_BITS + i])
				return false;
		return true;
	}
	/* Aligned to its own size, so inside one word. */
	return !(arena->taken[first / WORD_BITS] >> (first % WORD_BITS) &
		 ((UINT64_C(1) << count) - 1));
}

static void cells_mark(struct arena *arena, size_t first, size_t count,
		       bool taken)
{
	for (size_t done = 0; done < count;) {
		size_t bits = count - done < WORD_BITS ? count : WORD_BITS;
		uint64_t mask = bits == WORD_BITS ? UINT64_MAX
						  : (UINT64_C(1) << bits) - 1;
		uint64_t *word = &arena->taken[(first + done) / WORD_BITS];

		mask <<= (first + done) % WORD_BITS;
		*word = taken ? *word | mask : *word & ~mask;
		done += bits;
	}
}

/* CONTEXT: arena_lock held. Makes [0, end) usable. */
static int arena_commit(struct arena *arena, size_t end)
{
	size_t step = (end + COMMIT_STEP - 1) & ~(COMMIT_STEP - 1);
	int err;

	if (end <= arena->committed)
		return 0;
	err = pcp_os_commit((char *)arena + arena->committed,
			    step - arena->committed);
	if (!err)
		pcp_store_release(&arena->committed, step);
	return err;
}

/* CONTEXT: arena_lock held. */
static void arena_link(struct arena *arena)
{
	struct arena **head = &arenas[arena->node];

	arena->next = *head;
	if (arena->next)
		arena->next->link = &arena->next;
	arena->link = head;
	*head = arena;
}

/* CONTEXT: arena_lock held. */
static void arena_unlink(struct arena *arena)
{
	*arena->link = arena->next;
	if (arena->next)
		arena->next->link = arena->link;
	arena->link = NULL;
}

/* CONTEXT: arena_lock held. NULL when nothing of that order is free. */
static void *arena_take(struct arena *arena, unsigned int order)
{
	size_t count = (size_t)1 << order;

	if (arena->used + count > CELLS)
		return NULL;
	for (size_t cell = arena->hint[order]; cell < CELLS; cell += count) {
		if (!cells_free(arena, cell, count))
			continue;
		if (arena_commit(arena, (cell + count) << CELL_SHIFT))
			return NULL;
		if (arena->used == 1)
			empty_arenas[arena->node]--;
		cells_mark(arena, cell, count, true);
		arena->used += (unsigned int)count;
		if (arena->used == CELLS)
			arena_unlink(arena);
		arena->hint[order] = (uint32_t)(cell + count);
		return (char *)arena + (cell << CELL_SHIFT);
	}
	arena->hint[order] = (uint32_t)CELLS;
	return NULL;
}

/* A new arena nobody sees yet; no lock held. */
static struct arena *arena_create(unsigned int node)
{
	struct arena *arena = pcp_os_reserve(ARENA_SIZE, ARENA_SIZE);
	uint64_t *word, bit;

	if (!arena)
		return NULL;
	if ((uint64_t)(uintptr_t)arena >> ADDRESS_BITS ||
	    pcp_os_commit(arena, COMMIT_STEP)) {
		pcp_os_unmap(arena, ARENA_SIZE);
		errno = ENOMEM;
		return NULL;
	}
	if (pcp_topology.nr_nodes > 1 && pcp_topology.os_node)
		pcp_os_bind(arena, ARENA_SIZE, pcp_topology.os_node[node]);
	arena->node = node;
	arena->committed = COMMIT_STEP;
	arena->used = 1;
	arena->taken[0] = 1;
	/* The header's cell is nobody's block. */
	for (unsigned int order = 0; order < ORDERS; order++)
		arena->hint[order] = 1U << order;
	word = known_word((uintptr_t)arena, &bit);
	/* Pairs with the acquire in pcp_block_readable(). */
	__atomic_fetch_or(word, bit, __ATOMIC_RELEASE);
	return arena;
}

/* Unlinked, all cells free; no lock held. */
static void arena_destroy(struct arena *arena)
{
	uint64_t bit, *word = known_word((uintptr_t)arena, &bit);

	pcp_and(word, ~bit);
	if (!pcp_os_unmap(arena, ARENA_SIZE))
		return;
	/* No map entry to be had: keep it for later use. */
	pcp_or(word, bit);
	pcp_lock(&arena_lock);
	arena_link(arena);
	empty_arenas[arena->node]++;
	nr_arenas++;
	pcp_unlock(&arena_lock);
}

static unsigned int order_of(size_t size)
{
	return (unsigned int)__builtin_ctzll(size) - CELL_SHIFT;
}

/* CONTEXT: arena_lock held. */
static void idle_unlink(struct idle *block)
{
	*(block->newer ? &block->newer->older : &newest) = block->older;
	*(block->older ? &block->older->newer : &oldest) = block->newer;
	*block->link = block->next;
	if (block->next)
		block->next->link = block->link;
	idle_bytes -= PCP_BLOCK_MIN << block->order;
}

/* CONTEXT: arena_lock held. */
static void idle_link(struct idle *block)
{
	struct idle **head = &idle_blocks[block->node][block->order];

	block->newer = NULL;
	block->older = newest;
	*(newest ? &newest->newer : &oldest) = block;
	newest = block;
	block->next = *head;
	if (block->next)
		block->next->link = &block->next;
	block->link = head;
	*head = block;
	idle_bytes += PCP_BLOCK_MIN << block->order;
}

/* CONTEXT: arena_lock held. */
static void count_taken(size_t size)
{
	block_bytes += size;
	if (block_bytes > peak_bytes)
		peak_bytes = block_bytes;
}

/* CONTEXT: arena_lock held, before block_bytes falls. */
static void age_peak(uint64_t now)
{
	if (now - peak_since < IDLE_NS)
		return;
	last_peak_bytes = peak_bytes;
	peak_bytes = block_bytes;
	peak_since = now;
}

/* CONTEXT: arena_lock held. How many bytes may be idle. */
static uint64_t idle_bound(void)
{
	uint64_t peak = peak_bytes > last_peak_bytes ? peak_bytes
						     : last_peak_bytes;
	uint64_t bound = IDLE_BYTES;

	if (block_bytes > bound)
		bound = block_bytes;
	return peak - block_bytes > bound ? peak - block_bytes : bound;
}

/* CONTEXT: arena_lock held. Unlink up to max blocks that have been idle for too
 * long, or all the same if `all`; linked by next. */
static struct idle *idle_surplus(uint64_t now, bool all, unsigned int max)
{
	struct idle *list = NULL;

	while (max-- && oldest) {
		struct idle *block = oldest;

		if (!all && idle_bytes <= idle_bound() &&
		    now - block->since < IDLE_NS)
			break;
		idle_unlink(block);
		block->next = list;
		list = block;
	}
	return list;
}

/* CONTEXT: arena_lock held. */
static void *take_idle(unsigned int order, unsigned int node)
{
	struct idle *block = idle_blocks[node][order];

	if (!block)
		return NULL;
	idle_unlink(block);
	count_taken(PCP_BLOCK_MIN << order);
	return block;
}

/* CONTEXT: arena_lock held. */
static void *take_any(unsigned int order, unsigned int node)
{
	void *block = take_idle(order, node);

	if (block)
		return block;
	for (struct arena *arena = arenas[node]; arena; arena = arena->next) {
		block = arena_take(arena, order);
		if (block) {
			count_taken(PCP_BLOCK_MIN << order);
			return block;
		}
	}
	return NULL;
}

/* No memory for another arena: any node's block beats none, and idle blocks of
 * other orders become free cells. */
static void *scrape(unsigned int order)
{
	void *block = NULL;

	pcp_block_purge();
	pcp_lock(&arena_lock);
	for (unsigned int i = 0; !block && i < pcp_topology.nr_nodes; i++)
		block = take_any(order, i);
	pcp_unlock(&arena_lock);
	if (!block)
		errno = ENOMEM;
	return block;
}

void *pcp_block_alloc(size_t size, unsigned int node)
{
	unsigned int order = order_of(size);
	struct arena *arena;
	void *block;

	if (PCP_FAULT(PCP_FAULT_SLAB)) {
		errno = ENOMEM;
		return NULL;
	}
	pcp_lock(&arena_lock);
	block = take_any(order, node);
	pcp_unlock(&arena_lock);
	if (block)
		return block;

	arena = arena_create(node);
	pcp_lock(&arena_lock);
	/* Another may have been as fast: then one arena is enough. */
	block = take_any(order, node);
	if (!block && arena) {
		arena_link(arena);
		empty_arenas[node]++;
		nr_arenas++;
		arena = NULL;
		block = take_any(order, node);
	}
	pcp_unlock(&arena_lock);
	if (arena)
		arena_destroy(arena);
	return block ? block : scrape(order);
}

/* Give the pages of an unlinked idle block back, and the block to its arena. */
static void release(struct idle *block)
{
	struct arena *arena = arena_of(block);
	size_t size = PCP_BLOCK_MIN << block->order;
	size_t cell = (size_t)((char *)block - (char *)arena) >> CELL_SHIFT;
	bool surplus;

	/* Refused for memory the process has locked: it then stays. */
	(void)pcp_os_discard(block, size);
	pcp_lock(&arena_lock);
	cells_mark(arena, cell, size >> CELL_SHIFT, false);
	arena->used -= (unsigned int)(size >> CELL_SHIFT);
	if (!arena->link)
		arena_link(arena);
	for (unsigned int order = 0; order < ORDERS; order++) {
		uint32_t start = (uint32_t)(cell >> order << order);

		/* A larger block that begins lower may have become free. */
		if (start && start < arena->hint[order])
			arena->hint[order] = start;
	}
	if (arena->used == 1)
		empty_arenas[arena->node]++;
	surplus = arena->used == 1 && empty_arenas[arena->node] > 1;
	if (surplus) {
		arena_unlink(arena);
		empty_arenas[arena->node]--;
		nr_arenas--;
	}
	pcp_unlock(&arena_lock);
	if (surplus)
		arena_destroy(arena);
}

static void release_list(struct idle *list)
{
	while (list) {
		struct idle *next = list->next;

		release(list);
		list = next;
	}
}

static uint64_t coarse_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

void pcp_block_free(void *p, size_t size)
{
	struct idle *block = p, *list;

	block->order = order_of(size);
	block->node = arena_of(p)->node;
	block->since = coarse_now();
	pcp_lock(&arena_lock);
	age_peak(block->since);
	block_bytes -= size;
	idle_link(block);
	list = idle_surplus(block->since, false, PURGE_FEW);
	pcp_unlock(&arena_lock);
	release_list(list);
}

/* A few at a time, so that the lock is not held for long. */
static void purge(uint64_t now, bool all)
{
	struct idle *list;

	do {
		pcp_lock(&arena_lock);
		if (!all)
			age_peak(now);
		list = idle_surplus(now, all, 64);
		pcp_unlock(&arena_lock);
		release_list(list);
	} while (list);
}

void pcp_block_purge(void)
{
	purge(0, true);
}

void pcp_block_expire(void)
{
	purge(coarse_now(), false);
}

bool pcp_block_readable(const void *p, size_t size)
{
	uintptr_t address = (uintptr_t)p;
	uint64_t bit, *word;
	size_t offset = address & (ARENA_SIZE - 1);

	if ((uint64_t)address >> ADDRESS_BITS)
		return false;
	word = known_word(address, &bit);
	/* Pairs with the release in arena_create(). */
	if (!(pcp_load_acquire(word) & bit))
		return false;
	return offset >= PCP_BLOCK_MIN &&
	       offset + size <= pcp_load_acquire(&arena_of(p)->committed);
}

void pcp_block_sum(struct pcp_block_sum *sum)
{
	*sum = (struct pcp_block_sum){ 0 };
	pcp_lock(&arena_lock);
	sum->bytes = block_bytes;
	sum->idle = idle_bytes;
	sum->arenas = nr_arenas;
	pcp_unlock(&arena_lock);
}

PCP_NO_TSA static void fork_prepare(void)
{
	pcp_lock(&arena_lock);
}

PCP_NO_TSA static void fork_parent(void)
{
	pcp_unlock(&arena_lock);
}

PCP_NO_TSA static void fork_child(void)
{
	pcp_lock_reinit(&arena_lock);
}

void pcp_arena_init(void)
{
	static const struct pcp_fork_ops ops = {
		.prepare = fork_prepare,
		.parent = fork_parent,
		.child = fork_child,
	};

	pcp_fork_register(PCP_FORK_ARENA, &ops);
}

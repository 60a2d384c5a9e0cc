/* SPDX-License-Identifier: MIT */
/* What the tests of arenas share: how large they are, which are there. */
#ifndef TESTS_UNIT_ARENA_FIXTURE_H
#define TESTS_UNIT_ARENA_FIXTURE_H

#include <sys/mman.h>

#include "floors.h"

#include "slab/arena.h"

#if UINTPTR_MAX > UINT32_MAX
#define ARENA ((size_t)1 << 26)
#else
#define ARENA ((size_t)1 << 24)
#endif
#define CELLS (ARENA / PCP_BLOCK_MIN)
#define ORDERS 10U

static inline char *arena_of(const void *p)
{
	return (char *)((uintptr_t)p & ~(uintptr_t)(ARENA - 1));
}

static inline bool mapped(const void *p)
{
	unsigned char one;

	return !mincore(arena_of(p), 1, &one);
}

/* Pages of [p, p+size) that have memory behind them. */
static inline size_t resident(const void *p, size_t size)
{
	size_t page = pcp_page_size(), n = 0;
	unsigned char *pages = malloc(size / page);

	expect(pages);
	expect(!mincore((void *)(uintptr_t)p, size, pages));
	for (size_t i = 0; i < size / page; i++)
		n += pages[i] & 1;
	free(pages);
	return n;
}

static inline struct pcp_block_sum sum_now(void)
{
	struct pcp_block_sum sum;

	pcp_block_sum(&sum);
	return sum;
}

static inline bool is_zero(const void *p, size_t size)
{
	const uint64_t *words = p;

	for (size_t i = 0; i < size / sizeof(*words); i++)
		if (words[i])
			return false;
	return true;
}

static inline void *must_alloc(unsigned int order)
{
	size_t size = PCP_BLOCK_MIN << order;
	void *block = pcp_block_alloc(size, 0);

	expect(block);
	expect_eq((uintptr_t)block & (size - 1), 0);
	expect(pcp_block_readable(block, size));
	return block;
}

struct live {
	char *block;
	unsigned int order;
};

#endif /* TESTS_UNIT_ARENA_FIXTURE_H */

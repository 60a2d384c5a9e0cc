/* SPDX-License-Identifier: MIT */
/* lib/slab/arena.c: blocks against a model that keeps a bit for each cell, and
 * what goes back to the system and when. */
#include <config.h>

#include <sys/syscall.h>
#include <unistd.h>

#include "arena_fixture.h"

/* Stand before the libc's: tests of this file make them fail. */
static bool munmap_fails, madvise_fails;

int munmap(void *p, size_t size)
{
	if (munmap_fails) {
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_munmap, p, size);
}

int madvise(void *p, size_t size, int advice)
{
	if (madvise_fails) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_madvise, p, size, advice);
}

START_TEST(test_one_of_each)
{
	void *blocks[ORDERS];
	uint64_t bytes = 0;

	pcp_init();
	for (unsigned int order = 0; order < ORDERS; order++) {
		size_t size = PCP_BLOCK_MIN << order;

		blocks[order] = must_alloc(order);
		/* From a new arena; else the content is anything. */
		expect(is_zero(blocks[order], size));
		memset(blocks[order], (int)order + 1, size);
		bytes += size;
		expect_eq(sum_now().bytes, bytes);
	}
	for (unsigned int order = 0; order < ORDERS; order++) {
		size_t size = PCP_BLOCK_MIN << order;
		unsigned char *p = blocks[order];

		for (size_t i = 0; i < size; i++)
			expect_eq(p[i], order + 1);
		pcp_block_free(blocks[order], size);
	}
	expect_eq(sum_now().bytes, 0);
	pcp_block_purge();
	expect_eq(sum_now().idle, 0);
}
END_TEST

/* --- against a model ------------------------------------------------------ */

static bool model[CELLS];

/* Where a block of that order has to come from: as low as it can be. */
static size_t model_place(unsigned int order)
{
	size_t count = (size_t)1 << order;

	for (size_t cell = 0; cell < CELLS; cell += count) {
		size_t i = 0;

		while (i < count && !model[cell + i])
			i++;
		if (i == count)
			return cell;
	}
	return CELLS;
}

static void model_mark(size_t cell, unsigned int order, bool taken)
{
	for (size_t i = 0; i < (size_t)1 << order; i++) {
		expect_eq(model[cell + i], !taken);
		model[cell + i] = taken;
	}
}

static struct live live[CELLS];
static size_t nr_live;

static void free_one(size_t i)
{
	struct live *it = &live[i];

	/* Nobody wrote over its first cell meanwhile. */
	expect_eq(*(uint64_t *)(void *)it->block, (uintptr_t)it->block);
	model_mark((size_t)(it->block - arena_of(it->block)) / PCP_BLOCK_MIN,
		   it->order, false);
	pcp_block_free(it->block, PCP_BLOCK_MIN << it->order);
	pcp_block_purge();
	*it = live[--nr_live];
}

/* One arena, filled and thinned out in random order. */
START_TEST(test_model)
{
	char *base, *anchor;
	struct rng rng;

	pcp_init();
	rng_seed(&rng, (uint64_t)_i + 1);
	anchor = must_alloc(0); /* keeps the arena */
	base = arena_of(anchor);
	model[0] = true;
	model_mark((size_t)(anchor - base) / PCP_BLOCK_MIN, 0, true);
	for (unsigned int step = 0; step < 20000; step++) {
		unsigned int order = rng_below(&rng, 3) ? rng_below(&rng, 4)
							: rng_below(&rng, 10);
		bool fill = rng_below(&rng, 100) <
			    ((step / 2000) % 2 ? 40U : 60U);
		size_t cell = model_place(order);
		char *block;

		if (!fill || cell == CELLS) {
			if (nr_live)
				free_one(rng_below(&rng, (uint32_t)nr_live));
			continue;
		}
		block = must_alloc(order);
		expect_eq(block - base, cell * PCP_BLOCK_MIN);
		model_mark(cell, order, true);
		expect_eq(*(uint64_t *)(void *)block, 0);
		*(uint64_t *)(void *)block = (uintptr_t)block;
		live[nr_live++] = (struct live){ block, order };
	}
	expect_eq(sum_now().arenas, 1);
	while (nr_live)
		free_one(0);
	expect_eq(sum_now().bytes, PCP_BLOCK_MIN);
	pcp_block_free(anchor, PCP_BLOCK_MIN);
}
END_TEST

/* --- memory goes back ----------------------------------------------------- */

START_TEST(test_discard)
{
	const size_t size = (size_t)1 << 20;
	char *keep, *block;

	pcp_init();
	keep = must_alloc(0);
	block = must_alloc(6);
	memset(keep, 1, PCP_BLOCK_MIN);
	memset(block, 1, size);
	expect_eq(resident(block, size), size / pcp_page_size());
	/* Idle: its pages stay for the next one that wants such a block. */
	pcp_block_free(block, size);
	expect_eq(sum_now().idle, size);
	expect_eq(resident(block, size), size / pcp_page_size());
	expect(must_alloc(6) == block);
	expect_eq(sum_now().idle, 0);
	pcp_block_free(block, size);
	pcp_block_purge();
	expect_eq(sum_now().idle, 0);
	expect(mapped(block));
	expect_eq(resident(block, size), 0);
	expect_eq(resident(keep, PCP_BLOCK_MIN),
		  PCP_BLOCK_MIN / pcp_page_size());
	expect(must_alloc(6) == block);
	expect(is_zero(block, size));
	pcp_block_free(block, size);
	pcp_block_free(keep, PCP_BLOCK_MIN);
}
END_TEST

/* No more lies idle than is in use, or was at the peak of the last seconds, or
 * than a fixed amount. */
START_TEST(test_idle_is_bounded)
{
	enum { N = 24 };
	char *blocks[2 * N];
	uint64_t most = 0;

	pcp_init();
	for (unsigned int i = 0; i < 2 * N; i++) {
		blocks[i] = must_alloc(7);
		memset(blocks[i], 1, PCP_BLOCK_MIN << 7);
	}
	for (unsigned int i = 0; i < 2 * N; i++) {
		struct pcp_block_sum sum;

		pcp_block_free(blocks[i], PCP_BLOCK_MIN << 7);
		sum = sum_now();
		expect_eq(sum.bytes, (2 * N - 1 - i) *
					     (PCP_BLOCK_MIN << 7));
		expect(sum.idle + sum.bytes <= 2 * N * (PCP_BLOCK_MIN << 7));
		most = sum.idle > most ? sum.idle : most;
	}
	/* Nothing was given back that the next peak would need at once. */
	expect_eq(most, 2 * N * (PCP_BLOCK_MIN << 7));
	pcp_block_purge();
	expect_eq(sum_now().idle, 0);
	expect_eq(sum_now().arenas, 1);
}
END_TEST

/* A peak is forgotten: later the same blocks are too many, and those that are
 * too old go. */
START_TEST(test_peak_is_forgotten)
{
	enum { N = 24, OLD_US = 1100000 };
	char *blocks[N];

	pcp_init();
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < N; i++)
			blocks[i] = must_alloc(7);
		for (unsigned int i = 0; i < N; i++)
			pcp_block_free(blocks[i], PCP_BLOCK_MIN << 7);
		expect_eq(sum_now().idle, N * (PCP_BLOCK_MIN << 7));
	}
	usleep(OLD_US);
	pcp_block_expire();
	expect_eq(sum_now().idle, 0);
	/* The last peak still counts; the one after it does not. */
	usleep(OLD_US);
	pcp_block_expire();
	blocks[0] = must_alloc(7);
	pcp_block_free(blocks[0], PCP_BLOCK_MIN << 7);
	expect_eq(sum_now().idle, PCP_BLOCK_MIN << 7);
}
END_TEST

/* When there is no other memory, a block of another size that lies idle is
 * taken apart. */
START_TEST(test_idle_serves_all)
{
	char *large, *block;

	pcp_init();
	large = must_alloc(6);
	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	for (unsigned int order = ORDERS; order-- > 0;)
		while (pcp_block_alloc(PCP_BLOCK_MIN << order, 0))
			;
	expect_refused(pcp_block_alloc(PCP_BLOCK_MIN, 0), ENOMEM);
	pcp_block_free(large, PCP_BLOCK_MIN << 6);
	block = pcp_block_alloc(PCP_BLOCK_MIN, 0);
	expect(block);
	expect(block >= large && block < large + (PCP_BLOCK_MIN << 6));
	pcp_fault_set(PCP_FAULT_RESERVE, 0, false);
}
END_TEST

/* Locked memory cannot be given back: the block is free all the same. */
START_TEST(test_discard_refused)
{
	char *keep, *block;

	pcp_init();
	keep = must_alloc(0);
	block = must_alloc(3);
	madvise_fails = true;
	errno = ERANGE;
	pcp_block_free(block, PCP_BLOCK_MIN << 3);
	pcp_block_purge();
	expect_errno(ERANGE);
	madvise_fails = false;
	expect_eq(sum_now().idle, 0);
	expect(must_alloc(3) == block);
	pcp_block_free(block, PCP_BLOCK_MIN << 3);
	pcp_block_free(keep, PCP_BLOCK_MIN);
}
END_TEST

#define MANY 20U /* largest blocks: at least three arenas */

static char *bases[MANY];
static unsigned int nr_bases;

static void note_base(const void *block)
{
	for (unsigned int i = 0; i < nr_bases; i++)
		if (bases[i] == arena_of(block))
			return;
	bases[nr_bases++] = arena_of(block);
}

static unsigned int bases_mapped(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < nr_bases; i++) {
		n += mapped(bases[i]);
		/* One that is gone may not be touched. */
		expect_eq(pcp_block_readable(bases[i] + PCP_BLOCK_MIN, 1),
			  mapped(bases[i]));
	}
	return n;
}

START_TEST(test_arenas_go_back)
{
	char *blocks[MANY], *again;

	pcp_init();
	for (unsigned int i = 0; i < MANY; i++) {
		blocks[i] = must_alloc(ORDERS - 1);
		note_base(blocks[i]);
	}
	expect_cmp(nr_bases, >=, 3);
	expect_eq(bases_mapped(), nr_bases);
	for (unsigned int i = 0; i < MANY; i++)
		pcp_block_free(blocks[i], PCP_BLOCK_MAX);
	expect_eq(sum_now().bytes, 0);
	/* The peak was just now. */
	expect_eq(bases_mapped(), nr_bases);
	pcp_block_purge();
	expect_eq(bases_mapped(), 1);
	expect_eq(sum_now().arenas, 1);
	/* The one that was kept serves. */
	again = must_alloc(0);
	note_base(again);
	expect_eq(bases_mapped(), 1);
	pcp_block_free(again, PCP_BLOCK_MIN);
	pcp_block_purge();
	expect_eq(bases_mapped(), 1);
}
END_TEST

/* An arena that cannot be unmapped for lack of a map entry is used again. */
START_TEST(test_unmap_fails)
{
	char *blocks[MANY];
	unsigned int n;

	pcp_init();
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < MANY; i++) {
			blocks[i] = must_alloc(ORDERS - 1);
			note_base(blocks[i]);
		}
		if (!round)
			n = nr_bases;
		expect_eq(nr_bases, n);
		munmap_fails = true;
		for (unsigned int i = 0; i < MANY; i++)
			pcp_block_free(blocks[i], PCP_BLOCK_MAX);
		pcp_block_purge();
		expect_eq(bases_mapped(), n);
		expect_eq(sum_now().arenas, n);
		munmap_fails = false;
	}
	/* As soon as one becomes empty again, it goes. */
	pcp_block_free(must_alloc(0), PCP_BLOCK_MIN);
	pcp_block_purge();
	expect_eq(bases_mapped(), n - 1);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("arena", 60);

	tcase_add_test(tc, test_one_of_each);
	tcase_add_loop_test(tc, test_model, 0, 4);
	tcase_add_test(tc, test_discard);
	tcase_add_test(tc, test_idle_is_bounded);
	tcase_add_test(tc, test_peak_is_forgotten);
	tcase_add_test(tc, test_idle_serves_all);
	tcase_add_test(tc, test_discard_refused);
	tcase_add_test(tc, test_arenas_go_back);
	tcase_add_test(tc, test_unmap_fails);
	return suite_run(tc);
}

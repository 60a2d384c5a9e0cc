/* SPDX-License-Identifier: MIT */
/* lib/cpu/stat.c: counters that cost memory only where something was counted. */
#include <config.h>

#include <sys/mman.h>

#include "floors.h"

#include "cpu/stat.h"

static struct pcp_stat stat;

static void setup(void)
{
	pcp_init();
	expect_eq(pcp_stat_init(&stat), 0);
}

static void teardown(void)
{
	pcp_stat_destroy(&stat);
	expect(!stat.words);
	/* Twice does no harm. */
	pcp_stat_destroy(&stat);
}

START_TEST(test_fresh)
{
	expect_cmp(stat.bytes, >=,
		   pcp_nr_slots() * PCP_STAT_STRIDE * sizeof(uint64_t));
	expect_cmp(PCP_STAT_STRIDE, >=, PCP_STAT_COUNT);
	/* Two slots share no line. */
	expect_eq(PCP_STAT_STRIDE * sizeof(uint64_t) % PCP_CACHELINE, 0);
	expect_eq((uintptr_t)stat.words % PCP_CACHELINE, 0);
	for (int id = 0; id < PCP_STAT_COUNT; id++)
		expect_eq(pcp_stat_sum(&stat, (enum pcp_stat_id)id), 0);
	expect_eq(pcp_stat_touched(&stat), 0);
}
END_TEST

START_TEST(test_each)
{
	for (int id = 0; id < PCP_STAT_COUNT; id++) {
		pcp_stat_inc(&stat, (enum pcp_stat_id)id);
		pcp_stat_add(&stat, (enum pcp_stat_id)id,
			     (UINT64_C(1) << 40) + (uint64_t)id);
		for (int other = 0; other < PCP_STAT_COUNT; other++)
			expect_eq(pcp_stat_sum(&stat, (enum pcp_stat_id)other),
				  other <= id ? (UINT64_C(1) << 40) +
							(uint64_t)other + 1
					      : 0);
	}
}
END_TEST

/* Counted where the caller is. */
START_TEST(test_where)
{
	for (unsigned int nth = 0; nth < allowed_cpus(); nth++) {
		uint64_t sum = pcp_stat_sum(&stat, PCP_STAT_DRAIN);
		unsigned int slot;
		uint64_t before;

		pin_to(nth);
		slot = pcp_this_slot();
		before = stat.words[slot * PCP_STAT_STRIDE + PCP_STAT_DRAIN];
		pcp_stat_add(&stat, PCP_STAT_DRAIN, 5);
		expect_eq(stat.words[slot * PCP_STAT_STRIDE + PCP_STAT_DRAIN],
			  before + 5);
		expect_eq(pcp_stat_sum(&stat, PCP_STAT_DRAIN), sum + 5);
	}
	if (!pcp_index.hash && !pcp_index.cid &&
	    pcp_index.nr_ids >= pcp_topology.possible)
		expect_eq(pcp_stat_touched(&stat),
			  allowed_cpus() * PCP_STAT_STRIDE * sizeof(uint64_t));
	unpin();
}
END_TEST

static void add_many(const struct worker *worker)
{
	for (unsigned int i = 0; i < 100000; i++) {
		pcp_stat_inc(&stat, PCP_STAT_BYPASS);
		/* Moves on between finding its slot and adding. */
		if (i % 1000 == 0)
			pin_to(worker->id + i / 1000);
	}
}

START_TEST(test_threads)
{
	run_threads(6, add_many, NULL);
	expect_eq(pcp_stat_sum(&stat, PCP_STAT_BYPASS), 600000);
}
END_TEST

START_TEST(test_no_memory)
{
	static const enum pcp_fault_point points[] = { PCP_FAULT_RESERVE,
						       PCP_FAULT_COMMIT };

	for (size_t i = 0; i < PCP_ARRAY_SIZE(points); i++) {
		struct pcp_stat none = { 0 };

		pcp_fault_set(points[i], 1, false);
		expect_eq(pcp_stat_init(&none), ENOMEM);
		expect(!none.words);
		pcp_stat_destroy(&none);
		pcp_fault_set(points[i], 0, false);
	}
}
END_TEST

/* Slots that count nothing cost address space only. */
START_TEST(test_sparse)
{
	struct pcp_stat wide;
	size_t page, pages, resident = 0;
	unsigned char *map;

	decide("slots:4096");
	expect_cmp(pcp_nr_slots(), >=, 4096);
	expect_eq(pcp_stat_init(&wide), 0);
	pcp_stat_inc(&wide, PCP_STAT_DTOR);
	expect_eq(pcp_stat_sum(&wide, PCP_STAT_DTOR), 1);
	/* The pages of one slot; a sum reads all, which shows as the shared
	 * page of zeros at most. */
	page = pcp_page_size();
	pages = wide.bytes / page;
	expect_cmp(pages, >=, 64);
	expect_eq(pcp_stat_touched(&wide), PCP_STAT_STRIDE * sizeof(uint64_t));
	pcp_stat_destroy(&wide);
	expect_eq(pcp_stat_init(&wide), 0);
	pcp_stat_inc(&wide, PCP_STAT_DTOR);
	map = calloc(pages, 1);
	expect(map);
	expect(!mincore(wide.words, wide.bytes, map));
	for (size_t i = 0; i < pages; i++)
		resident += map[i] & 1;
	expect_eq(resident, 1);
	free(map);
	pcp_stat_destroy(&wide);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("stat", 60), *own = tcase_create("own");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_fresh);
	tcase_add_test(tc, test_each);
	tcase_add_test(tc, test_where);
	tcase_add_test(tc, test_threads);
	tcase_add_test(tc, test_no_memory);
	tcase_add_test(own, test_sparse);
	suite_add_tcase(suite_one, own);
	return suite_run(tc);
}

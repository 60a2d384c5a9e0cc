/* SPDX-License-Identifier: MIT */
/* lib/percpu/discard.c, and the tending in region.c: pages of free space go
 * back when they were free for a whole period, all of them, and no others. */
#include <config.h>

#include "percpu_fixture.h"
#include "suite.h"

#include "base/fault.h"
#include "cpu/init.h"

#define N 200U
#define SIZE 1000U

static void *region[N];

/* So many steps, 0 for no bound. */
static bool tend(uint32_t steps)
{
	struct pcp_budget budget = { .bounded = steps != 0, .left = steps };
	bool done;

	errno = 4711;
	done = pcp_region_tend(&budget);
	expect_errno(4711);
	verify();
	expect(done || (steps && !budget.left));
	return done;
}

static void fill_all(void)
{
	for (unsigned int i = 0; i < N; i++) {
		region[i] = must_alloc(SIZE, 0);
		fill(region[i], SIZE, (int)(i % 255) + 1, pcp_nr_slots());
	}
}

static void free_all_but(unsigned int every)
{
	for (unsigned int i = 0; i < N; i++)
		if (!every || i % every) {
			pcpool_percpu_free(region[i]);
			region[i] = NULL;
		}
}

/* What is live is as it was filled. */
static void live_is_whole(void)
{
	for (unsigned int i = 0; i < N; i++)
		if (region[i])
			expect_bytes(region[i], SIZE, (int)(i % 255) + 1,
				     pcp_nr_slots());
}

static void setup(void)
{
	pcp_init();
	fill_all();
}

static void teardown(void)
{
	live_is_whole();
	free_all_but(0);
	expect_eq(stats().regions, 0);
	expect_eq(stats().chunks, 1);
	verify();
}

/* The pages of the chunks' first units, and of the others. */
static uint64_t pages(void)
{
	return stats().populated_bytes;
}

START_TEST(test_free_for_a_period)
{
	const uint64_t before = pages();
	void *first = region[0];

	free_all_but(0);
	expect(tend(0));
	expect_eq(pages(), before);
	expect_cmp(resident_all(first, SIZE), >, 0);
	expect(tend(0));
	expect_eq(pages(), 0);
	expect_eq(resident_all(first, SIZE), 0);
	expect_eq(stats().discarded_bytes, before);
	/* It is fresh. */
	for (unsigned int i = 0; i < N; i++) {
		region[i] = must_alloc(SIZE, 0);
		expect_bytes(region[i], SIZE, 0, pcp_nr_slots());
	}
	expect_eq(pages(), before);
	free_all_but(0);
}
END_TEST

/* Here and there one is live: their pages stay, with what is in them. */
START_TEST(test_around_live_ones)
{
	for (unsigned int every = 2; every < N; every = 2 * every + 1) {
		uint64_t before = pages();

		free_all_but(every);
		for (unsigned int i = 0; i < 3; i++) {
			expect(tend(0));
			live_is_whole();
		}
		/* Two pages at most for each. */
		expect_cmp(pages(), <=, 2 * PAGE * (N / every + 1));
		expect_cmp(pages(), <=, before);
		expect_eq(pages(), stats().block_bytes);
		free_all_but(0);
		fill_all();
		live_is_whole();
	}
}
END_TEST

/* What is used in each period keeps its pages. */
START_TEST(test_in_use)
{
	uint64_t before;

	free_all_but(0);
	expect(tend(0));
	expect(tend(0));
	for (unsigned int i = 0; i < 10; i++) {
		fill_all();
		free_all_but(0);
		before = pages();
		expect(tend(0));
		expect_eq(pages(), before);
		expect_cmp(before, >, 0);
	}
	expect(tend(0));
	expect_eq(pages(), 0);
}
END_TEST

START_TEST(test_budget)
{
	const uint32_t run = 1 + pcp_nr_slots() / 16;
	unsigned int calls = 0;
	uint64_t before;
	bool done;

	/* Every fourth block or so is in use. */
	free_all_but(16);
	expect(tend(0));
	before = pages();
	do {
		uint64_t last = pages();

		done = tend(1);
		calls++;
		/* One run of at most four blocks. */
		expect_cmp(last - pages(), <=, 4 * PAGE);
	} while (!done);
	expect_cmp(calls, >, N / 16 / run);
	expect_cmp(pages(), <, before);
	expect_eq(pages(), stats().block_bytes);
}
END_TEST

/* What the system does not take is zeroed when it is used again. */
START_TEST(test_refused)
{
	const uint64_t before = pages();

	free_all_but(3);
	expect(tend(0));
	pcp_fault_set(PCP_FAULT_DISCARD, _i ? 2 : 1, true);
	expect(tend(0));
	expect_eq(pages(), before);
	expect_eq(stats().discarded_bytes, 0);
	pcp_fault_set(PCP_FAULT_DISCARD, 0, false);
	for (unsigned int i = 0; i < N; i++)
		if (!region[i]) {
			region[i] = must_alloc(SIZE, 0);
			expect_bytes(region[i], SIZE, 0, pcp_nr_slots());
			fill(region[i], SIZE, (int)(i % 255) + 1,
			     pcp_nr_slots());
		}
	live_is_whole();
	/* And tried again. */
	free_all_but(20);
	expect(tend(0));
	expect(tend(0));
	expect_eq(pages(), stats().block_bytes);
}
END_TEST

/* A chunk that is kept for later keeps no pages. */
START_TEST(test_empty_chunk)
{
	void *large[40];

	for (unsigned int i = 0; i < 40; i++)
		large[i] = must_alloc(PCPOOL_PERCPU_SIZE_MAX, 0);
	expect_cmp(stats().chunks, >, 2);
	for (unsigned int i = 0; i < 40; i++) {
		fill(large[i], PCPOOL_PERCPU_SIZE_MAX, 1, pcp_nr_slots());
		pcpool_percpu_free(large[i]);
	}
	expect(tend(0));
	expect(tend(0));
	expect_cmp(stats().chunks, <=, 2);
	expect_eq(pages(), stats().block_bytes);
	live_is_whole();
	free_all_but(0);
}
END_TEST

/* No work and no pages: nothing was ever allocated. */
START_TEST(test_nothing)
{
	struct pcp_budget budget = { .bounded = true, .left = 1 };

	expect(pcp_region_tend(&budget));
	expect_eq(budget.left, 1);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("discard", 60), *none = tcase_create("nothing");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_free_for_a_period);
	tcase_add_test(tc, test_around_live_ones);
	tcase_add_test(tc, test_in_use);
	tcase_add_test(tc, test_budget);
	tcase_add_loop_test(tc, test_refused, 0, 2);
	tcase_add_test(tc, test_empty_chunk);
	tcase_add_test(none, test_nothing);
	suite_add_tcase(suite_one, none);
	return suite_run(tc);
}

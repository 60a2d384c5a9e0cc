/* SPDX-License-Identifier: MIT */
/* Capacities that changed: sheaves that do not fit any more, limits of barns,
 * sheaves of several capacities in one barn and in one slot. */
#include <config.h>

#include <sched.h>

#include "adapt_fixture.h"

/* --- sheaves that do not fit any more ------------------------------------ */

START_TEST(test_misfits_are_not_used_again)
{
	struct pcp_stock *stock = adaptive(64, NULL);
	struct pcp_sheaves *set = &stock->sheaves;
	struct pcp_sheaf *old[4], *fresh;

	for (unsigned int i = 0; i < 4; i++)
		old[i] = pcp_sheaf_new(set);
	/* Two retired while they fit, two when they do not any more. */
	pcp_sheaf_retire(set, old[0]);
	pcp_sheaf_retire(set, old[1]);
	expect(pcp_adapt_suffices(stock, 59));
	pcp_sheaf_retire(set, old[2]);
	pcp_sheaf_retire(set, old[3]);
	pcp_fault_set(PCP_FAULT_META, 1, true);
	expect(!pcp_sheaf_new(set));
	/* Nor when their capacity comes back: whoever takes sheaves must not
	 * search through those of all times. */
	pcp_adapt_relax(stock, PCP_USE_NONE);
	expect(!pcp_sheaf_new(set));
	pcp_fault_set(PCP_FAULT_META, 0, false);
	expect(!set->retired);
	fresh = pcp_sheaf_new(set);
	expect(fresh && fresh->capacity == 27);
	expect_eq(stock_stat(stock, PCP_STAT_SHEAF_ALLOC), 5);
	expect_eq(stock_stat(stock, PCP_STAT_SHEAF_FREE), 0);
	pcp_lock(&stock->drain_lock);
	pcp_sheaves_sweep(set);
	pcp_unlock(&stock->drain_lock);
	expect(!set->misfits);
	expect_eq(stock_stat(stock, PCP_STAT_SHEAF_FREE), 4);
	pcp_sheaf_retire(set, fresh);
	stock_drop(stock);
}
END_TEST

START_TEST(test_refit)
{
	struct pcp_stock *stock = adaptive(64, NULL);
	struct pcp_sheaf *sheaf = pcp_sheaf_new(&stock->sheaves), *other;

	expect(pcp_stock_refit(stock, sheaf) == sheaf);
	expect(pcp_adapt_suffices(stock, 59));
	/* Without memory it serves on. */
	pcp_fault_set(PCP_FAULT_META, 1, true);
	expect(pcp_stock_refit(stock, sheaf) == sheaf);
	expect(!stock->sheaves.misfits);
	pcp_fault_set(PCP_FAULT_META, 0, false);
	other = pcp_stock_refit(stock, sheaf);
	expect(other != sheaf);
	expect_eq(other->capacity, 59);
	expect_eq(pcp_sheaf_size(other), 0);
	expect(stock->sheaves.misfits == sheaf);
	pcp_sheaf_retire(&stock->sheaves, other);
	stock_drop(stock);
}
END_TEST

/* Without memory for larger sheaves calls go on with those there are. */
START_TEST(test_no_memory_to_grow)
{
	struct sheet sheet = { .fill = 64 };
	struct pcp_stock *stock = adaptive(64, &sheet);
	uint64_t sheaves;

	bursts(stock, 50, 10);
	sheaves = stock_stat(stock, PCP_STAT_SHEAF_ALLOC);
	expect(pcp_adapt_suffices(stock, 59));
	pcp_fault_set(PCP_FAULT_META, 1, true);
	bursts(stock, 50, 100);
	expect_eq(stock_stat(stock, PCP_STAT_SHEAF_ALLOC), sheaves);
	book_check(stock, 0);
	pcp_fault_set(PCP_FAULT_META, 0, false);
	bursts(stock, 50, 100);
	expect_cmp(stock_stat(stock, PCP_STAT_SHEAF_ALLOC), >, sheaves);
	expect_eq(pcp_slot_peek(stock, here, PCP_MAIN)->capacity, 59);
	stock_drop(stock);
	sheet_balanced(&sheet);
}
END_TEST

/* --- barns ---------------------------------------------------------------- */

static struct pcp_sheaf *full_sheaf(struct pcp_stock *stock)
{
	struct pcp_sheaf *sheaf = pcp_sheaf_new(&stock->sheaves);
	uint32_t done = 0;

	expect(sheaf);
	while (done < sheaf->capacity) {
		int err;

		done += pcp_stock_fill(stock, 0, sheaf->capacity - done,
				       &sheaf->objects[done], &err);
	}
	pcp_sheaf_set_size(sheaf, done);
	return sheaf;
}

static void flush(struct pcp_stock *stock, struct pcp_sheaf *sheaf)
{
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	pcp_stock_flush(stock, sheaf, &dead);
	pcp_sheaf_retire(&stock->sheaves, sheaf);
	pcp_stock_bury(stock, &dead, true);
}

/* Puts full sheaves until one is refused. */
static unsigned int put_all(struct pcp_stock *stock, struct pcp_barn *barn)
{
	unsigned int n = 0;

	for (;; n++) {
		struct pcp_sheaf *sheaf = full_sheaf(stock);

		if (!pcp_barn_put_full(barn, sheaf)) {
			flush(stock, sheaf);
			return n;
		}
	}
}

static unsigned int get_all(struct pcp_stock *stock, struct pcp_barn *barn,
			    unsigned int most)
{
	struct pcp_sheaf *sheaf;
	unsigned int n = 0;

	while (n < most && (sheaf = pcp_barn_get_full(barn))) {
		flush(stock, sheaf);
		n++;
	}
	return n;
}

/* Higher when it is full and was empty not long ago, up to its bound. */
START_TEST(test_limit_rises)
{
	static const unsigned int limits[] = { 10, 15, 22, 33, 49, 64 };
	struct pcp_stock *stock = adaptive(64, NULL);
	struct pcp_barn *barn = &stock->barns[0];

	expect_cmp(barn->most, >=, 64);
	pcp_barn_bound(barn, 64);
	expect_eq(put_all(stock, barn), PCP_BARN_FULL);
	/* Taken and put again without being found empty: enough. */
	for (unsigned int i = 0; i < 5; i++) {
		expect_eq(get_all(stock, barn, PCP_BARN_FULL), PCP_BARN_FULL);
		expect_eq(put_all(stock, barn), PCP_BARN_FULL);
	}
	expect_eq(stock_stat(stock, PCP_STAT_BARN_LIMIT_UP), 0);
	for (unsigned int i = 1; i < PCP_ARRAY_SIZE(limits); i++) {
		expect_eq(get_all(stock, barn, 100), limits[i - 1]);
		expect_eq(put_all(stock, barn), limits[i]);
	}
	expect_eq(stock_stat(stock, PCP_STAT_BARN_LIMIT_UP), 5);
	/* Back; what is over it stays until it is taken. */
	pcp_barn_relax(barn);
	expect_eq(barn->limit, PCP_BARN_FULL);
	expect_eq(barn->nr_full, 64);
	expect_eq(get_all(stock, barn, 52), 52);
	expect_eq(put_all(stock, barn), 0);
	expect_eq(get_all(stock, barn, 5), 5);
	expect_eq(put_all(stock, barn), 3);
	stock_drop(stock);
}
END_TEST

START_TEST(test_bound)
{
	struct pcp_stock *stock = adaptive(64, NULL);
	struct pcp_barn *barn = &stock->barns[0];

	expect_eq(get_all(stock, barn, 1), 0);
	pcp_barn_bound(barn, 12);
	expect_eq(put_all(stock, barn), 12);
	/* Down at once; nothing more is put. */
	pcp_barn_bound(barn, PCP_BARN_FULL_MIN);
	expect_eq(barn->limit, PCP_BARN_FULL_MIN);
	expect_eq(put_all(stock, barn), 0);
	pcp_barn_relax(barn);
	expect_eq(barn->limit, PCP_BARN_FULL_MIN);
	expect_eq(get_all(stock, barn, 100), 12);
	expect_eq(put_all(stock, barn), PCP_BARN_FULL_MIN);
	/* Up to what it was, and further only on demand. */
	pcp_barn_bound(barn, 20);
	expect_eq(barn->limit, PCP_BARN_FULL);
	stock_drop(stock);
}
END_TEST

/* What nobody needed: the fewest there were since the last time. */
START_TEST(test_unused)
{
	struct pcp_stock *stock = adaptive(64, NULL);
	struct pcp_barn *barn = &stock->barns[0];

	expect_eq(pcp_barn_unused(barn), 0);
	expect_eq(put_all(stock, barn), 10);
	expect_eq(pcp_barn_unused(barn), 0);
	expect_eq(pcp_barn_unused(barn), 10);
	expect_eq(pcp_barn_unused(barn), 10);
	expect_eq(get_all(stock, barn, 4), 4);
	expect_eq(put_all(stock, barn), 4);
	expect_eq(pcp_barn_unused(barn), 6);
	expect_eq(pcp_barn_unused(barn), 10);
	expect_eq(get_all(stock, barn, 7), 7);
	expect_eq(pcp_barn_unused(barn), 3);
	expect_eq(get_all(stock, barn, 100), 3);
	expect_eq(put_all(stock, barn), 15);
	expect_eq(pcp_barn_unused(barn), 0);
	stock_drop(stock);
}
END_TEST

/* Sheaves of any capacity are as good as others while they hold objects; empty,
 * only those of now are kept. */
START_TEST(test_mixed_in_a_barn)
{
	struct sheet sheet = { .fill = 64 };
	struct pcp_stock *stock = adaptive(64, &sheet);
	struct pcp_barn *barn = &stock->barns[0];
	struct pcp_sheaf *small = full_sheaf(stock), *large, *empty;
	struct pcp_slab_link dead;
	void *objs[27 + 59];

	pcp_slabs_init(&dead);
	empty = pcp_sheaf_new(&stock->sheaves);
	expect(pcp_adapt_suffices(stock, 59));
	large = full_sheaf(stock);
	pcp_stock_put_sheaf(stock, 0, small, &dead);
	pcp_stock_put_sheaf(stock, 0, large, &dead);
	pcp_stock_put_sheaf(stock, 0, empty, &dead);
	expect_eq(barn->nr_full, 2);
	expect_eq(barn->nr_empty, 0);
	expect(stock->sheaves.misfits == empty);
	expect_eq(book_check(stock, 0).cached, 27 + 59);
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++)
		objs[i] = stock_alloc(stock);
	expect_eq(sheet.ok, PCP_ARRAY_SIZE(objs));
	expect_eq(barn->nr_full, 0);
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++)
		stock_free(stock, objs[i]);
	pcp_stock_bury(stock, &dead, true);
	stock_drop(stock);
	sheet_balanced(&sheet);
}
END_TEST

/* A part-filled small one and a large one join whichever comes first. */
START_TEST(test_mixed_partials)
{
	for (uint32_t first = 0; first < 2; first++) {
		struct sheet sheet = { .fill = 64 };
		struct pcp_stock *stock = adaptive(64, &sheet);
		struct pcp_sheaf *sheaf[2];
		struct pcp_slab_link dead;

		pcp_slabs_init(&dead);
		sheaf[0] = full_sheaf(stock);
		expect(pcp_adapt_suffices(stock, 59));
		sheaf[1] = full_sheaf(stock);
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t left = sheaf[i]->capacity - 20;
			void **objs = &sheaf[i]->objects[left];

			pcp_sheaf_set_size(sheaf[i], left);
			pcp_stock_give(stock, 20, objs, &dead);
		}
		pcp_stock_put_sheaf(stock, 0, sheaf[first], &dead);
		pcp_stock_put_sheaf(stock, 0, sheaf[!first], &dead);
		expect_eq(book_check(stock, 0).cached, 27 - 20 + 59 - 20);
		pcp_stock_bury(stock, &dead, true);
		stock_drop(stock);
		sheet_balanced(&sheet);
	}
}
END_TEST

/* --- all at once ---------------------------------------------------------- */

#define WORKERS 3U

static struct pcp_stock *shared;
static atomic_uint working;

static void bursts_of_all_lengths(unsigned int id)
{
	void *objs[300];
	struct rng rng;

	rng_seed(&rng, 17 + id);
	for (unsigned long i = scaled(20000); i; i--) {
		unsigned int n = 1 + rng_below(&rng, PCP_ARRAY_SIZE(objs));

		for (unsigned int j = 0; j < n; j++)
			objs[j] = stock_alloc(shared);
		for (unsigned int j = 0; j < n; j++)
			stock_free(shared, objs[j]);
	}
	atomic_fetch_sub(&working, 1);
}

static void up_and_down(unsigned int id)
{
	struct rng rng;

	rng_seed(&rng, 17 + id);
	while (atomic_load(&working)) {
		struct pcp_slab_link dead;

		pcp_slabs_init(&dead);
		(void)pcp_adapt_suffices(shared, rng_below(&rng, 1100));
		expect(on_ladder(shared, capacity_of(shared)));
		if (!rng_below(&rng, 4))
			pcp_adapt_relax(shared, rng_below(&rng, 2)
							? PCP_USE_HITS
							: PCP_USE_NONE);
		if (!rng_below(&rng, 16)) {
			expect_eq(pcp_stock_drain(shared, &dead), 0);
			pcp_stock_empty_barns(shared, &dead);
		}
		pcp_stock_bury(shared, &dead, true);
		sched_yield();
	}
}

static void change_or_use(const struct worker *worker)
{
	if (worker->id < WORKERS)
		bursts_of_all_lengths(worker->id);
	else
		up_and_down(worker->id);
}

START_TEST(test_capacities_change_under_use)
{
	struct sheet sheet = { .fill = 64 };

	shared = adaptive(64, &sheet);
	atomic_store(&working, WORKERS);
	run_threads(WORKERS + 1, change_or_use, NULL);
	for (struct pcp_sheaf *sheaf = shared->sheaves.all; sheaf;
	     sheaf = pcp_sheaf_tail(sheaf)->all)
		expect(on_ladder(shared, sheaf->capacity));
	expect_cmp(stock_stat(shared, PCP_STAT_CAPACITY_UP), >, 0);
	stock_drop(shared);
	sheet_balanced(&sheet);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("sheaf_mixed", 60);

	tcase_add_test(tc, test_misfits_are_not_used_again);
	tcase_add_test(tc, test_refit);
	tcase_add_test(tc, test_no_memory_to_grow);
	tcase_add_test(tc, test_limit_rises);
	tcase_add_test(tc, test_bound);
	tcase_add_test(tc, test_unused);
	tcase_add_test(tc, test_mixed_in_a_barn);
	tcase_add_test(tc, test_mixed_partials);
	tcase_add_test(tc, test_capacities_change_under_use);
	return suite_run(tc);
}

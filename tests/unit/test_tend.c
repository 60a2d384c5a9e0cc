/* SPDX-License-Identifier: MIT */
/*
 * lib/slot/tend.c: what is idle goes, what is used stays, and no call does more
 * than its budget says.
 */
#include <config.h>

#include <sched.h>

#include "stocks.h"

#include "slot/tend.h"

/* Few to a slab, so that slabs come and go. */
#define OBJECT 3000U
#define CAPACITY 4U
#define MIN_PARTIAL 2U
#define WAITING_MAX (4 * MIN_PARTIAL)
#define MANY 2000U

static struct sheet sheet;
static struct pcp_stock *stock;
static struct pcp_node *node;
static struct pcp_barn *barn;
static long here;
static struct helper there; /* on the second CPU */
static void *objs[MANY];
static bool unfinished; /* the last call left something to be given back */

static void make(struct sheet *with, unsigned int flags)
{
	sheet = (struct sheet){ .fill = 16 };
	pin_to(0);
	pcp_init();
	if (pcp_index.cid)
		decide("index:cpu");
	stock = stock_make_of(OBJECT, with, flags, CAPACITY);
	node = &stock->nodes[0];
	barn = &stock->barns[0];
	here = pcp_this_index();
	unfinished = false;
}

static void drop(void)
{
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	pcp_stock_bury(stock, &dead, true);
	stock_drop(stock);
	sheet_balanced(&sheet);
}

static void setup(void)
{
	make(&sheet, 0);
	helper_start(&there, 1);
}

static void teardown(void)
{
	helper_stop(&there);
	drop();
}

static void remake(struct sheet *with, unsigned int flags)
{
	drop();
	make(with, flags);
}

static uint64_t count(enum pcp_stat_id id)
{
	return stock_stat(stock, id);
}

static uint32_t per_slab(void)
{
	return stock->kind.layout.objects;
}

static uint64_t slabs(void)
{
	return count(PCP_STAT_ALLOC_SLAB) - count(PCP_STAT_FREE_SLAB);
}

/* A second CPU, else there is one slot only. */
static bool two_slots(void)
{
	return allowed_cpus() > 1 && pcp_index.nr_ids > 1 && !pcp_index.hash;
}

/* So many steps, 0 for no bound. Whether it was done. */
static bool tend(uint32_t steps)
{
	struct pcp_budget budget = { .bounded = steps != 0, .left = steps };
	int err = 0;
	bool done = pcp_stock_tend(stock, !unfinished, &budget, &err);

	unfinished = !done;
	expect_eq(err, 0);
	expect(done || steps);
	if (!done)
		expect_eq(budget.left, 0);
	return done;
}

static void take(unsigned int n)
{
	expect_cmp(n, <=, MANY);
	for (unsigned int i = 0; i < n; i++)
		objs[i] = stock_alloc(stock);
}

static void give(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		stock_free(stock, objs[i]);
}

static void burst(unsigned int n)
{
	take(n);
	give(n);
}

static void burst_there(void *arg)
{
	unsigned int n = *(unsigned int *)arg;
	void *mine[8 * CAPACITY];

	expect_cmp(n, <=, PCP_ARRAY_SIZE(mine));
	for (unsigned int i = 0; i < n; i++)
		mine[i] = stock_alloc(stock);
	for (unsigned int i = 0; i < n; i++)
		stock_free(stock, mine[i]);
}

static bool slot_empty(long index)
{
	return pcp_is_sentinel(pcp_slot_peek(stock, index, PCP_MAIN)) &&
	       !pcp_slot_peek(stock, index, PCP_SPARE) &&
	       !pcp_slot_peek(stock, index, PCP_RCU);
}

/* The cache is in use, and needs one object at a time. */
static void stay_busy(void)
{
	stock_free(stock, stock_alloc(stock));
}

static void nothing_left(void)
{
	struct pcp_book book = book_check(stock, 0);

	expect_eq(book.slabs, 0);
	expect_eq(book.cached, 0);
	expect_eq(book.sheaves, 0);
	expect_eq(barn->nr_full + barn->nr_empty, 0);
	sheet_balanced(&sheet);
}

/* --- idle ----------------------------------------------------------------- */

START_TEST(test_fresh)
{
	for (unsigned int i = 0; i < 3; i++)
		expect(tend(i));
	expect_eq(count(PCP_STAT_TENDED), 3);
	expect_eq(count(PCP_STAT_DRAIN), 0);
	nothing_left();
}
END_TEST

/* The first call sees use, the second sees none. */
START_TEST(test_idle_gives_all_back)
{
	static const unsigned int flags[] = { 0, PCPOOL_DTOR_ON_FREE,
					      PCPOOL_CHECK };

	for (unsigned int i = 0; i < 2 * PCP_ARRAY_SIZE(flags); i++) {
		remake(i % 2 ? NULL : &sheet, flags[i / 2]);
		for (unsigned int n = 1; n <= MANY; n = 3 * n + 1) {
			uint64_t dtors;

			burst(n);
			dtors = sheet.dtor;
			expect(tend(0));
			if (n <= 2 * CAPACITY)
				expect_eq(sheet.dtor, dtors);
			expect(tend(0));
			nothing_left();
		}
	}
}
END_TEST

/* What is out is no reason to keep the rest. */
START_TEST(test_idle_but_for_live_ones)
{
	take(MANY);
	for (unsigned int i = 0; i < MANY; i++)
		if (i % 500)
			stock_free(stock, objs[i]);
	expect(tend(0));
	expect(tend(0));
	expect_eq(book_check(stock, MANY / 500).cached, 0);
	expect_cmp(slabs(), <=, MANY / 500);
	for (unsigned int i = 0; i < MANY; i += 500) {
		sheet_pattern_check(objs[i], 16);
		stock_free(stock, objs[i]);
	}
	expect(tend(0));
	expect(tend(0));
	nothing_left();
}
END_TEST

/* --- used ----------------------------------------------------------------- */

/* A slot that is used between two calls is not emptied, even if it looks the
 * same afterwards to the last object. */
START_TEST(test_used_slot_is_kept)
{
	for (unsigned int n = 1; n <= 8 * CAPACITY; n++) {
		uint64_t ctors, drains;

		for (unsigned int i = 0; i < 3; i++) {
			burst(n);
			expect(tend(0));
		}
		ctors = sheet.calls;
		drains = count(PCP_STAT_DRAIN);
		for (unsigned int i = 0; i < 50; i++) {
			burst(n);
			expect(tend(0));
			if (count(PCP_STAT_DRAIN) != drains)
				fail_now("drained in use, by bursts of %u", n);
		}
		expect_eq(sheet.calls, ctors);
		remake(&sheet, 0);
	}
}
END_TEST

/* So is one that lends its spare, untouched. */
START_TEST(test_prefilling_is_use)
{
	uint64_t drains;

	burst(3 * CAPACITY);
	expect(tend(0));
	drains = count(PCP_STAT_DRAIN);
	for (unsigned int i = 0; i < 20; i++) {
		struct pcp_sheaf *sheaf;
		int err;

		sheaf = pcp_stock_prefill(stock, CAPACITY, &err);
		expect(sheaf);
		pcp_stock_return(stock, sheaf);
		expect(tend(0));
		expect_eq(count(PCP_STAT_DRAIN), drains);
	}
}
END_TEST

/* The same where slabs do not wait for their end. */
START_TEST(test_used_slabs_are_kept)
{
	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int n = 1; n < MANY; n = 2 * n + 1) {
			uint64_t made;

			remake(kind ? NULL : &sheet, 0);
			/* More than there may wait for others. */
			if (n > WAITING_MAX * per_slab())
				break;
			for (unsigned int i = 0; i < 3; i++) {
				burst(n);
				expect(tend(0));
			}
			made = count(PCP_STAT_ALLOC_SLAB);
			for (unsigned int i = 0; i < 50; i++) {
				burst(n);
				expect(tend(0));
			}
			/* Without a destructor a free releases what is over
			 * min_partial, tended or not. */
			if (!kind || n < MIN_PARTIAL * per_slab())
				expect_eq(count(PCP_STAT_ALLOC_SLAB), made);
		}
}
END_TEST

START_TEST(test_idle_slot_of_another_cpu)
{
	unsigned int n = 3 * CAPACITY;
	long other;

	if (!two_slots())
		return;
	helper_call(&there, burst_there, &n);
	for (other = 0; other == here || slot_empty(other); other++)
		;
	stay_busy();
	expect(tend(0));
	expect(!slot_empty(other));
	stay_busy();
	expect(tend(0));
	expect(slot_empty(other));
	expect(!slot_empty(here));
	expect_eq(count(PCP_STAT_DRAIN), 1);
	/* As one never used, it is left alone, and can be used. */
	stay_busy();
	expect(tend(0));
	expect_eq(count(PCP_STAT_DRAIN), 1);
	helper_call(&there, burst_there, &n);
	expect(!slot_empty(other));
	book_check(stock, 0);
}
END_TEST

/* --- waiting slabs, barns --------------------------------------------------
 */

/* n slabs wait; slot and barn are empty; the list has the few it keeps. */
static void let_wait(uint32_t n)
{
	uint32_t objects = (n + MIN_PARTIAL) * per_slab(), got = 0;
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	expect_cmp(objects, <=, MANY);
	while (got < objects) {
		int err;

		got += pcp_stock_fill(stock, 0, objects - got, objs + got,
				      &err);
	}
	pcp_stock_give(stock, objects, objs, &dead);
	pcp_stock_bury(stock, &dead, false);
	expect_eq(node->nr_waiting, n);
}

/* Take n of them, and give them back. */
static void need(uint32_t n)
{
	struct pcp_slab *needed[WAITING_MAX];

	for (uint32_t i = 0; i < n; i++) {
		needed[i] = pcp_node_pop_waiting(node);
		expect(needed[i]);
	}
	while (n)
		pcp_node_queue(node, needed[--n]);
}

START_TEST(test_unneeded_slabs_go)
{
	for (uint32_t needed = 0; needed <= WAITING_MAX; needed++) {
		remake(&sheet, 0);
		let_wait(WAITING_MAX);
		stay_busy();
		/* They waited a part of the time only. */
		expect(tend(0));
		expect_eq(node->nr_waiting, WAITING_MAX);
		for (unsigned int i = 0; i < 4; i++) {
			stay_busy();
			need(needed);
			expect(tend(0));
			expect_eq(node->nr_waiting, needed);
		}
		expect_eq(sheet.dtor,
			  (WAITING_MAX - needed) * (uint64_t)per_slab());
	}
}
END_TEST

/* However needed they are. */
START_TEST(test_waiting_slabs_are_bounded)
{
	let_wait(5 * WAITING_MAX);
	stay_busy();
	expect(tend(0));
	expect_eq(node->nr_waiting, WAITING_MAX);
}
END_TEST

START_TEST(test_unneeded_sheaves_go)
{
	for (uint32_t needed = 0; needed <= PCP_BARN_FULL; needed++) {
		remake(&sheet, 0);
		burst(20 * CAPACITY);
		while (barn->nr_full > PCP_BARN_FULL)
			burst(1);
		expect_eq(barn->nr_full, PCP_BARN_FULL);
		expect(tend(0));
		for (unsigned int i = 0; i < 4; i++) {
			struct pcp_sheaf *sheaf[PCP_BARN_FULL];
			uint32_t n;

			stay_busy();
			for (n = 0; n < needed; n++)
				sheaf[n] = pcp_barn_get_full(barn);
			while (n)
				expect(pcp_barn_put_full(barn, sheaf[--n]));
			expect(tend(0));
			expect_eq(barn->nr_full, needed);
			book_check(stock, 0);
		}
	}
}
END_TEST

/* What a free parked is linked. */
static void free_one(void *arg)
{
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	pcp_stock_give(stock, 1, arg, &dead);
	expect(pcp_slabs_empty(&dead));
}

START_TEST(test_parked_slabs_are_linked)
{
	uint32_t got = 0, n = 3 * per_slab();

	while (got < n) {
		int err;

		got += pcp_stock_fill(stock, 0, n - got, objs + got, &err);
	}
	pcp_lock(&node->list_lock);
	for (uint32_t i = 0; i < 3; i++)
		helper_call(&there, free_one, &objs[i * per_slab()]);
	pcp_unlock(&node->list_lock);
	expect_eq(count(PCP_STAT_PARK_SLAB), 3);
	expect_eq(node->nr_partial, 0);
	expect(tend(1));
	expect_eq(count(PCP_STAT_UNPARK_SLAB), 3);
	expect_eq(node->nr_partial, 3);
	for (uint32_t i = 0; i < 3; i++) {
		struct pcp_slab_link dead;

		pcp_slabs_init(&dead);
		pcp_stock_give(stock, per_slab() - 1, &objs[i * per_slab() + 1],
			       &dead);
		pcp_stock_bury(stock, &dead, false);
	}
}
END_TEST

/* --- budgets ---------------------------------------------------------------
 */

/* Everything there is to do, for two slots, a barn and many slabs. */
static void much_to_do(void)
{
	unsigned int n = 3 * CAPACITY;

	burst(MANY);
	helper_call(&there, burst_there, &n);
	burst(3 * CAPACITY);
}

static void within_budget(uint32_t steps, const char *what)
{
	uint64_t dtors = sheet.dtor, released = count(PCP_STAT_FREE_SLAB);
	uint64_t flushed = count(PCP_STAT_SHEAF_FLUSH);
	uint32_t calls = 0;
	bool done;

	do {
		done = tend(steps);
		if (sheet.dtor - dtors > (uint64_t)steps * per_slab() ||
		    count(PCP_STAT_FREE_SLAB) - released > steps)
			fail_now("%s, %u steps: %llu slabs released", what,
				 steps,
				 (unsigned long long)count(PCP_STAT_FREE_SLAB) -
					 (unsigned long long)released);
		/* Up to three sheaves of a slot are one step, and a barn's
		 * part-filled one is none. */
		expect_cmp(count(PCP_STAT_SHEAF_FLUSH) - flushed, <=,
			   3 * steps + 1);
		dtors = sheet.dtor;
		released = count(PCP_STAT_FREE_SLAB);
		flushed = count(PCP_STAT_SHEAF_FLUSH);
		expect_cmp(++calls, <, 1000);
		book_check(stock, 0);
	} while (!done || slabs());
}

START_TEST(test_budget)
{
	static const uint32_t budgets[] = { 1, 2, 3, 7, 20, 1000 };

	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(budgets); i++) {
		remake(&sheet, 0);
		much_to_do();
		within_budget(budgets[i], "with a destructor");
		nothing_left();
		remake(NULL, 0);
		much_to_do();
		within_budget(budgets[i], "without one");
		nothing_left();
		remake(&sheet, PCPOOL_CHECK);
		much_to_do();
		within_budget(budgets[i], "checking");
		nothing_left();
	}
}
END_TEST

/* --- deferred frees --------------------------------------------------------
 */

static void defer_there(void *arg)
{
	void **obj = arg;

	if (!pcp_slot_push_rcu(stock, *obj))
		pcp_slot_defer_slow(stock, *obj);
}

/* No CPU but the one that freed can have handed its sheaf over. */
START_TEST(test_deferred_are_handed_over)
{
	for (unsigned int check = 0; check < 2; check++) {
		remake(&sheet, check ? PCPOOL_CHECK : 0);
		take(2);
		helper_call(&there, defer_there, &objs[0]);
		/* A checking cache hands over at the free: it may be done. */
		if (!check)
			expect_eq(pcp_stock_deferred(stock), 1);
		expect(tend(1));
		if (!check)
			expect_eq(count(PCP_STAT_FREE_RCU_SHEAF), 1);
		expect_eq(pcp_grace_barrier(stock->defer.grace.flavor), 0);
		expect_eq(pcp_stock_deferred(stock), 0);
		stock_free(stock, objs[1]);
		expect_eq(sheet.dtor, check ? sheet.ok - 2 : 0);
	}
}
END_TEST

/* --- fences that fail ------------------------------------------------------
 */

START_TEST(test_no_fence)
{
	struct pcp_budget budget = { 0 };
	int err = 0;

	if (!pcp_index.rseq)
		return;
	burst(3 * CAPACITY);
	expect(tend(0));
	pcp_fault_set(PCP_FAULT_FENCE, 1, true);
	expect(pcp_stock_tend(stock, true, &budget, &err));
	expect_eq(err, ENOMEM);
	/* As it was, and all else was done. */
	expect(!slot_empty(here));
	expect_cmp(count(PCP_STAT_DRAIN_FAIL), >, 0);
	expect_eq(barn->nr_full, 0);
	book_check(stock, 0);
	stay_busy();
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect(tend(0));
	expect(tend(0));
	nothing_left();
}
END_TEST

/* Nor can what is deferred be taken from a slot. */
START_TEST(test_no_fence_for_deferred)
{
	struct pcp_budget budget = { 0 };
	int err = 0;

	if (!pcp_index.rseq)
		return;
	take(1);
	defer_there(&objs[0]);
	pcp_fault_set(PCP_FAULT_FENCE, 1, true);
	expect(pcp_stock_tend(stock, true, &budget, &err));
	expect_eq(err, ENOMEM);
	expect_eq(pcp_stock_deferred(stock), 1);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect(tend(0));
	expect_eq(pcp_grace_barrier(stock->defer.grace.flavor), 0);
	expect_eq(pcp_stock_deferred(stock), 0);
}
END_TEST

/* --- beside use ------------------------------------------------------------
 */

#define WORKERS 3U

static atomic_uint working;

static void use(unsigned int id)
{
	void *mine[200];
	struct rng rng;

	rng_seed(&rng, 23 + id);
	for (unsigned long i = scaled(4000); i; i--) {
		uint32_t n = 1 + rng_below(&rng, PCP_ARRAY_SIZE(mine));

		for (uint32_t j = 0; j < n; j++) {
			mine[j] = stock_alloc(stock);
			owner_take(mine[j], id + 1);
		}
		for (uint32_t j = 0; j < n; j++) {
			owner_leave(mine[j], id + 1);
			if (rng_below(&rng, 8))
				stock_free(stock, mine[j]);
			else
				defer_there(&mine[j]);
		}
	}
	atomic_fetch_sub(&working, 1);
}

static void use_or_tend(const struct worker *worker)
{
	struct rng rng;

	if (worker->id < WORKERS) {
		use(worker->id);
		return;
	}
	rng_seed(&rng, 5);
	while (atomic_load(&working)) {
		(void)tend(rng_below(&rng, 10));
		sched_yield();
	}
}

START_TEST(test_beside_use)
{
	static const unsigned int flags[] = { 0, PCPOOL_DTOR_ON_FREE };

	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(flags); i++) {
		remake(&sheet, flags[i]);
		sheet.fill = 0;
		sheet.clear = 8;
		atomic_store(&working, WORKERS);
		run_threads(WORKERS + 1, use_or_tend, NULL);
		stock_settle(stock);
		for (unsigned int j = 0; j < 3; j++)
			expect(tend(0));
		nothing_left();
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("tend", 120);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_fresh);
	tcase_add_test(tc, test_idle_gives_all_back);
	tcase_add_test(tc, test_idle_but_for_live_ones);
	tcase_add_test(tc, test_used_slot_is_kept);
	tcase_add_test(tc, test_prefilling_is_use);
	tcase_add_test(tc, test_used_slabs_are_kept);
	tcase_add_test(tc, test_idle_slot_of_another_cpu);
	tcase_add_test(tc, test_unneeded_slabs_go);
	tcase_add_test(tc, test_waiting_slabs_are_bounded);
	tcase_add_test(tc, test_unneeded_sheaves_go);
	tcase_add_test(tc, test_parked_slabs_are_linked);
	tcase_add_test(tc, test_budget);
	tcase_add_test(tc, test_deferred_are_handed_over);
	tcase_add_test(tc, test_no_fence);
	tcase_add_test(tc, test_no_fence_for_deferred);
	tcase_add_test(tc, test_beside_use);
	return suite_run(tc);
}

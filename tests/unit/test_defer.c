/* SPDX-License-Identifier: MIT */
/*
 * lib/slot/defer.c: from the slot's rcu sheaf to a grace period and back to the
 * stock, with the grace item's functions called by hand: nothing waits here for
 * readers but where it says so.
 */
#include <config.h>

#include <sched.h>

#include "slot_fixture.h"

/* The library has no thread in these tests, and does not queue the stock's work,
 * since it seems to be queued already. */
static void by_hand(void)
{
	pcp_fault_set(PCP_FAULT_THREAD, 1, true);
	stock->defer.state = PCP_DEFER_QUEUED;
}

static void setup_by_hand(void)
{
	setup();
	by_hand();
}

static void seal(void)
{
	stock->defer.grace.seal(&stock->defer.grace);
}

static void ripen(void)
{
	stock->defer.grace.fn(&stock->defer.grace);
	expect_eq(pcp_load(&stock->defer.state), PCP_DEFER_IDLE);
	stock->defer.state = PCP_DEFER_QUEUED;
}

/* The same while more is open, for which it queues itself again. */
static void ripen_and_queue(void)
{
	stock->defer.grace.fn(&stock->defer.grace);
	expect_eq(pcp_load(&stock->defer.state), PCP_DEFER_QUEUED);
}

/* So that waiting does it, there being no thread. */
static void run_queued(void)
{
	expect_eq(pcp_grace_barrier(stock->defer.grace.flavor), 0);
	expect_eq(pcp_load(&stock->defer.state), PCP_DEFER_IDLE);
	stock->defer.state = PCP_DEFER_QUEUED;
}

static void teardown_by_hand(void)
{
	expect_eq(pcp_stock_deferred(stock), 0);
	expect(!stock->defer.open && !stock->defer.ripe);
	expect(!stock->defer.ripe_slabs && !stock->defer.ripe_dying);
	stock->defer.state = PCP_DEFER_IDLE;
	expect(pcp_defer_idle(&stock->defer));
	teardown();
}

/* As pcpool_free_rcu() does. */
static void defer(void *obj)
{
	if (!pcp_slot_push_rcu(stock, obj))
		pcp_slot_defer_slow(stock, obj);
}

static void take(uint32_t n, void **objs)
{
	for (uint32_t i = 0; i < n; i++)
		objs[i] = stock_alloc(stock);
}

static void defer_all(uint32_t n, void **objs)
{
	for (uint32_t i = 0; i < n; i++)
		defer(objs[i]);
}

static size_t pending(void)
{
	return pcp_load(&stock->defer.pending);
}

static void hand_over(void)
{
	expect_eq(pcp_stock_hand_over(stock), 0);
}

/* Anything in the stock is none of these. */
static void none_to_be_had(uint32_t n, void *const *objs)
{
	void *all[8 * CAPACITY];

	for (uint32_t i = 0; i < PCP_ARRAY_SIZE(all); i++) {
		all[i] = stock_alloc(stock);
		for (uint32_t j = 0; j < n; j++)
			expect(all[i] != objs[j]);
	}
	for (uint32_t i = 0; i < PCP_ARRAY_SIZE(all); i++)
		stock_free(stock, all[i]);
}

/* --- the slot's sheaf ------------------------------------------------------- */

/* The rcu sheaf takes what is pushed, whatever the main is; nothing else does. */
START_TEST(test_push_rcu)
{
	struct pcp_sheaf *rcu = stocked(0);
	void *objs[CAPACITY + 1];

	for (uint32_t i = 0; i <= CAPACITY; i++)
		objs[i] = stock_alloc(stock);
	expect(!pcp_slot_push_rcu(stock, objs[0]));
	pcp_sheaf_begin(rcu);
	expect(pcp_slot_commit(stock, here, PCP_RCU, NULL, rcu));
	for (uint32_t i = 0; i < CAPACITY; i++) {
		expect(pcp_slot_push_rcu(stock, objs[i]));
		expect(rcu->objects[i] == objs[i]);
		expect_eq(book_check(stock, CAPACITY - i).deferred, i + 1);
		expect_eq(book_check(stock, CAPACITY - i).deferring, i + 1);
	}
	expect(!pcp_slot_push_rcu(stock, objs[CAPACITY]));
	expect_eq(book_check(stock, 1).free_fast, CAPACITY);
	none_to_be_had(CAPACITY, objs);
	stock_free(stock, objs[CAPACITY]);
	hand_over();
	expect(!peek(PCP_RCU));
	seal();
	ripen();
}
END_TEST

/* Sheaf after sheaf: a full one is handed over when the next object comes. */
START_TEST(test_hand_over_when_full)
{
	void *objs[3 * CAPACITY + 1];

	take(PCP_ARRAY_SIZE(objs), objs);
	expect(!stock->defer.used);
	for (uint32_t i = 0; i < PCP_ARRAY_SIZE(objs); i++) {
		defer(objs[i]);
		expect(stock->defer.used);
		expect_eq(pending(), i / CAPACITY * CAPACITY);
		expect_eq(pcp_sheaf_size(peek(PCP_RCU)), i % CAPACITY + 1);
		expect_eq(pcp_stock_deferred(stock), i + 1);
		book_check(stock, PCP_ARRAY_SIZE(objs) - 1 - i);
	}
	expect_eq(count(PCP_STAT_FREE_RCU_SHEAF), 3 * CAPACITY);
	expect_eq(count(PCP_STAT_FREE_RCU_SHEAF_FAIL), 0);
	expect_eq(stock->defer.peak, 3 * CAPACITY);
	/* All of these count as fast frees, also the first of each sheaf. */
	expect_eq(book_check(stock, 0).free_fast, 3 * CAPACITY + 1);
	expect_eq(count(PCP_STAT_SLOW_FREE), 0);
	none_to_be_had(PCP_ARRAY_SIZE(objs), objs);
	/* The rest goes with a hand-over only. */
	seal();
	ripen();
	expect_eq(pcp_stock_deferred(stock), 1);
	expect_eq(pending(), 0);
	hand_over();
	expect_eq(pending(), 1);
	seal();
	ripen();
	expect_eq(pcp_stock_deferred(stock), 0);
	/* Full ones went to the barn as they were. */
	expect_cmp(stock->barns[0].nr_full, >=, 3);
	expect_eq(count(PCP_STAT_SHEAF_FLUSH), 0);
	expect_eq(stock->defer.peak, 3 * CAPACITY);
}
END_TEST

/* What is handed over after the seal is not touched by its grace period. */
START_TEST(test_seal)
{
	void *objs[5];

	take(5, objs);
	defer_all(3, objs);
	hand_over();
	seal();
	expect(stock->defer.ripe && !stock->defer.open);
	defer_all(2, objs + 3);
	hand_over();
	expect(stock->defer.open);
	/* Sealing again before it is ripe changes nothing. */
	seal();
	expect(stock->defer.open);
	expect_eq(pending(), 5);
	ripen_and_queue();
	expect_eq(pending(), 2);
	none_to_be_had(2, objs + 3);
	run_queued();
	expect_eq(pending(), 0);
	book_check(stock, 0);
}
END_TEST

/* From all slots, and again while nothing is there. */
START_TEST(test_hand_over_all_slots)
{
	for (long i = 0; i < (long)pcp_index.nr_ids; i++) {
		struct pcp_sheaf *sheaf = stocked(i % 2 ? CAPACITY : 2);

		pcp_sheaf_begin(sheaf);
		stock->slots[i].rcu = sheaf;
	}
	stock_free(stock, stock_alloc(stock));
	hand_over();
	for (long i = 0; i < (long)pcp_index.nr_ids; i++) {
		expect(!pcp_slot_peek(stock, i, PCP_RCU));
		expect(pcp_slot_peek(stock, i, PCP_MAIN) != PCP_CLOSED);
	}
	/* The main stays where it was. */
	expect(!pcp_is_sentinel(peek(PCP_MAIN)));
	expect_cmp(pending(), >=, 2 * (size_t)pcp_index.nr_ids);
	expect_eq(pcp_stock_deferred(stock), pending());
	hand_over();
	hand_over();
	seal();
	ripen();
	expect_eq(pending(), 0);
}
END_TEST

/* --- chains ----------------------------------------------------------------- */

/* No memory for a sheaf: the object waits by itself. */
START_TEST(test_without_sheaf)
{
	void *objs[20];
	uint64_t live = 20;

	take(20, objs);
	pcp_fault_set(PCP_FAULT_META, 1, true);
	/* Retired and empty ones would do. */
	pcp_stock_empty_barns(stock, &dead);
	for (uint32_t i = 0; i < 20; i++) {
		defer(objs[i]);
		expect_eq(pending(), i + 1);
		expect_eq(book_check(stock, --live).deferred, i + 1);
	}
	pcp_fault_set(PCP_FAULT_META, 0, false);
	expect_eq(count(PCP_STAT_FREE_RCU_SHEAF_FAIL), 20);
	expect_eq(count(PCP_STAT_SLOW_FREE), 20);
	expect(!peek(PCP_RCU));
	none_to_be_had(20, objs);
	seal();
	expect_eq(pending(), 20);
	none_to_be_had(20, objs);
	ripen();
	expect_eq(pending(), 0);
	book_check(stock, 0);
}
END_TEST

static uint32_t chained(void)
{
	struct pcp_kind *kind = &stock->kind;
	uint32_t n = 0;

	for (struct pcp_slab_link *link = kind->all.next; link != &kind->all;
	     link = link->next)
		n += slab_chained(
			pcp_container_of(link, struct pcp_slab, all));
	return n;
}

/* Both kinds at once, and again while the first wait. */
START_TEST(test_chains)
{
	void *objs[60];
	uint64_t dtor = count(PCP_STAT_DTOR);

	take(60, objs);
	for (uint32_t i = 0; i < 60; i++) {
		if (i == 30)
			seal();
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_FREE);
		pcp_defer_object(stock, objs[i], i % 3 == 0 ? PCP_DEFER_DISCARD
							    : PCP_DEFER_FREE);
		expect_eq(chained(), i < 30 ? i + 1 : i - 29);
		expect_eq(pending(), i + 1);
	}
	/* Destructors wait too. */
	expect_eq(count(PCP_STAT_DTOR), dtor);
	none_to_be_had(60, objs);
	ripen_and_queue();
	expect_eq(pending(), 30);
	expect_eq(count(PCP_STAT_DTOR) - dtor, 10);
	none_to_be_had(30, objs + 30);
	run_queued();
	expect_eq(pending(), 0);
	expect_eq(count(PCP_STAT_DTOR) - dtor, 20);
	book_check(stock, 0);
}
END_TEST

/* _i: the first free. */
static void free_twice(void *arg)
{
	int how = *(int *)arg;
	void *obj = stock_alloc(stock);

	if (how == 2)
		pcp_stock_give(stock, 1, &obj, &dead);
	else
		pcp_defer_object(stock, obj, (enum pcp_deferral)how);
	pcp_defer_object(stock, obj, PCP_DEFER_FREE);
}

START_TEST(test_chained_twice)
{
	must_abort(free_twice, &_i, "freed twice");
}
END_TEST

static void defer_stranger(void *arg)
{
	defer(arg);
}

START_TEST(test_stranger)
{
	static uint64_t words[8];

	pcp_fault_set(PCP_FAULT_META, 1, true);
	must_abort(defer_stranger, &words[1], "not an object");
	pcp_fault_set(PCP_FAULT_META, 0, false);
}
END_TEST

/* --- a typesafe stock's slabs ----------------------------------------------- */

static void setup_typesafe(void)
{
	setup();
	stock_drop(stock);
	sheet = (struct sheet){ .fill = STOCK_OBJECT };
	stock = stock_make_of(STOCK_OBJECT, &sheet, PCPOOL_TYPESAFE_BY_RCU,
			      CAPACITY);
	by_hand();
}

static void trim(void)
{
	expect_eq(pcp_stock_drain(stock, &dead), 0);
	pcp_stock_empty_barns(stock, &dead);
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		pcp_node_trim(&stock->nodes[i], 0, &dead);
	pcp_stock_kill(stock, &dead);
	expect(pcp_slabs_empty(&dead));
}

START_TEST(test_deaths)
{
	void *objs[40];

	expect(stock->defer.used);
	expect(stock->defer.grace.user_code);
	take(40, objs);
	for (uint32_t i = 0; i < 40; i++)
		stock_free(stock, objs[i]);
	trim();
	/* Out of reach, and as it was. */
	expect_eq(count(PCP_STAT_DTOR), 0);
	expect_cmp(count(PCP_STAT_CTOR_OK), >=, 40);
	for (uint32_t i = 0; i < 40; i++)
		sheet_pattern_check(objs[i], STOCK_OBJECT);
	none_to_be_had(40, objs);
	seal();
	expect_eq(count(PCP_STAT_DTOR), 0);
	/* These die with the next grace period. */
	trim();
	ripen_and_queue();
	expect_cmp(count(PCP_STAT_DTOR), >=, 40);
	expect_cmp(count(PCP_STAT_DTOR), <, count(PCP_STAT_CTOR_OK));
	run_queued();
	expect_eq(count(PCP_STAT_DTOR), count(PCP_STAT_CTOR_OK));
	expect_eq(book_check(stock, 0).slabs, 0);
}
END_TEST

START_TEST(test_user_code_or_not)
{
	struct pcp_stock *plain =
		stock_make_of(64, NULL, PCPOOL_TYPESAFE_BY_RCU, CAPACITY);

	/* Nothing of the user's runs when these die. */
	expect(plain->defer.used && !plain->defer.grace.user_code);
	stock_drop(plain);
	plain = stock_make_of(64, &sheet, 0, CAPACITY);
	expect(!plain->defer.used && !plain->defer.grace.user_code);
	expect(plain->defer.grace.flavor == pcp_grace_default());
	expect_cmp(plain->defer.bound, >, 0);
	stock_drop(plain);
}
END_TEST

/* --- bounds ----------------------------------------------------------------- */

START_TEST(test_bound)
{
	static const struct {
		size_t size, bound;
	} bounds[] = { { 1, 65536 },	 { 128, 65536 },  { 1024, 8192 },
		       { 32768, 256 },	 { 32769, 256 }, { 1 << 20, 256 } };

	for (size_t i = 0; i < PCP_ARRAY_SIZE(bounds); i++) {
		struct pcp_stock *sized =
			stock_make_of(bounds[i].size, NULL, 0, 1);

		expect_eq(sized->defer.bound, bounds[i].bound);
		pcp_defer_init(sized, NULL, 17);
		expect_eq(sized->defer.bound, 17);
		stock_drop(sized);
	}
}
END_TEST

START_TEST(test_hurries)
{
	void *objs[4 * CAPACITY];

	take(PCP_ARRAY_SIZE(objs), objs);
	stock->defer.bound = 2 * CAPACITY;
	defer_all(3 * CAPACITY, objs);
	expect_eq(pending(), 2 * CAPACITY);
	expect_eq(count(PCP_STAT_RCU_HURRY), 0);
	defer_all(CAPACITY, objs + 3 * CAPACITY);
	expect_eq(pending(), 3 * CAPACITY);
	/* Once for what is queued now. */
	expect_eq(count(PCP_STAT_RCU_HURRY), 1);
	hand_over();
	expect_eq(count(PCP_STAT_RCU_HURRY), 1);
	expect_eq(stock->defer.peak, 4 * CAPACITY);
	seal();
	ripen();
	expect_eq(stock->defer.peak, 4 * CAPACITY);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("defer", 60), *safe = tcase_create("typesafe");

	tcase_add_checked_fixture(tc, setup_by_hand, teardown_by_hand);
	tcase_add_test(tc, test_push_rcu);
	tcase_add_test(tc, test_hand_over_when_full);
	tcase_add_test(tc, test_seal);
	tcase_add_test(tc, test_hand_over_all_slots);
	tcase_add_test(tc, test_without_sheaf);
	tcase_add_test(tc, test_chains);
	tcase_add_loop_test(tc, test_chained_twice, 0, 3);
	tcase_add_test(tc, test_stranger);
	tcase_add_test(tc, test_bound);
	tcase_add_test(tc, test_hurries);
	tcase_add_checked_fixture(safe, setup_typesafe, teardown_by_hand);
	tcase_add_test(safe, test_deaths);
	tcase_add_test(safe, test_user_code_or_not);
	suite_add_tcase(suite_one, safe);
	return suite_run(tc);
}

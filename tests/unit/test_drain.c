/* SPDX-License-Identifier: MIT */
/*
 * lib/slot/drain.c: slots are emptied while others use them. Hooks stand between
 * close, fence and take; a local commit that was under way when the slot was
 * closed is made to win there by the store it ends with.
 */
#include <config.h>

#include <sched.h>

#include "slot_fixture.h"

static struct helper there; /* on the second CPU */

static void put_n(void *arg)
{
	unsigned int n = *(unsigned int *)arg;
	void *objs[4 * CAPACITY];

	for (unsigned int i = 0; i < n; i++)
		objs[i] = stock_alloc(stock);
	for (unsigned int i = 0; i < n; i++)
		stock_free(stock, objs[i]);
}

/* Main and spare of the caller's slot hold something. */
static void use_here(void)
{
	unsigned int n = 2 * CAPACITY;

	put_n(&n);
	expect(!pcp_is_sentinel(peek(PCP_MAIN)));
	expect(peek(PCP_SPARE));
}

static void use_there(void)
{
	unsigned int n = CAPACITY;

	helper_call(&there, put_n, &n);
}

static void drained(long index)
{
	expect(pcp_slot_peek(stock, index, PCP_MAIN) == PCP_EMPTY);
	expect(!pcp_slot_peek(stock, index, PCP_SPARE));
	expect(!pcp_slot_peek(stock, index, PCP_RCU));
}

static uint64_t in_barns(void)
{
	return pcp_barn_objects(&stock->barns[0]);
}

/* A second CPU, else the test is about one slot only. */
static bool two_slots(void)
{
	return allowed_cpus() > 1 && pcp_index.nr_ids > 1 && !pcp_index.hash;
}

static void setup_drain(void)
{
	setup();
	helper_start(&there, 1);
}

static void teardown_drain(void)
{
	helper_stop(&there);
	teardown();
}

/* --- alone ---------------------------------------------------------------- */

START_TEST(test_nothing_to_do)
{
	pcp_fault_set(PCP_FAULT_FENCE, 1, true);
	expect_eq(pcp_stock_drain(stock, &dead), 0);
	/* No slot was used: no fence. */
	expect_eq(pcp_fault_passed(PCP_FAULT_FENCE), 0);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect_eq(count(PCP_STAT_DRAIN), 1);
	drained(here);
}
END_TEST

START_TEST(test_one_slot)
{
	struct pcp_sheaf *rcu = stocked(2);
	void *obj;

	use_here();
	expect(pcp_slot_commit(stock, here, PCP_RCU, NULL, rcu));
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	/* The library's thread must not be faster than this one. */
	stock->defer.state = PCP_DEFER_QUEUED;
	expect_eq(pcp_stock_drain(stock, &dead), 0);
	expect_eq(pcp_fault_passed(PCP_FAULT_FENCE), pcp_index.rseq);
	drained(here);
	expect_eq(book_check(stock, 0).cached, in_barns());
	/* What was in the rcu sheaf waits for readers. */
	expect_eq(book_check(stock, 0).deferred, 2);
	stock->defer.state = PCP_DEFER_IDLE;
	stock_settle(stock);
	expect_eq(book_check(stock, 0).cached, in_barns());
	expect_cmp(in_barns(), >=, 2);
	expect_eq(count(PCP_STAT_DRAIN_RETRY), 0);
	expect_eq(count(PCP_STAT_DRAIN_FAIL), 0);
	/* What sections counted is in the books. */
	expect_eq(count(PCP_STAT_FAST_ALLOC), book_check(stock, 0).alloc_fast);
	expect_cmp(count(PCP_STAT_FAST_ALLOC), >, 0);
	/* The slot works at once, with the same sheaves. */
	obj = stock_alloc(stock);
	stock_free(stock, obj);
	expect(!pcp_is_sentinel(peek(PCP_MAIN)));
}
END_TEST

/* A spare or rcu sheaf alone makes a slot one that is in use. */
START_TEST(test_without_main)
{
	struct pcp_sheaf *sheaf = stocked(3);

	/* The library's thread must not be faster than this one. */
	stock->defer.state = PCP_DEFER_QUEUED;
	for (enum pcp_slot_word word = PCP_SPARE; word <= PCP_RCU; word++) {
		const bool rcu = word == PCP_RCU;

		expect(pcp_slot_commit(stock, here, word, NULL, sheaf));
		expect_eq(book_check(stock, 0).cached, rcu ? 0 : 3);
		expect_eq(book_check(stock, 0).deferred, rcu ? 3 : 0);
		expect_eq(pcp_stock_drain(stock, &dead), 0);
		drained(here);
		expect_eq(book_check(stock, 0).cached, 0);
		expect_eq(book_check(stock, 0).deferred, rcu ? 3 : 0);
		sheaf = stocked(3);
	}
	stock->defer.state = PCP_DEFER_IDLE;
	stock_settle(stock);
	empty_sheaf(sheaf);
}
END_TEST

/* All slots, one fence. */
START_TEST(test_all_slots)
{
	use_here();
	use_there();
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect_eq(pcp_stock_drain(stock, &dead), 0);
	expect_eq(pcp_fault_passed(PCP_FAULT_FENCE), pcp_index.rseq);
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++)
		drained((long)i);
	expect_eq(book_check(stock, 0).cached, in_barns());
	expect_eq(count(PCP_STAT_DRAIN), 1);
}
END_TEST

START_TEST(test_not_for_these)
{
	struct pcp_stock *checked = stock_make_of(64, NULL, PCPOOL_CHECK, 4);

	expect_eq(pcp_stock_drain(checked, &dead), 0);
	expect_eq(stock_stat(checked, PCP_STAT_DRAIN), 0);
	stock_drop(checked);
	use_here();
	stock->dying = true;
	expect_eq(pcp_stock_drain(stock, &dead), 0);
	stock->dying = false;
	expect(peek(PCP_SPARE));
}
END_TEST

/* --- a local commit wins -------------------------------------------------- */

static enum pcp_hook_id win_at;
static struct pcp_sheaf *won, *winner; /* the old main; what replaced it */
static long win_on;
static unsigned int wins;

/* The store that ends a section which began before the slot was closed, in the
 * window before the fence: its thread owns the old main now. */
static void store_of_section(enum pcp_hook_id id)
{
	struct pcp_slot *slot = &stock->slots[win_on];

	if (id != win_at || !wins)
		return;
	wins--;
	expect(pcp_load(&slot->main) == PCP_CLOSED);
	pcp_store(&slot->main, winner);
}

/* Replace the main of a slot by a sheaf while it is being closed. */
static void drain_while_winning(long index, unsigned int n, int err)
{
	uint32_t kept;

	win_on = index;
	won = pcp_slot_peek(stock, index, PCP_MAIN);
	kept = pcp_sheaf_size(won);
	winner = stocked(2);
	pcp_sheaf_begin(winner);
	win_at = PCP_HOOK_DRAIN_CLOSED;
	wins = n;
	pcp_hook_set(store_of_section);
	expect_eq(pcp_stock_drain(stock, &dead), err);
	pcp_hook_set(NULL);
	expect_eq(wins, 0);
	/* The old main is its owner's, untouched. */
	expect_eq(pcp_sheaf_size(won), kept);
	expect_cmp(won->base, >=, 0);
}

static void take_over_won(void)
{
	pcp_sheaf_end(won, &stock->kind.stat);
	empty_sheaf(won);
}

START_TEST(test_commit_wins)
{
	if (!pcp_index.rseq)
		return;
	use_here();
	drain_while_winning(here, 1, 0);
	expect_eq(count(PCP_STAT_DRAIN_RETRY), 1);
	drained(here);
	expect_eq(pcp_sheaf_size(winner), 0);
	take_over_won();
	book_check(stock, 0);
}
END_TEST

/* One of several slots: only that one is closed again. */
START_TEST(test_commit_wins_of_many)
{
	if (!pcp_index.rseq || !two_slots())
		return;
	for (unsigned int i = 0; i < 2; i++) {
		use_here();
		use_there();
		pcp_fault_set(PCP_FAULT_FENCE, 0, false);
		drain_while_winning(i ? here : !here, 1, 0);
		expect_eq(pcp_fault_passed(PCP_FAULT_FENCE), 2);
		expect_eq(count(PCP_STAT_DRAIN_RETRY), i + 1);
		for (unsigned int j = 0; j < pcp_index.nr_ids; j++)
			drained((long)j);
		take_over_won();
		book_check(stock, 0);
	}
}
END_TEST

/* --- the fence fails ------------------------------------------------------ */

struct words {
	struct pcp_sheaf *main, *spare, *rcu;
};

static struct words words_of(long index)
{
	return (struct words){ pcp_slot_peek(stock, index, PCP_MAIN),
			       pcp_slot_peek(stock, index, PCP_SPARE),
			       pcp_slot_peek(stock, index, PCP_RCU) };
}

static void same(struct words before, long index)
{
	struct words now = words_of(index);

	expect(now.main == before.main);
	expect(now.spare == before.spare);
	expect(now.rcu == before.rcu);
}

START_TEST(test_fence_fails)
{
	struct words mine, other;
	uint64_t cached;
	long far = !here;
	void *obj;

	if (!pcp_index.rseq)
		return;
	use_here();
	if (_i && two_slots())
		use_there();
	else
		far = here;
	mine = words_of(here);
	other = words_of(far);
	cached = book_check(stock, 0).cached;
	for (unsigned int round = 1; round < 4; round++) {
		pcp_fault_set(PCP_FAULT_FENCE, 1, false);
		expect_eq(pcp_stock_drain(stock, &dead), ENOMEM);
		same(mine, here);
		same(other, far);
		expect_eq(count(PCP_STAT_DRAIN_FAIL),
			  round * (far == here ? 1 : 2));
		expect_eq(book_check(stock, 0).cached, cached);
		/* The fast path works on. */
		expect(pcp_slot_pop(stock, &obj));
		expect(pcp_slot_push(stock, obj));
	}
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect_eq(pcp_stock_drain(stock, &dead), 0);
	drained(here);
	drained(far);
}
END_TEST

/* A local commit won and then the fence fails: its main must stay. */
START_TEST(test_fence_fails_and_commit_wins)
{
	if (!pcp_index.rseq)
		return;
	use_here();
	if (_i && two_slots())
		use_there();
	pcp_fault_set(PCP_FAULT_FENCE, 1, false);
	drain_while_winning(here, 1, ENOMEM);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect(peek(PCP_MAIN) == winner);
	expect_eq(count(PCP_STAT_DRAIN_RETRY), 0);
	take_over_won();
	book_check(stock, 0);
}
END_TEST

/* The commit wins, and the second fence, for that slot alone, fails. */
START_TEST(test_second_fence_fails)
{
	if (!pcp_index.rseq)
		return;
	use_here();
	if (_i && two_slots())
		use_there();
	pcp_fault_set(PCP_FAULT_FENCE, 2, false);
	drain_while_winning(here, 1, ENOMEM);
	expect_eq(pcp_fault_passed(PCP_FAULT_FENCE), 2);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect(peek(PCP_MAIN) == winner);
	expect_eq(count(PCP_STAT_DRAIN_RETRY), 1);
	expect_eq(count(PCP_STAT_DRAIN_FAIL), 1);
	/* The other slot was emptied all the same. */
	if (_i && two_slots())
		drained(!here);
	take_over_won();
	book_check(stock, 0);
}
END_TEST

/* --- users in between ----------------------------------------------------- */

static unsigned int met;

static void use_meanwhile(enum pcp_hook_id id)
{
	unsigned int n = CAPACITY;
	uint64_t bypassed;

	if (id != win_at)
		return;
	met++;
	bypassed = count(PCP_STAT_BYPASS);
	helper_call(&there, put_n, &n);
	/* Past the closed slot. */
	expect_eq(count(PCP_STAT_BYPASS) - bypassed, 2 * n);
}

/* Calls on a slot that is being drained find other ways. */
START_TEST(test_used_meanwhile)
{
	const long far = !here;

	if (!pcp_index.rseq || !two_slots())
		return;
	for (win_at = PCP_HOOK_DRAIN_CLOSED; win_at <= PCP_HOOK_DRAIN_TAKEN;
	     win_at++) {
		use_there();
		met = 0;
		pcp_hook_set(use_meanwhile);
		expect_eq(pcp_stock_drain(stock, &dead), 0);
		pcp_hook_set(NULL);
		expect_eq(met, 1);
		drained(far);
		book_check(stock, 0);
	}
}
END_TEST

static void just_drain(void *arg)
{
	struct pcp_slab_link mine;

	pcp_slabs_init(&mine);
	expect_eq(pcp_stock_drain(stock, &mine), 0);
	pcp_stock_bury(stock, &mine, true);
	atomic_store((atomic_bool *)arg, true);
}

/* Lock mode: a drain waits for whoever has the slot. */
START_TEST(test_waits_for_lock)
{
	struct pcp_slot *slot = &stock->slots[here];
	atomic_bool done = false;

	if (pcp_index.rseq)
		return;
	use_here();
	pcp_slot_lock(slot);
	there.fn = just_drain;
	there.arg = &done;
	sem_post(&there.asked);
	for (unsigned int i = 0; i < 200; i++)
		sched_yield();
	expect(!atomic_load(&done));
	expect(!pcp_is_sentinel(slot->local));
	pcp_slot_unlock(slot);
	while (sem_wait(&there.done))
		;
	expect(atomic_load(&done));
	drained(here);
}
END_TEST

/* --- shared --------------------------------------------------------------- */

START_TEST(test_shared)
{
	uint64_t seen = stock->drains;

	use_here();
	expect_eq(pcp_stock_drain_shared(stock, seen, &dead), 0);
	expect_eq(stock->drains, seen + 1);
	drained(here);
	/* One began since: it serves this caller too. */
	use_here();
	expect_eq(pcp_stock_drain_shared(stock, seen, &dead), 0);
	expect_eq(count(PCP_STAT_DRAIN), 1);
	expect(peek(PCP_SPARE));
	expect_eq(pcp_stock_drain_shared(stock, seen + 1, &dead), 0);
	expect_eq(count(PCP_STAT_DRAIN), 2);
	drained(here);
}
END_TEST

static uint64_t seen_by_all;

static void drain_once(const struct worker *worker)
{
	struct pcp_slab_link mine;

	(void)worker;
	pcp_slabs_init(&mine);
	expect_eq(pcp_stock_drain_shared(stock, seen_by_all, &mine), 0);
	/* Not before the one that served was done. */
	expect_eq(book_check(stock, 0).cached, in_barns());
	pcp_stock_bury(stock, &mine, true);
}

START_TEST(test_many_share_one)
{
	for (unsigned int round = 0; round < 20; round++) {
		use_here();
		use_there();
		seen_by_all = stock->drains;
		run_threads(6, drain_once, NULL);
		expect_eq(count(PCP_STAT_DRAIN), round + 1);
	}
}
END_TEST

/* --- more slots than fit on the stack, and no memory to remember them ----- */

static void setup_wide(void)
{
	decide("slots:200");
	setup_drain();
}

/* In lock mode threads are dealt to slots by a hash: any may be somebody's. */
static struct pcp_slot *slot_of_nobody(void)
{
	long index = 150;

	while (!pcp_is_sentinel(pcp_slot_peek(stock, index, PCP_MAIN)) ||
	       pcp_slot_peek(stock, index, PCP_SPARE))
		index++;
	return &stock->slots[index];
}

START_TEST(test_wide)
{
	expect_eq(pcp_index.nr_ids, 200);
	for (unsigned int without = 0; without < 2; without++) {
		use_here();
		use_there();
		slot_of_nobody()->spare = stocked(3);
		if (without)
			pcp_fault_set(PCP_FAULT_META, 1, true);
		pcp_fault_set(PCP_FAULT_FENCE, 0, false);
		expect_eq(pcp_stock_drain(stock, &dead), 0);
		pcp_fault_set(PCP_FAULT_META, 0, false);
		if (pcp_index.rseq)
			expect_cmp(pcp_fault_passed(PCP_FAULT_FENCE), ==,
				   without ? 2U + two_slots() : 1U);
		for (unsigned int i = 0; i < 200; i++)
			drained((long)i);
		expect_eq(book_check(stock, 0).cached, in_barns());
	}
	/* Then each fence may fail by itself. */
	if (!pcp_index.rseq)
		return;
	use_here();
	slot_of_nobody()->spare = stocked(3);
	pcp_fault_set(PCP_FAULT_META, 1, true);
	pcp_fault_set(PCP_FAULT_FENCE, 1, false);
	expect_eq(pcp_stock_drain(stock, &dead), ENOMEM);
	pcp_fault_set(PCP_FAULT_META, 0, false);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect_eq(count(PCP_STAT_DRAIN_FAIL), 1);
	expect_eq(book_check(stock, 0).sheaves > 0, 1);
}
END_TEST

/* --- against sections ----------------------------------------------------- */

static atomic_bool stop;

static void pairs(const struct worker *worker)
{
	struct rng rng;

	if (!worker->id) {
		for (unsigned int i = 0; i < 3000; i++) {
			struct pcp_slab_link mine;

			pcp_slabs_init(&mine);
			expect_eq(pcp_stock_drain(stock, &mine), 0);
			if (i % 16 == 0)
				pcp_stock_empty_barns(stock, &mine);
			pcp_stock_bury(stock, &mine, true);
		}
		atomic_store(&stop, true);
		return;
	}
	rng_seed(&rng, worker->id);
	while (!atomic_load(&stop)) {
		void *objs[3 * CAPACITY];
		uint32_t n = 1 + rng_below(&rng, 3 * CAPACITY);

		for (uint32_t i = 0; i < n; i++) {
			objs[i] = stock_alloc(stock);
			owner_take(objs[i], worker->id);
		}
		for (uint32_t i = 0; i < n; i++) {
			owner_leave(objs[i], worker->id);
			stock_free(stock, objs[i]);
		}
	}
}

START_TEST(test_against_sections)
{
	helper_stop(&there);
	stock_drop(stock);
	sheet = (struct sheet){ .clear = STOCK_OBJECT };
	stock = stock_make(&sheet, CAPACITY);
	run_threads(4, pairs, NULL);
	expect_eq(count(PCP_STAT_DRAIN), 3000);
	book_check(stock, 0);
	helper_start(&there, 1);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("drain", 60), *wide = tcase_create("wide");

	tcase_add_checked_fixture(tc, setup_drain, teardown_drain);
	tcase_add_test(tc, test_nothing_to_do);
	tcase_add_test(tc, test_one_slot);
	tcase_add_test(tc, test_without_main);
	tcase_add_test(tc, test_all_slots);
	tcase_add_test(tc, test_not_for_these);
	tcase_add_test(tc, test_commit_wins);
	tcase_add_test(tc, test_commit_wins_of_many);
	tcase_add_loop_test(tc, test_fence_fails, 0, 2);
	tcase_add_loop_test(tc, test_fence_fails_and_commit_wins, 0, 2);
	tcase_add_loop_test(tc, test_second_fence_fails, 0, 2);
	tcase_add_test(tc, test_used_meanwhile);
	tcase_add_test(tc, test_waits_for_lock);
	tcase_add_test(tc, test_shared);
	tcase_add_test(tc, test_many_share_one);
	tcase_add_test(tc, test_against_sections);
	tcase_add_checked_fixture(wide, setup_wide, teardown_drain);
	tcase_add_test(wide, test_wide);
	suite_add_tcase(suite_one, wide);
	return suite_run(tc);
}

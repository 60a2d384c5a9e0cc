/* SPDX-License-Identifier: MIT */
/*
 * lib/slot/defer.c: threads that hand over while others wait for all that was
 * deferred before, at each step in between, and what a forked child makes of it.
 */
#include <config.h>

#include <sched.h>

#include "slot_fixture.h"

static struct helper there; /* on the second CPU */

static void setup_threads(void)
{
	setup();
	helper_start(&there, 1);
}

static void teardown_threads(void)
{
	helper_stop(&there);
	stock_settle(stock);
	teardown();
}

static void defer(void *obj)
{
	if (!pcp_slot_push_rcu(stock, obj))
		pcp_slot_defer_slow(stock, obj);
}

/* What pcpool_rcu_barrier() does. */
static void barrier(void)
{
	expect_eq(pcp_stock_hand_over(stock), 0);
	pcp_defer_kick(&stock->defer);
	expect_eq(pcp_grace_barrier(stock->defer.grace.flavor), 0);
}

static void take_and_defer(uint32_t n)
{
	void *objs[4 * CAPACITY];

	for (uint32_t i = 0; i < n; i++)
		objs[i] = stock_alloc(stock);
	for (uint32_t i = 0; i < n; i++)
		defer(objs[i]);
}

/* --- the state and the phase ------------------------------------------------ */

START_TEST(test_state)
{
	struct pcp_defer *d = &stock->defer;

	expect(pcp_defer_idle(d));
	take_and_defer(2 * CAPACITY);
	barrier();
	expect_eq(pcp_stock_deferred(stock), 0);
	/* Kicked with nothing to do, it comes to rest again. */
	for (int i = 0; i < 10; i++)
		pcp_defer_kick(d);
	stock_settle(stock);
	expect(pcp_defer_idle(d));
	expect_eq(d->state, PCP_DEFER_IDLE);
	expect_eq(d->handing[0] + d->handing[1], 0);
}
END_TEST

static atomic_bool awaited;

static void await_old(void *arg)
{
	pcp_defer_await(&stock->defer, *(uint32_t *)arg);
	atomic_store(&awaited, true);
}

/* A flip leaves begun hand-overs behind, and only those are waited for. */
START_TEST(test_phase)
{
	struct pcp_defer *d = &stock->defer;

	for (uint32_t round = 0; round < 4; round++) {
		uint32_t old, mine, later;

		mine = pcp_defer_begin(d);
		expect_eq(mine, round % 2);
		expect_eq(pcp_defer_begin(d), mine);
		old = pcp_defer_flip(d);
		expect_eq(old, mine);
		later = pcp_defer_begin(d);
		expect_eq(later, !mine);
		atomic_store(&awaited, false);
		there.fn = await_old;
		there.arg = &old;
		sem_post(&there.asked);
		pcp_defer_end(d, mine);
		for (int i = 0; i < 100; i++)
			sched_yield();
		expect(!atomic_load(&awaited));
		pcp_defer_end(d, mine);
		while (sem_wait(&there.done))
			;
		expect(atomic_load(&awaited));
		expect_eq(d->handing[later], 1);
		pcp_defer_end(d, later);
	}
}
END_TEST

/* --- a barrier beside hand-overs ---------------------------------------------- */

static atomic_int stop_at = -1;
static sem_t standing, go_on;
static _Thread_local bool stands;

static void stand_still(enum pcp_hook_id id)
{
	int want = (int)id;

	if (!stands || !atomic_compare_exchange_strong(&stop_at, &want, -1))
		return;
	sem_post(&standing);
	while (sem_wait(&go_on))
		;
}

/* arg: whether singly, as without memory for a sheaf. */
static void defer_there(void *arg)
{
	void *objs[2 * CAPACITY];

	stands = true;
	if (!*(bool *)arg) {
		take_and_defer(2 * CAPACITY + 1);
		return;
	}
	for (uint32_t i = 0; i < 2 * CAPACITY; i++)
		objs[i] = stock_alloc(stock);
	for (uint32_t i = 0; i < 2 * CAPACITY; i++) {
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_FREE);
		pcp_defer_object(stock, objs[i], PCP_DEFER_FREE);
	}
}

static atomic_bool passed;

static void *barrier_thread(void *arg)
{
	(void)arg;
	barrier();
	atomic_store(&passed, true);
	return NULL;
}

/* A thread stands in the middle of a hand-over, with objects that others gave
 * up before: the barrier waits for it, and then they are free. */
static void barrier_beside(enum pcp_hook_id id, bool singly)
{
	pthread_t thread;

	expect(!sem_init(&standing, 0, 0));
	expect(!sem_init(&go_on, 0, 0));
	atomic_store(&passed, false);
	atomic_store(&stop_at, (int)id);
	pcp_hook_set(stand_still);
	there.fn = defer_there;
	there.arg = &singly;
	sem_post(&there.asked);
	while (sem_wait(&standing))
		;
	expect(!pthread_create(&thread, NULL, barrier_thread, NULL));
	for (int i = 0; i < 300; i++)
		sched_yield();
	expect(!atomic_load(&passed));
	sem_post(&go_on);
	expect(!pthread_join(thread, NULL));
	while (sem_wait(&there.done))
		;
	pcp_hook_set(NULL);
	stock_settle(stock);
	book_check(stock, 0);
}

START_TEST(test_barrier_beside)
{
	for (int round = 0; round < 3; round++) {
		barrier_beside(PCP_HOOK_DEFER_RAISED, false);
		barrier_beside(PCP_HOOK_DEFER_UNHOOKED, false);
		barrier_beside(PCP_HOOK_DEFER_CHAINED, true);
	}
}
END_TEST

/* Between the looks of the library's thread: a hand-over while it is about to
 * say that it is idle is not forgotten. */
static atomic_uint late;

static void defer_late(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_DEFER_FREED || !atomic_load(&late))
		return;
	atomic_fetch_sub(&late, 1);
	take_and_defer(2 * CAPACITY);
}

START_TEST(test_late)
{
	for (unsigned int round = 0; round < 10; round++) {
		atomic_store(&late, 3);
		pcp_hook_set(defer_late);
		take_and_defer(CAPACITY + 1);
		while (atomic_load(&late))
			barrier();
		pcp_hook_set(NULL);
		stock_settle(stock);
	}
}
END_TEST

static void churn(const struct worker *w)
{
	struct rng rng;
	void *objs[2 * CAPACITY];

	rng_seed(&rng, w->id);
	for (unsigned long i = scaled(2000); i; i--) {
		uint32_t n = 1 + rng_below(&rng, 2 * CAPACITY);

		for (uint32_t j = 0; j < n; j++) {
			objs[j] = stock_alloc(stock);
			owner_take(objs[j], w->id + 1);
		}
		for (uint32_t j = 0; j < n; j++) {
			owner_leave(objs[j], w->id + 1);
			if (rng_below(&rng, 3))
				defer(objs[j]);
			else
				stock_free(stock, objs[j]);
		}
		if (rng_below(&rng, 64) == 0)
			barrier();
		if (w->id == 0 && rng_below(&rng, 64) == 0)
			drain_there(NULL);
		/* Else the runs of sheaves would grow and grow. */
		if (pcp_load(&stock->defer.pending) > 1000)
			barrier();
	}
}

START_TEST(test_churn)
{
	stock_drop(stock);
	sheet = (struct sheet){ .clear = STOCK_OBJECT };
	stock = stock_make(&sheet, CAPACITY);
	run_threads(4, churn, NULL);
	barrier();
	expect_eq(book_check(stock, 0).deferred, 0);
}
END_TEST

/* --- a forked child --------------------------------------------------------- */

/* What a child finds, rebuilt: counts of hand-overs that were under way are
 * gone, what waited waits again and comes back. */
START_TEST(test_fork_child)
{
	struct pcp_defer *d = &stock->defer;
	void *objs[20];

	/* The library's thread keeps out. */
	d->state = PCP_DEFER_QUEUED;
	for (uint32_t i = 0; i < 20; i++)
		objs[i] = stock_alloc(stock);
	for (uint32_t i = 0; i < 10; i++)
		defer(objs[i]);
	expect_eq(pcp_stock_hand_over(stock), 0);
	for (uint32_t i = 10; i < 20; i++) {
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_FREE);
		pcp_defer_object(stock, objs[i], PCP_DEFER_FREE);
		/* Some are ripe at the fork. */
		if (i == 14)
			d->grace.seal(&d->grace);
	}
	expect_eq(d->pending, 20);
	d->handing[0] = 2;
	d->handing[1] = 1;
	d->pending = 4711;
	/* A slab whose first object was chained but which is on no stack. */
	pcp_stack_init(&d->open_slabs);
	pcp_lock(&stock->drain_lock);
	pcp_lock(&stock->kind.slabs_lock);
	pcp_stock_fork_child(stock);
	pcp_unlock(&stock->kind.slabs_lock);
	pcp_unlock(&stock->drain_lock);
	expect_eq(d->handing[0] + d->handing[1], 0);
	expect_eq(d->state, PCP_DEFER_IDLE);
	expect_eq(d->pending, 20);
	expect_eq(pcp_stock_deferred(stock), 20);
	/* All of it comes back; that one barrier does is tested of a real child
	 * (fault/test_fault_rcu.c). */
	stock_settle(stock);
	book_check(stock, 0);
}
END_TEST

/* What is chained is deferred, not lost; what is out is lost, not deferred. */
START_TEST(test_fork_books)
{
	struct pcp_defer *d = &stock->defer;
	struct pcp_sheaf *hidden = stocked(3);
	struct pcp_book book;
	void *objs[7];

	d->state = PCP_DEFER_QUEUED;
	for (uint32_t i = 0; i < 7; i++)
		objs[i] = stock_alloc(stock);
	for (uint32_t i = 0; i < 7; i++) {
		pcp_stat_inc(&stock->kind.stat, PCP_STAT_SLOW_FREE);
		pcp_defer_object(stock, objs[i], PCP_DEFER_FREE);
	}
	pcp_stock_book(stock, &book, true);
	expect_eq(book.deferred, 7);
	expect_eq(pcp_book_lost(&book), 3);
	empty_sheaf(hidden);
	d->grace.seal(&d->grace);
	d->grace.fn(&d->grace);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("defer-threads", 60);

	tcase_add_checked_fixture(tc, setup_threads, teardown_threads);
	tcase_add_test(tc, test_state);
	tcase_add_test(tc, test_phase);
	tcase_add_test(tc, test_barrier_beside);
	tcase_add_test(tc, test_late);
	tcase_add_test(tc, test_churn);
	tcase_add_test(tc, test_fork_child);
	tcase_add_test(tc, test_fork_books);
	return suite_run(tc);
}

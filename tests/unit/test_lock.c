/* SPDX-License-Identifier: MIT */
/* The lock order and its checker: every wrong order is caught, no right one. */
#include <config.h>

#include <pthread.h>
#include <unistd.h>

#include "base/lock.h"

#include "../common.h"
#include "../suite.h"

static struct pcp_lock locks[PCP_RANK_COUNT], twins[PCP_RANK_COUNT];

static void setup(void)
{
	for (int rank = 0; rank < PCP_RANK_COUNT; rank++) {
		pcp_lock_init(&locks[rank], (enum pcp_rank)rank);
		pcp_lock_init(&twins[rank], (enum pcp_rank)rank);
	}
}

START_TEST(test_right_order)
{
	setup();
	for (int round = 0; round < 3; round++) {
		for (int rank = 0; rank < PCP_RANK_COUNT; rank++) {
			pcp_lock(&locks[rank]);
			pcp_assert_held((enum pcp_rank)rank);
		}
		/* Released in any order. */
		for (int rank = round; rank < PCP_RANK_COUNT; rank += 3)
			pcp_unlock(&locks[rank]);
		for (int rank = PCP_RANK_COUNT - 1; rank >= 0; rank--)
			if (rank < round || (rank - round) % 3)
				pcp_unlock(&locks[rank]);
		pcp_assert_unlocked();
	}
	for (int rank = 0; rank < PCP_RANK_COUNT; rank++) {
		expect(pcp_trylock(&locks[rank]));
		pcp_unlock(&locks[rank]);
		pcp_assert_unlocked();
		pcp_lock_destroy(&locks[rank]);
	}
}
END_TEST

START_TEST(test_nested)
{
	setup();
	for (int rank = 0; rank < PCP_RANK_COUNT; rank++) {
		pcp_lock_nested(&locks[rank]);
		pcp_lock_nested(&twins[rank]);
	}
	for (int rank = 0; rank < PCP_RANK_COUNT; rank++) {
		pcp_unlock(&twins[rank]);
		pcp_unlock(&locks[rank]);
	}
	pcp_assert_unlocked();
}
END_TEST

/* --- what must be caught -------------------------------------------------- */

struct order {
	int first, second;
};

static void two_locks(void *arg)
{
	const struct order *order = arg;

	setup();
	pcp_lock(&locks[order->first]);
	pcp_lock(&twins[order->second]);
}

static void two_tries(void *arg)
{
	const struct order *order = arg;

	setup();
	pcp_lock(&locks[order->first]);
	pcp_trylock(&twins[order->second]);
}

static void nested_down(void *arg)
{
	const struct order *order = arg;

	setup();
	pcp_lock_nested(&locks[order->first]);
	pcp_lock_nested(&twins[order->second]);
}

START_TEST(test_every_pair)
{
	static struct child child;

	for (int a = 0; a < PCP_RANK_COUNT; a++)
		for (int b = 0; b < PCP_RANK_COUNT; b++) {
			struct order order = { a, b };

			run_child(two_locks, &order, 10, &child);
			if (b > a)
				expect_child_exit(&child, 0);
			else
				expect_child_abort(&child, "rank", NULL);
			run_child(two_tries, &order, 10, &child);
			if (b > a)
				expect_child_exit(&child, 0);
			else
				expect_child_abort(&child, "rank", NULL);
			run_child(nested_down, &order, 10, &child);
			if (b >= a)
				expect_child_exit(&child, 0);
			else
				expect_child_abort(&child, "rank", NULL);
		}
}
END_TEST

/* What a signal handler takes is not held to the order. */
START_TEST(test_leaf)
{
	setup();
	for (int a = 0; a < PCP_RANK_COUNT; a++)
		for (int b = 0; b < PCP_RANK_COUNT; b++) {
			pcp_lock(&locks[a]);
			expect(pcp_trylock_leaf(&twins[b]));
			expect(!pcp_trylock_leaf(&twins[b]));
			pcp_unlock(&twins[b]);
			pcp_unlock(&locks[a]);
		}
	pcp_assert_unlocked();
}
END_TEST

static void unlock_twice(void *arg)
{
	(void)arg;
	setup();
	pcp_lock(&locks[2]);
	pcp_unlock(&locks[2]);
	pcp_unlock(&locks[2]);
}

static void unlock_anothers(void *arg)
{
	(void)arg;
	setup();
	pcp_lock(&locks[2]);
	pcp_unlock(&locks[3]);
}

static void callback_under_lock(void *arg)
{
	setup();
	pcp_lock(&locks[*(int *)arg]);
	pcp_assert_unlocked();
}

static void not_held(void *arg)
{
	int rank = *(int *)arg;

	setup();
	pcp_lock(&locks[rank]);
	pcp_assert_held((enum pcp_rank)((rank + 1) % PCP_RANK_COUNT));
}

START_TEST(test_misuse)
{
	static struct child child;

	run_child(unlock_twice, NULL, 10, &child);
	expect_child_abort(&child, "not held", NULL);
	run_child(unlock_anothers, NULL, 10, &child);
	expect_child_abort(&child, "not held", NULL);
	for (int rank = 0; rank < PCP_RANK_COUNT; rank++) {
		run_child(callback_under_lock, &rank, 10, &child);
		expect_child_abort(&child, "callback", NULL);
		run_child(not_held, &rank, 10, &child);
		expect_child_abort(&child, "held", NULL);
	}
}
END_TEST

/* --- locking
 * -----------------------------------------------------------------------------
 */

static struct pcp_lock lock = PCP_LOCK_INIT(PCP_RANK_LIST);
static unsigned long guarded, tries;

static void count(const struct worker *w)
{
	for (int i = 0; i < 20000; i++) {
		if ((i + (int)w->id) % 3) {
			pcp_lock(&lock);
		} else if (!pcp_trylock(&lock)) {
			/* A failed try holds nothing. */
			pcp_assert_unlocked();
			continue;
		} else {
			tries++;
		}
		pcp_assert_held(PCP_RANK_LIST);
		guarded++;
		pcp_unlock(&lock);
		pcp_assert_unlocked();
	}
}

START_TEST(test_exclusion)
{
	run_threads(4, count, NULL);
	expect(guarded >= tries);
	expect_cmp(guarded, >=, 4 * 13332);
	expect_cmp(guarded, <=, 4 * 20000);
}
END_TEST

static void *take_it(void *arg)
{
	(void)arg;
	pcp_lock(&lock);
	pcp_unlock(&lock);
	return NULL;
}

static void reinit_child(void *arg)
{
	pthread_t thread;

	(void)arg;
	pcp_assert_held(PCP_RANK_LIST);
	pcp_lock_reinit(&lock);
	pcp_assert_unlocked();
	pcp_lock(&lock);
	pcp_unlock(&lock);
	expect(!pthread_create(&thread, NULL, take_it, NULL));
	expect(!pthread_join(thread, NULL));
}

/* Held over a fork, it is a fresh one in the child. */
START_TEST(test_reinit)
{
	static struct child child;
	pthread_t thread;

	pcp_lock(&lock);
	/* With a waiter, who does not exist in the child. */
	expect(!pthread_create(&thread, NULL, take_it, NULL));
	run_child(reinit_child, NULL, 10, &child);
	pcp_unlock(&lock);
	expect(!pthread_join(thread, NULL));
	expect_child_exit(&child, 0);
	pcp_assert_unlocked();
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("lock", 120);

	tcase_add_test(tc, test_right_order);
	tcase_add_test(tc, test_nested);
	tcase_add_test(tc, test_every_pair);
	tcase_add_test(tc, test_leaf);
	tcase_add_test(tc, test_misuse);
	tcase_add_test(tc, test_exclusion);
	if (!TEST_TSAN)
		tcase_add_test(tc, test_reinit);
	return suite_run(tc);
}

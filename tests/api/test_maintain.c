/* SPDX-License-Identifier: MIT */
/*
 * pcpool_maintain(): how much one call does, whose turn it is, and what it
 * leaves to a cache in use.
 */
#include <config.h>

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "maintain_fixture.h"

/* --- one call --------------------------------------------------------------
 */

START_TEST(test_nothing_to_do)
{
	static const unsigned int budgets[] = { 0, 1, UINT_MAX };
	struct pcpool_cache *cache = NULL;

	/* Before the library has done anything, and with a cache. */
	for (int i = 0; i < 2; i++) {
		for (int j = 0; j < 3; j++) {
			errno = EXDEV;
			expect_eq(pcpool_maintain(budgets[j]), 0);
			expect_errno(EXDEV);
		}
		if (!cache)
			cache = plain_cache();
	}
	expect_eq(stats_of(cache).maintained, 3);
	nothing_left(cache);
	must_destroy(cache);
}
END_TEST

/* Calls with that budget until there is nothing to do. Returns how many. */
static unsigned int drive(struct pcpool_cache *cache, struct sheet *sheet,
			  unsigned int budget)
{
	struct pcpool_cache_stats before = stats_of(cache), after;
	unsigned int calls = 0;
	int err;

	do {
		unsigned long long dtors = sheet->dtor;

		err = pcpool_maintain(budget);
		expect(err == 0 || err == EAGAIN);
		after = stats_of(cache);
		expect_cmp(sheet->dtor - dtors, <=,
			   budget * after.objects_per_slab);
		expect_cmp(after.free_slab - before.free_slab, <=, budget);
		before = after;
		expect_cmp(++calls, <, 10000);
	} while (err || after.slabs);
	return calls;
}

static void use_here_and_there(struct pcpool_cache *cache)
{
	for (unsigned int cpu = 0; cpu < 2; cpu++) {
		pin_to(cpu);
		burst(cache, MANY);
	}
}

START_TEST(test_budget)
{
	static const unsigned int budgets[] = { 1, 2, 5, 50, 100000 };
	static const unsigned int flags[] = { 0, PCPOOL_DTOR_ON_FREE,
					      PCPOOL_CHECK };

	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 3; j++) {
			struct sheet sheet = { .fill = FILL };
			struct pcpool_cache *cache = sheet_cache_of(
				"budget", SIZE, &sheet, flags[j], 0);
			uint64_t slabs;

			use_here_and_there(cache);
			slabs = stats_of(cache).slabs;
			expect_cmp(drive(cache, &sheet, budgets[i]), >=,
				   slabs / budgets[i]);
			nothing_left(cache);
			sheet_balanced(&sheet);
			must_destroy(cache);
		}
}
END_TEST

static unsigned int maintain_by(unsigned int budget)
{
	unsigned int calls = 1;
	int err;

	while ((err = pcpool_maintain(budget)) == EAGAIN)
		expect_cmp(++calls, <, 100000);
	expect_eq(err, 0);
	return calls;
}

/* Until it is done is as good as one call without a bound. */
START_TEST(test_again_until_done)
{
	for (unsigned int budget = 1; budget < 100; budget *= 3) {
		struct pcpool_cache *cache = plain_cache();
		uint64_t slabs;

		use_here_and_there(cache);
		slabs = stats_of(cache).slabs;
		expect_eq(maintain_by(budget), 1);
		expect_cmp(maintain_by(budget), >=, slabs / budget);
		nothing_left(cache);
		must_destroy(cache);
	}
}
END_TEST

/* --- several caches --------------------------------------------------------
 */

START_TEST(test_all_caches)
{
	struct sheet sheets[6] = { { 0 } };
	struct pcpool_cache *caches[6];

	pin_to(0);
	for (int i = 0; i < 6; i++) {
		sheets[i].fill = 100;
		caches[i] = sheet_cache("all", 100, &sheets[i]);
		burst(caches[i], 1000 * (i + 1));
	}
	maintain_all(2);
	for (int i = 0; i < 6; i++) {
		expect_eq(stats_of(caches[i]).maintained, 2);
		nothing_left(caches[i]);
		destroy_balanced(caches[i], &sheets[i]);
	}
}
END_TEST

/* Small budgets get round, wherever caches come and go. */
START_TEST(test_round_robin)
{
	struct pcpool_cache *caches[6], *fleeting;
	unsigned int calls = 0;
	uint64_t left;

	pin_to(0);
	for (int i = 0; i < 6; i++) {
		caches[i] = plain_cache();
		burst(caches[i], MANY);
	}
	do {
		int err = pcpool_maintain(3);

		expect(err == 0 || err == EAGAIN);
		fleeting = plain_cache();
		burst(fleeting, 10);
		must_destroy(fleeting);
		left = 0;
		for (int i = 0; i < 6; i++)
			left += stats_of(caches[i]).slabs;
		expect_cmp(++calls, <, 10000);
	} while (left);
	for (int i = 0; i < 6; i++)
		must_destroy(caches[i]);
}
END_TEST

/* Nor does a cache that could do with all of the budget each time keep it from
 * others. */
START_TEST(test_fair)
{
	struct sheet sheets[3] = { { 0 } };
	struct pcpool_cache *caches[3];

	pin_to(0);
	for (int i = 0; i < 3; i++) {
		sheets[i].fill = FILL;
		caches[i] = sheet_cache("fair", SIZE, &sheets[i]);
		burst(caches[i], 500);
	}
	for (int busy = 0; busy < 3; busy++) {
		unsigned int calls = 0;
		uint64_t left;

		do {
			int err;

			burst(caches[busy], MANY);
			err = pcpool_maintain(2);
			expect(err == 0 || err == EAGAIN);
			left = 0;
			for (int i = 0; i < 3; i++)
				if (i != busy)
					left += stats_of(caches[i]).slabs;
			expect_cmp(++calls, <, 2000);
		} while (left);
		for (int i = 0; i < 3; i++)
			burst(caches[i], 500);
	}
	for (int i = 0; i < 3; i++)
		destroy_balanced(caches[i], &sheets[i]);
}
END_TEST

/* --- in use ----------------------------------------------------------------
 */

/* What each period needs is there in the next, built: however small the steps
 * are, and though other caches have much to give back. */
static void keeps(unsigned int n, unsigned int budget)
{
	struct sheet sheet = { .fill = FILL };
	struct pcpool_cache *cache = sheet_cache("set", 500, &sheet);
	struct pcpool_cache *other = plain_cache();
	struct pcpool_cache_stats stats;
	unsigned long long calls;

	pin_to(0);
	burst(other, MANY);
	/* So that there is something to give back at first. */
	burst(cache, 2 * n);
	for (int i = 0; i < 10; i++) {
		burst(cache, n);
		maintain_by(budget);
	}
	calls = sheet.calls;
	stats = stats_of(cache);
	for (int i = 0; i < 50; i++) {
		burst(cache, n);
		maintain_by(budget);
		burst(other, i * 20);
	}
	expect_eq(sheet.calls, calls);
	expect_eq(stats_of(cache).alloc_slab, stats.alloc_slab);
	if (stats_of(cache).drain != stats.drain)
		fail_now("bursts of %u: drained in use", n);
	must_destroy(other);
	destroy_balanced(cache, &sheet);
}

START_TEST(test_working_set_stays)
{
	for (unsigned int n = 1; n < MANY; n += 1 + n / 2) {
		keeps(n, 0);
		keeps(n, 1);
		keeps(n, 5);
	}
}
END_TEST

/* Nor does a cache that gives much back, step by step, lose what a CPU uses:
 * between two steps there is no time to use it. */
START_TEST(test_steps_are_one_period)
{
	struct pcpool_cache *cache = plain_cache();
	struct sheet sheet = { .fill = FILL };
	struct pcpool_cache *waiting = sheet_cache("waiting", SIZE, &sheet);
	uint64_t drains[2] = { 0 };

	pin_to(0);
	for (int i = 0; i < 20; i++) {
		burst(cache, i % 4 ? 50 : MANY);
		burst(waiting, i % 4 ? 50 : MANY);
		if (i == 1) {
			drains[0] = stats_of(cache).drain;
			drains[1] = stats_of(waiting).drain;
		}
		maintain_by(1);
	}
	expect_eq(stats_of(cache).drain, drains[0]);
	expect_eq(stats_of(waiting).drain, drains[1]);
	expect(sheet.dtor > 0);
	must_destroy(cache);
	destroy_balanced(waiting, &sheet);
}
END_TEST

/* What one burst needed and no other after it goes, and no more than that. */
START_TEST(test_surplus_goes)
{
	struct sheet sheet = { .fill = FILL };
	struct pcpool_cache *cache = sheet_cache("surplus", SIZE, &sheet);
	unsigned long long calls;

	pin_to(0);
	burst(cache, MANY);
	for (int i = 0; i < 20; i++) {
		burst(cache, 100);
		maintain_all(1);
	}
	expect_cmp(stats_of(cache).built, <, MANY / 4);
	expect_cmp(stats_of(cache).built, >=, 100);
	calls = sheet.calls;
	burst(cache, 100);
	expect_eq(sheet.calls, calls);
	destroy_balanced(cache, &sheet);
}
END_TEST

static void *burst_on_second(void *cache)
{
	pin_to(1);
	burst(cache, 300);
	return NULL;
}

/* Nobody comes back to that CPU. */
START_TEST(test_idle_cpu)
{
	struct pcpool_cache *cache;
	uint64_t own, both;
	pthread_t thread;

	if (allowed_cpus() < 2)
		return;
	cache = plain_cache();
	pin_to(0);
	for (int i = 0; i < 3; i++) {
		burst(cache, 2);
		maintain_all(1);
	}
	own = stats_of(cache).cached;
	expect(!pthread_create(&thread, NULL, burst_on_second, cache));
	expect(!pthread_join(thread, NULL));
	both = stats_of(cache).cached;
	expect_cmp(both, >, own);
	for (int i = 0; i < 4; i++) {
		burst(cache, 2);
		maintain_all(1);
	}
	expect_cmp(stats_of(cache).cached, <=, own);
	expect(stats_of(cache).cached > 0);
	must_destroy(cache);
}
END_TEST

/* --- deferred frees and typesafe caches ------------------------------------
 */

struct later {
	struct pcpool_cache *cache;
	void *objs[5];
};

static void *free_later_on_second(void *arg)
{
	struct later *later = arg;

	pin_to(1);
	for (int i = 0; i < 5; i++)
		pcpool_free_rcu(later->cache, later->objs[i]);
	return NULL;
}

/* A few objects wait in the sheaf of a CPU that nobody uses any more. */
START_TEST(test_deferred_of_idle_cpu)
{
	static const unsigned int flags[] = { 0, PCPOOL_CHECK,
					      PCPOOL_TYPESAFE_BY_RCU };

	for (int i = 0; i < 3; i++) {
		struct sheet sheet = { .fill = FILL };
		struct later later;
		pthread_t thread;

		pin_to(0);
		later.cache =
			sheet_cache_of("later", SIZE, &sheet, flags[i], 0);
		expect_eq(pcpool_alloc_bulk(later.cache, 5, later.objs), 0);
		expect(!pthread_create(&thread, NULL, free_later_on_second,
				       &later));
		expect(!pthread_join(thread, NULL));
		/* A full sheaf of them may have had its grace period. */
		expect_cmp(pcpool_rcu_backlog(later.cache), <=, 5);
		expect_eq(stats_of(later.cache).live, 0);
		maintain_all(1);
		/* No barrier: that would hand them over itself. */
		expect_eq(pcpool_rcu_wait(later.cache, 1, -1), 0);
		while (pcpool_rcu_backlog(later.cache))
			sched_yield();
		expect_eq(stats_of(later.cache).rcu_backlog, 0);
		maintain_all(3);
		expect_eq(pcpool_rcu_barrier(later.cache), 0);
		nothing_left(later.cache);
		destroy_balanced(later.cache, &sheet);
	}
}
END_TEST

static struct sheet typesafe_sheet;
static atomic_int maintainer;

static void elsewhere_dtor(void *obj, void *arg)
{
	sheet_dtor(obj, arg);
	/* Whoever gives slabs back does not wait for readers. */
	expect(atomic_load(&maintainer) != (int)syscall(SYS_gettid));
}

START_TEST(test_typesafe)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	typesafe_sheet = (struct sheet){ .fill = FILL };
	attr.ctor = sheet_ctor;
	attr.dtor = elsewhere_dtor;
	attr.arg = &typesafe_sheet;
	attr.flags = PCPOOL_TYPESAFE_BY_RCU;
	cache = pcpool_cache_create("typesafe", SIZE, &attr);
	expect(cache);
	for (int i = 0; i < 3; i++) {
		pin_to(0);
		burst(cache, MANY);
		atomic_store(&maintainer, (int)syscall(SYS_gettid));
		while (pcpool_maintain(3) == EAGAIN)
			;
		maintain_all(2);
		expect_eq(pcpool_rcu_barrier(cache), 0);
		atomic_store(&maintainer, 0);
		nothing_left(cache);
		sheet_balanced(&typesafe_sheet);
	}
	must_destroy(cache);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("maintain", 300);

	tcase_add_test(tc, test_nothing_to_do);
	tcase_add_test(tc, test_budget);
	tcase_add_test(tc, test_again_until_done);
	tcase_add_test(tc, test_all_caches);
	tcase_add_test(tc, test_round_robin);
	tcase_add_test(tc, test_fair);
	tcase_add_test(tc, test_working_set_stays);
	tcase_add_test(tc, test_steps_are_one_period);
	tcase_add_test(tc, test_surplus_goes);
	tcase_add_test(tc, test_idle_cpu);
	tcase_add_test(tc, test_deferred_of_idle_cpu);
	tcase_add_test(tc, test_typesafe);
	return suite_run(tc);
}

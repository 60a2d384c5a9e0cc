/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees while memory, threads or fences cannot be had: giving up an
 * object never fails and never loses it, and who waits is told or served.
 */
#include <config.h>

#include <pthread.h>
#include <semaphore.h>

#include "../suite.h"
#include "steps.h"

enum { CAPACITY = 6, N = 60 };

static struct sheet sheet;
static struct pcpool_cache *cache;
static unsigned int flags;

/* Without faults: a cache, and objects that are out. */
static void make(void **objs, size_t n)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	sheet = (struct sheet){ .fill = 64 };
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.flags = flags;
	attr.sheaf_capacity = CAPACITY;
	attr.rcu_backlog = 2 * CAPACITY;
	cache = pcpool_cache_create("fault-rcu", 64, &attr);
	expect(cache);
	expect_eq(pcpool_alloc_bulk(cache, n, objs), 0);
}

/* Set the point again as it was, less what was passed. */
static void rearm(const struct steps *steps, unsigned long passed)
{
	if (steps->every)
		pcp_fault_set(steps->point, steps->nth, true);
	else if (passed < steps->nth)
		pcp_fault_set(steps->point, steps->nth - passed, false);
}

static void at_rest(uint64_t live)
{
	struct pcpool_cache_stats stats = stats_of(cache);

	expect_eq(stats.live, live);
	expect_eq(stats.rcu_backlog, 0);
	expect_eq(stats.objects, stats.live + stats.cached);
	expect_eq(stats.built, sheet_built(&sheet));
	expect_eq(stats.lost_in_fork, 0);
}

static void defer(size_t n, void **objs)
{
	errno = EXFULL;
	for (size_t i = 0; i < n; i++)
		pcpool_free_rcu(cache, objs[i]);
	expect_errno(EXFULL);
}

/* A barrier may say that some slot could not be emptied; nothing else. */
static void try_barrier(struct steps *steps)
{
	int err = pcpool_rcu_barrier(cache);

	if (!err)
		expect_eq(pcpool_rcu_backlog(cache), 0);
	else
		step_failed(steps, err);
}

static void life(struct steps *steps)
{
	unsigned long passed = pcp_fault_passed(steps->point);
	static void *objs[3 * N];

	pcp_fault_set(steps->point, 0, false);
	make(objs, 3 * N);
	rearm(steps, passed);
	defer(N, objs);
	try_barrier(steps);
	pin_to(1);
	defer(N, objs + N);
	expect_eq(pcpool_rcu_wait(cache, 0, -1), 0);
	if (flags & PCPOOL_TYPESAFE_BY_RCU)
		expect_eq(pcpool_discard(cache, objs[2 * N]), 0);
	else
		defer(1, objs + 2 * N);
	pin_to(0);
	defer(CAPACITY, objs + 2 * N + 1);
	try_barrier(steps);
	defer(N - 1 - CAPACITY, objs + 2 * N + 1 + CAPACITY);
	/* Nobody else uses it: no fence is needed, and nothing else missed. */
	if (steps->nth % 2) {
		destroy_balanced(cache, &sheet);
		return;
	}
	passed = pcp_fault_passed(steps->point);
	pcp_fault_set(steps->point, 0, false);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	at_rest(0);
	destroy_balanced(cache, &sheet);
	/* For fail_each() to see. */
	while (pcp_fault_passed(steps->point) < passed)
		pcp_fault_hit(steps->point);
}

static const unsigned int all_flags[] = { 0, PCPOOL_CHECK,
					  PCPOOL_TYPESAFE_BY_RCU };

/* Often first, with a library that has no thread yet. */
static void at_point(enum pcp_fault_point point, bool may_fail, int which)
{
	struct steps steps, often;

	pin_to(0);
	flags = all_flags[which];
	often = fail_often(point, life);
	steps = fail_each(point, life);
	if (!may_fail)
		expect_eq(steps.failures + often.failures, 0);
	/* A checking cache has neither sheaves nor slots to be fenced. */
	if (point == PCP_FAULT_THREAD || !(flags & PCPOOL_CHECK))
		expect_cmp(steps.hits + often.hits, >, 0);
	printf("%s, flags %u: %lu steps, %lu and %lu refused\n",
	       point_names[point], flags, steps.hits, steps.failures,
	       often.failures);
	fflush(stdout);
}

START_TEST(test_meta)
{
	at_point(PCP_FAULT_META, false, _i);
}
END_TEST

START_TEST(test_thread)
{
	at_point(PCP_FAULT_THREAD, false, _i);
}
END_TEST

START_TEST(test_fence)
{
	if (rseq_mode())
		at_point(PCP_FAULT_FENCE, true, _i);
}
END_TEST

/* --- threads, while all of it comes and goes -------------------------------- */

static void hammer(const struct worker *w)
{
	void *objs[40];
	struct rng rng;

	rng_seed(&rng, w->id);
	for (unsigned long round = scaled(400); round; round--) {
		uint32_t n = 1 + rng_below(&rng, 40), got = 0;

		while (got < n && (objs[got] = pcpool_alloc(cache)))
			owner_take(objs[got++], w->id + 1);
		for (uint32_t i = 0; i < got; i++) {
			owner_leave(objs[i], w->id + 1);
			if (rng_below(&rng, 4))
				pcpool_free_rcu(cache, objs[i]);
			else
				pcpool_free(cache, objs[i]);
		}
		expect_eq(pcpool_rcu_wait(cache, 0, -1), 0);
		if (rng_below(&rng, 30) == 0)
			(void)pcpool_rcu_barrier(cache);
		if (rng_below(&rng, 30) == 0)
			(void)pcpool_cache_shrink(cache);
	}
}

START_TEST(test_threads)
{
	static const enum pcp_fault_point points[] = { PCP_FAULT_META,
						       PCP_FAULT_THREAD,
						       PCP_FAULT_FENCE };
	void *none[1];

	for (int i = 0; i < 6; i++) {
		flags = i % 2 ? PCPOOL_TYPESAFE_BY_RCU : 0;
		make(none, 0);
		sheet = (struct sheet){ .clear = 8 };
		pcp_fault_set(points[i / 2], 3, true);
		run_threads(5, hammer, NULL);
		pcp_fault_set(points[i / 2], 0, false);
		expect_eq(pcpool_rcu_barrier(cache), 0);
		at_rest(0);
		destroy_balanced(cache, &sheet);
	}
}
END_TEST

/* --- a child that inherits what waits ---------------------------------------- */

static struct child child;

/* arg: whether a wait comes first, or a barrier. */
static void finish_in_child(void *arg)
{
	void *objs[N];

	pcp_hook_set(NULL);
	pcp_fault_set(PCP_FAULT_THREAD, 0, false);
	if (*(bool *)arg)
		expect_eq(pcpool_rcu_wait(cache, 1, -1), 0);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	expect_eq(pcpool_rcu_backlog(cache), 0);
	expect_eq(pcpool_alloc_bulk(cache, N, objs), 0);
	defer(N, objs);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	at_rest(0);
	destroy_balanced(cache, &sheet);
}

static void fork_and_finish(bool wait_first)
{
	run_child(finish_in_child, &wait_first, 10, &child);
	expect_child_exit(&child, 0);
}

/* Queued, and there is no thread yet. _i: what comes first in the child. */
START_TEST(test_fork_queued)
{
	void *objs[N];

	flags = 0;
	pcp_fault_set(PCP_FAULT_THREAD, 1, true);
	make(objs, N);
	defer(N, objs);
	fork_and_finish(_i);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	pcp_fault_set(PCP_FAULT_THREAD, 0, false);
	at_rest(0);
	destroy_balanced(cache, &sheet);
}
END_TEST

static sem_t at_hook, go_on;
static atomic_int hold_at = -1;

static void hold(enum pcp_hook_id id)
{
	int want = (int)id;

	if (!atomic_compare_exchange_strong(&hold_at, &want, -1))
		return;
	sem_post(&at_hook);
	while (sem_wait(&go_on))
		;
}

/* Part is sealed by a thread the child does not have, more is open: its first
 * barrier covers all. _i: what comes first in the child, and the flags. */
START_TEST(test_fork_sealed)
{
	void *objs[N];

	flags = all_flags[_i / 2];
	expect(!sem_init(&at_hook, 0, 0));
	expect(!sem_init(&go_on, 0, 0));
	make(objs, N);
	/* Its thread exists, and is idle. */
	expect_eq(pcpool_rcu_barrier(cache), 0);
	atomic_store(&hold_at, PCP_HOOK_GRACE_SEALED);
	pcp_hook_set(hold);
	defer(N / 2, objs);
	while (sem_wait(&at_hook))
		;
	defer(N / 2, objs + N / 2);
	fork_and_finish(_i % 2);
	sem_post(&go_on);
	pcp_hook_set(NULL);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	at_rest(0);
	destroy_balanced(cache, &sheet);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fault-rcu", 200);

	tcase_add_loop_test(tc, test_meta, 0, 3);
	tcase_add_loop_test(tc, test_thread, 0, 3);
	tcase_add_loop_test(tc, test_fence, 0, 3);
	tcase_add_test(tc, test_threads);
	if (!TEST_TSAN) {
		/* The thread sanitizer has no threads after a fork. */
		tcase_add_loop_test(tc, test_fork_queued, 0, 2);
		tcase_add_loop_test(tc, test_fork_sealed, 0, 6);
	}
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * A fork while another thread stands between two steps of a protocol, at each
 * of them: in the child what that thread held inside the library is lost and
 * counted, and nothing else is; the cache works there and can be destroyed.
 */
#include <config.h>

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "base/fault.h"

#include "../caches.h"
#include "../suite.h"

enum { HELD = 400 };

static atomic_int armed = -1;
static _Thread_local bool is_worker;
static sem_t reached, go;

/* For hooks on the library's own thread: the worker holds still between two
 * calls, where it is known what it has. */
static atomic_bool rest;
static sem_t resting;

static struct sheet sheet;
static struct pcpool_cache *cache;
static atomic_bool stop;

/* What the worker has and is not just giving up. */
static void *held[HELD];
static volatile size_t nr_held;

static bool on_own_thread(enum pcp_hook_id id)
{
	return id == PCP_HOOK_DEFER_FREED || id == PCP_HOOK_GRACE_SEALED;
}

/* Stands still where it is told to, but not for ever: it may have a lock that
 * the fork waits for. */
static void stand_still(enum pcp_hook_id id)
{
	struct timespec until;
	int want = (int)id;

	if ((!is_worker && !on_own_thread(id)) ||
	    !atomic_compare_exchange_strong(&armed, &want, -1))
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 2;
	sem_post(&reached);
	while (sem_timedwait(&go, &until) && errno == EINTR)
		;
}

static void rest_a_while(void)
{
	const struct timespec moment = { 0, 1000000 };

	if (!atomic_load(&rest))
		return;
	sem_post(&resting);
	while (atomic_load(&rest))
		nanosleep(&moment, NULL);
}

static void *worker(void *arg)
{
	struct rng rng;

	(void)arg;
	is_worker = true;
	pin_to(1);
	rng_seed(&rng, 9);
	while (!atomic_load(&stop)) {
		size_t want = rng_below(&rng, HELD);

		rest_a_while();
		while (nr_held < want) {
			void *obj = must_alloc(cache);

			held[nr_held] = obj;
			nr_held = nr_held + 1;
		}
		while (nr_held > want / 2) {
			nr_held = nr_held - 1;
			if (rng_below(&rng, 4))
				pcpool_free(cache, held[nr_held]);
			else
				pcpool_free_rcu(cache, held[nr_held]);
		}
		if (rng_below(&rng, 8) == 0)
			expect_eq(pcpool_cache_shrink(cache), 0);
	}
	while (nr_held) {
		nr_held = nr_held - 1;
		pcpool_free(cache, held[nr_held]);
	}
	return NULL;
}

static void child_main(void *arg)
{
	void *objs[100];
	unsigned long long lost;

	(void)arg;
	pcp_hook_set(NULL);
	for (size_t i = 0; i < nr_held; i++)
		sheet_pattern_check(held[i], 64);
	for (size_t i = 0; i < nr_held; i++)
		pcpool_free(cache, held[i]);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	expect_eq(pcpool_rcu_backlog(cache), 0);
	expect_eq(pcpool_alloc_bulk(cache, 100, objs), 0);
	for (int i = 0; i < 100; i++)
		sheet_pattern_check(objs[i], 64);
	expect_eq(pcpool_free_bulk(cache, 100, objs), 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	lost = stats_of(cache).lost_in_fork;
	fprintf(stderr, "lost %llu\n", lost);
	expect_eq(pcpool_cache_destroy(cache), 0);
	expect_eq(sheet.ok, sheet.dtor + lost);
}

static unsigned int fork_at(enum pcp_hook_id id, unsigned int flags)
{
	static struct child child;
	struct timespec until;
	pthread_t thread;
	int got;

	sheet = (struct sheet){ .fill = 64 };
	cache = sheet_cache_of("hooks", 64, &sheet, flags, 6);
	nr_held = 0;
	atomic_store(&stop, false);
	sem_init(&reached, 0, 0);
	sem_init(&go, 0, 0);
	sem_init(&resting, 0, 0);
	atomic_store(&armed, (int)id);
	expect(!pthread_create(&thread, NULL, worker, NULL));
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 1;
	while ((got = sem_timedwait(&reached, &until)) && errno == EINTR)
		;
	if (!got && on_own_thread(id)) {
		atomic_store(&rest, true);
		while (sem_wait(&resting))
			;
	}
	if (!got)
		run_child(child_main, NULL, 30, &child);
	atomic_store(&rest, false);
	atomic_store(&armed, -1);
	atomic_store(&stop, true);
	sem_post(&go);
	expect(!pthread_join(thread, NULL));
	expect_eq(stats_of(cache).lost_in_fork, 0);
	destroy_balanced(cache, &sheet);
	if (!got && child.status) {
		fprintf(stderr, "hook %d, flags %u: status 0x%x, %s\n", id,
			flags, (unsigned int)child.status, child.err);
		return 1;
	}
	if (got)
		fprintf(stderr, "note: hook %d was not reached\n", id);
	return 0;
}

START_TEST(test_at_every_hook)
{
	/* These stand under a lock, which a fork waits for. */
	const unsigned int locked =
		1U << PCP_HOOK_LIST_LOCKED | 1U << PCP_HOOK_DRAIN_CLOSED |
		1U << PCP_HOOK_DRAIN_FENCED | 1U << PCP_HOOK_DRAIN_TAKEN |
		1U << PCP_HOOK_UNPARKED | 1U << PCP_HOOK_BARRIER_FLIPPED |
		1U << PCP_HOOK_COUNTER_TAKEN;
	/* A fork waits for the end of a grace period too, and then the child is
	 * lost (unit/test_grace_fork.c). */
	const unsigned int waited = 1U << PCP_HOOK_GRACE_BEGUN;
	unsigned int bad = 0;

	pcp_hook_set(stand_still);
	for (int id = 0; id < PCP_HOOK_COUNT; id++) {
		if ((locked | waited) >> id & 1)
			continue;
		bad += fork_at((enum pcp_hook_id)id, 0);
		bad += fork_at((enum pcp_hook_id)id, PCPOOL_DTOR_ON_FREE);
		/* There a shrink waits for the library's thread. */
		if (!on_own_thread((enum pcp_hook_id)id))
			bad += fork_at((enum pcp_hook_id)id,
				       PCPOOL_TYPESAFE_BY_RCU);
		/* Where objects are chained. */
		if (id == PCP_HOOK_DEFER_CHAINED)
			bad += fork_at((enum pcp_hook_id)id, PCPOOL_CHECK);
	}
	expect_eq(bad, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fork-hooks", 200);

	if (TEST_TSAN)
		skip_test("the thread sanitizer has no threads after a fork");
	tcase_add_test(tc, test_at_every_hook);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/cache/registry.c: who is in the list, and that a fork takes and releases
 * the locks of all. */
#include <config.h>

#include <pthread.h>
#include <unistd.h>

#include <pcpool/pcpool.h>

#include "floors.h"

#include "cache/cache.h"

static unsigned int visits;

static void count_visit(struct pcpool_cache *cache, void *arg)
{
	expect(cache->stock.kind.name == cache->name);
	if (!arg || cache == arg)
		visits++;
	/* They cannot go away meanwhile. */
	pcp_assert_held(PCP_RANK_REGISTRY);
}

static unsigned int visits_of(struct pcpool_cache *cache)
{
	visits = 0;
	pcp_registry_each(count_visit, cache);
	return visits;
}

static struct pcpool_cache *make(void)
{
	struct pcpool_cache *cache = pcpool_cache_create("one", 64, NULL);

	expect(cache);
	return cache;
}

static void drop(struct pcpool_cache *cache)
{
	expect_eq(pcpool_cache_destroy(cache), 0);
}

START_TEST(test_add_and_del)
{
	struct pcpool_cache *caches[5];

	pcp_init();
	expect_eq(visits_of(NULL), 0);
	for (unsigned int first = 0; first < 5; first++) {
		for (unsigned int i = 0; i < 5; i++) {
			caches[i] = make();
			expect_eq(visits_of(NULL), i + 1);
			for (unsigned int j = 0; j <= i; j++)
				expect_eq(visits_of(caches[j]), 1);
		}
		/* In any order. */
		for (unsigned int i = 0; i < 5; i++) {
			struct pcpool_cache *gone = caches[(first + 2 * i) % 5];

			drop(gone);
			expect_eq(visits_of(NULL), 4 - i);
			if (i < 4)
				expect_eq(visits_of(caches[(first + 2 * i + 2) %
							   5]), 1);
		}
	}
}
END_TEST

/* A create that fails leaves nothing behind. */
START_TEST(test_failed_create)
{
	/* Else the topology's tables are the first to fail. */
	pcp_init();
	for (unsigned long nth = 1; nth < 20; nth++) {
		struct pcpool_cache *cache;

		pcp_fault_set(PCP_FAULT_META, nth, false);
		errno = 0;
		cache = pcpool_cache_create("none", 64, NULL);
		if (cache) {
			expect_cmp(pcp_fault_passed(PCP_FAULT_META), <, nth);
			expect_cmp(nth, >, 3);
			drop(cache);
			return;
		}
		expect_errno(ENOMEM);
		expect_eq(visits_of(NULL), 0);
	}
	fail_now("never created");
}
END_TEST

/* --- forks ---------------------------------------------------------------- */

static struct pcpool_cache *old;

static void grandchild(void *arg)
{
	(void)arg;
	expect_eq(pcp_fork_generation(), 2);
	expect(pcp_cache_forked(old));
	drop(old);
}

static void child(void *arg)
{
	struct child below;
	struct pcpool_cache *mine;

	(void)arg;
	expect_eq(pcp_fork_generation(), 1);
	expect(pcp_cache_forked(old));
	mine = make();
	expect(!pcp_cache_forked(mine));
	expect_eq(visits_of(NULL), 2);
	drop(mine);
	run_child(grandchild, NULL, 10, &below);
	expect_child_exit(&below, 0);
	drop(old);
	expect_eq(visits_of(NULL), 0);
}

START_TEST(test_generations)
{
	struct child below;

	old = make();
	expect_eq(pcp_fork_generation(), 0);
	run_child(child, NULL, 20, &below);
	expect_child_exit(&below, 0);
	expect_eq(pcp_fork_generation(), 0);
	expect(!pcp_cache_forked(old));
	drop(old);
}
END_TEST

static void use(struct pcpool_cache *cache)
{
	void *objs[200];

	expect_eq(pcpool_alloc_bulk(cache, 200, objs), 0);
	expect_eq(pcpool_free_bulk(cache, 200, objs), 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
}

/* TSan ends the process when a thread holds more than 64 locks. */
enum { CACHES = TEST_TSAN ? 10 : 300 };

static struct pcpool_cache *many[CACHES];

static void use_all(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < CACHES; i++) {
		use(many[i]);
		drop(many[i]);
	}
}

/* Every lock of each of them is free afterwards, here and there. */
START_TEST(test_fork_with_many)
{
	struct child below;

	for (unsigned int i = 0; i < CACHES; i++)
		many[i] = make();
	run_child(use_all, NULL, 30, &below);
	expect_child_exit(&below, 0);
	use_all(NULL);
}
END_TEST

static atomic_bool stop;

static void *keep_busy(void *arg)
{
	pin_to(1);
	while (!atomic_load(&stop)) {
		struct pcpool_cache *cache = make();

		use(cache);
		drop(cache);
		use(arg);
	}
	return NULL;
}

static void use_old(void *arg)
{
	for (unsigned int i = 0; i < 3; i++)
		use(arg);
	drop(make());
	visits_of(NULL);
}

/* Whatever another thread is in the middle of. */
START_TEST(test_fork_beside)
{
	pthread_t thread;

	old = make();
	expect(!pthread_create(&thread, NULL, keep_busy, old));
	for (unsigned int i = 0; i < 100; i++) {
		struct child below;

		run_child(use_old, old, 10, &below);
		expect_child_exit(&below, 0);
	}
	atomic_store(&stop, true);
	expect(!pthread_join(thread, NULL));
	drop(old);
	expect_eq(visits_of(NULL), 0);
}
END_TEST

static void come_and_go(const struct worker *worker)
{
	struct pcpool_cache *caches[4];

	for (unsigned int round = 0; round < 100; round++) {
		for (unsigned int i = 0; i < 4; i++)
			caches[i] = make();
		for (unsigned int i = 0; i < 4; i++)
			drop(caches[(i + worker->id) % 4]);
		pcp_registry_each(count_visit, caches);
	}
}

START_TEST(test_threads)
{
	run_threads(4, come_and_go, NULL);
	expect_eq(visits_of(NULL), 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("registry", 60);

	tcase_add_test(tc, test_add_and_del);
	tcase_add_test(tc, test_failed_create);
	tcase_add_test(tc, test_generations);
	tcase_add_test(tc, test_fork_with_many);
	tcase_add_test(tc, test_fork_beside);
	tcase_add_test(tc, test_threads);
	return suite_run(tc);
}

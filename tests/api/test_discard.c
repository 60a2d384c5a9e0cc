/* SPDX-License-Identifier: MIT */
/* Discarding: the destructor runs at once, the place is built anew. */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

START_TEST(test_refusals)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = sheet_cache("d", 64, &sheet);

	expect_eq(pcpool_discard(NULL, &sheet), EINVAL);
	expect_eq(pcpool_discard(NULL, NULL), EINVAL);
	expect_eq(pcpool_discard(cache, NULL), 0);
	expect_eq(sheet.calls, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

static void discard_all(size_t size, unsigned int flags)
{
	struct sheet sheet = { .fill = size };
	struct pcpool_cache *cache =
		sheet_cache_of("d", size, &sheet, flags, 0);
	void *objs[300];

	for (int round = 0; round < 5; round++) {
		unsigned long long dtor = sheet.dtor, live;

		expect_eq(pcpool_alloc_bulk(cache, 300, objs), 0);
		live = stats_of(cache).live;
		expect_eq(live, 300);
		for (int i = 0; i < 300; i++) {
			sheet_pattern_check(objs[i], size);
			expect_eq(pcpool_discard(cache, objs[i]), 0);
			/* Now, and only this one. */
			expect_eq(sheet.dtor, ++dtor);
		}
		expect_eq(stats_of(cache).live, 0);
		expect_eq(stats_of(cache).built, sheet_built(&sheet));
	}
	destroy_balanced(cache, &sheet);
}

START_TEST(test_dtor_runs_now)
{
	discard_all(40, 0);
	discard_all(40, PCPOOL_CHECK);
	discard_all(40, PCPOOL_DTOR_ON_FREE);
	discard_all(9000, 0);
}
END_TEST

/* Slabs that wait, still built, for their next use are no business of a
 * discard. */
START_TEST(test_what_waits_goes_on_waiting)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = sheet_cache_of("d", 512, &sheet, 0, 4);
	static void *objs[20000];
	unsigned long long dtor;
	uint64_t waiting;

	expect_eq(pcpool_alloc_bulk(cache, 20000, objs), 0);
	for (int i = 1; i < 20000; i++)
		pcpool_free(cache, objs[i]);
	waiting = stats_of(cache).waiting;
	expect(waiting > 10);
	dtor = sheet.dtor;
	expect_eq(pcpool_discard(cache, objs[0]), 0);
	/* Its own, and at most those of the slab it was the last one of. */
	expect_cmp(sheet.dtor - dtor, <=, stats_of(cache).objects_per_slab);
	expect_cmp(stats_of(cache).waiting, >=, waiting - 1);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* A single object: discarded and taken again it was built again. */
START_TEST(test_rebuilt_on_next_use)
{
	struct sheet sheet = { .fill = 1 << 20 };
	struct pcpool_cache *cache =
		sheet_cache_of("one", 1 << 20, &sheet, 0, 1);
	unsigned long long before;

	for (int i = 0; i < 10; i++) {
		unsigned char *obj = must_alloc(cache);

		sheet_pattern_check(obj, 1 << 20);
		expect_eq(pcpool_discard(cache, obj), 0);
		before = sheet.ok;
		expect_eq(sheet.dtor + stats_of(cache).built, before);
	}
	/* The place may also refuse to be built, and be built after that. */
	expect_eq(pcpool_cache_shrink(cache), 0);
	sheet_balanced(&sheet);
	atomic_store(&sheet.fail_from, 1);
	expect_refused(pcpool_alloc(cache), EXDEV);
	atomic_store(&sheet.fail_from, 0);
	expect_eq(pcpool_discard(cache, must_alloc(cache)), 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

START_TEST(test_plain_memory)
{
	struct pcpool_cache *cache = pcpool_cache_create("plain", 64, NULL);

	for (int i = 0; i < 1000; i++)
		expect_eq(pcpool_discard(cache, must_alloc(cache)), 0);
	expect_eq(stats_of(cache).live, 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).slabs, 0);
	must_destroy(cache);
}
END_TEST

/* The destructor may give other objects of the cache back, or drop them. */
struct chain {
	struct chain *next;
	struct pcpool_cache *cache;
	struct sheet *sheet;
};

static int chain_ctor(void *obj, void *arg)
{
	struct chain *link = obj;

	link->next = NULL;
	return sheet_ctor(obj, arg);
}

static void chain_dtor(void *obj, void *arg)
{
	struct chain *link = obj;

	if (link->next)
		expect_eq(pcpool_discard(link->cache, link->next), 0);
	sheet_dtor(obj, arg);
}

START_TEST(test_discard_from_a_destructor)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	struct chain *head = NULL;

	attr.ctor = chain_ctor;
	attr.dtor = chain_dtor;
	attr.arg = &sheet;
	cache = pcpool_cache_create("chain", sizeof(struct chain), &attr);
	for (int i = 0; i < 200; i++) {
		struct chain *link = must_alloc(cache);

		link->cache = cache;
		link->next = head;
		head = link;
	}
	expect_eq(pcpool_discard(cache, head), 0);
	expect_cmp(sheet.dtor, >=, 200);
	expect_eq(stats_of(cache).live, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

static void discard_some(const struct worker *w)
{
	struct pcpool_cache *cache = w->arg;
	struct rng rng;

	rng_seed(&rng, w->id);
	for (int i = 0; i < 20000; i++) {
		void *obj = must_alloc(cache);

		owner_take(obj, w->id + 1);
		owner_leave(obj, w->id + 1);
		if (rng_below(&rng, 4))
			pcpool_free(cache, obj);
		else
			expect_eq(pcpool_discard(cache, obj), 0);
	}
}

START_TEST(test_threads)
{
	struct sheet sheet = { .clear = 8 };
	struct pcpool_cache *cache = sheet_cache("mt", 32, &sheet);

	run_threads(4, discard_some, cache);
	expect_eq(stats_of(cache).live, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("discard", 60);

	tcase_add_test(tc, test_refusals);
	tcase_add_test(tc, test_dtor_runs_now);
	tcase_add_test(tc, test_what_waits_goes_on_waiting);
	tcase_add_test(tc, test_rebuilt_on_next_use);
	tcase_add_test(tc, test_plain_memory);
	tcase_add_test(tc, test_discard_from_a_destructor);
	tcase_add_test(tc, test_threads);
	return suite_run(tc);
}

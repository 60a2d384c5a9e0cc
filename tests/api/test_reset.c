/* SPDX-License-Identifier: MIT */
/* The reset hook: once for every hand-out, after the constructor, no other. */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

enum { RAW, BUILT, FRESH, USED };

struct thing {
	int state;
	int uses;
};

static int thing_ctor(void *obj, void *arg)
{
	struct thing *thing = obj;
	int err = sheet_ctor(obj, arg);

	if (!err)
		*thing = (struct thing){ .state = BUILT };
	return err;
}

static void thing_reset(void *obj, void *arg)
{
	struct thing *thing = obj;

	expect(thing->state == BUILT || thing->state == USED);
	thing->state = FRESH;
	thing->uses++;
	sheet_reset(obj, arg);
}

static void thing_dtor(void *obj, void *arg)
{
	struct thing *thing = obj;

	expect(thing->state == BUILT || thing->state == USED);
	thing->state = RAW;
	sheet_dtor(obj, arg);
}

static struct pcpool_cache *thing_cache(struct sheet *sheet, unsigned int flags)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	attr.ctor = thing_ctor;
	attr.dtor = thing_dtor;
	attr.reset = thing_reset;
	attr.arg = sheet;
	attr.flags = flags;
	cache = pcpool_cache_create("thing", sizeof(struct thing), &attr);
	expect(cache);
	return cache;
}

static void use(struct thing *thing)
{
	expect(thing);
	expect_eq(thing->state, FRESH);
	thing->state = USED;
}

static void each_way(unsigned int flags)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = thing_cache(&sheet, flags);
	struct thing *things[100];
	unsigned long long handed = 0;

	for (int round = 0; round < 30; round++) {
		int n = 0;

		for (; n < 10; n++)
			use(things[n] = pcpool_alloc(cache));
		for (; n < 20; n++)
			use(things[n] = pcpool_alloc_node(cache, 0));
		for (; n < 30; n++)
			use(things[n] = pcpool_alloc_node(cache, -1));
		expect_eq(pcpool_alloc_bulk(cache, 70, (void **)&things[30]),
			  0);
		for (; n < 100; n++)
			use(things[n]);
		handed += 100;
		expect_eq(sheet.reset, handed);
		expect_eq(pcpool_free_bulk(cache, 50, (void **)things), 0);
		for (int i = 50; i < 90; i++)
			pcpool_free(cache, things[i]);
		for (int i = 90; i < 100; i++)
			expect_eq(pcpool_discard(cache, things[i]), 0);
		if (round % 5 == 4)
			expect_eq(pcpool_cache_shrink(cache), 0);
		expect_eq(sheet.reset, handed);
	}
	destroy_balanced(cache, &sheet);
	expect_eq(sheet.reset, handed);
}

START_TEST(test_once_per_hand_out)
{
	each_way(0);
	each_way(PCPOOL_CHECK);
	each_way(PCPOOL_DTOR_ON_FREE);
}
END_TEST

/* What is not handed out is not reset: a refused bulk resets nothing. */
START_TEST(test_refused_bulk)
{
	struct sheet sheet = { .fail_from = 11 };
	struct pcpool_cache *cache = thing_cache(&sheet, 0);
	void *objs[40];

	expect_eq(pcpool_alloc_bulk(cache, 40, objs), EXDEV);
	expect_eq(sheet.reset, 0);
	expect_eq(pcpool_alloc_bulk(cache, 10, objs), 0);
	expect_eq(sheet.reset, 10);
	for (int i = 0; i < 10; i++)
		use(objs[i]);
	expect_eq(pcpool_free_bulk(cache, 10, objs), 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* A reset without a ctor, on plain memory. */
START_TEST(test_reset_alone)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	attr.reset = sheet_reset;
	attr.arg = &sheet;
	cache = pcpool_cache_create("alone", 64, &attr);
	for (int i = 1; i <= 500; i++) {
		pcpool_free(cache, must_alloc(cache));
		expect_eq(sheet.reset, i);
	}
	must_destroy(cache);
}
END_TEST

/* A reset may use the cache itself. */
struct nest {
	struct pcpool_cache *cache;
	int depth;
};

static struct nest nest;

static void nesting_reset(void *obj, void *arg)
{
	struct nest *n = arg;

	(void)obj;
	if (n->depth >= 20)
		return;
	n->depth++;
	pcpool_free(n->cache, must_alloc(n->cache));
	n->depth--;
}

START_TEST(test_reset_uses_the_cache)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	attr.reset = nesting_reset;
	attr.arg = &nest;
	nest.cache = pcpool_cache_create("nest", 64, &attr);
	for (int i = 0; i < 100; i++)
		pcpool_free(nest.cache, must_alloc(nest.cache));
	expect_eq(stats_of(nest.cache).live, 0);
	must_destroy(nest.cache);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("reset", 60);

	tcase_add_test(tc, test_once_per_hand_out);
	tcase_add_test(tc, test_refused_bulk);
	tcase_add_test(tc, test_reset_alone);
	tcase_add_test(tc, test_reset_uses_the_cache);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* Declared per-CPU fields: set before the constructor, zero then, one region for
 * a slab, released with it. */
#include <config.h>

#include <limits.h>

#include "../caches.h"
#include "../suite.h"

enum { FIELDS = 3, OBJECTS = 2000 };

struct action {
	uint64_t *hits;
	int number;
	unsigned char *wide;
	uint32_t *drops;
};

enum { WIDE = 100, WIDE_ALIGN = 64 };

static const struct pcpool_percpu_field fields[FIELDS] = {
	{ offsetof(struct action, hits), sizeof(uint64_t), 0 },
	{ offsetof(struct action, wide), WIDE, WIDE_ALIGN },
	{ offsetof(struct action, drops), 2 * sizeof(uint32_t), 0 },
};

/* Every copy of every field, to be zero, and then not any more. */
static void use_all(const struct action *a, bool expect_zero)
{
	for (unsigned int slot = 0; slot < pcpool_nr_slots(); slot++) {
		uint64_t *hits = pcpool_percpu_ptr(a->hits, slot);
		unsigned char *wide = pcpool_percpu_ptr(a->wide, slot);
		uint32_t *drops = pcpool_percpu_ptr(a->drops, slot);

		expect_eq((uintptr_t)wide % WIDE_ALIGN, 0);
		expect_eq((uintptr_t)hits % sizeof(*hits), 0);
		for (size_t i = 0; expect_zero && i < WIDE; i++)
			expect_eq(wide[i], 0);
		if (expect_zero)
			expect_eq(*hits + drops[0] + drops[1], 0);
		memset(wide, 0xa5, WIDE);
		*hits = 1;
		drops[0] = drops[1] = 2;
	}
}

static int action_ctor(void *obj, void *arg)
{
	struct action *a = obj;

	expect(a->hits && a->wide && a->drops);
	use_all(a, true);
	a->number = 0;
	return sheet_ctor(NULL, arg);
}

static void action_dtor(void *obj, void *arg)
{
	/* They are there until it has run. */
	use_all(obj, false);
	sheet_dtor(NULL, arg);
}

static struct pcpool_cache *action_cache(struct sheet *sheet,
					 unsigned int flags)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	attr.ctor = action_ctor;
	attr.dtor = action_dtor;
	attr.arg = sheet;
	attr.flags = flags;
	attr.fields = fields;
	attr.nr_fields = FIELDS;
	cache = pcpool_cache_create("action", sizeof(struct action), &attr);
	expect(cache);
	return cache;
}

/* Nobody else's bytes: each object's copies keep what was written. */
START_TEST(test_apart)
{
	static struct action *actions[OBJECTS];
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = action_cache(&sheet, 0);
	unsigned int slots = pcpool_nr_slots();

	for (int i = 0; i < OBJECTS; i++) {
		actions[i] = must_alloc(cache);
		for (unsigned int slot = 0; slot < slots; slot++) {
			uint64_t *hits =
				pcpool_percpu_ptr(actions[i]->hits, slot);
			uint32_t *drops =
				pcpool_percpu_ptr(actions[i]->drops, slot);

			*hits = (uint64_t)i * slots + slot;
			drops[1] = (uint32_t)i;
			memset(pcpool_percpu_ptr(actions[i]->wide, slot), i,
			       WIDE);
		}
	}
	for (int i = 0; i < OBJECTS; i++) {
		unsigned int slot = (unsigned int)i % slots;
		uint64_t *hits = pcpool_percpu_ptr(actions[i]->hits, slot);
		uint32_t *drops = pcpool_percpu_ptr(actions[i]->drops, slot);
		unsigned char *wide = pcpool_percpu_ptr(actions[i]->wide, slot);

		expect_eq(*hits, (uint64_t)i * slots + slot);
		expect_eq(drops[1], i);
		expect_eq(wide[0], (unsigned char)i);
		expect_eq(wide[WIDE - 1], (unsigned char)i);
		pcpool_free(cache, actions[i]);
	}
	destroy_balanced(cache, &sheet);
	expect_eq(percpu_stats_of().regions, 0);
}
END_TEST

/* One region for as many objects as it has room for, under one hold of a lock. */
START_TEST(test_few_regions)
{
	static void *objs[OBJECTS];
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = action_cache(&sheet, 0);
	struct pcpool_percpu_stats before = percpu_stats_of(), after;
	struct pcpool_cache_stats stats;
	uint64_t per_object, most;

	expect_eq(pcpool_alloc_bulk(cache, OBJECTS, objs), 0);
	after = percpu_stats_of();
	stats = stats_of(cache);
	/* 8 and 100 aligned to 64, and 8. */
	per_object = 192;
	most = stats.objects_per_slab * per_object / PCPOOL_PERCPU_SIZE_MAX + 1;
	expect_cmp(after.regions - before.regions, <=, stats.slabs * most);
	expect_eq(after.mutex - before.mutex, stats.alloc_slab);
	expect_eq(pcpool_free_bulk(cache, OBJECTS, objs), 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(percpu_stats_of().regions, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* A constructor that fails, or an object that was discarded, leaves zeros for
 * the next. */
START_TEST(test_zero_again)
{
	static void *objs[OBJECTS];
	const unsigned int flags[] = { 0, PCPOOL_CHECK, PCPOOL_DTOR_ON_FREE,
				       PCPOOL_TYPESAFE_BY_RCU };

	for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
		struct sheet sheet = { .fail_every = 7 };
		struct pcpool_cache *cache = action_cache(&sheet, flags[f]);

		for (int round = 0; round < 4; round++) {
			for (int i = 0; i < OBJECTS / 4; i++)
				objs[i] = pcpool_alloc(cache);
			for (int i = 0; i < OBJECTS / 4; i++) {
				if (objs[i])
					use_all(objs[i], false);
				if (i % 3)
					pcpool_free(cache, objs[i]);
				else
					expect_eq(pcpool_discard(cache,
								 objs[i]),
						  0);
			}
			if (round & 1)
				expect_eq(pcpool_cache_shrink(cache), 0);
		}
		expect_cmp(atomic_load(&sheet.failed), >, 0);
		destroy_balanced(cache, &sheet);
	}
	expect_eq(percpu_stats_of().regions, 0);
}
END_TEST

/* Without a constructor too. */
START_TEST(test_plain)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	struct action *a;

	attr.fields = fields;
	attr.nr_fields = FIELDS;
	cache = pcpool_cache_create("plain", sizeof(struct action), &attr);
	expect(cache);
	a = must_alloc(cache);
	use_all(a, true);
	pcpool_this_cpu_add(a->hits, 5);
	expect_eq(pcpool_percpu_sum_u64(a->hits), pcpool_nr_slots() + 5);
	expect_eq(pcpool_discard(cache, a), 0);
	a = must_alloc(cache);
	pcpool_free(cache, a);
	must_destroy(cache);
}
END_TEST

static void refuse(struct pcpool_percpu_field list[], size_t n)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	attr.fields = list;
	attr.nr_fields = n;
	expect_refused(pcpool_cache_create("bad", 64, &attr), EINVAL);
}

START_TEST(test_refused)
{
	struct pcpool_percpu_field many[PCPOOL_PERCPU_FIELDS_MAX + 1];
	struct pcpool_percpu_field bad[] = {
		{ 4, 8, 0 },  /* misaligned */
		{ 64, 8, 0 }, /* outside */
		{ SIZE_MAX - 7, 8, 0 },
		{ 0, 0, 0 },
		{ 0, PCPOOL_PERCPU_SIZE_MAX + 1, 0 },
		{ 0, SIZE_MAX, 0 },
		{ 0, 8, 3 },
		{ 0, 8, 8192 },
	};
	struct pcpool_percpu_field twice[] = { { 0, 8, 0 }, { 0, 8, 0 } };
	struct pcpool_percpu_field large[] = {
		{ 0, PCPOOL_PERCPU_SIZE_MAX, 0 }, { 8, 8, 0 }
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse(&bad[i], 1);
	refuse(twice, 2);
	refuse(large, 2);
	refuse(NULL, 1);
	refuse(many, PCPOOL_PERCPU_FIELDS_MAX + 1);
	expect_eq(percpu_stats_of().regions, 0);
}
END_TEST

/* The largest: a region for each object. */
START_TEST(test_large)
{
	struct pcpool_percpu_field list[] = {
		{ 0, PCPOOL_PERCPU_SIZE_MAX / 2 + 8, 4096 },
	};
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	void **a, **b;

	attr.fields = list;
	attr.nr_fields = 1;
	cache = pcpool_cache_create("large", 8192, &attr);
	expect(cache);
	a = must_alloc(cache);
	b = must_alloc(cache);
	expect(*a != *b);
	memset(pcpool_percpu_ptr(*a, 0), 1, list[0].size);
	expect_eq(*(char *)pcpool_percpu_ptr(*b, 0), 0);
	expect_eq((uintptr_t)*a % 4096, 0);
	pcpool_free(cache, a);
	pcpool_free(cache, b);
	must_destroy(cache);
	expect_eq(percpu_stats_of().regions, 0);
}
END_TEST

static void free_field(void *arg)
{
	struct action *a = arg;

	pcpool_percpu_free(a->drops);
}

/* What a cache gave is the cache's to take. */
START_TEST(test_foreign_free)
{
	static struct child child;
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = action_cache(&sheet, 0);
	struct action *a = must_alloc(cache);

	run_child(free_field, a, 10, &child);
	expect_child_abort(&child, "per-CPU", NULL);
	pcpool_free(cache, a);
	destroy_balanced(cache, &sheet);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fields", 30);

	tcase_add_test(tc, test_apart);
	tcase_add_test(tc, test_few_regions);
	tcase_add_test(tc, test_zero_again);
	tcase_add_test(tc, test_plain);
	tcase_add_test(tc, test_refused);
	tcase_add_test(tc, test_large);
	tcase_add_test(tc, test_foreign_free);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* Many objects in one call: all or none, and what is refused. */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

static int compare(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (void *const *)a;
	uintptr_t y = (uintptr_t) * (void *const *)b;

	return x < y ? -1 : x > y;
}

static void distinct(void **objs, size_t n)
{
	void **copy = malloc((n + 1) * sizeof(*copy));

	expect(copy);
	memcpy(copy, objs, n * sizeof(*copy));
	qsort(copy, n, sizeof(*copy), compare);
	for (size_t i = 0; i < n; i++) {
		expect(copy[i]);
		expect(!i || copy[i] != copy[i - 1]);
	}
	free(copy);
}

START_TEST(test_refusals)
{
	struct pcpool_cache *cache = pcpool_cache_create("bulk", 64, NULL);
	void *objs[4] = { &objs, &objs, &objs, &objs };
	const size_t over = SIZE_MAX / sizeof(void *) + 1;

	expect_eq(pcpool_alloc_bulk(NULL, 4, objs), EINVAL);
	expect_eq(pcpool_alloc_bulk(cache, 4, NULL), EINVAL);
	expect_eq(pcpool_alloc_bulk(cache, over, objs), ENOMEM);
	expect_eq(pcpool_alloc_bulk(cache, SIZE_MAX, objs), ENOMEM);
	expect_eq(pcpool_alloc_bulk(cache, 0, NULL), 0);
	expect_eq(pcpool_alloc_bulk(cache, 0, objs), 0);
	expect_eq(pcpool_free_bulk(NULL, 4, objs), EINVAL);
	expect_eq(pcpool_free_bulk(cache, 4, NULL), EINVAL);
	expect_eq(pcpool_free_bulk(cache, over, objs), EINVAL);
	expect_eq(pcpool_free_bulk(cache, SIZE_MAX, objs), EINVAL);
	expect_eq(pcpool_free_bulk(cache, 0, NULL), 0);
	expect(objs[0] == (void *)&objs);
	memset(objs, 0, sizeof(objs));
	expect_eq(pcpool_free_bulk(cache, 4, objs), 0);
	expect_eq(stats_of(cache).live, 0);
	must_destroy(cache);
}
END_TEST

static void sizes_of(unsigned int capacity, unsigned int flags, size_t size)
{
	struct sheet sheet = { .fill = size };
	struct pcpool_cache *cache =
		sheet_cache_of("sizes", size, &sheet, flags, capacity);
	size_t cap = stats_of(cache).sheaf_capacity;
	const size_t counts[] = { 1,	   2,	    cap - 1,	  cap, cap + 1,
				  2 * cap, 3 * cap, 10 * cap + 3, 777 };

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		size_t n = counts[c];
		void **objs = calloc(n + 1, sizeof(*objs));

		expect(objs);
		for (int round = 0; round < 3; round++) {
			expect_eq(pcpool_alloc_bulk(cache, n, objs), 0);
			distinct(objs, n);
			for (size_t i = 0; i < n; i++)
				sheet_pattern_check(objs[i], size);
			expect_eq(stats_of(cache).live, n);
			expect_eq(pcpool_free_bulk(cache, n, objs), 0);
			expect_eq(stats_of(cache).live, 0);
		}
		free(objs);
	}
	destroy_balanced(cache, &sheet);
}

START_TEST(test_sizes)
{
	static const unsigned int capacities[] = { 0, 1, 2, 3, 32, 1024 };

	for (size_t c = 0; c < sizeof(capacities) / sizeof(int); c++) {
		sizes_of(capacities[c], 0, 24);
		sizes_of(capacities[c], 0, 2000);
		sizes_of(capacities[c], PCPOOL_CHECK, 24);
		sizes_of(capacities[c], PCPOOL_DTOR_ON_FREE, 24);
	}
}
END_TEST

START_TEST(test_null_entries_are_skipped)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = sheet_cache("holes", 64, &sheet);
	void *objs[501], *some[501];

	for (int round = 0; round < 4; round++) {
		expect_eq(pcpool_alloc_bulk(cache, 501, objs), 0);
		memcpy(some, objs, sizeof(some));
		for (int i = round % 2; i < 501; i += 2)
			some[i] = NULL;
		expect_eq(pcpool_free_bulk(cache, 501, some), 0);
		for (int i = round % 2; i < 501; i += 2)
			pcpool_free(cache, objs[i]);
		expect_eq(stats_of(cache).live, 0);
	}
	destroy_balanced(cache, &sheet);
}
END_TEST

/* A refused bulk gives back what it had: no object is withheld after it. */
START_TEST(test_all_or_none)
{
	struct sheet sheet = { .clear = 8, .fail_from = 51 };
	struct pcpool_cache *cache = sheet_cache("none", 64, &sheet);
	void *objs[60];

	for (int round = 0; round < 200; round++) {
		memset(objs, 0xaa, sizeof(objs));
		expect_eq(pcpool_alloc_bulk(cache, 60, objs), EXDEV);
		for (int i = 0; i < 60; i++)
			expect(!objs[i]);
		expect_eq(stats_of(cache).live, 0);
		expect_eq(pcpool_alloc_bulk(cache, 50, objs), 0);
		distinct(objs, 50);
		for (int i = 0; i < 50; i++)
			owner_take(objs[i], 7);
		memset(objs + 50, 0xaa, sizeof(objs) - 50 * sizeof(objs[0]));
		expect_eq(pcpool_alloc_bulk(cache, 1, objs + 50), EXDEV);
		expect(!objs[50]);
		for (int i = 0; i < 50; i++)
			owner_leave(objs[i], 7);
		expect_eq(pcpool_free_bulk(cache, 50, objs), 0);
	}
	expect_eq(sheet.ok, 50);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* So much that address space or memory runs out: none of it stays. */
START_TEST(test_hopeless_count)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = sheet_cache("huge", 64, &sheet);
	void *one;
	int err;

	atomic_store(&sheet.fail_from, 100000);
	{
		size_t n = 1 << 20;
		void **objs = malloc(n * sizeof(*objs));

		expect(objs);
		err = pcpool_alloc_bulk(cache, n, objs);
		expect_eq(err, EXDEV);
		for (size_t i = 0; i < n; i++)
			expect(!objs[i]);
		free(objs);
	}
	expect_eq(stats_of(cache).live, 0);
	one = must_alloc(cache);
	pcpool_free(cache, one);
	expect_eq(pcpool_cache_shrink(cache), 0);
	sheet_balanced(&sheet);
	expect_eq(stats_of(cache).slabs, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("bulk", 60);

	tcase_add_test(tc, test_refusals);
	tcase_add_test(tc, test_sizes);
	tcase_add_test(tc, test_null_entries_are_skipped);
	tcase_add_test(tc, test_all_or_none);
	tcase_add_test(tc, test_hopeless_count);
	return suite_run(tc);
}

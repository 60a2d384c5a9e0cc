/* SPDX-License-Identifier: MIT */
/*
 * Extremes: sheaves of one, two and the most, slabs of one, two and many
 * objects, and every count around them.
 */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

static void one_by_one(struct pcpool_cache *cache, size_t n)
{
	void **objs = calloc(n, sizeof(*objs));

	expect(objs);
	for (size_t i = 0; i < n; i++) {
		objs[i] = must_alloc(cache);
		owner_take(objs[i], i + 1);
	}
	for (size_t i = 0; i < n; i++) {
		size_t at = (i * 5 + 3) % n;

		if (n % 5 == 0)
			at = i;
		owner_leave(objs[at], at + 1);
		pcpool_free(cache, objs[at]);
	}
	free(objs);
}

static void by_bulk(struct pcpool_cache *cache, size_t n)
{
	void **objs = calloc(n + 1, sizeof(*objs));

	expect(objs);
	expect_eq(pcpool_alloc_bulk(cache, n, objs), 0);
	for (size_t i = 0; i < n; i++)
		owner_take(objs[i], i + 1);
	expect_eq(stats_of(cache).live, n);
	for (size_t i = 0; i < n; i++)
		owner_leave(objs[i], i + 1);
	expect_eq(pcpool_free_bulk(cache, n, objs), 0);
	free(objs);
}

static void extreme(unsigned int capacity, size_t size, unsigned int partial,
		    size_t most)
{
	struct sheet sheet = { .clear = 8 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	size_t cap, counts[6];

	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.sheaf_capacity = capacity;
	attr.min_partial = partial;
	cache = pcpool_cache_create("extreme", size, &attr);
	expect(cache);
	cap = stats_of(cache).sheaf_capacity;
	if (capacity)
		expect_eq(cap, capacity);
	expect(cap >= 1 && cap <= PCPOOL_SHEAF_CAPACITY_MAX);
	counts[0] = 0;
	counts[1] = 1;
	counts[2] = cap - 1;
	counts[3] = cap;
	counts[4] = cap + 1;
	counts[5] = 10 * cap;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 6; i++) {
			size_t n = counts[i] < most ? counts[i] : most;

			if (n)
				one_by_one(cache, n);
			by_bulk(cache, n);
		}
		expect_eq(stats_of(cache).live, 0);
		expect_eq(pcpool_cache_shrink(cache), 0);
		expect_eq(stats_of(cache).slabs, 0);
	}
	destroy_balanced(cache, &sheet);
}

START_TEST(case_SHF_11_extremes)
{
	static const unsigned int capacities[] = {
		0,
		1,
		2,
		3,
		PCPOOL_SHEAF_CAPACITY_MAX - 1,
		PCPOOL_SHEAF_CAPACITY_MAX
	};
	static const unsigned int partials[] = { 0, 1, 65535 };

	for (int c = 0; c < 6; c++)
		for (int p = 0; p < 3; p++) {
			extreme(capacities[c], 8, partials[p], 20000);
			extreme(capacities[c], 4096, partials[p], 2000);
			extreme(capacities[c], 20000, partials[p], 200);
			extreme(capacities[c], 400000, partials[p], 30);
			extreme(capacities[c], PCPOOL_SIZE_MAX, partials[p],
				12);
		}
}
END_TEST

START_TEST(case_SHF_11_refused_capacity)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	attr.sheaf_capacity = PCPOOL_SHEAF_CAPACITY_MAX + 1;
	expect_refused(pcpool_cache_create("over", 8, &attr), EINVAL);
}
END_TEST

/* From a capacity of two on, a pair of calls stays in the slot. */
START_TEST(case_SHF_11_pairs_stay_on_the_fast_path)
{
	static const unsigned int capacities[] = { 2, 3, 4, 1024 };
	static const size_t sizes[] = { 8, 64, 4096, 100000, PCPOOL_SIZE_MAX };

	pin_to(0);
	for (int c = 0; c < 4; c++)
		for (int s = 0; s < 5; s++) {
			struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
			struct pcpool_cache_stats stats;
			struct pcpool_cache *cache;

			attr.sheaf_capacity = capacities[c];
			cache = pcpool_cache_create("pairs", sizes[s], &attr);
			for (int i = 0; i < 2000; i++)
				pcpool_free(cache, must_alloc(cache));
			stats = stats_of(cache);
			if (stats.alloc_slowpath > 200 ||
			    stats.free_slowpath > 200)
				fail_now("capacity %u, size %zu: %llu and %llu "
					 "slow of 2000",
					 capacities[c], sizes[s],
					 (unsigned long long)
						 stats.alloc_slowpath,
					 (unsigned long long)
						 stats.free_slowpath);
			must_destroy(cache);
		}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("capacity", 120);

	tcase_add_test(tc, case_SHF_11_extremes);
	tcase_add_test(tc, case_SHF_11_refused_capacity);
	tcase_add_test(tc, case_SHF_11_pairs_stay_on_the_fast_path);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * Stocks that follow their use: after a few thousand operations a cache misses
 * as rarely as with the best capacity one could have chosen for it; one that is
 * idle goes back to the least; a capacity that was chosen stays.
 */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

/* What a CPU may have in stock, main and spare together. */
#define BUDGET ((size_t)256 << 10)

enum { WARM_UP = 10000, MEASURED = 100000, LONGEST = 4096 };

static struct pcpool_cache *cache_of(size_t size, unsigned int capacity)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	attr.sheaf_capacity = capacity;
	cache = pcpool_cache_create("adapt", size, &attr);
	expect(cache);
	return cache;
}

/* So many calls: all of a burst are taken, then all are given back. */
static void bursts(struct pcpool_cache *cache, unsigned int length,
		   unsigned long calls)
{
	static void *objs[LONGEST];

	for (unsigned long done = 0; done < calls; done += 2 * length) {
		for (unsigned int i = 0; i < length; i++)
			objs[i] = must_alloc(cache);
		for (unsigned int i = 0; i < length; i++)
			pcpool_free(cache, objs[i]);
	}
}

/* --- misses ----------------------------------------------------------------
 */

/* Misses in 100,000 calls (or less where each takes long), after 10,000. */
static uint64_t misses(size_t size, unsigned int capacity, unsigned int length)
{
	struct pcpool_cache *cache = cache_of(size, capacity);
	uint64_t before;

	bursts(cache, length, WARM_UP);
	before = stats_of(cache).slot_miss;
	bursts(cache, length, scaled(MEASURED));
	before = stats_of(cache).slot_miss - before;
	must_destroy(cache);
	return before;
}

static uint64_t fewest_misses(size_t size, unsigned int length)
{
	size_t most = BUDGET / 2 / size;
	uint64_t fewest = UINT64_MAX;

	if (most > PCPOOL_SHEAF_CAPACITY_MAX)
		most = PCPOOL_SHEAF_CAPACITY_MAX;
	for (size_t capacity = most; capacity; capacity -= (capacity + 3) / 4) {
		uint64_t n = misses(size, (unsigned int)capacity, length);

		fewest = n < fewest ? n : fewest;
		if (!fewest)
			break;
	}
	return fewest;
}

/*
 * Whether a burst is about as long as what main and spare hold with one of the
 * capacities that caches choose from, or with the largest. There it depends on
 * how full the two were when it began (the phase) whether it fits: a capacity
 * may hold it now and then only, and no count says which is better.
 */
static bool borderline(size_t size, unsigned int length)
{
	static const unsigned int rungs[] = {
		3, 11, 27, 59, 123, 251, 507, 1019
	};
	size_t most = BUDGET / 2 / size;

	for (size_t i = 0; i <= sizeof(rungs) / sizeof(*rungs); i++) {
		bool last = i == sizeof(rungs) / sizeof(*rungs);
		double hold = 2.0 * (last ? (double)most : rungs[i]);

		if (length > 0.9 * hold && length < 1.1 * hold)
			return true;
	}
	return false;
}

START_TEST(test_as_good_as_the_best)
{
	static const size_t sizes[] = { 16, 64, 256, 1000, 4096, 16384 };
	unsigned int tried = 0;

	pin_to(0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (unsigned int n = 1; n < LONGEST; n += 1 + n / 2) {
			uint64_t best, own;

			/* Far beyond what any can hold they are alike. */
			if (n > 3 * BUDGET / sizes[i])
				break;
			if (borderline(sizes[i], n))
				continue;
			tried++;
			best = fewest_misses(sizes[i], n);
			own = misses(sizes[i], 0, n);
			/* 1 in 2000 calls is nobody's matter. */
			if (own > best + best / 5 + scaled(MEASURED) / 2000)
				fail_now("size %zu, bursts of %u: %llu misses "
					 "where %llu are possible",
					 sizes[i], n, (unsigned long long)own,
					 (unsigned long long)best);
		}
	expect(tried > 40);
}
END_TEST

/* Bursts grow and shrink: neither one long ago nor one short one decides. */
START_TEST(test_follows_change)
{
	struct pcpool_cache *cache = cache_of(64, 0);
	uint64_t floor = stats_of(cache).sheaf_capacity, high, before;

	pin_to(0);
	bursts(cache, 10, WARM_UP);
	expect_eq(stats_of(cache).sheaf_capacity, floor);
	expect_eq(stats_of(cache).capacity_up, 0);
	bursts(cache, 700, WARM_UP);
	high = stats_of(cache).sheaf_capacity;
	expect_cmp(2 * high, >=, 700);
	expect(stats_of(cache).capacity_up > 0);
	before = stats_of(cache).slot_miss;
	bursts(cache, 700, MEASURED);
	expect_cmp(stats_of(cache).slot_miss - before, <=, MEASURED / 2000);
	/* In use, but by less: down, one step in each period at most. */
	for (int i = 0; i < 20; i++) {
		uint64_t capacity = stats_of(cache).sheaf_capacity;

		bursts(cache, 10, 1000);
		expect_eq(pcpool_maintain(0), 0);
		expect_cmp(stats_of(cache).sheaf_capacity, <=, capacity);
		expect_cmp(stats_of(cache).capacity_down, <=, i + 1);
	}
	expect_eq(stats_of(cache).sheaf_capacity, floor);
	/* And up again. */
	bursts(cache, 700, WARM_UP);
	expect_cmp(2 * stats_of(cache).sheaf_capacity, >=, 700);
	must_destroy(cache);
}
END_TEST

/* --- capacities that were chosen -------------------------------------------
 */

static void stays(struct pcpool_cache *cache, unsigned int capacity)
{
	struct pcpool_cache_stats stats;

	pin_to(0);
	for (unsigned int n = 1; n < 2000; n *= 3) {
		expect_eq(stats_of(cache).sheaf_capacity, capacity);
		bursts(cache, n, WARM_UP);
	}
	for (int i = 0; i < 3; i++)
		expect_eq(pcpool_maintain(0), 0);
	stats = stats_of(cache);
	expect_eq(stats.sheaf_capacity, capacity);
	expect_eq(stats.capacity_up, 0);
	expect_eq(stats.capacity_down, 0);
	expect_eq(stats.cached, 0);
	must_destroy(cache);
}

START_TEST(test_attribute_is_kept)
{
	static const unsigned int capacities[] = { 1, 2, 27, 100, 1024 };

	for (int i = 0; i < 5; i++) {
		stays(cache_of(64, capacities[i]), capacities[i]);
		stays(cache_of(5000, capacities[i]), capacities[i]);
	}
}
END_TEST

static int main_option(void)
{
	stays(cache_of(64, 0), 40);
	stays(cache_of(5000, 0), 40);
	stays(cache_of(64, 7), 7);
	return 0;
}

START_TEST(test_option_is_kept)
{
	static const char *const args[] = { "--option", NULL };
	struct child child;

	run_self(args, "sheaf:40", 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* --- idle caches -----------------------------------------------------------
 */

static void use_from_cpus(struct pcpool_cache *cache)
{
	for (unsigned int cpu = 0; cpu < 3; cpu++) {
		pin_to(cpu);
		bursts(cache, 500, 2000);
	}
}

static void idle_after_two(size_t size, unsigned int flags, bool callbacks)
{
	struct sheet sheet = { .fill = 8 };
	struct pcpool_cache *cache;
	uint64_t floor;

	cache = callbacks ? sheet_cache_of("idle", size, &sheet, flags, 0)
			  : cache_of(size, 0);
	floor = stats_of(cache).sheaf_capacity;
	for (int round = 0; round < 3; round++) {
		struct pcpool_cache_stats stats;

		use_from_cpus(cache);
		if (!(flags & PCPOOL_CHECK))
			expect(stats_of(cache).cached > 0);
		for (int i = 0; i < 2; i++)
			expect_eq(pcpool_maintain(0), 0);
		stats = stats_of(cache);
		expect_eq(stats.maintained, 2 * (round + 1));
		expect_eq(stats.sheaf_capacity, floor);
		expect_eq(stats.cached, 0);
		expect_eq(stats.slabs, 0);
		expect_eq(stats.waiting, 0);
		expect_eq(stats.sheaves, 0);
		expect_eq(stats.built, 0);
		if (callbacks)
			sheet_balanced(&sheet);
	}
	must_destroy(cache);
}

START_TEST(test_idle_is_at_the_floor)
{
	static const size_t sizes[] = { 8, 64, 1000, 20000 };

	for (int i = 0; i < 4; i++) {
		idle_after_two(sizes[i], 0, false);
		idle_after_two(sizes[i], 0, true);
		idle_after_two(sizes[i], PCPOOL_DTOR_ON_FREE, true);
		idle_after_two(sizes[i], PCPOOL_CHECK, true);
	}
}
END_TEST

/* --- construction ----------------------------------------------------------
 */

/* A CPU that comes to a cache builds one small batch, whatever others need. */
START_TEST(test_first_batch_is_small)
{
	static const size_t sizes[] = { 8, 64, 1000, 4096, 20000, 100000 };

	for (int i = 0; i < 6; i++) {
		struct sheet sheet = { .fill = 8 };
		struct pcpool_cache *cache =
			sheet_cache("first", sizes[i], &sheet);
		uint64_t floor = stats_of(cache).sheaf_capacity;
		void *obj[2], **many = calloc(1000, sizeof(*many));

		expect(many);
		pin_to(0);
		obj[0] = must_alloc(cache);
		expect_cmp(sheet.calls, <=, floor);
		pcpool_free(cache, obj[0]);
		/* All there is shall be out when the other one comes. */
		bursts(cache, 200, WARM_UP);
		expect_eq(pcpool_cache_shrink(cache), 0);
		for (int j = 0; j < 1000; j++)
			many[j] = must_alloc(cache);
		if (allowed_cpus() > 1) {
			unsigned long long before = sheet.calls;

			pin_to(1);
			obj[1] = must_alloc(cache);
			expect_cmp(sheet.calls, <=, before + floor);
			pcpool_free(cache, obj[1]);
		}
		for (int j = 0; j < 1000; j++)
			pcpool_free(cache, many[j]);
		free(many);
		destroy_balanced(cache, &sheet);
	}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc > 1 && !strcmp(argv[1], "--option"))
		return main_option();
	tc = suite_case("adapt", 300);
	tcase_add_test(tc, test_as_good_as_the_best);
	tcase_add_test(tc, test_follows_change);
	tcase_add_test(tc, test_attribute_is_kept);
	tcase_add_test(tc, test_option_is_kept);
	tcase_add_test(tc, test_idle_is_at_the_floor);
	tcase_add_test(tc, test_first_batch_is_small);
	return suite_run(tc);
}

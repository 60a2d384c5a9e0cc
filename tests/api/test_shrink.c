/* SPDX-License-Identifier: MIT */
/*
 * Giving memory back: after everything was freed one shrink leaves no slab, no
 * built object and no region, whoever else shrinks or works meanwhile.
 */
#include <config.h>

#include <pthread.h>
#include <semaphore.h>

#include "../caches.h"
#include "../suite.h"

static void nothing_left(struct pcpool_cache *cache, struct sheet *sheet)
{
	struct pcpool_cache_stats stats = stats_of(cache);

	expect_eq(stats.slabs, 0);
	expect_eq(stats.partial, 0);
	expect_eq(stats.waiting, 0);
	expect_eq(stats.total_objects, 0);
	expect_eq(stats.objects, 0);
	expect_eq(stats.live, 0);
	expect_eq(stats.cached, 0);
	expect_eq(stats.built, 0);
	expect_eq(stats.alloc_slab, stats.free_slab);
	expect_eq(stats.ctor_ok, stats.dtor);
	if (sheet)
		sheet_balanced(sheet);
}

static void free_all_and_shrink(size_t size, unsigned int flags,
				unsigned int capacity, size_t n)
{
	struct sheet sheet = { .fill = size };
	struct pcpool_cache *cache =
		sheet_cache_of("s", size, &sheet, flags, capacity);
	void **objs = calloc(n, sizeof(*objs));

	expect(objs);
	expect_eq(pcpool_cache_shrink(cache), 0);
	nothing_left(cache, &sheet);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < n; i++) {
			if (i % 64 == 0)
				pin_to((unsigned int)(i / 64));
			objs[i] = must_alloc(cache);
		}
		/* A shrink while all are out keeps all. */
		expect_eq(pcpool_cache_shrink(cache), 0);
		expect_eq(stats_of(cache).live, n);
		expect_eq(stats_of(cache).cached, 0);
		for (size_t i = 0; i < n; i++) {
			size_t at = round == 1 ? n - 1 - i : i;

			if (i % 50 == 0)
				pin_to((unsigned int)(i / 50));
			sheet_pattern_check(objs[at], size);
			pcpool_free(cache, objs[at]);
		}
		expect_eq(pcpool_cache_shrink(cache), 0);
		nothing_left(cache, &sheet);
	}
	free(objs);
	destroy_balanced(cache, &sheet);
}

START_TEST(test_nothing_is_left)
{
	free_all_and_shrink(8, 0, 0, 20000);
	free_all_and_shrink(64, 0, 0, 5000);
	free_all_and_shrink(64, PCPOOL_CHECK, 0, 3000);
	free_all_and_shrink(64, PCPOOL_DTOR_ON_FREE, 0, 3000);
	free_all_and_shrink(64, 0, 1, 3000);
	free_all_and_shrink(3000, 0, 0, 1000);
	free_all_and_shrink(200000, 0, 2, 30);
	free_all_and_shrink(PCPOOL_SIZE_MAX, 0, 1, 5);
}
END_TEST

START_TEST(test_plain_memory_is_released)
{
	struct pcpool_cache *cache = pcpool_cache_create("plain", 256, NULL);
	static void *objs[20000];

	for (int round = 0; round < 3; round++) {
		expect_eq(pcpool_alloc_bulk(cache, 20000, objs), 0);
		expect_eq(pcpool_free_bulk(cache, 20000, objs), 0);
		expect_eq(pcpool_cache_shrink(cache), 0);
		nothing_left(cache, NULL);
	}
	must_destroy(cache);
}
END_TEST

/* One object of each slab stays out: no slab of it may go, all others do. */
START_TEST(test_keeps_what_is_out)
{
	struct sheet sheet = { .fill = 100 };
	struct pcpool_cache *cache = sheet_cache("keep", 100, &sheet);
	static void *objs[10000];
	struct pcpool_cache_stats stats;

	expect_eq(pcpool_alloc_bulk(cache, 10000, objs), 0);
	for (int i = 0; i < 10000; i++)
		if (i % 1000)
			pcpool_free(cache, objs[i]);
	expect_eq(pcpool_cache_shrink(cache), 0);
	stats = stats_of(cache);
	expect_eq(stats.live, 10);
	expect_eq(stats.cached, 0);
	expect_cmp(stats.slabs, <=, 10);
	expect(stats.slabs > 0);
	for (int i = 0; i < 10000; i += 1000) {
		sheet_pattern_check(objs[i], 100);
		pcpool_free(cache, objs[i]);
	}
	expect_eq(pcpool_cache_shrink(cache), 0);
	nothing_left(cache, &sheet);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* Regions that objects hold go with them. */
static int region_ctor(void *obj, void *arg)
{
	void **regions = obj;

	(void)arg;
	return pcpool_percpu_alloc_bulk(2, 64, 0, regions);
}

static void region_dtor(void *obj, void *arg)
{
	(void)arg;
	expect_eq(pcpool_percpu_free_bulk(2, obj), 0);
}

START_TEST(test_no_region_is_left)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	const uint64_t before = percpu_stats_of().regions;
	struct pcpool_cache *cache;
	void *objs[1000];

	attr.ctor = region_ctor;
	attr.dtor = region_dtor;
	cache = pcpool_cache_create("regions", 200, &attr);
	for (int round = 0; round < 3; round++) {
		expect_eq(pcpool_alloc_bulk(cache, 1000, objs), 0);
		expect(percpu_stats_of().regions >= before + 2000);
		expect_eq(percpu_stats_of().regions - before,
			  2 * stats_of(cache).built);
		expect_eq(pcpool_free_bulk(cache, 1000, objs), 0);
		expect_eq(pcpool_cache_shrink(cache), 0);
		nothing_left(cache, NULL);
		expect_eq(percpu_stats_of().regions, before);
	}
	/* Empty chunks went too, but for one that is kept. */
	expect_cmp(percpu_stats_of().chunks, <=, 1 + (before > 0));
	must_destroy(cache);
}
END_TEST

/* --- a constructor that blocks while another CPU shrinks ------------------ */

struct gate {
	sem_t reached, go;
	atomic_int countdown; /* the call that blocks */
	struct sheet sheet;
	struct pcpool_cache *cache;
	void *got;
};

static int gate_ctor(void *obj, void *arg)
{
	struct gate *gate = arg;

	if (atomic_fetch_sub(&gate->countdown, 1) == 1) {
		sem_post(&gate->reached);
		while (sem_wait(&gate->go))
			expect_eq(errno, EINTR);
	}
	return sheet_ctor(obj, &gate->sheet);
}

static void gate_dtor(void *obj, void *arg)
{
	struct gate *gate = arg;

	sheet_dtor(obj, &gate->sheet);
}

static void *blocked_alloc(void *arg)
{
	struct gate *gate = arg;

	pin_to(0);
	gate->got = must_alloc(gate->cache);
	return NULL;
}

static void shrink_beside_blocked(int countdown)
{
	struct gate gate = { .countdown = countdown, .sheet = { .fill = 64 } };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache_stats stats;
	void *objs[100];
	pthread_t thread;
	bool blocked;

	sem_init(&gate.reached, 0, 0);
	sem_init(&gate.go, 0, 0);
	attr.ctor = gate_ctor;
	attr.dtor = gate_dtor;
	attr.arg = &gate;
	gate.cache = pcpool_cache_create("gate", 64, &attr);
	expect(!pthread_create(&thread, NULL, blocked_alloc, &gate));
	/* A batch may be smaller than the countdown. */
	if (countdown == 1) {
		while (sem_wait(&gate.reached))
			;
		blocked = true;
	} else {
		struct timespec ts;

		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_sec += 1;
		blocked = !sem_timedwait(&gate.reached, &ts);
	}
	pin_to(1);
	/* Others go on beside it. */
	if (blocked) {
		expect_eq(pcpool_alloc_bulk(gate.cache, 100, objs), 0);
		expect_eq(pcpool_free_bulk(gate.cache, 100, objs), 0);
	}
	expect_eq(pcpool_cache_shrink(gate.cache), 0);
	stats = stats_of(gate.cache);
	if (blocked)
		expect_eq(stats.cached, 0);
	sem_post(&gate.go);
	expect(!pthread_join(thread, NULL));
	sheet_pattern_check(gate.got, 64);
	pcpool_free(gate.cache, gate.got);
	expect_eq(pcpool_cache_shrink(gate.cache), 0);
	nothing_left(gate.cache, &gate.sheet);
	destroy_balanced(gate.cache, &gate.sheet);
}

START_TEST(case_SHF_04_shrink_beside_a_blocked_refill)
{
	for (int countdown = 1; countdown <= 4; countdown++)
		shrink_beside_blocked(countdown);
}
END_TEST

/* --- many shrinks at once --------------------------------------------------
 */

struct churn {
	struct pcpool_cache *cache;
	atomic_uint working;
};

enum { WORKERS = 4, SHRINKERS = 3 };

static void churn(const struct worker *w)
{
	struct churn *c = w->arg;
	void *objs[128];
	struct rng rng;

	if (w->id >= WORKERS) {
		while (atomic_load(&c->working))
			expect_eq(pcpool_cache_shrink(c->cache), 0);
		return;
	}
	rng_seed(&rng, 5 + w->id);
	for (int i = 0; i < 1500; i++) {
		uint32_t n = 1 + rng_below(&rng, 128);

		for (uint32_t j = 0; j < n; j++) {
			objs[j] = must_alloc(c->cache);
			owner_take(objs[j], w->id + 1);
		}
		for (uint32_t j = 0; j < n; j++) {
			owner_leave(objs[j], w->id + 1);
			pcpool_free(c->cache, objs[j]);
		}
	}
	atomic_fetch_sub(&c->working, 1);
}

START_TEST(case_SHF_04_shrinks_at_once)
{
	static const unsigned int flags[] = { 0, PCPOOL_DTOR_ON_FREE,
					      PCPOOL_CHECK };

	for (int i = 0; i < 3; i++) {
		struct sheet sheet = { .clear = 8 };
		struct churn c = { .working = WORKERS };

		c.cache = sheet_cache_of("churn", 72, &sheet, flags[i], 0);
		run_threads(WORKERS + SHRINKERS, churn, &c);
		expect_eq(pcpool_cache_shrink(c.cache), 0);
		nothing_left(c.cache, &sheet);
		destroy_balanced(c.cache, &sheet);
	}
}
END_TEST

/* Freeing never destructs, however much is freed. */
START_TEST(test_free_runs_no_destructor)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = sheet_cache("quiet", 512, &sheet);
	static void *objs[20000];

	expect_eq(pcpool_alloc_bulk(cache, 20000, objs), 0);
	atomic_store(&sheet.no_dtor, true);
	for (int i = 0; i < 10000; i++)
		pcpool_free(cache, objs[i]);
	expect_eq(pcpool_free_bulk(cache, 10000, objs + 10000), 0);
	/* What waits is taken before the cache grows. */
	{
		unsigned long long made = stats_of(cache).alloc_slab;

		expect_eq(pcpool_alloc_bulk(cache, 20000, objs), 0);
		expect_eq(stats_of(cache).alloc_slab, made);
		expect_eq(pcpool_free_bulk(cache, 20000, objs), 0);
	}
	atomic_store(&sheet.no_dtor, false);
	expect_eq(pcpool_cache_shrink(cache), 0);
	nothing_left(cache, &sheet);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* With the flag, and without a dtor, most of it goes with the frees. */
START_TEST(test_excess_slabs_go)
{
	static void *objs[20000];

	for (int dtor = 0; dtor < 2; dtor++) {
		struct sheet sheet = { 0 };
		struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
		struct pcpool_cache *cache;
		uint64_t peak;

		/* So small that stocks do not hold most of it. */
		attr.sheaf_capacity = 8;
		cache = dtor ? sheet_cache_of("on-free", 512, &sheet,
					      PCPOOL_DTOR_ON_FREE, 8)
			     : pcpool_cache_create("plain", 512, &attr);
		expect_eq(pcpool_alloc_bulk(cache, 20000, objs), 0);
		peak = stats_of(cache).slabs;
		for (int i = 0; i < 20000; i++)
			pcpool_free(cache, objs[i]);
		expect_cmp(stats_of(cache).slabs, <, peak / 2);
		expect_eq(stats_of(cache).waiting, 0);
		must_destroy(cache);
		if (dtor)
			sheet_balanced(&sheet);
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("shrink", 120);

	tcase_add_test(tc, test_nothing_is_left);
	tcase_add_test(tc, test_plain_memory_is_released);
	tcase_add_test(tc, test_keeps_what_is_out);
	tcase_add_test(tc, test_no_region_is_left);
	tcase_add_test(tc, case_SHF_04_shrink_beside_a_blocked_refill);
	tcase_add_test(tc, case_SHF_04_shrinks_at_once);
	tcase_add_test(tc, test_free_runs_no_destructor);
	tcase_add_test(tc, test_excess_slabs_go);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees: what a reader may have seen is not handed out before it has
 * left, and then it is; what is refused; that the books know what waits.
 * test_rcu_life.c has ends and forks, test_typesafe.c the caches that are typesafe.
 */
#include <config.h>

#include <unistd.h>

#include "../caches.h"
#include "../rcu.h"
#include "../suite.h"

enum { CAPACITY = 8, N = 5 * CAPACITY };

static struct sheet sheet;
static struct pcpool_cache *cache;

static void make(const struct rcu_flavor_struct *flavor, unsigned int flags,
		 size_t backlog)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	sheet = (struct sheet){ .clear = 8 };
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.flags = flags;
	attr.sheaf_capacity = CAPACITY;
	attr.rcu = flavor;
	attr.rcu_backlog = backlog;
	cache = pcpool_cache_create("rcu", 64, &attr);
	expect(cache);
}

static void setup(void)
{
	pin_to(0);
	make(NULL, 0, 0);
}

static void teardown(void)
{
	destroy_balanced(cache, &sheet);
}

static void remake(const struct rcu_flavor_struct *flavor, unsigned int flags,
		   size_t backlog)
{
	teardown();
	make(flavor, flags, backlog);
}

/* Exact where nothing is on its way back. */
static struct pcpool_cache_stats books(uint64_t live, uint64_t backlog)
{
	struct pcpool_cache_stats stats = stats_of(cache);

	expect_eq(stats.live, live);
	expect_eq(stats.rcu_backlog, backlog);
	expect_eq(pcpool_rcu_backlog(cache), backlog);
	expect_eq(stats.live + stats.cached + stats.rcu_backlog, stats.objects);
	expect_eq(stats.built, sheet_built(&sheet));
	expect_cmp(stats.built, >=, stats.objects);
	expect_cmp(stats.rcu_backlog_peak, <=,
		   stats.free_rcu_sheaf + stats.free_rcu_sheaf_fail);
	return stats;
}

static void take(uint32_t n, void **objs)
{
	for (uint32_t i = 0; i < n; i++) {
		objs[i] = must_alloc(cache);
		owner_take(objs[i], i + 1);
	}
}

static void defer(uint32_t n, void **objs)
{
	for (uint32_t i = 0; i < n; i++) {
		owner_leave(objs[i], i + 1);
		pcpool_free_rcu(cache, objs[i]);
	}
}

static bool among(const void *obj, uint32_t n, void *const *objs)
{
	for (uint32_t i = 0; i < n; i++)
		if (objs[i] == obj)
			return true;
	return false;
}

static void none_handed_out(uint32_t n, void *const *objs)
{
	static void *all[300];

	for (size_t i = 0; i < 300; i++) {
		all[i] = must_alloc(cache);
		expect(!among(all[i], n, objs));
	}
	for (size_t i = 0; i < 300; i++)
		pcpool_free(cache, all[i]);
}

/* With nothing new to be built, every one of these is found. */
static void all_handed_out(uint32_t n, void *const *objs)
{
	static void *all[2000];
	uint32_t found = 0, got = 0;

	atomic_store(&sheet.fail_from, 1);
	while (got < 2000 && (all[got] = pcpool_alloc(cache)))
		found += among(all[got++], n, objs);
	expect_errno(EXDEV);
	atomic_store(&sheet.fail_from, 0);
	expect_eq(found, n);
	expect_eq(pcpool_free_bulk(cache, got, all), 0);
}

/* --- the contract ----------------------------------------------------------- */

/* _i: the flavour, and whether the cache checks. */
START_TEST(test_no_reuse)
{
	const struct rcu_flavor_struct *flavor = flavors[_i / 2];
	struct reader reader = { 0 };
	void *objs[N];

	remake(flavor, _i % 2 ? PCPOOL_CHECK : 0, 0);
	for (int round = 0; round < 3; round++) {
		take(N, objs);
		reader_start(&reader, flavor);
		defer(N, objs);
		books(0, N);
		/* Time enough for a grace period, if there were one. */
		expect_eq(pcpool_rcu_wait(cache, 1, 30), ETIMEDOUT);
		none_handed_out(N, objs);
		books(0, N);
		/* Nor by a shrink, which hands over, and does not wait. */
		expect_eq(pcpool_cache_shrink(cache), 0);
		none_handed_out(N, objs);
		books(0, N);
		for (uint32_t i = 0; i < N; i++)
			expect_eq(*(uint64_t *)objs[i], 0);
		reader_end(&reader);
		expect_eq(pcpool_rcu_barrier(cache), 0);
		books(0, 0);
		all_handed_out(N, objs);
	}
	/* A reader of another flavour holds nothing up. */
	take(N, objs);
	reader_start(&reader, flavors[(_i / 2 + 1) % FLAVORS]);
	defer(N, objs);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	books(0, 0);
	reader_end(&reader);
}
END_TEST

/* Without a barrier they come back as well, but for a part-filled sheaf. */
START_TEST(test_comes_back)
{
	void *objs[N + 1];

	take(N + 1, objs);
	defer(N + 1, objs);
	while (pcpool_rcu_backlog(cache) > (rseq_mode() ? 1 : CAPACITY))
		expect_eq(pcpool_rcu_wait(cache, 1, -1), 0);
	expect_cmp(stats_of(cache).rcu_backlog_peak, >=, CAPACITY);
}
END_TEST

static void defer_three(const struct worker *w)
{
	void *objs[3];

	for (int i = 0; i < 3; i++)
		objs[i] = must_alloc(cache);
	for (int i = 0; i < 3; i++)
		pcpool_free_rcu(cache, objs[i]);
	(void)w;
}

/* A barrier reaches what lies in part-filled sheaves of CPUs that do nothing. */
START_TEST(test_other_cpus)
{
	for (int round = 0; round < 20; round++) {
		run_threads(5, defer_three, NULL);
		expect_cmp(stats_of(cache).rcu_backlog, <=, 15);
		expect_eq(pcpool_rcu_barrier(cache), 0);
		books(0, 0);
	}
}
END_TEST

START_TEST(test_counters)
{
	struct pcpool_cache_stats stats;
	void *objs[N];

	take(N, objs);
	defer(N, objs);
	stats = stats_of(cache);
	expect_eq(stats.free_rcu_sheaf + stats.free_rcu_sheaf_fail, N);
	expect_eq(stats.free_fastpath + stats.free_slowpath, N);
	if (rseq_mode())
		expect_eq(stats.free_rcu_sheaf_fail, 0);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	stats = books(0, 0);
	expect_eq(stats.free_rcu_sheaf + stats.free_rcu_sheaf_fail, N);
	expect_cmp(stats.rcu_backlog_peak, >, 0);
	/* Of a checking cache each goes singly. */
	remake(NULL, PCPOOL_CHECK, 0);
	take(N, objs);
	defer(N, objs);
	stats = stats_of(cache);
	expect_eq(stats.free_rcu_sheaf_fail, N);
	expect_eq(stats.free_rcu_sheaf, 0);
}
END_TEST

/* --- waiting ---------------------------------------------------------------- */

START_TEST(test_wait)
{
	struct reader reader = { 0 };
	void *objs[N];

	remake(NULL, 0, 2 * CAPACITY);
	expect_eq(pcpool_rcu_wait(cache, 0, 0), 0);
	expect_eq(pcpool_rcu_wait(cache, 1, -1), 0);
	take(N, objs);
	reader_start(&reader, &urcu_memb_flavor);
	defer(N, objs);
	errno = ENOTTY;
	expect_eq(pcpool_rcu_wait(cache, 1, 0), ETIMEDOUT);
	expect_eq(pcpool_rcu_wait(cache, 0, 0), ETIMEDOUT);
	expect_eq(pcpool_rcu_wait(cache, 0, 3), ETIMEDOUT);
	expect_eq(pcpool_rcu_wait(cache, N, 0), 0);
	expect_eq(pcpool_rcu_wait(cache, SIZE_MAX, -1), 0);
	expect_errno(ENOTTY);
	/* Over the bound: hurried. */
	expect_cmp(stats_of(cache).rcu_hurry, >, 0);
	expect_eq(pcpool_rcu_backlog(cache), N);
	reader_end(&reader);
	expect_eq(pcpool_rcu_wait(cache, 0, -1), 0);
	expect_eq(pcpool_rcu_wait(cache, 1, 10000), 0);
}
END_TEST

static void flood(const struct worker *w)
{
	size_t most = *(size_t *)w->arg;

	for (unsigned long i = scaled(4000); i; i--) {
		pcpool_free_rcu(cache, must_alloc(cache));
		expect_eq(pcpool_rcu_wait(cache, 0, -1), 0);
		/* No more than each thread's last sheaf above it, and what is
		 * in CPUs' sheaves. */
		if (i % 64 == 0)
			expect_cmp(pcpool_rcu_backlog(cache), <=,
				   most + (w->n + 64) * CAPACITY);
	}
}

/* Who waits after each free cannot flood the memory. */
START_TEST(test_hold_back)
{
	size_t most = 4 * CAPACITY;

	remake(NULL, 0, most);
	run_threads(4, flood, &most);
	expect_cmp(stats_of(cache).rcu_backlog_peak, <=, most + 4 * CAPACITY);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	books(0, 0);
}
END_TEST

/* --- refused, and nothing --------------------------------------------------- */

START_TEST(test_arguments)
{
	void *obj = must_alloc(cache);

	errno = ENOTTY;
	pcpool_free_rcu(cache, NULL);
	pcpool_free_rcu(NULL, NULL);
	expect_eq(pcpool_rcu_barrier(NULL), EINVAL);
	expect_eq(pcpool_rcu_wait(NULL, 0, -1), EINVAL);
	expect_eq(pcpool_rcu_wait(cache, 0, -2), EINVAL);
	expect_eq(pcpool_rcu_wait(cache, 0, INT32_MIN), EINVAL);
	expect_eq(pcpool_rcu_backlog(NULL), 0);
	expect_eq(pcpool_rcu_backlog(cache), 0);
	pcpool_free_rcu(cache, obj);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	expect_errno(ENOTTY);
	books(0, 0);
}
END_TEST

/* Inside a reader: freeing is right, waiting is refused, and all goes on as if
 * it had not been tried. QSBR has no such inside. */
START_TEST(test_inside_reader)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];
	int err = is_qsbr(flavor) ? 0 : EDEADLK;
	void *objs[N];

	remake(flavor, 0, 2);
	flavor->register_thread();
	for (int round = 0; round < 3; round++) {
		take(N, objs);
		flavor->read_lock();
		defer(N, objs);
		errno = ENOTTY;
		expect_eq(pcpool_rcu_barrier(cache), err);
		expect_eq(pcpool_rcu_wait(cache, 1, -1), err);
		if (err) {
			expect_eq(pcpool_cache_destroy(cache), err);
			expect_eq(pcpool_rcu_backlog(cache), N);
			none_handed_out(N, objs);
			expect_eq(pcpool_cache_shrink(cache), 0);
			expect_eq(pcpool_rcu_backlog(cache), N);
		}
		expect_errno(ENOTTY);
		flavor->read_unlock();
		expect_eq(pcpool_rcu_barrier(cache), 0);
		books(0, 0);
		all_handed_out(N, objs);
	}
	teardown();
	/* Where nothing was ever deferred, nothing is waited for. */
	make(flavor, 0, 0);
	pcpool_free(cache, must_alloc(cache));
	flavor->read_lock();
	teardown();
	flavor->read_unlock();
	flavor->unregister_thread();
	make(NULL, 0, 0);
}
END_TEST

static void to_no_cache(void *obj)
{
	pcpool_free_rcu(NULL, obj);
}

START_TEST(test_to_no_cache)
{
	static struct child child;
	void *obj = must_alloc(cache);

	run_child(to_no_cache, obj, 20, &child);
	expect_child_abort(&child, "no cache", NULL);
	pcpool_free_rcu(cache, obj);
}
END_TEST

/* --- content ---------------------------------------------------------------- */

/* Written by readers and their late writers until the grace period, and not
 * after: of a checking cache that is seen. */
static void write_late(void *arg)
{
	const struct rcu_flavor_struct *flavor = flavors[0];
	uint64_t *obj = arg;

	/* Inside a reader the grace period cannot be faster than this. */
	flavor->register_thread();
	flavor->read_lock();
	pcpool_free_rcu(cache, obj);
	obj[1] = 4711;
	flavor->read_unlock();
	flavor->unregister_thread();
	expect_eq(pcpool_rcu_barrier(cache), 0);
	none_handed_out(0, NULL);
	pcpool_free(cache, must_alloc(cache));
	fprintf(stderr, "so far so good\n");
	obj[1] = 4712;
	for (int i = 0; i < 1000; i++)
		must_alloc(cache);
}

START_TEST(test_write_after)
{
	static struct child child;
	void *obj;

	remake(NULL, PCPOOL_CHECK, 0);
	obj = must_alloc(cache);
	run_child(write_late, obj, 20, &child);
	expect_child_abort(&child, "so far so good", "written to after", NULL);
	pcpool_free_rcu(cache, obj);
}
END_TEST

/* An object of any size holds what its constructor put there. */
static void keep_content(size_t size, size_t align, unsigned int flags)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct sheet mine = { .fill = size };
	struct pcpool_cache *small;
	void *objs[50];

	attr.align = align;
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &mine;
	attr.flags = flags;
	attr.sheaf_capacity = 1 + (unsigned int)(size % 20);
	small = pcpool_cache_create("small", size, &attr);
	expect(small);
	for (int round = 0; round < 3; round++) {
		expect_eq(pcpool_alloc_bulk(small, 50, objs), 0);
		for (int i = 0; i < 50; i++) {
			sheet_pattern_check(objs[i], size);
			expect_eq((uintptr_t)objs[i] % align, 0);
		}
		for (int i = 0; i < 50; i++)
			pcpool_free_rcu(small, objs[i]);
		if (round % 2)
			expect_eq(pcpool_cache_shrink(small), 0);
		expect_eq(pcpool_rcu_barrier(small), 0);
	}
	destroy_balanced(small, &mine);
}

START_TEST(case_SHF_08_deferred)
{
	static const unsigned int flags[] = { 0, PCPOOL_CHECK,
					      PCPOOL_TYPESAFE_BY_RCU };

	for (size_t size = 1; size <= 40; size++)
		for (size_t align = 1; align <= 16; align *= 2)
			if (size % 3 == 0 || size < 10)
				keep_content(size, align, flags[_i]);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("rcu", 120);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, test_no_reuse, 0, 2 * FLAVORS);
	tcase_add_test(tc, test_comes_back);
	tcase_add_test(tc, test_other_cpus);
	tcase_add_test(tc, test_counters);
	tcase_add_test(tc, test_wait);
	tcase_add_test(tc, test_hold_back);
	tcase_add_test(tc, test_arguments);
	tcase_add_loop_test(tc, test_inside_reader, 0, FLAVORS);
	tcase_add_test(tc, test_to_no_cache);
	tcase_add_test(tc, test_write_after);
	tcase_add_loop_test(tc, case_SHF_08_deferred, 0, 3);
	return suite_run(tc);
}

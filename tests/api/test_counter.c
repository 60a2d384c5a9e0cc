/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU counters as users see them, from one thread: sums over all CPUs,
 * comparing, limits, setting; counters in arrays, in cached objects, on regions
 * of the caller's, and in a forked child.
 */
#include <config.h>

#include <pcpool/cache.h>
#include <pcpool/counter.h>
#include <pcpool/stats.h>

#include "../common.h"
#include "../suite.h"

static struct pcpool_counter counter;

static void must_init(struct pcpool_counter *c, int64_t initial)
{
	int err = pcpool_counter_init(c, initial);

	if (err)
		fail_now("counter: %s", strerror(err));
}

static bool all_zero(const struct pcpool_counter *c)
{
	static const struct pcpool_counter zero;

	return !memcmp(c, &zero, sizeof(zero));
}

static unsigned long long regions(void)
{
	struct pcpool_percpu_stats stats = { .stats_size = sizeof(stats) };

	expect_eq(pcpool_percpu_get_stats(&stats), 0);
	return stats.regions;
}

/* --- one thread ------------------------------------------------------------ */

START_TEST(test_basics)
{
	must_init(&counter, -5);
	expect_eq(pcpool_counter_read(&counter), -5);
	expect_eq(pcpool_counter_read_positive(&counter), 0);
	expect_eq(pcpool_counter_sum(&counter), -5);
	pcpool_counter_add(&counter, 40);
	pcpool_counter_sub(&counter, 10);
	pcpool_counter_inc(&counter);
	pcpool_counter_dec(&counter);
	pcpool_counter_dec(&counter);
	expect_eq(pcpool_counter_sum(&counter), 24);
	pcpool_counter_add(&counter, 1000000);
	expect_cmp(pcpool_counter_read_positive(&counter), >, 900000);
	expect_eq(pcpool_counter_sum(&counter), 1000024);
	pcpool_counter_add_batch(&counter, 7, 1);
	pcpool_counter_add_batch(&counter, 7, 1 << 30);
	expect_eq(pcpool_counter_sum(&counter), 1000038);
	/* The number that has no negative. */
	pcpool_counter_set(&counter, 0);
	pcpool_counter_sub(&counter, INT64_MIN);
	expect_eq(pcpool_counter_sum(&counter), INT64_MIN);
	pcpool_counter_destroy(&counter);
	expect(all_zero(&counter));
	/* Again, and of what never was one. */
	pcpool_counter_destroy(&counter);
	pcpool_counter_destroy(NULL);
	pcpool_counter_destroy_many(NULL, 0);
	expect_eq(regions(), 0);
}
END_TEST

START_TEST(test_arguments)
{
	uint64_t *region = pcpool_percpu_alloc(16, 8);

	expect(region);
	errno = 4711;
	expect_eq(pcpool_counter_init(NULL, 0), EINVAL);
	expect_eq(pcpool_counter_init_many(NULL, 1, 0), EINVAL);
	expect_eq(pcpool_counter_init_many(NULL, 0, 0), 0);
	expect_eq(pcpool_counter_init_many(&counter, 0, 0), 0);
	expect_eq(pcpool_counter_init_many(&counter, SIZE_MAX, 0), ENOMEM);
	expect_eq(pcpool_counter_init_many(&counter, SIZE_MAX / 16, 0), ENOMEM);
	expect_eq(pcpool_counter_init_at(NULL, region, 0), EINVAL);
	expect_eq(pcpool_counter_init_at(&counter, NULL, 0), EINVAL);
	expect_eq(pcpool_counter_init_at(&counter, (char *)region + 4, 0),
		  EINVAL);
	expect(all_zero(&counter));
	expect_errno(4711);
	pcpool_percpu_free(region);
}
END_TEST

START_TEST(test_set)
{
	static const int64_t values[] = { 0, 1, -1, 123456789, INT64_MAX,
					  INT64_MIN, 0 };

	must_init(&counter, 3);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		for (unsigned int cpu = 0; cpu < allowed_cpus(); cpu++) {
			pin_to(cpu);
			pcpool_counter_add(&counter, 100 + cpu);
		}
		pcpool_counter_set(&counter, values[i]);
		expect_eq(pcpool_counter_sum(&counter), values[i]);
		expect_eq(pcpool_counter_compare(&counter, values[i], 0), 0);
	}
	pcpool_counter_add(&counter, -7);
	expect_eq(pcpool_counter_sum(&counter), -7);
	unpin();
	pcpool_counter_destroy(&counter);
}
END_TEST

START_TEST(test_compare)
{
	static const int64_t counts[] = { 0, 5, -5, 1000000, -1000000,
					  INT64_MAX, INT64_MIN, INT64_MAX - 3 };
	static const int64_t off[] = { 0, 1, 100, 5000, 1000000, INT64_MAX };

	must_init(&counter, 0);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		int64_t count = counts[i];

		pcpool_counter_set(&counter, count);
		/* Some of it in a part. */
		pcpool_counter_add(&counter, 900);
		pcpool_counter_add_batch(&counter, -900, 1);
		for (size_t k = 0; k < sizeof(off) / sizeof(off[0]); k++) {
			int64_t up, down;
			int64_t batch = (int64_t)k * 300;

			if (!__builtin_add_overflow(count, off[k], &up))
				expect_eq(pcpool_counter_compare(&counter, up,
								 batch),
					  off[k] ? -1 : 0);
			if (!__builtin_sub_overflow(count, off[k], &down))
				expect_eq(pcpool_counter_compare(&counter,
								 down, batch),
					  off[k] ? 1 : 0);
		}
	}
	pcpool_counter_destroy(&counter);
}
END_TEST

START_TEST(test_limits)
{
	must_init(&counter, 10);
	expect(pcpool_counter_limited_add(&counter, 0, 0));
	expect(!pcpool_counter_limited_add(&counter, 12, 3));
	expect(pcpool_counter_limited_add(&counter, 13, 3));
	expect(!pcpool_counter_limited_add(&counter, 13, 1));
	expect(!pcpool_counter_limited_add(&counter, 5, 1));
	expect(!pcpool_counter_limited_add(&counter, 5, -9));
	expect(pcpool_counter_limited_add(&counter, 5, -8));
	expect(!pcpool_counter_limited_add(&counter, 5, -1));
	/* Already below: further down is refused, up is another matter. */
	expect(!pcpool_counter_limited_add(&counter, 6, -1));
	expect(pcpool_counter_limited_add(&counter, 6, 1));
	expect_eq(pcpool_counter_sum(&counter), 6);
	/* Far off in both directions. */
	expect(pcpool_counter_limited_add(&counter, INT64_MAX, 1 << 20));
	expect(!pcpool_counter_limited_add(&counter, -100000, 1));
	expect(pcpool_counter_limited_add(&counter, INT64_MIN, -(1 << 20)));
	expect(!pcpool_counter_limited_add(&counter, 1 << 20, -1));
	expect_eq(pcpool_counter_sum(&counter), 6);
	/* At the end of numbers nothing wraps. */
	expect(pcpool_counter_limited_add(&counter, INT64_MAX, INT64_MAX - 6));
	expect(!pcpool_counter_limited_add(&counter, INT64_MAX, 1));
	expect(!pcpool_counter_limited_add(&counter, INT64_MAX, INT64_MAX));
	expect(pcpool_counter_limited_add(&counter, INT64_MIN, INT64_MIN));
	expect_eq(pcpool_counter_sum(&counter), -1);
	expect(!pcpool_counter_limited_add(&counter, INT64_MIN, INT64_MIN));
	expect(pcpool_counter_limited_add(&counter, INT64_MIN, -INT64_MAX));
	expect(!pcpool_counter_limited_add(&counter, INT64_MIN, -1));
	expect_eq(pcpool_counter_sum(&counter), INT64_MIN);
	pcpool_counter_destroy(&counter);
}
END_TEST

START_TEST(test_many)
{
	enum { N = 20000 };
	static struct pcpool_counter many[N];
	unsigned long long before;

	pcpool_counter_destroy(&counter);
	must_init(&counter, 0);
	before = regions();
	expect_eq(pcpool_counter_init_many(many, N, 100), 0);
	expect_eq(regions(), before + 3);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < N; i++) {
			pin_to((unsigned int)round);
			pcpool_counter_add(&many[i], i);
		}
	for (int i = 0; i < N; i++)
		expect_eq(pcpool_counter_sum(&many[i]), 100 + 3 * i);
	unpin();
	pcpool_counter_destroy_many(many, N);
	for (int i = 0; i < N; i++)
		expect(all_zero(&many[i]));
	pcpool_counter_destroy_many(many, N);
	expect_eq(regions(), before);
	pcpool_counter_destroy(&counter);
}
END_TEST

/* --- inside cached objects --------------------------------------------------
 */

struct account {
	struct pcpool_counter pages; /* on a region of its own */
	struct pcpool_counter bytes; /* on a field of stat */
	struct {
		uint64_t other;
		int64_t bytes;
	} PCPOOL_PERCPU *stat;
};

static int account_ctor(void *obj, void *arg)
{
	struct account *a = obj;
	int err = pcpool_counter_init(&a->pages, 0);

	(void)arg;
	if (err)
		return err;
	a->stat = pcpool_percpu_alloc(sizeof(*a->stat), 0);
	if (!a->stat) {
		pcpool_counter_destroy(&a->pages);
		return ENOMEM;
	}
	return pcpool_counter_init_at(&a->bytes, &a->stat->bytes, 0);
}

static void account_dtor(void *obj, void *arg)
{
	struct account *a = obj;

	(void)arg;
	pcpool_counter_destroy(&a->bytes);
	pcpool_percpu_free(a->stat);
	pcpool_counter_destroy(&a->pages);
}

START_TEST(test_embedded)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	struct account *a[100];

	attr.ctor = account_ctor;
	attr.dtor = account_dtor;
	cache = pcpool_cache_create("account", sizeof(struct account), &attr);
	expect(cache);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 100; i++) {
			expect(a[i] = pcpool_alloc(cache));
			expect_eq((uintptr_t)&a[i]->bytes % 8, 0);
			expect_eq(pcpool_counter_sum(&a[i]->pages), 0);
			expect_eq(pcpool_counter_sum(&a[i]->bytes), 0);
			pin_to((unsigned int)i);
			pcpool_counter_add(&a[i]->pages, i);
			pcpool_counter_add(&a[i]->bytes, 4096 * i);
			pcpool_this_cpu_add(&a[i]->stat->other, 1);
		}
		for (int i = 0; i < 100; i++) {
			pin_to((unsigned int)i + 1);
			pcpool_counter_sub(&a[i]->pages, 1);
			expect_eq(pcpool_counter_sum(&a[i]->pages), i - 1);
			expect_eq(pcpool_counter_sum(&a[i]->bytes), 4096 * i);
			/* What the next user relies on. */
			pcpool_counter_set(&a[i]->pages, 0);
			pcpool_counter_set(&a[i]->bytes, 0);
			pcpool_free(cache, a[i]);
		}
	}
	unpin();
	expect_eq(pcpool_cache_destroy(cache), 0);
	expect_eq(regions(), 0);
}
END_TEST

/* --- CPUs ------------------------------------------------------------------ */

/* Amounts on two CPUs, below and beyond a batch; then only one is allowed. */
START_TEST(case_CNT_01_affinity)
{
	const int64_t batch = _i ? 32 : PCPOOL_COUNTER_BATCH;

	must_init(&counter, 0);
	pin_to(1);
	pcpool_counter_add_batch(&counter, 1000, batch);
	pin_to(0);
	pcpool_counter_add_batch(&counter, -400, batch);
	expect_eq(pcpool_counter_sum(&counter), 600);
	pin_to(0);
	for (int i = 0; i < 1000; i++)
		expect_eq(pcpool_counter_sum(&counter), 600);
	expect_eq(pcpool_counter_compare(&counter, 600, batch), 0);
	unpin();
	pcpool_counter_destroy(&counter);
}
END_TEST

static void add_on_all_cpus(void)
{
	must_init(&counter, 0);
	for (unsigned int i = 0; i < 10; i++) {
		pin_to(i);
		pcpool_counter_add(&counter, i % 2 ? 1000 : -400);
	}
	expect_eq(pcpool_counter_sum(&counter), 5 * 600);
	pcpool_counter_destroy(&counter);
}

/* A process that may use one CPU only, which need not be the first. */
START_TEST(case_CNT_01_one_cpu)
{
	static const char *const args[] = { "affinity", NULL };
	static struct child child;

	pin_to(allowed_cpus() - 1);
	run_self(args, NULL, 60, &child);
	expect_child_exit(&child, 0);
	unpin();
}
END_TEST

/* --- fork ------------------------------------------------------------------ */

static void forked(void *arg)
{
	const int64_t *before = arg;

	expect_eq(pcpool_counter_sum(&counter), *before);
	for (unsigned int i = 0; i < 4000; i++) {
		pin_to(i / 1000);
		pcpool_counter_inc(&counter);
	}
	expect(pcpool_counter_limited_add(&counter, *before + 5000, 1000));
	expect(!pcpool_counter_limited_add(&counter, *before + 5000, 1));
	expect_eq(pcpool_counter_sum(&counter), *before + 5000);
	pcpool_counter_set(&counter, 1);
	pcpool_counter_destroy(&counter);
	must_init(&counter, 0);
	exit(3);
}

/* What a child adds stays in the child. */
START_TEST(case_PCP_02_fork)
{
	static struct child child;

	must_init(&counter, 100);
	for (int64_t i = 0; i < 20; i++) {
		int64_t before = 100 + i * 777;

		run_child(forked, &before, 20, &child);
		expect_child_exit(&child, 3);
		expect_eq(pcpool_counter_sum(&counter), before);
		pin_to((unsigned int)i);
		pcpool_counter_add(&counter, 777);
	}
	unpin();
	pcpool_counter_destroy(&counter);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc > 1 && !strcmp(argv[1], "affinity")) {
		add_on_all_cpus();
		return 0;
	}
	tc = suite_case("counter api", 200);
	tcase_add_test(tc, test_basics);
	tcase_add_test(tc, test_arguments);
	tcase_add_test(tc, test_set);
	tcase_add_test(tc, test_compare);
	tcase_add_test(tc, test_limits);
	tcase_add_test(tc, test_many);
	tcase_add_test(tc, test_embedded);
	tcase_add_loop_test(tc, case_CNT_01_affinity, 0, 2);
	tcase_add_test(tc, case_CNT_01_one_cpu);
	tcase_add_test(tc, case_PCP_02_fork);
	return suite_run(tc);
}

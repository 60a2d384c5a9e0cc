/* SPDX-License-Identifier: MIT */
/*
 * Constructors that fail: at every k-th call and from the k-th call on. Nothing
 * built is lost, the error is the constructor's own, the balance holds.
 */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

START_TEST(test_ctor_is_lazy)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = sheet_cache_of("lazy", 64, &sheet, 0, 8);
	struct pcpool_cache_stats stats;
	void *obj;

	expect_eq(sheet.calls, 0);
	obj = must_alloc(cache);
	/* The object and at most one batch ahead of it. */
	expect(sheet.ok >= 1);
	expect_cmp(sheet.ok, <=, 1 + 8);
	stats = stats_of(cache);
	expect_eq(stats.ctor_ok, sheet.ok);
	expect_eq(stats.built, sheet.ok);
	pcpool_free(cache, obj);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* The errno is exactly what the constructor said. */
START_TEST(test_errno_is_the_constructors)
{
	static const int errors[] = { EPERM,	  EAGAIN,    ENOMEM,
				      EINVAL,	  ESHUTDOWN, EDQUOT,
				      EOWNERDEAD, 4095,	     200000 };

	for (size_t i = 0; i < COUNT(errors); i++) {
		struct sheet sheet = { .fail_from = 1, .error = errors[i] };
		struct pcpool_cache *cache = sheet_cache("errno", 64, &sheet);
		struct pcpool_cache_stats stats;
		void *objs[3] = { &sheet, &sheet, &sheet };

		expect_refused(pcpool_alloc(cache), errors[i]);
		expect_refused(pcpool_alloc_node(cache, 0), errors[i]);
		expect_refused(pcpool_alloc_node(cache, -1), errors[i]);
		expect_eq(pcpool_alloc_bulk(cache, 3, objs), errors[i]);
		for (int j = 0; j < 3; j++)
			expect(!objs[j]);
		stats = stats_of(cache);
		expect_eq(stats.ctor_fail, sheet.failed);
		expect_eq(stats.ctor_ok, 0);
		expect_eq(stats.mem_fail, 0);
		expect_eq(stats.live + stats.cached, 0);
		expect(stats.alloc_fail >= 4);
		destroy_balanced(cache, &sheet);
	}
}
END_TEST

/* Take singly and by bulk what can be had; sizes of the cache must fit. */
struct take {
	struct pcpool_cache *cache;
	void *objs[4096];
	size_t n;
};

static void take_single(struct take *take, int error)
{
	void *obj;

	errno = 0;
	obj = pcpool_alloc(take->cache);
	if (obj)
		take->objs[take->n++] = obj;
	else
		expect_eq(errno, error);
}

static void take_bulk(struct take *take, size_t n, int error)
{
	void **objs = &take->objs[take->n];
	int err;

	for (size_t i = 0; i < n; i++)
		objs[i] = take;
	err = pcpool_alloc_bulk(take->cache, n, objs);
	for (size_t i = 0; i < n; i++)
		expect(err ? !objs[i] : objs[i] && objs[i] != take);
	if (err)
		expect_eq(err, error);
	else
		take->n += n;
}

static void give_all(struct take *take)
{
	size_t half = take->n / 2;

	expect_eq(pcpool_free_bulk(take->cache, half, take->objs), 0);
	for (size_t i = half; i < take->n; i++)
		pcpool_free(take->cache, take->objs[i]);
	take->n = 0;
}

static void check_at_rest(struct take *take, struct sheet *sheet)
{
	struct pcpool_cache_stats stats = stats_of(take->cache);

	expect_eq(stats.ctor_ok, sheet->ok);
	expect_eq(stats.ctor_fail, sheet->failed);
	expect_eq(stats.dtor, sheet->dtor);
	expect_eq(stats.built, sheet_built(sheet));
	expect_eq(stats.live, take->n);
	expect_eq(stats.objects, stats.live + stats.cached);
	expect(stats.built >= stats.objects);
	expect(stats.built <= stats.total_objects);
}

static void every_kth_fails(size_t size, unsigned int k, unsigned int capacity,
			    unsigned int flags)
{
	struct sheet sheet = { .fill = size, .fail_every = k };
	static struct take take;

	take.n = 0;
	take.cache = sheet_cache_of("kth", size, &sheet, flags, capacity);
	for (int round = 0; round < 12; round++) {
		for (int i = 0; i < 10; i++)
			take_single(&take, EXDEV);
		take_bulk(&take, 32, EXDEV);
		check_at_rest(&take, &sheet);
		for (size_t i = 0; i < take.n; i++)
			sheet_pattern_check(take.objs[i], size);
		while (round % 2 && take.n > 20)
			expect_eq(
				pcpool_discard(take.cache, take.objs[--take.n]),
				0);
		if (round % 3 == 2)
			give_all(&take);
		if (round % 4 == 3)
			expect_eq(pcpool_cache_shrink(take.cache), 0);
		check_at_rest(&take, &sheet);
	}
	if (k > 1)
		expect(sheet.ok > 0);
	if (k < 40)
		expect(sheet.failed > 0);
	give_all(&take);
	destroy_balanced(take.cache, &sheet);
}

START_TEST(test_every_kth_call_fails)
{
	static const unsigned int capacities[] = { 0, 1, 7, 64 };

	for (unsigned int k = 1; k <= 40; k++)
		for (size_t c = 0; c < COUNT(capacities); c++) {
			every_kth_fails(40, k, capacities[c], 0);
			every_kth_fails(40, k, capacities[c], PCPOOL_CHECK);
			every_kth_fails(3000, k, capacities[c],
					PCPOOL_DTOR_ON_FREE);
		}
}
END_TEST

/* From the k-th call on all fail; k - 1 objects exist and all must be had. */
static void fails_from(unsigned int k, unsigned int rounds)
{
	struct sheet sheet = { .clear = 8, .fail_from = k };
	static struct take take;
	unsigned long long slabs;

	take.n = 0;
	take.cache = sheet_cache("from", 64, &sheet);
	for (int i = 0; i < 100; i++)
		take_single(&take, EXDEV);
	/* Not one of the built ones may be withheld. */
	expect_eq(sheet.ok, k - 1);
	expect_eq(take.n, k - 1);
	slabs = stats_of(take.cache).slabs;
	for (unsigned int round = 0; round < rounds; round++) {
		take_single(&take, EXDEV);
		take_bulk(&take, 32, EXDEV);
		if (round % 16 == 7 && take.n)
			pcpool_free(take.cache, take.objs[--take.n]);
	}
	expect_cmp(stats_of(take.cache).slabs, <=, slabs + 1);
	/* Freed, they are all found again, in one call and in many. */
	give_all(&take);
	take_bulk(&take, k - 1, 0);
	expect_eq(take.n, k - 1);
	give_all(&take);
	atomic_store(&sheet.fail_from, 0);
	take_bulk(&take, 32, 0);
	expect_eq(take.n, 32);
	give_all(&take);
	destroy_balanced(take.cache, &sheet);
}

START_TEST(case_SHF_01_failing_from_the_kth_call)
{
	const unsigned int many = (unsigned int)scaled(10000);
	const unsigned int few = (unsigned int)scaled(300);

	for (unsigned int k = 1; k <= 40; k++)
		fails_from(k, k == 1 || k == 7 || k == 33 ? many : few);
}
END_TEST

/* The failed place is built later, the built neighbours are not built again. */
START_TEST(test_failed_place_is_tried_again)
{
	struct sheet sheet = { .fill = 2000, .fail_every = 3 };
	static struct take take;
	struct pcpool_cache_stats stats;
	size_t want;

	take.n = 0;
	take.cache = sheet_cache_of("again", 2000, &sheet, 0, 4);
	want = 2 * stats_of(take.cache).objects_per_slab;
	for (size_t i = 0; take.n < want && i < 10 * want; i++)
		take_single(&take, EXDEV);
	expect_eq(take.n, want);
	stats = stats_of(take.cache);
	/* Holes are filled before the cache grows much past them. */
	expect_cmp(stats.slabs, <=, 4);
	give_all(&take);
	destroy_balanced(take.cache, &sheet);
}
END_TEST

START_TEST(test_no_dtor_without_ctor)
{
	/* A dtor alone: each object handed out once is torn down once. */
	struct sheet sheet = { 0 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	struct pcpool_cache_stats stats;
	void *obj;

	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	cache = pcpool_cache_create("dtor-only", 64, &attr);
	obj = must_alloc(cache);
	stats = stats_of(cache);
	expect(stats.built >= 1);
	pcpool_free(cache, obj);
	must_destroy(cache);
	expect(sheet.dtor >= 1);
	/* A ctor alone. */
	attr = (struct pcpool_cache_attr)PCPOOL_CACHE_ATTR_INIT;
	attr.ctor = sheet_ctor;
	attr.arg = &sheet;
	cache = pcpool_cache_create("ctor-only", 64, &attr);
	pcpool_free(cache, must_alloc(cache));
	expect(sheet.ok >= 1);
	must_destroy(cache);
}
END_TEST

static void hammer(const struct worker *w)
{
	struct take *take = calloc(1, sizeof(*take));
	struct rng rng;

	expect(take);
	take->cache = w->arg;
	rng_seed(&rng, 77 + w->id);
	for (int i = 0; i < 4000; i++) {
		switch (rng_below(&rng, 8)) {
		case 0:
			if (take->n + 64 < COUNT(take->objs))
				take_bulk(take, 1 + rng_below(&rng, 64), EXDEV);
			break;
		case 1:
			if (take->n)
				expect_eq(pcpool_discard(take->cache,
							 take->objs[--take->n]),
					  0);
			break;
		case 2:
			if (!rng_below(&rng, 20))
				expect_eq(pcpool_cache_shrink(take->cache), 0);
			break;
		case 3:
			if (!rng_below(&rng, 10))
				give_all(take);
			break;
		default:
			if (take->n < 200)
				take_single(take, EXDEV);
			else
				give_all(take);
		}
	}
	give_all(take);
	free(take);
}

START_TEST(test_threads_with_failing_ctor)
{
	static const unsigned int every[] = { 2, 3, 10 };

	for (size_t i = 0; i < COUNT(every); i++) {
		struct sheet sheet = { .fill = 48, .fail_every = every[i] };
		struct pcpool_cache *cache = sheet_cache("mt", 48, &sheet);
		struct pcpool_cache_stats stats;

		run_threads(4, hammer, cache);
		stats = stats_of(cache);
		expect_eq(stats.live, 0);
		expect_eq(stats.ctor_ok, sheet.ok);
		expect_eq(stats.ctor_fail, sheet.failed);
		expect_eq(stats.dtor, sheet.dtor);
		expect_eq(pcpool_cache_shrink(cache), 0);
		/* The balance holds before destroy already: nothing is left. */
		sheet_balanced(&sheet);
		destroy_balanced(cache, &sheet);
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("ctor", 120);

	tcase_add_test(tc, test_ctor_is_lazy);
	tcase_add_test(tc, test_errno_is_the_constructors);
	tcase_add_test(tc, test_every_kth_call_fails);
	tcase_add_test(tc, case_SHF_01_failing_from_the_kth_call);
	tcase_add_test(tc, test_failed_place_is_tried_again);
	tcase_add_test(tc, test_no_dtor_without_ctor);
	tcase_add_test(tc, test_threads_with_failing_ctor);
	return suite_run(tc);
}

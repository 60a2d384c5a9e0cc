/* SPDX-License-Identifier: MIT */
/*
 * Memory of every kind fails at every step of a cache's life: the call in
 * question is refused with ENOMEM, nothing built is lost, frees never fail, and
 * the cache works again as soon as there is memory.
 */
#include <config.h>

#include "../suite.h"
#include "steps.h"

enum { MANY = 600 };

static struct sheet sheet;
static size_t size;
static unsigned int flags, capacity;

static struct pcpool_cache *try_create(struct steps *steps)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	sheet = (struct sheet){ .fill = size };
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.flags = flags;
	attr.sheaf_capacity = capacity;
	errno = 0;
	cache = pcpool_cache_create("fault", size, &attr);
	if (!cache)
		step_failed(steps, errno);
	return cache;
}

static size_t try_alloc(struct steps *steps, struct pcpool_cache *cache,
			void **objs, size_t n)
{
	size_t got = 0;

	for (size_t i = 0; i < n; i++) {
		errno = 0;
		objs[got] = i % 20 == 19 ? pcpool_alloc_node(cache, 0)
					 : pcpool_alloc(cache);
		if (objs[got])
			sheet_pattern_check(objs[got++], size);
		else
			step_failed(steps, errno);
	}
	return got;
}

static size_t try_bulk(struct steps *steps, struct pcpool_cache *cache,
		       void **objs, size_t n)
{
	int err = pcpool_alloc_bulk(cache, n, objs);

	for (size_t i = 0; i < n; i++)
		expect(err ? !objs[i] : objs[i] != NULL);
	if (err)
		step_failed(steps, err);
	return err ? 0 : n;
}

static void give(struct pcpool_cache *cache, void **objs, size_t n)
{
	size_t half = n / 2;

	errno = EXFULL;
	for (size_t i = 0; i < half; i++)
		pcpool_free(cache, objs[i]);
	expect_errno(EXFULL);
	expect_eq(pcpool_free_bulk(cache, n - half, objs + half), 0);
}

static void try_shrink(struct steps *steps, struct pcpool_cache *cache)
{
	int err = pcpool_cache_shrink(cache);

	if (err)
		step_failed(steps, err);
}

static void at_rest(struct pcpool_cache *cache, size_t live)
{
	struct pcpool_cache_stats stats = stats_of(cache);

	expect_eq(stats.live, live);
	expect_eq(stats.objects, stats.live + stats.cached);
	expect_eq(stats.ctor_ok, sheet.ok);
	expect_eq(stats.dtor, sheet.dtor);
	expect_eq(stats.built, sheet_built(&sheet));
}

/* Without faults all is as if there never had been any. */
static void works_again(struct pcpool_cache *cache)
{
	void *objs[100];

	expect_eq(pcpool_alloc_bulk(cache, 100, objs), 0);
	for (int i = 0; i < 100; i++)
		sheet_pattern_check(objs[i], size);
	for (int i = 0; i < 100; i++)
		pcpool_free(cache, objs[i]);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).slabs, 0);
	sheet_balanced(&sheet);
}

/* A prefilled sheaf, with `live` objects out elsewhere: what was promised does
 * not need memory. */
static void try_sheaf(struct steps *steps, struct pcpool_cache *cache,
		      uint64_t live)
{
	unsigned int n = (unsigned int)(1 + MANY / 10 / (size / 200 + 1));
	struct pcpool_sheaf *sheaf;
	static void *objs[MANY];
	int err;

	errno = 0;
	sheaf = pcpool_sheaf_prefill(cache, n);
	if (!sheaf) {
		step_failed(steps, errno);
		at_rest(cache, live);
		return;
	}
	err = pcpool_sheaf_refill(cache, &sheaf, 2 * n);
	if (err)
		step_failed(steps, err);
	n = err ? n : 2 * n;
	expect_cmp(pcpool_sheaf_size(sheaf), >=, n);
	for (unsigned int i = 0; i < n; i++) {
		objs[i] = pcpool_sheaf_alloc(cache, sheaf);
		expect(objs[i]);
		sheet_pattern_check(objs[i], size);
	}
	at_rest(cache, live + n);
	pcpool_sheaf_return(cache, sheaf);
	give(cache, objs, n);
	at_rest(cache, live);
}

/* All of a cache's life. */
static void life(struct steps *steps)
{
	struct pcpool_cache *cache = try_create(steps);
	static void *objs[MANY], *more[MANY];
	size_t n, m;
	int err;

	if (!cache)
		return;
	for (int round = 0; round < 2; round++) {
		n = try_alloc(steps, cache, objs, MANY / (size / 200 + 1));
		m = try_bulk(steps, cache, more, MANY / (size / 200 + 1));
		at_rest(cache, n + m);
		give(cache, more, m);
		at_rest(cache, n);
		try_sheaf(steps, cache, n);
		if (n)
			expect_eq(pcpool_discard(cache, objs[--n]), 0);
		try_shrink(steps, cache);
		give(cache, objs, n);
		at_rest(cache, 0);
		if (round)
			try_shrink(steps, cache);
	}
	{
		/* Neither reading nor printing may need what is not there. */
		unsigned long passed = pcp_fault_passed(steps->point);

		pcp_fault_set(steps->point, 0, false);
		works_again(cache);
		expect_eq(pcpool_alloc_bulk(cache, 50, more), 0);
		give(cache, more, 50);
		pcp_fault_set(steps->point, 1, true);
		err = pcpool_cache_destroy(cache);
		pcp_fault_set(steps->point, 0, false);
		if (err) {
			expect_eq(err, ENOMEM);
			at_rest(cache, 0);
			must_destroy(cache);
		}
		sheet_balanced(&sheet);
		/* For fail_each() to see. */
		pcp_fault_set(steps->point, 0, false);
		while (pcp_fault_passed(steps->point) < passed)
			pcp_fault_hit(steps->point);
	}
}

static void at_point(enum pcp_fault_point point, bool must_fail)
{
	static const struct {
		size_t size;
		unsigned int flags, capacity;
	} shapes[] = {
		{ 40, 0, 0 },	{ 40, PCPOOL_CHECK, 0 },
		{ 40, 0, 1 },	{ 300, PCPOOL_DTOR_ON_FREE, 16 },
		{ 5000, 0, 0 }, { 70000, 0, 3 },
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct steps steps, often;

		size = shapes[i].size;
		flags = shapes[i].flags;
		capacity = shapes[i].capacity;
		steps = fail_each(point, life);
		often = fail_often(point, life);
		printf("%s, %zu bytes: %lu steps, %lu refused; often: %lu\n",
		       point_names[point], size, steps.hits, steps.failures,
		       often.failures);
		fflush(stdout);
		if (must_fail) {
			expect(steps.hits > 0);
			expect(often.failures > 0);
		} else {
			expect_eq(steps.failures + often.failures, 0);
		}
	}
}

START_TEST(test_meta)
{
	at_point(PCP_FAULT_META, true);
}
END_TEST

START_TEST(test_slab)
{
	at_point(PCP_FAULT_SLAB, true);
}
END_TEST

START_TEST(test_commit)
{
	struct steps steps;

	size = 40;
	flags = capacity = 0;
	/* Arenas outlive a cache, so a later run may find all committed. */
	steps = fail_often(PCP_FAULT_COMMIT, life);
	printf("commit: %lu refused\n", steps.failures);
	size = 70000;
	steps = fail_often(PCP_FAULT_COMMIT, life);
	printf("commit: %lu refused\n", steps.failures);
	fail_each(PCP_FAULT_COMMIT, life);
}
END_TEST

START_TEST(test_reserve)
{
	struct steps steps;

	size = 70000;
	flags = capacity = 0;
	steps = fail_often(PCP_FAULT_RESERVE, life);
	printf("reserve: %lu refused\n", steps.failures);
	fail_each(PCP_FAULT_RESERVE, life);
	size = 40;
	fail_each(PCP_FAULT_RESERVE, life);
}
END_TEST

START_TEST(test_bind)
{
	/* A preference: its refusal is nobody's error. */
	at_point(PCP_FAULT_BIND, false);
}
END_TEST

/* --- threads, while memory comes and goes --------------------------------- */

static void hammer(const struct worker *w)
{
	struct pcpool_cache *cache = w->arg;
	void *objs[200];
	struct rng rng;

	rng_seed(&rng, w->id);
	for (int round = 0; round < 400; round++) {
		size_t n = 0, want = 1 + rng_below(&rng, 200);

		if (rng_below(&rng, 2)) {
			if (!pcpool_alloc_bulk(cache, want, objs))
				n = want;
		} else {
			while (n < want && (objs[n] = pcpool_alloc(cache)))
				n++;
			if (n < want)
				expect_errno(ENOMEM);
		}
		for (size_t i = 0; i < n; i++)
			owner_take(objs[i], w->id + 1);
		for (size_t i = 0; i < n; i++)
			owner_leave(objs[i], w->id + 1);
		if (rng_below(&rng, 2))
			give(cache, objs, n);
		else
			for (size_t i = 0; i < n; i++)
				pcpool_free(cache, objs[i]);
		if (rng_below(&rng, 30) == 0)
			pcpool_cache_shrink(cache);
	}
}

START_TEST(test_threads)
{
	static const enum pcp_fault_point points[] = {
		PCP_FAULT_META,
		PCP_FAULT_SLAB,
		PCP_FAULT_FENCE,
		PCP_FAULT_COMMIT,
	};

	for (int i = 0; i < 4; i++) {
		struct sheet mine = { .clear = 8 };
		struct pcpool_cache *cache = sheet_cache("mt", 48, &mine);

		pcp_fault_set(points[i], 3, true);
		run_threads(6, hammer, cache);
		pcp_fault_set(points[i], 0, false);
		expect_eq(stats_of(cache).live, 0);
		expect_eq(pcpool_cache_shrink(cache), 0);
		expect_eq(stats_of(cache).slabs, 0);
		sheet_balanced(&mine);
		destroy_balanced(cache, &mine);
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fault-cache", 300);

	tcase_add_test(tc, test_meta);
	tcase_add_test(tc, test_slab);
	tcase_add_test(tc, test_commit);
	tcase_add_test(tc, test_reserve);
	tcase_add_test(tc, test_bind);
	tcase_add_test(tc, test_threads);
	return suite_run(tc);
}

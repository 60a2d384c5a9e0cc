/* SPDX-License-Identifier: MIT */
/*
 * The kernel refuses to fence (rseq mode): nothing is drained unfenced, nothing
 * is lost, the error comes out, and the slots are as they were.
 */
#include <config.h>

#include "../suite.h"
#include "steps.h"

static struct sheet sheet;

static struct pcpool_cache *with_stocks(void)
{
	struct pcpool_cache *cache;
	void *objs[200];

	sheet = (struct sheet){ .fill = 64 };
	cache = sheet_cache_of("fence", 64, &sheet, 0, 16);
	for (unsigned int cpu = 0; cpu < 2; cpu++) {
		pin_to(cpu);
		expect_eq(pcpool_alloc_bulk(cache, 200, objs), 0);
		for (int i = 0; i < 200; i++)
			pcpool_free(cache, objs[i]);
	}
	return cache;
}

START_TEST(test_shrink)
{
	struct pcpool_cache *cache = with_stocks();
	struct pcpool_cache_stats before = stats_of(cache), after;
	void *objs[400];

	pcp_fault_set(PCP_FAULT_FENCE, 1, true);
	for (int i = 0; i < 5; i++)
		expect_eq(pcpool_cache_shrink(cache), ENOMEM);
	after = stats_of(cache);
	expect(after.drain_fail > before.drain_fail);
	expect_eq(after.live, 0);
	expect(after.cached > 0);
	expect_eq(after.built, sheet_built(&sheet));
	/* The fast path and all the rest goes on. */
	expect_eq(pcpool_alloc_bulk(cache, 400, objs), 0);
	for (int i = 0; i < 400; i++)
		sheet_pattern_check(objs[i], 64);
	expect_eq(pcpool_free_bulk(cache, 400, objs), 0);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).slabs, 0);
	sheet_balanced(&sheet);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* All or nothing: an answer other than 0 means that no destructor ran. Since
 * nobody uses the cache, it may do without fences. */
START_TEST(test_destroy)
{
	struct pcpool_cache *cache = with_stocks();
	void *obj = must_alloc(cache);
	int err;

	atomic_store(&sheet.no_dtor, true);
	pcp_fault_set(PCP_FAULT_FENCE, 1, true);
	for (int i = 0; i < 5; i++)
		expect(pcpool_cache_destroy(cache) != 0);
	sheet_pattern_check(obj, 64);
	pcpool_free(cache, obj);
	sheet_pattern_check(obj = must_alloc(cache), 64);
	pcpool_free(cache, obj);
	atomic_store(&sheet.no_dtor, false);
	err = pcpool_cache_destroy(cache);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	if (err) {
		expect_eq(err, ENOMEM);
		expect_eq(sheet.dtor, 0);
		sheet_pattern_check(obj = must_alloc(cache), 64);
		pcpool_free(cache, obj);
		must_destroy(cache);
	}
	sheet_balanced(&sheet);
}
END_TEST

/* Objects in another slot's stock cannot be had then; what can is had, and the
 * refusal says why building failed. */
START_TEST(test_alloc)
{
	struct pcpool_cache *cache = with_stocks();
	void *objs[1000];
	size_t n = 0;

	atomic_store(&sheet.fail_from, 1);
	pin_to(0);
	pcp_fault_set(PCP_FAULT_FENCE, 1, true);
	while (n < 1000 && (objs[n] = pcpool_alloc(cache)))
		n++;
	expect_errno(EXDEV);
	expect(n > 0);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	while (n < 1000 && (objs[n] = pcpool_alloc(cache)))
		n++;
	expect_errno(EXDEV);
	/* With the fence every single one is found. */
	expect_eq(n, sheet_built(&sheet));
	for (size_t i = 0; i < n; i++)
		sheet_pattern_check(objs[i], 64);
	expect_eq(pcpool_free_bulk(cache, n, objs), 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

enum { WORKERS = 3 };
static atomic_uint working;

static void churn(const struct worker *w)
{
	struct pcpool_cache *cache = w->arg;
	int failed = 0;

	if (w->id == WORKERS) {
		while (atomic_load(&working))
			failed += pcpool_cache_shrink(cache) != 0;
		expect(failed > 0);
		return;
	}
	/* On until a fence has failed, and for a while. */
	for (int i = 0; i < 3000 || !stats_of(cache).drain_fail; i++) {
		void *obj = must_alloc(cache);

		owner_take(obj, w->id + 1);
		owner_leave(obj, w->id + 1);
		pcpool_free(cache, obj);
	}
	atomic_fetch_sub(&working, 1);
}

START_TEST(test_threads)
{
	struct sheet mine = { .clear = 8 };
	struct pcpool_cache *cache = sheet_cache_of("mt", 48, &mine, 0, 4);

	pcp_fault_set(PCP_FAULT_FENCE, 2, true);
	atomic_store(&working, WORKERS);
	run_threads(WORKERS + 1, churn, cache);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
	expect(stats_of(cache).drain_fail > 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).slabs, 0);
	destroy_balanced(cache, &mine);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fault-fence", 60);

	if (!rseq_mode())
		skip_test("only rseq mode has fences");
	tcase_add_test(tc, test_shrink);
	tcase_add_test(tc, test_destroy);
	tcase_add_test(tc, test_alloc);
	tcase_add_test(tc, test_threads);
	return suite_run(tc);
}

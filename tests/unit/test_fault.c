/* SPDX-License-Identifier: MIT */
/* Fault points and hooks: which passing fails, and that hooks are called. */
#include <config.h>

#include "base/fault.h"

#include "../common.h"
#include "../suite.h"

START_TEST(test_nth)
{
	for (unsigned long n = 1; n <= 20; n++) {
		pcp_fault_set(PCP_FAULT_META, n, false);
		expect_eq(pcp_fault_passed(PCP_FAULT_META), 0);
		for (unsigned long i = 1; i <= 50; i++) {
			expect_eq(PCP_FAULT(PCP_FAULT_META), i == n);
			expect_eq(pcp_fault_passed(PCP_FAULT_META), i);
		}
	}
}
END_TEST

START_TEST(test_every)
{
	for (unsigned long n = 1; n <= 20; n++) {
		pcp_fault_set(PCP_FAULT_SLAB, n, true);
		for (unsigned long i = 1; i <= 100; i++)
			expect_eq(PCP_FAULT(PCP_FAULT_SLAB), i % n == 0);
	}
}
END_TEST

START_TEST(test_never_and_apart)
{
	for (int point = 0; point < PCP_FAULT_COUNT; point++)
		pcp_fault_set((enum pcp_fault_point)point, 0, false);
	for (int i = 0; i < 100; i++)
		for (int point = 0; point < PCP_FAULT_COUNT; point++)
			expect(!PCP_FAULT((enum pcp_fault_point)point));
	/* One point's setting is no other's. */
	pcp_fault_set(PCP_FAULT_FENCE, 1, true);
	for (int point = 0; point < PCP_FAULT_COUNT; point++)
		expect_eq(PCP_FAULT((enum pcp_fault_point)point),
			  point == PCP_FAULT_FENCE);
	pcp_fault_set(PCP_FAULT_FENCE, 0, true);
	expect(!PCP_FAULT(PCP_FAULT_FENCE));
}
END_TEST

static atomic_ulong failed;

static void pass(const struct worker *w)
{
	(void)w;
	for (int i = 0; i < 10000; i++)
		if (PCP_FAULT(PCP_FAULT_COMMIT))
			atomic_fetch_add(&failed, 1);
}

/* Exactly as many as said, whichever thread passes. */
START_TEST(test_threads)
{
	pcp_fault_set(PCP_FAULT_COMMIT, 10, true);
	run_threads(4, pass, NULL);
	expect_eq(atomic_load(&failed), 4000);
	atomic_store(&failed, 0);
	pcp_fault_set(PCP_FAULT_COMMIT, 777, false);
	run_threads(4, pass, NULL);
	expect_eq(atomic_load(&failed), 1);
}
END_TEST

START_TEST(test_parse)
{
	static const char *const bad[] = {
		"",	   "meta",    "meta/",	 "meta/0",  "meta%0",  "meta/x",
		"meta/1x", "met/1",   "metaa/1", "/1",	    "%1",      "meta:1",
		"META/1",  "meta/-1", "meta/ 1", "meta/+1", "meta//1",
	};
	static const char *const names[PCP_FAULT_COUNT] = {
		[PCP_FAULT_META] = "meta",
		[PCP_FAULT_RESERVE] = "reserve",
		[PCP_FAULT_COMMIT] = "commit",
		[PCP_FAULT_SLAB] = "slab",
		[PCP_FAULT_FENCE] = "fence",
		[PCP_FAULT_NO_FENCE] = "no-fence",
		[PCP_FAULT_BIND] = "bind",
		[PCP_FAULT_THREAD] = "thread",
		[PCP_FAULT_DISCARD] = "discard",
	};

	for (int point = 0; point < PCP_FAULT_COUNT; point++) {
		char text[32];

		expect(names[point]);
		snprintf(text, sizeof(text), "%s/2", names[point]);
		expect(pcp_fault_parse(text));
		expect(!PCP_FAULT((enum pcp_fault_point)point));
		expect(PCP_FAULT((enum pcp_fault_point)point));
		expect(!PCP_FAULT((enum pcp_fault_point)point));
		snprintf(text, sizeof(text), "%s%%2", names[point]);
		expect(pcp_fault_parse(text));
		for (int i = 0; i < 3; i++) {
			expect(!PCP_FAULT((enum pcp_fault_point)point));
			expect(PCP_FAULT((enum pcp_fault_point)point));
		}
		pcp_fault_set((enum pcp_fault_point)point, 0, false);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (pcp_fault_parse(bad[i]))
			fail_now("\"%s\" was accepted", bad[i]);
		expect(!PCP_FAULT(PCP_FAULT_META));
	}
}
END_TEST

static unsigned int calls[PCP_HOOK_COUNT];

static void count(enum pcp_hook_id id)
{
	calls[id]++;
}

START_TEST(test_hooks)
{
	for (int id = 0; id < PCP_HOOK_COUNT; id++)
		PCP_HOOK((enum pcp_hook_id)id);
	pcp_hook_set(count);
	for (int id = 0; id < PCP_HOOK_COUNT; id++)
		for (int i = 0; i <= id; i++)
			PCP_HOOK((enum pcp_hook_id)id);
	pcp_hook_set(NULL);
	for (int id = 0; id < PCP_HOOK_COUNT; id++) {
		PCP_HOOK((enum pcp_hook_id)id);
		expect_eq(calls[id], id + 1);
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fault", 30);

	tcase_add_test(tc, test_nth);
	tcase_add_test(tc, test_every);
	tcase_add_test(tc, test_never_and_apart);
	tcase_add_test(tc, test_threads);
	tcase_add_test(tc, test_parse);
	tcase_add_test(tc, test_hooks);
	return suite_run(tc);
}

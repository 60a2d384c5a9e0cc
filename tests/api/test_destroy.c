/* SPDX-License-Identifier: MIT */
/*
 * Destroying caches: EBUSY keeps everything; and callbacks that call the
 * library again, from wherever a callback can run.
 */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

START_TEST(test_busy_keeps_all)
{
	struct sheet sheet = { .fill = 80 };
	struct pcpool_cache *cache = sheet_cache("busy", 80, &sheet);
	void *objs[500];

	for (int left = 1; left <= 500; left += 499) {
		expect_eq(pcpool_alloc_bulk(cache, 500, objs), 0);
		for (int i = left; i < 500; i++)
			pcpool_free(cache, objs[i]);
		atomic_store(&sheet.no_dtor, true);
		for (int i = 0; i < 5; i++)
			expect_eq(pcpool_cache_destroy(cache), EBUSY);
		/* Still as it was: objects are intact and there are more. */
		for (int i = 0; i < left; i++)
			sheet_pattern_check(objs[i], 80);
		expect_eq(stats_of(cache).live, left);
		for (int i = left; i < 500; i++)
			sheet_pattern_check(objs[i] = must_alloc(cache), 80);
		expect_eq(pcpool_cache_destroy(cache), EBUSY);
		atomic_store(&sheet.no_dtor, false);
		expect_eq(pcpool_free_bulk(cache, 500, objs), 0);
	}
	destroy_balanced(cache, &sheet);
}
END_TEST

/* The fast path is back after a refused destroy. */
START_TEST(test_busy_reopens_the_slots)
{
	struct pcpool_cache *cache = pcpool_cache_create("busy", 64, NULL);
	struct pcpool_cache_stats before, after;
	void *kept;

	pin_to(0);
	kept = must_alloc(cache);
	expect_eq(pcpool_cache_destroy(cache), EBUSY);
	pcpool_free(cache, must_alloc(cache));
	before = stats_of(cache);
	for (int i = 0; i < 1000; i++)
		pcpool_free(cache, must_alloc(cache));
	after = stats_of(cache);
	expect_cmp(after.alloc_slowpath - before.alloc_slowpath, <, 500);
	pcpool_free(cache, kept);
	must_destroy(cache);
}
END_TEST

/* --- callbacks that call back ------------------------------------------------
 */

static struct pcpool_cache *self, *other;
static struct sheet self_sheet, other_sheet;
static atomic_int calls, want_error;

static void each_call(void)
{
	void *objs[3];
	void *region = pcpool_percpu_alloc(16, 8);
	struct pcpool_cache *brief = pcpool_cache_create("brief", 32, NULL);

	atomic_fetch_add(&calls, 1);
	expect(region && brief);
	pcpool_this_cpu_add_u64(region, 1);
	expect_eq(pcpool_percpu_sum_u64(region), 1);
	pcpool_percpu_free(region);
	pcpool_free(brief, must_alloc(brief));
	must_destroy(brief);
	if (other) {
		expect_eq(pcpool_alloc_bulk(other, 3, objs), 0);
		expect_eq(pcpool_free_bulk(other, 3, objs), 0);
		expect_eq(pcpool_discard(other, must_alloc(other)), 0);
		expect_eq(pcpool_cache_shrink(other), 0);
		stats_of(other);
	}
	free(printed());
}

static void own_cache(int expected)
{
	void *obj, *objs[2];

	errno = 0;
	obj = pcpool_alloc(self);
	if (expected) {
		expect(!obj);
		expect_errno(expected);
		expect_refused(pcpool_alloc_node(self, 0), expected);
		expect_eq(pcpool_alloc_bulk(self, 2, objs), expected);
		expect(!objs[0] && !objs[1]);
	} else {
		expect(obj);
		pcpool_free(self, obj);
	}
	/* From a callback of its own a cache cannot be destroyed. */
	expect_eq(pcpool_cache_destroy(self), EBUSY);
	stats_of(self);
	expect_eq(pcpool_cache_size(self), 56);
}

static _Thread_local int depth;

static int busy_ctor(void *obj, void *arg)
{
	if (!depth++) {
		each_call();
		own_cache(0);
	}
	depth--;
	return sheet_ctor(obj, arg);
}

static void busy_dtor(void *obj, void *arg)
{
	if (!depth++) {
		each_call();
		own_cache(atomic_load(&want_error));
	}
	depth--;
	sheet_dtor(obj, arg);
}

static void busy_reset(void *obj, void *arg)
{
	if (!depth++) {
		each_call();
		own_cache(0);
	}
	depth--;
	sheet_reset(obj, arg);
}

static struct pcpool_cache *busy_cache(bool ctor, bool dtor, bool reset,
				       unsigned int flags)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	attr.ctor = ctor ? busy_ctor : sheet_ctor;
	attr.dtor = dtor ? busy_dtor : sheet_dtor;
	attr.reset = reset ? busy_reset : sheet_reset;
	attr.arg = &self_sheet;
	attr.flags = flags;
	attr.sheaf_capacity = 4;
	return pcpool_cache_create("self", 56, &attr);
}

static void drive(bool ctor, bool dtor, bool reset, unsigned int flags)
{
	void *objs[60];

	self_sheet = (struct sheet){ 0 };
	other_sheet = (struct sheet){ 0 };
	atomic_store(&calls, 0);
	atomic_store(&want_error, 0);
	other = sheet_cache("other", 40, &other_sheet);
	self = busy_cache(ctor, dtor, reset, flags);
	expect(self);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 30; i++)
			objs[i] = must_alloc(self);
		expect_eq(pcpool_alloc_bulk(self, 30, objs + 30), 0);
		for (int i = 0; i < 10; i++)
			expect_eq(pcpool_discard(self, objs[i]), 0);
		expect_eq(pcpool_free_bulk(self, 50, objs + 10), 0);
		expect_eq(pcpool_cache_shrink(self), 0);
	}
	/* Something for destroy's own destructors. */
	expect_eq(pcpool_alloc_bulk(self, 30, objs), 0);
	expect_eq(pcpool_free_bulk(self, 30, objs), 0);
	expect(atomic_load(&calls) > 0);
	atomic_store(&want_error, ESHUTDOWN);
	destroy_balanced(self, &self_sheet);
	destroy_balanced(other, &other_sheet);
}

START_TEST(case_SHF_10_callbacks_call_again)
{
	drive(true, false, false, 0);
	drive(false, true, false, 0);
	drive(false, false, true, 0);
	drive(true, true, true, 0);
	drive(true, true, true, PCPOOL_CHECK);
	drive(true, true, true, PCPOOL_DTOR_ON_FREE);
}
END_TEST

/* A constructor that fails half way through a slab, calling as it goes. */
static int half_ctor(void *obj, void *arg)
{
	int err;

	if (!depth++)
		each_call();
	depth--;
	err = sheet_ctor(obj, arg);
	return err;
}

START_TEST(case_SHF_10_failing_refill)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	void *objs[40];

	other = sheet_cache("other", 40, &other_sheet);
	self_sheet = (struct sheet){ .fail_from = 20 };
	attr.ctor = half_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &self_sheet;
	self = pcpool_cache_create("half", 56, &attr);
	expect_eq(pcpool_alloc_bulk(self, 40, objs), EXDEV);
	expect_eq(pcpool_alloc_bulk(self, 19, objs), 0);
	expect_refused(pcpool_alloc(self), EXDEV);
	expect_eq(pcpool_free_bulk(self, 19, objs), 0);
	destroy_balanced(self, &self_sheet);
	destroy_balanced(other, &other_sheet);
}
END_TEST

/* X's dtor uses Y, whose ctor uses X; and X keeps objects of Y. */
struct pair {
	struct pair *partner;
};

static struct pcpool_cache *cache_x, *cache_y;

static int y_ctor(void *obj, void *arg)
{
	void *x;

	if (cache_x && !depth) {
		depth++;
		x = pcpool_alloc(cache_x);
		if (!x)
			expect_errno(ESHUTDOWN);
		pcpool_free(cache_x, x);
		depth--;
	}
	return sheet_ctor(obj, arg);
}

static int x_ctor(void *obj, void *arg)
{
	struct pair *pair = obj;

	pair->partner = must_alloc(cache_y);
	return sheet_ctor(obj, arg);
}

static void x_dtor(void *obj, void *arg)
{
	struct pair *pair = obj;

	pcpool_free(cache_y, must_alloc(cache_y));
	pcpool_free(cache_y, pair->partner);
	sheet_dtor(obj, arg);
}

START_TEST(case_SHF_10_two_caches_entwined)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct sheet x = { 0 }, y = { 0 };
	void *objs[100];

	attr.ctor = y_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &y;
	attr.sheaf_capacity = 2;
	cache_y = pcpool_cache_create("y", 24, &attr);
	attr.ctor = x_ctor;
	attr.dtor = x_dtor;
	attr.arg = &x;
	cache_x = pcpool_cache_create("x", sizeof(struct pair), &attr);
	expect(cache_x && cache_y);
	for (int round = 0; round < 4; round++) {
		expect_eq(pcpool_alloc_bulk(cache_x, 100, objs), 0);
		expect_eq(pcpool_free_bulk(cache_x, 100, objs), 0);
		expect_eq(pcpool_cache_shrink(cache_x), 0);
		expect_eq(pcpool_cache_shrink(cache_y), 0);
	}
	expect_eq(pcpool_alloc_bulk(cache_x, 100, objs), 0);
	expect_eq(pcpool_free_bulk(cache_x, 100, objs), 0);
	destroy_balanced(cache_x, &x);
	cache_x = NULL;
	destroy_balanced(cache_y, &y);
}
END_TEST

/* Threads that each make, use and destroy caches, all at once. */
static void come_and_go(const struct worker *w)
{
	for (int i = 0; i < 200; i++) {
		struct sheet sheet = { .clear = 8 };
		struct pcpool_cache *cache = sheet_cache("brief", 40, &sheet);
		void *objs[20];

		expect_eq(pcpool_alloc_bulk(cache, 20, objs), 0);
		for (int j = 0; j < 20; j++)
			owner_take(objs[j], w->id + 1);
		for (int j = 0; j < 20; j++)
			owner_leave(objs[j], w->id + 1);
		expect_eq(pcpool_free_bulk(cache, 20, objs), 0);
		if (i % 3 == 0)
			expect_eq(pcpool_cache_shrink(cache), 0);
		if (i % 50 == 0)
			free(printed());
		destroy_balanced(cache, &sheet);
	}
}

START_TEST(test_many_at_once)
{
	run_threads(8, come_and_go, NULL);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("destroy", 60);

	tcase_add_test(tc, test_busy_keeps_all);
	tcase_add_test(tc, test_busy_reopens_the_slots);
	tcase_add_test(tc, case_SHF_10_callbacks_call_again);
	tcase_add_test(tc, case_SHF_10_failing_refill);
	tcase_add_test(tc, case_SHF_10_two_caches_entwined);
	tcase_add_test(tc, test_many_at_once);
	return suite_run(tc);
}

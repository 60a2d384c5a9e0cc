/* SPDX-License-Identifier: MIT */
/*
 * The inline functions in one thread: they do what the calls do, whichever took
 * or gives back an object, and leave to the calls what is not theirs.
 */
#include <config.h>

#include <sys/wait.h>
#include <unistd.h>

#include "../caches.h"
#include "../suite.h"
#include "fast_area.h"
#include "fast_way.h"

enum { HELD = 200, STEPS = 40000, PAIRS = 3000, TRIES = 1000 };

static const struct fast_way calls = { pcpool_alloc, pcpool_free,
				       pcpool_counter_add };
static const struct fast_way *const ways[] = {
	&calls,
	&fast_way_inline,
	&fast_way_resident,
	&fast_way_other,
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Whether a cache says that it may be used inline. */
static bool says_inline(const struct pcpool_cache *cache)
{
	uint16_t layout;

	/* The lowest bits of its word, on the machines that have any. */
	memcpy(&layout, cache, sizeof(layout));
	expect(!layout || layout == PCPOOL_FAST_LAYOUT);
	return layout;
}

static bool inline_here(void)
{
	return PCPOOL_FAST_INLINE && rseq_mode();
}

static void *must(void *obj)
{
	expect(obj);
	return obj;
}

START_TEST(mixed_with_calls)
{
	struct sheet sheet = { .fill = 72 };
	struct pcpool_cache *cache = sheet_cache("mixed", 72, &sheet);
	void *held[HELD];
	unsigned int n = 0;
	struct rng rng;

	expect_eq(says_inline(cache), inline_here());
	rng_seed(&rng, 4711);
	for (unsigned long step = 0; step < scaled(STEPS); step++) {
		const struct fast_way *way = ways[rng_below(&rng, WAYS)];
		uint32_t i;

		if (n < HELD && (!n || rng_below(&rng, 2))) {
			void *obj = must(way->alloc(cache));

			for (i = 0; i < n; i++)
				expect(held[i] != obj);
			sheet_pattern_check(obj, 72);
			held[n++] = obj;
		} else {
			i = rng_below(&rng, n);
			way->free(cache, held[i]);
			held[i] = held[--n];
		}
		if (step % 5000 == 0) {
			expect_eq(stats_of(cache).live, n);
			expect_eq(pcpool_cache_shrink(cache), 0);
		}
	}
	while (n)
		pcpool_fast_free(cache, held[--n]);
	expect_eq(stats_of(cache).live, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

START_TEST(counted)
{
	struct pcpool_cache *cache = pcpool_cache_create("counted", 64, NULL);
	struct pcpool_cache_stats before, after;
	void *some[3];

	expect(cache);
	pin_to(0);
	for (int w = 0; w < WAYS; w++) {
		before = stats_of(cache);
		for (unsigned int i = 0; i < PAIRS; i++) {
			for (int k = 0; k < 3; k++)
				some[k] = must(ways[w]->alloc(cache));
			for (int k = 0; k < 3; k++)
				ways[w]->free(cache, some[k]);
		}
		after = stats_of(cache);
		expect_eq(after.alloc_fastpath + after.alloc_slowpath -
				  before.alloc_fastpath - before.alloc_slowpath,
			  3 * PAIRS);
		expect_eq(after.free_fastpath + after.free_slowpath -
				  before.free_fastpath - before.free_slowpath,
			  3 * PAIRS);
		/* The first few build, and the kernel may interrupt some. */
		expect_cmp(after.alloc_slowpath - before.alloc_slowpath, <=,
			   PAIRS / 10);
		expect_eq(after.live, 0);
	}
	must_destroy(cache);
}
END_TEST

enum by { BY_ALLOC, BY_FREE, BY_ADD };

/* The address that the way's section leaves behind: none, its own, or that of
 * the call's. Interrupted in between, it is gone; not so each time. */
static uint64_t left_behind(struct pcpool_cache *cache,
			    struct pcpool_counter *counter,
			    const struct fast_way *way, enum by by)
{
	uint64_t armed = 0;

	for (int i = 0; i < TRIES && !armed; i++) {
		void *obj = must(way->alloc(cache));

		if (by == BY_ALLOC)
			armed = fast_armed();
		way->free(cache, obj);
		if (by == BY_FREE)
			armed = fast_armed();
		/* To and fro, so that it never folds. */
		way->add(counter, i % 2 ? -5 : 5);
		if (by == BY_ADD)
			armed = fast_armed();
	}
	return armed;
}

START_TEST(sections_and_layouts)
{
	struct pcpool_cache *cache = pcpool_cache_create("armed", 64, NULL);
	struct pcpool_counter c;

	expect(cache);
	expect_eq(pcpool_counter_init(&c, 0), 0);
	pin_to(0);
	/* The first of them is the call's, in the end. */
	pcpool_free(cache, must(pcpool_alloc(cache)));
	for (enum by by = 0; by <= BY_ADD && inline_here() && HAVE_AREA; by++) {
		uint64_t call = left_behind(cache, &c, &calls, by);
		uint64_t own = left_behind(cache, &c, &fast_way_resident, by);

		expect(call);
		expect(own && own != call);
		/* All tries leave nothing. */
		expect_eq(left_behind(cache, &c, &fast_way_inline, by), 0);
		/* What does not know the layout makes the call. */
		expect_eq(left_behind(cache, &c, &fast_way_other, by), call);
	}
	pcpool_counter_destroy(&c);
	must_destroy(cache);
}
END_TEST

START_TEST(adds)
{
	static const int64_t amounts[] = {
		1, -1, 1023, -1023, 1024, -1024, 5000, INT64_MAX, INT64_MIN, 1,
	};
	struct pcpool_counter c[2];
	uint64_t sum = 3;
	struct rng rng;

	/* On a region of its own, and on somebody's. */
	expect_eq(pcpool_counter_init(&c[0], 3), 0);
	expect_eq(pcpool_counter_init_at(&c[1],
					 must(pcpool_percpu_alloc(8, 8)), 3),
		  0);
	rng_seed(&rng, 99);
	for (unsigned long step = 0; step < scaled(STEPS); step++) {
		int64_t amount = amounts[rng_below(
			&rng, sizeof(amounts) / sizeof(amounts[0]))];

		sum += (uint64_t)amount;
		for (int i = 0; i < 2; i++)
			ways[rng_below(&rng, WAYS)]->add(&c[i], amount);
		/* No part goes beyond its batch. */
		for (int i = 0; i < 2; i++) {
			expect_eq(pcpool_counter_sum(&c[i]), (int64_t)sum);
			expect_cmp((int64_t)(sum - (uint64_t)
					     pcpool_counter_read(&c[i])), <,
				   PCPOOL_COUNTER_BATCH *
					   (int64_t)pcpool_nr_slots());
		}
	}
	pcpool_percpu_free(c[1].pcpool_parts);
	pcpool_counter_destroy(&c[1]);
	pcpool_counter_destroy(&c[0]);
}
END_TEST

START_TEST(reset_runs)
{
	struct sheet sheet = { .fill = 40 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.reset = sheet_reset;
	attr.arg = &sheet;
	cache = pcpool_cache_create("reset", 40, &attr);
	expect(cache);
	expect(!says_inline(cache));
	for (int i = 0; i < 100; i++)
		pcpool_fast_free(cache, must(pcpool_fast_alloc(cache)));
	expect_eq(sheet.reset, 100);
	destroy_balanced(cache, &sheet);
}
END_TEST

START_TEST(accounts_are_paid_back)
{
	struct pcpool_account *account =
		pcpool_account_create(NULL, PCPOOL_NO_LIMIT);
	struct pcpool_account_stats stats = { .stats_size = sizeof(stats) };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	void *objs[50];

	attr.flags = PCPOOL_ACCOUNT;
	cache = pcpool_cache_create("account", 100, &attr);
	expect(cache && account);
	expect(!says_inline(cache));
	for (int i = 0; i < 50; i++)
		objs[i] = must(i % 2 ? pcpool_fast_alloc(cache)
				     : pcpool_alloc_charged(cache, account));
	expect_eq(pcpool_account_get_stats(account, &stats), 0);
	expect_eq(stats.used, 25 * pcpool_cache_charge(cache));
	for (int i = 0; i < 50; i++)
		pcpool_fast_free(cache, objs[i]);
	expect_eq(pcpool_account_get_stats(account, &stats), 0);
	expect_eq(stats.used, 0);
	pcpool_account_release(account);
	must_destroy(cache);
}
END_TEST

static struct pcpool_cache *flagged(const char *name, size_t size,
				    unsigned int flags, struct sheet *sheet)
{
	return sheet_cache_of(name, size, sheet, flags, 0);
}

static void free_twice(void *arg)
{
	struct pcpool_cache *cache = arg;
	void *obj = must(pcpool_fast_alloc(cache));

	pcpool_fast_free(cache, obj);
	pcpool_fast_free(cache, obj);
}

START_TEST(checks_at_the_call)
{
	static struct child child;
	struct sheet sheet = { .fill = 64 };
	struct pcpool_cache *cache =
		flagged("checking", 64, PCPOOL_CHECK, &sheet);

	expect(!says_inline(cache));
	run_child(free_twice, cache, 20, &child);
	expect_child_abort(&child, "checking", NULL);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* The flags that leave the fast path alone. */
START_TEST(other_flags)
{
	struct sheet sheet = { .fill = 64 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	void *objs[300];

	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.flags = PCPOOL_DTOR_ON_FREE;
	attr.sheaf_capacity = 4;
	attr.min_partial = 1;
	cache = pcpool_cache_create("on free", 8192, &attr);
	expect(cache);
	expect_eq(says_inline(cache), inline_here());
	for (int i = 0; i < 300; i++)
		objs[i] = must(pcpool_fast_alloc(cache));
	expect_eq(sheet.dtor, 0);
	for (int i = 0; i < 300; i++)
		pcpool_fast_free(cache, objs[i]);
	/* As with the calls: frees that empty a slab destruct what is in it. */
	expect_cmp(sheet.dtor, >, 0);
	destroy_balanced(cache, &sheet);

	cache = flagged("typesafe", 64, PCPOOL_TYPESAFE_BY_RCU, &sheet);
	for (int i = 0; i < 300; i++)
		objs[i] = must(pcpool_fast_alloc(cache));
	for (int i = 0; i < 300; i++)
		pcpool_fast_free(cache, objs[i]);
	destroy_balanced(cache, &sheet);
}
END_TEST

START_TEST(errors_and_null)
{
	struct sheet sheet = { .fill = 64, .fail_every = 1, .error = EXDEV };
	struct pcpool_cache *cache = sheet_cache("failing", 64, &sheet);
	void *obj;

	expect_refused(pcpool_fast_alloc(cache), EXDEV);
	sheet.fail_every = 0;
	obj = must(pcpool_fast_alloc(cache));
	errno = ENOTTY;
	pcpool_fast_free(cache, NULL);
	pcpool_fast_free(NULL, NULL);
	pcpool_fast_free(cache, obj);
	expect_errno(ENOTTY);
	destroy_balanced(cache, &sheet);
}
END_TEST

static struct pcpool_cache *ending;
static atomic_uint refused;

static void late_dtor(void *obj, void *arg)
{
	sheet_dtor(obj, arg);
	expect_refused(pcpool_fast_alloc(ending), ESHUTDOWN);
	atomic_fetch_add(&refused, 1);
}

START_TEST(none_from_a_dying_cache)
{
	struct sheet sheet = { .fill = 64 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	attr.ctor = sheet_ctor;
	attr.dtor = late_dtor;
	attr.arg = &sheet;
	ending = pcpool_cache_create("ending", 64, &attr);
	expect(ending);
	pcpool_fast_free(ending, must(pcpool_fast_alloc(ending)));
	destroy_balanced(ending, &sheet);
	expect_cmp(refused, >, 0);
}
END_TEST

START_TEST(in_a_forked_child)
{
	struct sheet sheet = { .fill = 64 };
	struct pcpool_cache *cache = sheet_cache("forked", 64, &sheet);
	void *obj = must(pcpool_fast_alloc(cache));
	int status;
	pid_t pid = fork();

	expect(pid >= 0);
	for (int i = 0; i < PAIRS; i++) {
		void *other = must(pcpool_fast_alloc(cache));

		sheet_pattern_check(other, 64);
		expect(other != obj);
		pcpool_fast_free(cache, other);
	}
	pcpool_fast_free(cache, obj);
	destroy_balanced(cache, &sheet);
	if (!pid)
		_exit(0);
	expect_eq(waitpid(pid, &status, 0), pid);
	expect_eq(status, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fast", 60);

	tcase_add_test(tc, mixed_with_calls);
	tcase_add_test(tc, counted);
	tcase_add_test(tc, sections_and_layouts);
	tcase_add_test(tc, adds);
	tcase_add_test(tc, reset_runs);
	tcase_add_test(tc, accounts_are_paid_back);
	tcase_add_test(tc, checks_at_the_call);
	tcase_add_test(tc, other_flags);
	tcase_add_test(tc, errors_and_null);
	tcase_add_test(tc, none_from_a_dying_cache);
	tcase_add_test(tc, in_a_forked_child);
	return suite_run(tc);
}

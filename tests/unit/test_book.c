/* SPDX-License-Identifier: MIT */
/* lib/slot/book.c: the books add up after each kind of call, and say in a forked
 * child what its missing threads had. */
#include <config.h>

#include <unistd.h>

#include <pcpool/pcpool.h>

#include "stocks.h"

#include "cache/cache.h"

#define CAPACITY 5U
#define N 64U

static struct sheet sheet;
static struct pcpool_cache *cache;
static void *objs[N];

static void make(unsigned int flags)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	sheet = (struct sheet){ .fill = STOCK_OBJECT };
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.flags = flags;
	attr.sheaf_capacity = CAPACITY;
	attr.min_partial = 1;
	cache = pcpool_cache_create("books", STOCK_OBJECT, &attr);
	expect(cache);
}

static void setup(void)
{
	pin_to(0);
	pcp_init();
	if (pcp_index.cid)
		decide("index:cpu");
	make(0);
}

static void teardown(void)
{
	expect_eq(pcpool_cache_destroy(cache), 0);
	sheet_balanced(&sheet);
}

/* What was called so far. */
static uint64_t allocs, frees;

static struct pcp_book check(void)
{
	struct pcp_book book = book_check(&cache->stock, allocs - frees);

	expect_eq(book.alloc_fast + book.alloc_slow, allocs);
	expect_eq(book.free_fast + book.free_slow, frees);
	return book;
}

static void do_alloc(unsigned int i)
{
	objs[i] = pcpool_alloc(cache);
	expect(objs[i]);
	allocs++;
}

static void do_free(unsigned int i)
{
	pcpool_free(cache, objs[i]);
	frees++;
}

/* _i: a checking cache too. */
START_TEST(test_single)
{
	teardown();
	make(_i ? PCPOOL_CHECK : 0);
	check();
	for (unsigned int i = 0; i < N; i++) {
		do_alloc(i);
		check();
	}
	for (unsigned int i = 0; i < N; i++) {
		do_free(i);
		check();
	}
	expect_eq(check().cached > 0, !_i);
	pcpool_free(cache, NULL);
	check();
}
END_TEST

START_TEST(test_bulk)
{
	for (size_t n = 0; n <= N; n += 3) {
		expect_eq(pcpool_alloc_bulk(cache, n, objs), 0);
		allocs += n;
		check();
		expect_eq(pcpool_free_bulk(cache, n, objs), 0);
		frees += n;
		check();
	}
	/* NULL entries are no frees. */
	expect_eq(pcpool_alloc_bulk(cache, N, objs), 0);
	allocs += N;
	for (unsigned int i = 0; i < N; i += 2) {
		do_free(i);
		objs[i] = NULL;
	}
	expect_eq(pcpool_free_bulk(cache, N, objs), 0);
	frees += N / 2;
	check();
}
END_TEST

START_TEST(test_node_and_discard)
{
	for (unsigned int i = 0; i < N; i++) {
		objs[i] = pcpool_alloc_node(cache, (int)(i % 2) - 1);
		expect(objs[i]);
		allocs++;
		check();
	}
	for (unsigned int i = 0; i < N; i++) {
		unsigned long long built = sheet_built(&sheet);

		expect_eq(pcpool_discard(cache, objs[i]), 0);
		frees++;
		check();
		expect_eq(sheet_built(&sheet), built - 1);
	}
}
END_TEST

/* A discard destructs its object, not what waits. */
START_TEST(test_discard_runs_one)
{
	static void *many[2000];
	unsigned long long dtor;
	uint64_t waiting;

	expect_eq(pcpool_alloc_bulk(cache, PCP_ARRAY_SIZE(many), many), 0);
	expect_eq(pcpool_free_bulk(cache, PCP_ARRAY_SIZE(many), many), 0);
	allocs += PCP_ARRAY_SIZE(many);
	frees += PCP_ARRAY_SIZE(many);
	waiting = check().waiting;
	expect_cmp(waiting, >=, 2);
	do_alloc(0);
	dtor = atomic_load(&sheet.dtor);
	waiting = check().waiting;
	expect_eq(pcpool_discard(cache, objs[0]), 0);
	frees++;
	expect_eq(atomic_load(&sheet.dtor), dtor + 1);
	expect_cmp(check().waiting, >=, waiting);
}
END_TEST

START_TEST(test_failures)
{
	uint64_t failed = 0;

	for (unsigned int every = 1; every < 7; every++) {
		size_t n = 0;

		atomic_store(&sheet.fail_every, every);
		for (unsigned int i = 0; i < N; i++) {
			objs[n] = pcpool_alloc(cache);
			if (objs[n])
				n++, allocs++;
			else
				failed++;
			check();
		}
		expect_eq(stock_stat(&cache->stock, PCP_STAT_ALLOC_FAIL),
			  failed);
		expect_eq(pcpool_free_bulk(cache, n, objs), 0);
		frees += n;
		check();
		/* All or none: what was taken is given back. */
		expect_eq(pcpool_cache_shrink(cache), 0);
		if (pcpool_alloc_bulk(cache, N, objs)) {
			struct pcp_book book;

			failed++;
			pcp_stock_book(&cache->stock, &book, false);
			expect_eq(book.live, 0);
			allocs = frees = book.alloc_fast + book.alloc_slow;
		} else {
			allocs += N;
			expect_eq(pcpool_free_bulk(cache, N, objs), 0);
			frees += N;
		}
		check();
		expect_eq(pcpool_cache_shrink(cache), 0);
	}
	atomic_store(&sheet.fail_every, 0);
}
END_TEST

START_TEST(test_shrink)
{
	struct pcp_book book;

	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < N; i++)
			do_alloc(i);
		for (unsigned int i = 1; i < N; i++)
			do_free(i);
		expect_eq(pcpool_cache_shrink(cache), 0);
		book = check();
		expect_eq(book.cached, 0);
		expect_eq(book.slabs, 1);
		expect_eq(book.partial, 1);
		expect_eq(book.waiting, 0);
		expect_eq(book.sheaves, 0);
		expect_eq(book.sheaf_bytes, 0);
		do_free(0);
		check();
		expect_eq(pcpool_cache_shrink(cache), 0);
		expect_eq(check().slabs, 0);
	}
}
END_TEST

/* A destroy that is refused has flushed, and changed nothing else. */
START_TEST(test_busy_destroy)
{
	for (unsigned int i = 0; i < 2 * CAPACITY; i++)
		do_alloc(i);
	for (unsigned int i = 1; i < 2 * CAPACITY; i++)
		do_free(i);
	atomic_store(&sheet.no_dtor, true);
	expect_eq(pcpool_cache_destroy(cache), EBUSY);
	atomic_store(&sheet.no_dtor, false);
	expect_eq(check().cached, 0);
	do_alloc(1);
	do_free(1);
	do_free(0);
	check();
}
END_TEST

/* Sheaves in slots, their counts included, and in the barn. */
START_TEST(test_where)
{
	struct pcp_book book;
	long index;

	for (unsigned int i = 0; i < N; i++)
		do_alloc(i);
	for (unsigned int i = 0; i < N; i++)
		do_free(i);
	index = pcp_this_index();
	book = check();
	expect_eq(book.cached,
		  pcp_sheaf_size(pcp_slot_peek(&cache->stock, index,
					       PCP_MAIN)) +
			  pcp_sheaf_size(pcp_slot_peek(&cache->stock, index,
						       PCP_SPARE)) +
			  pcp_barn_objects(&cache->stock.barns[0]));
	expect_cmp(book.cached, >=, 3 * CAPACITY);
	expect_cmp(book.alloc_fast, >, 0);
	expect_cmp(book.free_fast, >, 0);
	expect_cmp(book.sheaf_bytes, >=,
		   book.sheaves * CAPACITY * sizeof(void *));
}
END_TEST

/* --- never below nothing -------------------------------------------------- */

/* Frees that are seen before their allocations do not make 2^64 live ones. */
START_TEST(test_blurred)
{
	struct pcp_book book;

	pcp_stat_add(&cache->stock.kind.stat, PCP_STAT_SLOW_FREE, 3);
	pcp_stock_book(&cache->stock, &book, false);
	expect_eq(book.live, 0);
	pcp_stat_add(&cache->stock.kind.stat, PCP_STAT_SLOW_ALLOC, 3);
	allocs = frees = 3;
	check();
}
END_TEST

/* --- a forked child ------------------------------------------------------- */

/* Another thread is in the middle of a slow path while this one forks. */
static sem_t inside, go_on;

static void stop_inside(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_ALLOC_HOOK_MAIN)
		return;
	sem_post(&inside);
	while (sem_wait(&go_on))
		;
}

static void alloc_in_thread(void *arg)
{
	objs[0] = pcpool_alloc(arg);
}

static void in_child(void *arg)
{
	struct pcp_book book;

	(void)arg;
	pcp_hook_set(NULL);
	expect(pcp_cache_forked(cache));
	pcp_stock_book(&cache->stock, &book, true);
	expect_eq(book.live, 0);
	/* The sheaf that thread had, and the object it was to return. */
	expect_eq(pcp_book_lost(&book), CAPACITY);
	expect_eq(book.cached, 0);
	/* The child works on, and can destroy. */
	do_alloc(1);
	do_free(1);
	expect_eq(pcpool_cache_destroy(cache), 0);
	expect_eq(sheet_built(&sheet), CAPACITY);
}

START_TEST(test_lost_in_fork)
{
	struct helper helper = { 0 };
	struct child child;

	expect(!sem_init(&inside, 0, 0) && !sem_init(&go_on, 0, 0));
	helper_start(&helper, 1);
	pcp_hook_set(stop_inside);
	helper.fn = alloc_in_thread;
	helper.arg = cache;
	sem_post(&helper.asked);
	while (sem_wait(&inside))
		;
	run_child(in_child, NULL, 20, &child);
	expect_child_exit(&child, 0);
	pcp_hook_set(NULL);
	sem_post(&go_on);
	while (sem_wait(&helper.done))
		;
	helper_stop(&helper);
	expect(objs[0]);
	/* In the parent the balance stays exact. */
	allocs = 1;
	check();
	do_free(0);
	check();
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("book", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, test_single, 0, 2);
	tcase_add_test(tc, test_bulk);
	tcase_add_test(tc, test_node_and_discard);
	tcase_add_test(tc, test_discard_runs_one);
	tcase_add_test(tc, test_failures);
	tcase_add_test(tc, test_shrink);
	tcase_add_test(tc, test_busy_destroy);
	tcase_add_test(tc, test_where);
	tcase_add_test(tc, test_blurred);
	tcase_add_test(tc, test_lost_in_fork);
	return suite_run(tc);
}

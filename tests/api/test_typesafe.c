/* SPDX-License-Identifier: MIT */
/*
 * PCPOOL_TYPESAFE_BY_RCU: memory that a reader found stays a built object of the
 * cache for as long as it is inside, whatever is freed, discarded and shrunk.
 */
#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "../caches.h"
#include "../rcu.h"
#include "../suite.h"

enum { CAPACITY = 8, N = 200, SIZE = 64 };

static struct sheet sheet;
static struct pcpool_cache *cache;
static const struct rcu_flavor_struct *flavor;
static void *objs[N];

/* What destructors of the cache do besides. */
static void (*in_dtor)(void);
static atomic_uint dtors;

static void dtor(void *obj, void *arg)
{
	sheet_dtor(obj, arg);
	if (in_dtor)
		in_dtor();
	/* Whoever looks at it now sees it. */
	memset(obj, 0x5a, SIZE);
	atomic_fetch_add(&dtors, 1);
}

static void make(unsigned int flags)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	sheet = (struct sheet){ .fill = SIZE };
	attr.ctor = sheet_ctor;
	attr.dtor = dtor;
	attr.arg = &sheet;
	attr.flags = PCPOOL_TYPESAFE_BY_RCU | flags;
	attr.sheaf_capacity = CAPACITY;
	attr.min_partial = 1;
	attr.rcu = flavor;
	cache = pcpool_cache_create("typesafe", SIZE, &attr);
	expect(cache);
}

static void setup(void)
{
	pin_to(0);
	flavor = &urcu_memb_flavor;
	make(0);
}

static void teardown(void)
{
	destroy_balanced(cache, &sheet);
}

static void remake(const struct rcu_flavor_struct *other, unsigned int flags)
{
	teardown();
	flavor = other;
	make(flags);
}

static void all_built(void)
{
	for (int i = 0; i < N; i++)
		sheet_pattern_check(objs[i], SIZE);
}

static void look(void *arg)
{
	(void)arg;
	all_built();
}

static void take_all(void)
{
	expect_eq(pcpool_alloc_bulk(cache, N, objs), 0);
	all_built();
}

/* --- memory stays ----------------------------------------------------------- */

static atomic_bool shrunk;

static void *shrinker(void *arg)
{
	expect_eq(pcpool_cache_shrink(arg), 0);
	atomic_store(&shrunk, true);
	return NULL;
}

/* A shrink waits for the reader, and nothing is destructed before. _i: the
 * flavour, and whether frees are deferred besides. */
START_TEST(test_shrink_waits)
{
	const struct timespec moment = { 0, 20000000 };
	struct reader reader = { .look = look };
	pthread_t thread;

	remake(flavors[_i / 2], 0);
	take_all();
	reader_start(&reader, flavor);
	for (int i = 0; i < N; i++)
		if (_i % 2)
			pcpool_free_rcu(cache, objs[i]);
		else
			pcpool_free(cache, objs[i]);
	expect(!pthread_create(&thread, NULL, shrinker, cache));
	nanosleep(&moment, NULL);
	expect(!atomic_load(&shrunk));
	expect_eq(atomic_load(&sheet.dtor), 0);
	all_built();
	reader_end(&reader);
	expect(!pthread_join(thread, NULL));
	/* Of what was deferred sheaves are in the barn now. */
	expect_eq(pcpool_rcu_barrier(cache), 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).slabs, 0);
	sheet_balanced(&sheet);
}
END_TEST

/* Inside a reader a shrink does not wait, and its slabs die later. */
START_TEST(test_shrink_inside_reader)
{
	remake(flavors[_i], 0);
	flavor->register_thread();
	for (int round = 0; round < 3; round++) {
		take_all();
		flavor->read_lock();
		expect_eq(pcpool_free_bulk(cache, N, objs), 0);
		errno = ENOTTY;
		expect_eq(pcpool_cache_shrink(cache), 0);
		expect_errno(ENOTTY);
		if (!is_qsbr(flavor)) {
			unsigned long long built = sheet_built(&sheet);

			all_built();
			expect_cmp(built, >=, N);
			expect_eq(stats_of(cache).built, built);
			/* The cache works on, with other memory. */
			pcpool_free(cache, must_alloc(cache));
			all_built();
		}
		flavor->read_unlock();
		expect_eq(pcpool_cache_shrink(cache), 0);
		expect_eq(stats_of(cache).slabs, 0);
		sheet_balanced(&sheet);
	}
	flavor->unregister_thread();
}
END_TEST

/* A freed object may be handed out at once: that is the point of it. */
START_TEST(test_reused_at_once)
{
	struct reader reader = { 0 };
	void *obj = must_alloc(cache);
	bool found = false;

	reader_start(&reader, flavor);
	pcpool_free(cache, obj);
	for (int i = 0; i < N; i++) {
		objs[i] = must_alloc(cache);
		found |= objs[i] == obj;
	}
	expect(found);
	expect_eq(pcpool_free_bulk(cache, N, objs), 0);
	reader_end(&reader);
}
END_TEST

/* --- discard ---------------------------------------------------------------- */

/* Discarded: not handed out any more, and destructed after the reader. _i:
 * whether the cache checks. */
START_TEST(test_discard)
{
	struct reader reader = { .look = look };
	void *others[N];

	remake(flavor, _i ? PCPOOL_CHECK : 0);
	take_all();
	reader_start(&reader, flavor);
	for (int i = 0; i < N; i++)
		expect_eq(pcpool_discard(cache, objs[i]), 0);
	expect_eq(stats_of(cache).live, 0);
	expect_eq(pcpool_rcu_backlog(cache), N);
	expect_eq(atomic_load(&sheet.dtor), 0);
	expect_eq(pcpool_alloc_bulk(cache, N, others), 0);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			expect(others[i] != objs[j]);
	expect_eq(pcpool_rcu_wait(cache, 1, 20), ETIMEDOUT);
	all_built();
	expect_eq(pcpool_free_bulk(cache, N, others), 0);
	reader_end(&reader);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	expect_eq(atomic_load(&sheet.dtor), N);
	expect_eq(pcpool_rcu_backlog(cache), 0);
	expect_eq(stats_of(cache).built, sheet_built(&sheet));
	/* Built anew, each. */
	take_all();
	expect_eq(pcpool_free_bulk(cache, N, objs), 0);
}
END_TEST

static void discard_twice(void *obj)
{
	expect_eq(pcpool_discard(cache, obj), 0);
	pcpool_discard(cache, obj);
}

static void free_after_discard(void *obj)
{
	expect_eq(pcpool_discard(cache, obj), 0);
	pcpool_free(cache, obj);
}

static void defer_after_discard(void *obj)
{
	expect_eq(pcpool_discard(cache, obj), 0);
	pcpool_free_rcu(cache, obj);
}

static void discard_after_defer(void *obj)
{
	pcpool_free_rcu(cache, obj);
	pcpool_discard(cache, obj);
}

START_TEST(test_misuse)
{
	static void (*const misuse[])(void *) = {
		discard_twice, free_after_discard, defer_after_discard,
		discard_after_defer
	};
	static struct child child;
	void *obj;

	remake(flavor, PCPOOL_CHECK);
	obj = must_alloc(cache);
	run_child(misuse[_i], obj, 20, &child);
	expect_child_abort(&child, "typesafe", "twice", NULL);
	pcpool_free(cache, obj);
}
END_TEST

/* --- destructors ------------------------------------------------------------ */

static void read_a_while(void)
{
	flavor->read_lock();
	expect(flavor->read_ongoing());
	flavor->read_unlock();
}

/* They may be readers. _i: the flavour. */
START_TEST(test_dtor_reads)
{
	remake(flavors[_i], 0);
	in_dtor = read_a_while;
	for (int round = 0; round < 5; round++) {
		take_all();
		if (round % 2)
			for (int i = 0; i < N; i++)
				expect_eq(pcpool_discard(cache, objs[i]), 0);
		else
			expect_eq(pcpool_free_bulk(cache, N, objs), 0);
		expect_eq(pcpool_cache_shrink(cache), 0);
		sheet_balanced(&sheet);
	}
	expect_cmp(atomic_load(&dtors), >=, 5 * N);
	in_dtor = NULL;
}
END_TEST

static struct pcpool_cache *other;

/* Every call, on this cache and another. Waiting is refused. */
static void call_again(void)
{
	static _Thread_local bool inside;
	void *two[2];

	if (inside)
		return;
	inside = true;
	expect_eq(pcpool_alloc_bulk(other, 2, two), 0);
	pcpool_free_rcu(other, two[0]);
	expect_eq(pcpool_discard(other, two[1]), 0);
	two[0] = must_alloc(cache);
	pcpool_free_rcu(cache, two[0]);
	expect_eq(pcpool_discard(cache, must_alloc(cache)), 0);
	expect_eq(pcpool_rcu_barrier(cache), EDEADLK);
	expect_eq(pcpool_rcu_barrier(other), EDEADLK);
	expect_eq(pcpool_cache_destroy(cache), EBUSY);
	stats_of(cache);
	pcpool_rcu_backlog(other);
	inside = false;
}

START_TEST(test_dtor_calls)
{
	struct sheet mine = { .clear = 8 };

	other = sheet_cache_of("other", 40, &mine, PCPOOL_TYPESAFE_BY_RCU, 4);
	take_all();
	in_dtor = call_again;
	for (int i = 0; i < N; i++)
		expect_eq(pcpool_discard(cache, objs[i]), 0);
	while (atomic_load(&dtors) < N)
		expect_eq(pcpool_rcu_barrier(cache), 0);
	in_dtor = NULL;
	expect_eq(pcpool_rcu_barrier(cache), 0);
	destroy_balanced(other, &mine);
}
END_TEST

/* --- destroy ---------------------------------------------------------------- */

/* Whether or not anything was ever done with it, a destroy may have to wait. */
START_TEST(test_destroy_inside_reader)
{
	flavor->register_thread();
	for (int used = 0; used < 2; used++) {
		if (used)
			pcpool_free(cache, must_alloc(cache));
		flavor->read_lock();
		expect_eq(pcpool_cache_destroy(cache), EDEADLK);
		flavor->read_unlock();
		pcpool_free(cache, must_alloc(cache));
	}
	teardown();
	make(0);
	flavor->unregister_thread();
}
END_TEST

/* --- readers and writers ---------------------------------------------------- */

/* The pattern's middle word changes hands, the rest stays. */
struct item {
	uint64_t magic;
	_Atomic(uint64_t) key; /* 0 while free */
};

enum { ITEM_MAGIC = 0x17e3 };

static int item_ctor(void *obj, void *arg)
{
	struct item *item = obj;

	__atomic_store_n(&item->magic, ITEM_MAGIC, __ATOMIC_RELAXED);
	atomic_store(&item->key, 0);
	atomic_fetch_add((atomic_ullong *)arg, 1);
	return 0;
}

static void item_dtor(void *obj, void *arg)
{
	struct item *item = obj;

	expect_eq(__atomic_load_n(&item->magic, __ATOMIC_RELAXED), ITEM_MAGIC);
	__atomic_store_n(&item->magic, 0, __ATOMIC_RELAXED);
	atomic_fetch_sub((atomic_ullong *)arg, 1);
}

enum { PLACES = 64, READERS = 2, WRITERS = 2 };

struct table {
	struct pcpool_cache *cache;
	_Atomic(struct item *) place[PLACES];
	atomic_uint writing;
	atomic_ullong followed, changed;
};

/* A place is found, and then may be freed, used anew, and shrunk away, but not
 * destructed. */
static void table_read(struct table *table, struct rng *rng)
{
	struct item *item;
	uint64_t key;

	flavor->read_lock();
	item = atomic_load(&table->place[rng_below(rng, PLACES)]);
	if (item) {
		key = atomic_load(&item->key);
		for (int i = 0; i < 50; i++)
			expect_eq(__atomic_load_n(&item->magic,
						  __ATOMIC_RELAXED),
				  ITEM_MAGIC);
		sched_yield();
		expect_eq(__atomic_load_n(&item->magic, __ATOMIC_RELAXED),
			  ITEM_MAGIC);
		atomic_fetch_add(&table->followed, 1);
		if (atomic_load(&item->key) != key)
			atomic_fetch_add(&table->changed, 1);
	}
	flavor->read_unlock();
}

static void table_write(struct table *table, struct rng *rng)
{
	struct item *item = must_alloc(table->cache);

	expect_eq(atomic_exchange(&item->key, rng_next(rng) | 1) & 1, 0);
	item = atomic_exchange(&table->place[rng_below(rng, PLACES)], item);
	if (!item)
		return;
	atomic_store(&item->key, 0);
	if (rng_below(rng, 8))
		pcpool_free(table->cache, item);
	else if (rng_below(rng, 2))
		expect_eq(pcpool_discard(table->cache, item), 0);
	else
		pcpool_free_rcu(table->cache, item);
}

static void table_thread(const struct worker *w)
{
	struct table *table = w->arg;
	struct rng rng;

	rng_seed(&rng, w->id);
	if (w->id < READERS) {
		flavor->register_thread();
		while (atomic_load(&table->writing)) {
			table_read(table, &rng);
			flavor->read_quiescent_state();
		}
		flavor->unregister_thread();
		return;
	}
	for (unsigned long i = scaled(20000); i; i--) {
		table_write(table, &rng);
		if (i % 200 == 0)
			expect_eq(pcpool_cache_shrink(table->cache), 0);
	}
	atomic_fetch_sub(&table->writing, 1);
}

/* _i: the flavour. */
START_TEST(test_table)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct table table = { .writing = WRITERS };
	atomic_ullong built = 0;

	flavor = flavors[_i];
	attr.ctor = item_ctor;
	attr.dtor = item_dtor;
	attr.arg = &built;
	attr.flags = PCPOOL_TYPESAFE_BY_RCU;
	attr.rcu = flavor;
	attr.sheaf_capacity = 4;
	attr.min_partial = 1;
	table.cache = pcpool_cache_create("table", 2000, &attr);
	expect(table.cache);
	run_threads(READERS + WRITERS, table_thread, &table);
	expect_cmp(atomic_load(&table.followed), >, 0);
	for (int i = 0; i < PLACES; i++)
		pcpool_free(table.cache, atomic_load(&table.place[i]));
	must_destroy(table.cache);
	expect_eq(atomic_load(&built), 0);
	flavor = &urcu_memb_flavor;
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("typesafe", 120);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, test_shrink_waits, 0, 2 * FLAVORS);
	tcase_add_loop_test(tc, test_shrink_inside_reader, 0, FLAVORS);
	tcase_add_test(tc, test_reused_at_once);
	tcase_add_loop_test(tc, test_discard, 0, 2);
	/* The thread sanitizer has no threads after a fork. */
	if (!TEST_TSAN)
		tcase_add_loop_test(tc, test_misuse, 0, 4);
	tcase_add_loop_test(tc, test_dtor_reads, 0, FLAVORS);
	tcase_add_test(tc, test_dtor_calls);
	tcase_add_test(tc, test_destroy_inside_reader);
	tcase_add_loop_test(tc, test_table, 0, FLAVORS);
	return suite_run(tc);
}

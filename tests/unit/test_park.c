/* SPDX-License-Identifier: MIT */
/*
 * Parking, in lib/node/node.c: one thread is kept inside the list_lock while
 * another frees, then everyone who looks for slabs finds what was parked.
 */
#include <config.h>

#include <sched.h>
#include <time.h>

#include <pcpool/pcpool.h>

#include "stocks.h"

#include "base/options.h"
#include "cache/cache.h"

#define OBJECT 3000U
#define OBJECTS_MAX 64U
#define CAPACITY 4U

static struct sheet sheet;
static struct pcpool_cache *cache;
static struct pcp_stock *stock;
static struct pcp_kind *kind;
static struct pcp_node *node;
static struct pcp_slab_link dead;

/* A slab and all its objects. */
struct whole {
	struct pcp_slab *slab;
	void *objs[OBJECTS_MAX];
};

static uint32_t all(void)
{
	return kind->layout.objects;
}

static uint64_t count(enum pcp_stat_id id)
{
	return stock_stat(stock, id);
}

static void make(bool dtor, uint32_t min_partial)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	sheet = (struct sheet){ .clear = 8 };
	attr.ctor = sheet_ctor;
	attr.dtor = dtor ? sheet_dtor : NULL;
	attr.arg = &sheet;
	attr.sheaf_capacity = CAPACITY;
	cache = pcpool_cache_create("park", OBJECT, &attr);
	expect(cache);
	stock = &cache->stock;
	kind = &stock->kind;
	node = &stock->nodes[0];
	node->min_partial = min_partial;
	expect_cmp(all(), >=, 8);
	expect_cmp(all(), <=, OBJECTS_MAX);
	pcp_slabs_init(&dead);
}

static void setup(void)
{
	pin_to(0);
	make(true, 0);
}

/* Everything is in its slab or sheaf: one shrink settles it all. */
static void teardown(void)
{
	bool dtor = kind->dtor;

	pcp_stock_bury(stock, &dead, true);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(count(PCP_STAT_PARK_SLAB), count(PCP_STAT_UNPARK_SLAB));
	expect_cmp(count(PCP_STAT_UNPARK_EVENT), <=,
		   count(PCP_STAT_UNPARK_SLAB));
	expect(pcp_stack_seems_empty(&node->parked));
	expect_eq(book_check(stock, 0).slabs, 0);
	expect_eq(pcpool_cache_destroy(cache), 0);
	if (dtor)
		sheet_balanced(&sheet);
}

static void remake(bool dtor, uint32_t min_partial)
{
	teardown();
	make(dtor, min_partial);
}

/* A new slab with n of its objects out; it is linked unless full. */
static struct whole grow(uint32_t n)
{
	struct whole whole = { 0 };

	expect_eq(pcp_node_grow(node, 0, n, whole.objs, &dead), n);
	whole.slab = pcp_slab_of(kind, whole.objs[0]);
	return whole;
}

/* Give objects from to to-1 of a slab as one chain. */
static void give_to(const struct whole *whole, uint32_t from, uint32_t to,
		    struct pcp_slab_link *retired)
{
	struct pcp_chain chain = { .slab = whole->slab };

	for (uint32_t i = from; i < to; i++)
		pcp_chain_add(&chain, pcp_slab_index(whole->slab,
						     whole->objs[i]));
	pcp_node_give(node, &chain, retired);
}

static void give(const struct whole *whole, uint32_t from, uint32_t to)
{
	give_to(whole, from, to, &dead);
}

/* --- a thread in the list_lock ------------------------------------------------ */

static struct {
	pthread_t thread;
	struct whole other; /* one object of it is out; the slab is listed */
	sem_t locked, release;
} holder;

static __thread bool is_holder;
static atomic_uint parks_begun;

static void hold(enum pcp_hook_id id)
{
	if (id == PCP_HOOK_PARK)
		atomic_fetch_add(&parks_begun, 1);
	if (id != PCP_HOOK_LIST_LOCKED || !is_holder)
		return;
	sem_post(&holder.locked);
	while (sem_wait(&holder.release))
		;
}

/* A free that empties a listed slab takes the lock, and does not unpark. */
static void *hold_lock(void *arg)
{
	struct pcp_slab_link mine;

	(void)arg;
	is_holder = true;
	pcp_slabs_init(&mine);
	give_to(&holder.other, 0, 1, &mine);
	pcp_stock_bury(stock, &mine, false);
	return NULL;
}

static void lock_there(void)
{
	holder.other = grow(1);
	atomic_store(&parks_begun, 0);
	expect(!sem_init(&holder.locked, 0, 0));
	expect(!sem_init(&holder.release, 0, 0));
	pcp_hook_set(hold);
	expect(!pthread_create(&holder.thread, NULL, hold_lock, NULL));
	while (sem_wait(&holder.locked))
		;
}

static void unlock_there(void)
{
	sem_post(&holder.release);
	expect(!pthread_join(holder.thread, NULL));
	pcp_hook_set(NULL);
}

static uint32_t parked(void)
{
	uint32_t n = 0;

	for (const struct pcp_stack_node *link = pcp_stack_first(&node->parked);
	     link; link = pcp_stack_next(link))
		n++;
	return n;
}

/* A slab whose first n objects were freed while the lock was taken. */
static struct whole park(uint32_t n)
{
	struct whole w = grow(all());
	uint64_t before = count(PCP_STAT_PARK_SLAB);
	uint64_t busy = count(PCP_STAT_LIST_LOCK_CONTENDED);
	uint32_t were = parked();

	lock_there();
	give(&w, 0, n);
	expect_eq(atomic_load(&parks_begun), 1);
	unlock_there();
	expect_eq(count(PCP_STAT_PARK_SLAB), before + 1);
	expect_eq(count(PCP_STAT_LIST_LOCK_CONTENDED), busy + 1);
	expect_eq(parked(), were + 1);
	expect(!w.slab->on_list);
	expect_eq(pcp_slab_inuse(w.slab), all() - n);
	return w;
}

static void expect_unparked(uint64_t slabs, uint64_t events)
{
	expect_eq(count(PCP_STAT_UNPARK_SLAB), slabs);
	expect_eq(count(PCP_STAT_UNPARK_EVENT), events);
	expect(pcp_stack_seems_empty(&node->parked));
	expect_eq(links(&node->partial), node->nr_partial);
	expect_eq(links(&node->waiting), node->nr_waiting);
}

/* --- parking -------------------------------------------------------------------- */

START_TEST(test_park)
{
	struct whole w = park(1);

	expect_eq(count(PCP_STAT_PARK_SLAB), 1);
	expect_eq(count(PCP_STAT_UNPARK_SLAB), 0);
	/* The holder's slab was retired, so nothing at all is on the list. */
	expect_eq(node->nr_partial, 0);
	give(&w, 1, all());
}
END_TEST

/* The lock was free: nothing is parked. */
START_TEST(test_not_contended)
{
	struct whole w = grow(all());

	give(&w, 0, 1);
	expect(w.slab->on_list);
	expect_eq(count(PCP_STAT_PARK_SLAB), 0);
	give(&w, 1, all());
}
END_TEST

/* Enough partial slabs: an empty one needs no lock, so it does not park. */
START_TEST(test_enough_is_not_parked)
{
	struct whole w = grow(all());

	lock_there();
	give(&w, 0, all());
	expect_eq(atomic_load(&parks_begun), 0);
	unlock_there();
	expect_eq(count(PCP_STAT_PARK_SLAB), 0);
	expect_eq(node->nr_waiting, 2);
}
END_TEST

static struct whole waiting_free;

static void *give_there(void *arg)
{
	struct pcp_slab_link mine;

	(void)arg;
	pcp_slabs_init(&mine);
	give_to(&waiting_free, 0, 1, &mine);
	pcp_stock_bury(stock, &mine, false);
	return NULL;
}

START_TEST(test_parking_off)
{
	pthread_t thread;

	teardown();
	pcp_options.no_parking = 1;
	make(true, 0);
	pcp_options.no_parking = 0;
	expect(!node->parking);
	waiting_free = grow(all());
	lock_there();
	expect(!pthread_create(&thread, NULL, give_there, NULL));
	for (int i = 0; i < 50; i++)
		sched_yield();
	unlock_there();
	expect(!pthread_join(thread, NULL));
	expect_eq(atomic_load(&parks_begun), 0);
	expect_eq(count(PCP_STAT_PARK_SLAB), 0);
	expect(waiting_free.slab->on_list);
	give(&waiting_free, 1, all());
}
END_TEST

/* --- unparking ------------------------------------------------------------------ */

/* The list is empty, but the look without the lock sees what is parked. */
START_TEST(test_take_unparks)
{
	struct whole w = park(3);
	uint64_t slabs = kind->nr_slabs;
	void *objs[4];

	expect_eq(node->nr_partial, 0);
	expect_eq(pcp_node_take(node, 2, objs, &dead), 2);
	expect(pcp_slab_of(kind, objs[0]) == w.slab);
	expect(w.slab->on_list);
	expect_unparked(1, 1);
	expect_eq(kind->nr_slabs, slabs);
	memcpy(w.objs, objs, 2 * sizeof(*objs));
	give(&w, 0, 2);
	give(&w, 3, all());
}
END_TEST

START_TEST(test_slow_alloc_unparks)
{
	struct whole w = park(CAPACITY);
	void *obj;
	int err = 0;

	/* No slab may be made, and the waiting one is taken only after. */
	pcp_fault_set(PCP_FAULT_SLAB, 1, true);
	obj = _i ? pcp_slot_alloc_slow(stock, &err)
		 : pcp_stock_alloc(stock, 0, &err);
	pcp_fault_set(PCP_FAULT_SLAB, 0, false);
	expect(obj);
	expect(pcp_slab_of(kind, obj) == w.slab);
	expect_unparked(1, 1);
	pcp_slot_free_slow(stock, obj);
	give(&w, CAPACITY, all());
}
END_TEST

START_TEST(test_trim_unparks)
{
	struct whole w = park(2);

	pcp_node_trim(node, 0, &dead);
	expect(w.slab->on_list);
	expect_unparked(1, 1);
	pcp_slabs_kill(&dead);
	give(&w, 2, all());
}
END_TEST

START_TEST(test_shrink_unparks)
{
	struct whole w = park(2);

	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_unparked(1, 1);
	expect_eq(kind->nr_slabs, 1);
	give(&w, 2, all());
}
END_TEST

/* Nothing can be built: the one built object lies in a parked slab. */
START_TEST(test_search_unparks)
{
	struct whole w = grow(all());
	void *obj;
	int err = 0;

	expect_eq(build_one(w.slab, pcp_slab_index(w.slab, w.objs[0])), 0);
	lock_there();
	give(&w, 0, 1);
	unlock_there();
	expect_eq(count(PCP_STAT_PARK_SLAB), 1);
	atomic_store(&sheet.fail_from, 1);
	if (_i)
		obj = pcp_node_take_built(node, &dead);
	else
		obj = pcp_stock_search(stock, &err);
	atomic_store(&sheet.fail_from, 0);
	expect(obj == w.objs[0]);
	expect_unparked(1, 1);
	if (_i)
		give(&w, 0, 1);
	else
		pcp_slot_free_slow(stock, obj);
	give(&w, 1, all());
}
END_TEST

/* Destroy finds it, linked or not; one that is refused leaves it usable. */
START_TEST(test_destroy_with_parked)
{
	struct whole w;

	remake(true, 2);
	w = park(1);
	expect_eq(pcpool_cache_destroy(cache), EBUSY);
	give(&w, 1, all());
	expect_eq(parked(), 1);
	expect_eq(pcpool_cache_destroy(cache), 0);
	sheet_balanced(&sheet);
	make(true, 0);
}
END_TEST

START_TEST(test_several)
{
	struct whole w[4];

	for (int i = 0; i < 4; i++) {
		w[i] = park(1);
		expect_eq(parked(), i + 1);
	}
	pcp_node_unpark(node, &dead);
	expect_unparked(4, 1);
	expect_eq(node->nr_partial, 4);
	/* Nothing parked: no lock is taken for it. */
	expect_eq(count(PCP_STAT_UNPARK_EVENT), 1);
	pcp_node_unpark(node, &dead);
	expect_unparked(4, 1);
	for (int i = 0; i < 4; i++)
		give(&w[i], 1, all());
}
END_TEST

/* Someone who puts a slab back does not look for one, and does not unpark. */
START_TEST(test_put_back_leaves_it)
{
	struct whole w = park(1), other = grow(2);

	expect_eq(node->nr_partial, 1);
	expect_eq(parked(), 1);
	give(&other, 0, 2);
	give(&w, 1, all());
	expect_eq(parked(), 1);
}
END_TEST

/* --- what became of a slab while it was parked --------------------------------------- */

/* _i: with a destructor, or without, where it is released at once. */
START_TEST(test_empty_with_enough)
{
	struct whole w, other;

	remake(_i, 2);
	w = park(all());
	/* There was one partial slab then; now there are two. */
	expect_eq(node->nr_partial, 1);
	other = grow(1);
	expect_eq(node->nr_partial, 2);
	expect_eq(parked(), 1);
	pcp_node_unpark(node, &dead);
	expect_unparked(1, 1);
	expect(!w.slab->on_list);
	expect_eq(node->nr_partial, 2);
	expect_eq(node->nr_waiting, _i ? 1 : 0);
	expect_eq(links(&dead), _i ? 0 : 1);
	give(&other, 0, 1);
}
END_TEST

START_TEST(test_empty_with_too_few)
{
	struct whole w;

	remake(true, 2);
	w = park(all());
	pcp_node_unpark(node, &dead);
	expect_unparked(1, 1);
	expect(w.slab->on_list);
	expect_eq(node->nr_partial, 2);
	expect_eq(node->nr_waiting, 0);
}
END_TEST

START_TEST(test_frees_into_parked)
{
	struct whole w, other;
	uint64_t locks;

	/* _i: whether there are enough partial slabs by then. */
	remake(true, 2);
	w = park(2);
	other = grow(1);
	/* partial -> partial: the swap alone */
	locks = count(PCP_STAT_LIST_LOCK);
	give(&w, 2, 4);
	expect_eq(count(PCP_STAT_LIST_LOCK), locks);
	expect_eq(pcp_slab_inuse(w.slab), all() - 4);
	/* partial -> empty: under the lock, and left to whoever unparks */
	give(&w, 4, all());
	expect_eq(count(PCP_STAT_LIST_LOCK), locks + 1);
	expect_eq(pcp_slab_inuse(w.slab), 0);
	expect_eq(parked(), 1);
	expect_eq(node->nr_waiting, 0);
	if (!_i)
		node->min_partial = 3;
	pcp_node_unpark(node, &dead);
	expect_unparked(1, 1);
	expect_eq(w.slab->on_list, !_i);
	expect_eq(node->nr_waiting, _i ? 1 : 0);
	give(&other, 0, 1);
}
END_TEST

/* Parked again and again, with an allocation in between: no new slab. */
START_TEST(test_not_grown_past)
{
	struct whole w = grow(all());
	uint64_t made;

	lock_there();
	unlock_there();
	/* The holder's slab waits, and would serve instead of a new one. */
	pcp_node_trim(node, 0, &dead);
	pcp_slabs_kill(&dead);
	made = count(PCP_STAT_ALLOC_SLAB);
	for (unsigned int i = 1; i <= 100; i++) {
		void *obj;
		int err = 0;

		lock_there();
		give(&w, 0, 1);
		unlock_there();
		expect_eq(count(PCP_STAT_PARK_SLAB), i);
		expect_eq(node->nr_partial, 0);
		/* Of the slabs made, each is a holder's. */
		expect_eq(count(PCP_STAT_ALLOC_SLAB), made + 1);
		obj = pcp_stock_alloc(stock, 0, &err);
		expect(obj == w.objs[0]);
		expect_eq(count(PCP_STAT_UNPARK_SLAB), i);
		expect_eq(count(PCP_STAT_ALLOC_SLAB), made + 1);
		pcp_node_trim(node, 0, &dead);
		pcp_slabs_kill(&dead);
		made++;
		pcp_stat_inc(&kind->stat, PCP_STAT_SLOW_FREE);
	}
	give(&w, 0, all());
}
END_TEST

/* --- threads ------------------------------------------------------------------------- */

static atomic_uint step;

/* The lock is held for long at times, so that it is busy when others try. */
static void widen(enum pcp_hook_id id)
{
	struct timespec ts = { 0, 20000 };
	unsigned int n = atomic_fetch_add(&step, 1) * 0x9e3779b9U;

	n ^= n >> 15;
	if (id == PCP_HOOK_LIST_LOCKED || id == PCP_HOOK_PARK ||
	    id == PCP_HOOK_UNPARKED) {
		if (n % 16 == 0)
			nanosleep(&ts, NULL);
		else if (n % 2)
			sched_yield();
	} else if ((id == PCP_HOOK_SLAB_GIVE || id == PCP_HOOK_SLAB_TAKE) &&
		   n % 8 == 0) {
		sched_yield();
	}
}

enum { WORKERS = 5, HELD = 48 };

/* Bulk calls reach the slabs; the last worker shrinks all the time. */
static void work(const struct worker *w)
{
	unsigned long rounds = scaled(400);
	void *objs[HELD];
	struct rng rng;

	rng_seed(&rng, w->id + 1);
	for (unsigned long i = 0; i < rounds; i++) {
		size_t n = 1 + rng_below(&rng, HELD);

		if (w->id == WORKERS - 1 && w->arg) {
			expect_eq(pcpool_cache_shrink(cache), 0);
			i += 3;
			continue;
		}
		expect_eq(pcpool_alloc_bulk(cache, n, objs), 0);
		for (size_t j = 0; j < n; j++)
			owner_take(objs[j], w->id + 1);
		if (i % 8 == 0)
			sched_yield();
		for (size_t j = 0; j < n; j++)
			owner_leave(objs[j], w->id + 1);
		expect_eq(pcpool_free_bulk(cache, n, objs), 0);
	}
}

/* _i & 1: beside shrinks; _i & 2: destroyed with what is parked then. */
START_TEST(test_threads)
{
	uint64_t parks = 0, rounds = 0;

	do {
		remake(true, (uint32_t)_i & 1);
		pcp_hook_set(widen);
		run_threads(WORKERS, work, _i & 1 ? &sheet : NULL);
		pcp_hook_set(NULL);
		book_check(stock, 0);
		parks += count(PCP_STAT_PARK_SLAB);
		expect_cmp(count(PCP_STAT_PARK_SLAB), >=,
			   count(PCP_STAT_UNPARK_SLAB));
		if (_i & 2) {
			expect_eq(pcpool_cache_destroy(cache), 0);
			sheet_balanced(&sheet);
			make(true, 0);
		}
	} while (++rounds < 3 || (!parks && rounds < 100));
	expect_cmp(parks, >, 0);
}
END_TEST

/* Under the same load no slab is parked, and the balance is the same. */
START_TEST(test_threads_without)
{
	teardown();
	pcp_options.no_parking = 1;
	make(true, 0);
	pcp_options.no_parking = 0;
	pcp_hook_set(widen);
	run_threads(WORKERS, work, NULL);
	pcp_hook_set(NULL);
	expect_cmp(count(PCP_STAT_LIST_LOCK), >, 0);
	expect_eq(count(PCP_STAT_PARK_SLAB), 0);
	expect_eq(count(PCP_STAT_UNPARK_EVENT), 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("park", 120);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_park);
	tcase_add_test(tc, test_not_contended);
	tcase_add_test(tc, test_enough_is_not_parked);
	tcase_add_test(tc, test_parking_off);
	tcase_add_test(tc, test_take_unparks);
	tcase_add_loop_test(tc, test_slow_alloc_unparks, 0, 2);
	tcase_add_test(tc, test_trim_unparks);
	tcase_add_test(tc, test_shrink_unparks);
	tcase_add_loop_test(tc, test_search_unparks, 0, 2);
	tcase_add_test(tc, test_destroy_with_parked);
	tcase_add_test(tc, test_several);
	tcase_add_test(tc, test_put_back_leaves_it);
	tcase_add_loop_test(tc, test_empty_with_enough, 0, 2);
	tcase_add_test(tc, test_empty_with_too_few);
	tcase_add_loop_test(tc, test_frees_into_parked, 0, 2);
	tcase_add_test(tc, test_not_grown_past);
	tcase_add_loop_test(tc, test_threads, 0, 4);
	tcase_add_test(tc, test_threads_without);
	return suite_run(tc);
}

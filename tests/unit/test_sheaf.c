/* SPDX-License-Identifier: MIT */
/* lib/sheaf/sheaf.c: what a sheaf counts, and the set that sheaves are pushed to
 * and swept from at the same time. */
#include <config.h>

#include <sched.h>

#include "floors.h"

#include "base/lock.h"
#include "sheaf/sheaf.h"

#define CAPACITY 7U

static struct pcp_stat stat;
static struct pcp_sheaves set;

static void setup(void)
{
	pcp_init();
	expect_eq(pcp_stat_init(&stat), 0);
	set = (struct pcp_sheaves){ .stat = &stat, .capacity = CAPACITY };
}

static uint64_t count(enum pcp_stat_id id)
{
	return pcp_stat_sum(&stat, id);
}

static struct pcp_sheaves_sum sum_now(void)
{
	struct pcp_sheaves_sum sum;

	pcp_sheaves_sum(&set, &sum);
	expect_eq(sum.sheaves, count(PCP_STAT_SHEAF_ALLOC) -
				       count(PCP_STAT_SHEAF_FREE));
	return sum;
}

static void teardown(void)
{
	pcp_sheaves_free_all(&set);
	expect_eq(sum_now().sheaves, 0);
	expect(!set.all && !set.retired);
	pcp_stat_destroy(&stat);
}

static struct pcp_sheaf *must_new(void)
{
	struct pcp_sheaf *sheaf = pcp_sheaf_new(&set);

	expect(sheaf);
	expect_eq(sheaf->capacity, CAPACITY);
	expect_eq(pcp_sheaf_size(sheaf), 0);
	return sheaf;
}

static void *object(size_t i)
{
	return (void *)(uintptr_t)(16 * i + 16);
}

/* --- one sheaf ------------------------------------------------------------ */

START_TEST(test_sentinels)
{
	const struct pcp_sheaf *both[] = { PCP_EMPTY, PCP_CLOSED };

	expect(PCP_EMPTY != PCP_CLOSED);
	for (size_t i = 0; i < 2; i++) {
		uint64_t allocs, frees;

		expect(pcp_is_sentinel(both[i]));
		expect_eq(both[i]->word, 0);
		expect_eq(both[i]->capacity, 0);
		expect(pcp_sheaf_full(both[i]));
		expect_eq(pcp_sheaf_room(both[i]), 0);
		pcp_sheaf_counts(both[i], &allocs, &frees);
		expect_eq(allocs + frees, 0);
	}
	expect(!pcp_is_sentinel(must_new()));
}
END_TEST

static void write_sentinel(void *arg)
{
	(void)arg;
	*(volatile uint64_t *)&PCP_EMPTY->word = 1;
}

/* A stray store shows at once. */
START_TEST(test_sentinels_are_read_only)
{
	struct child child;

	run_child(write_sentinel, NULL, 10, &child);
	expect(child.status != 0);
}
END_TEST

START_TEST(test_push_and_pop)
{
	struct pcp_sheaf *sheaf = must_new();
	struct pcp_sheaf_tail *tail = pcp_sheaf_tail(sheaf);

	for (unsigned int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < CAPACITY; i++) {
			expect(!pcp_sheaf_full(sheaf));
			expect_eq(pcp_sheaf_room(sheaf), CAPACITY - i);
			pcp_sheaf_push(sheaf, object(i));
			expect_eq(pcp_sheaf_size(sheaf), i + 1);
		}
		expect(pcp_sheaf_full(sheaf));
		expect((void **)(void *)tail == sheaf->objects + CAPACITY);
		expect(!tail->dead && !tail->next);
		for (uint32_t i = CAPACITY; i-- > 0;)
			expect(pcp_sheaf_pop(sheaf) == object(i));
		expect_eq(pcp_sheaf_size(sheaf), 0);
	}
}
END_TEST

/* As sections do it, on a main. */
static void section_pop(struct pcp_sheaf *sheaf, uint32_t n)
{
	expect_cmp(pcp_sheaf_size(sheaf), >=, n);
	sheaf->word += ((uint64_t)n << PCP_SHEAF_ALLOC_SHIFT) - n;
}

static void section_push(struct pcp_sheaf *sheaf, uint32_t n)
{
	expect_cmp(pcp_sheaf_room(sheaf), >=, n);
	sheaf->word += n;
}

START_TEST(test_counts)
{
	uint64_t all_allocs = 0, all_frees = 0, allocs, frees;
	struct pcp_sheaf *sheaf = must_new();
	struct rng rng;

	rng_seed(&rng, 5);
	for (unsigned int turn = 0; turn < 200; turn++) {
		uint64_t turn_allocs = 0, turn_frees = 0;

		/* Owned: not counted here. */
		pcp_sheaf_set_size(sheaf, rng_below(&rng, CAPACITY + 1));
		pcp_sheaf_counts(sheaf, &allocs, &frees);
		expect_eq(allocs + frees, 0);
		pcp_sheaf_begin(sheaf);
		for (unsigned int i = 0; i < 100; i++) {
			uint32_t n = rng_below(&rng, 4);

			if (rng_below(&rng, 2)) {
				n = n < pcp_sheaf_size(sheaf)
					    ? n
					    : pcp_sheaf_size(sheaf);
				section_pop(sheaf, n);
				turn_allocs += n;
			} else {
				n = n < pcp_sheaf_room(sheaf)
					    ? n
					    : pcp_sheaf_room(sheaf);
				section_push(sheaf, n);
				turn_frees += n;
			}
			pcp_sheaf_counts(sheaf, &allocs, &frees);
			expect_eq(allocs, turn_allocs);
			expect_eq(frees, turn_frees);
			expect_eq(sum_now().allocs, turn_allocs);
			expect_eq(sum_now().frees, turn_frees);
		}
		all_allocs += turn_allocs;
		all_frees += turn_frees;
		allocs = pcp_sheaf_size(sheaf);
		pcp_sheaf_end(sheaf, &stat);
		expect_eq(pcp_sheaf_size(sheaf), allocs);
		expect_eq(count(PCP_STAT_FAST_ALLOC), all_allocs);
		expect_eq(count(PCP_STAT_FAST_FREE), all_frees);
		expect_eq(sum_now().allocs + sum_now().frees, 0);
		/* Twice does no harm: one that was refused as a main. */
		pcp_sheaf_end(sheaf, &stat);
		expect_eq(count(PCP_STAT_FAST_ALLOC), all_allocs);
	}
	pcp_sheaf_set_size(sheaf, 0);
}
END_TEST

/* 48 bits of allocations do not run into the size. */
START_TEST(test_large_counts)
{
	struct pcp_sheaf *sheaf = must_new();
	const uint64_t many = UINT64_C(1) << 47;

	pcp_sheaf_begin(sheaf);
	sheaf->word = many << PCP_SHEAF_ALLOC_SHIFT;
	section_push(sheaf, CAPACITY);
	expect_eq(sum_now().allocs, many);
	expect_eq(sum_now().frees, many + CAPACITY);
	pcp_sheaf_end(sheaf, &stat);
	expect_eq(count(PCP_STAT_FAST_ALLOC), many);
	expect_eq(count(PCP_STAT_FAST_FREE), many + CAPACITY);
	expect_eq(pcp_sheaf_size(sheaf), CAPACITY);
	pcp_sheaf_set_size(sheaf, 0);
}
END_TEST

/* --- capacities ----------------------------------------------------------- */

START_TEST(test_capacities)
{
	for (uint32_t capacity = 1; capacity <= PCPOOL_SHEAF_CAPACITY_MAX;
	     capacity++) {
		struct pcp_sheaf *sheaf;

		set.capacity = capacity;
		sheaf = pcp_sheaf_new(&set);
		expect(sheaf && sheaf->capacity == capacity);
		expect_eq((uintptr_t)sheaf % PCP_CACHELINE, 0);
		for (uint32_t i = 0; i < capacity; i++)
			pcp_sheaf_push(sheaf, object(i));
		expect(!pcp_sheaf_tail(sheaf)->dead);
		expect(pcp_sheaf_tail(sheaf)->all == NULL);
		expect_cmp(sum_now().bytes, >=,
			   (char *)(pcp_sheaf_tail(sheaf) + 1) -
				   (char *)sheaf);
		pcp_sheaves_free_all(&set);
	}
}
END_TEST

/* --- the set -------------------------------------------------------------- */

START_TEST(test_no_memory)
{
	pcp_fault_set(PCP_FAULT_META, 1, true);
	expect(!pcp_sheaf_new(&set));
	pcp_fault_set(PCP_FAULT_META, 0, false);
	expect_eq(sum_now().sheaves, 0);
	must_new();
	expect_eq(sum_now().sheaves, 1);
}
END_TEST

START_TEST(test_reuse)
{
	struct pcp_sheaf *a = must_new(), *b = must_new(), *c = must_new();
	struct pcp_sheaf *again[3];
	uint64_t bytes = sum_now().bytes;

	pcp_sheaf_retire(&set, a);
	pcp_sheaf_retire(&set, b);
	pcp_sheaf_retire(&set, c);
	/* No memory is needed for one that lies there. */
	pcp_fault_set(PCP_FAULT_META, 1, true);
	for (unsigned int i = 0; i < 3; i++) {
		again[i] = must_new();
		expect(again[i] == a || again[i] == b || again[i] == c);
		for (unsigned int j = 0; j < i; j++)
			expect(again[i] != again[j]);
	}
	expect(!pcp_sheaf_new(&set));
	pcp_fault_set(PCP_FAULT_META, 0, false);
	expect_eq(sum_now().sheaves, 3);
	expect_eq(sum_now().bytes, bytes);
}
END_TEST

/* Whatever the order, a sweep frees the retired ones and no others. */
START_TEST(test_sweep)
{
	enum { N = 8 };

	for (unsigned int which = 0; which < 1U << N; which++) {
		struct pcp_sheaf *sheaves[N];
		unsigned int retired = 0;

		for (unsigned int i = 0; i < N; i++)
			sheaves[i] = must_new();
		for (unsigned int i = 0; i < N; i++)
			if (which >> i & 1) {
				pcp_sheaf_retire(&set, sheaves[i]);
				retired++;
			} else {
				pcp_sheaf_push(sheaves[i], object(i));
			}
		pcp_sheaves_sweep(&set);
		expect(!set.retired);
		expect_eq(sum_now().sheaves, N - retired);
		for (unsigned int i = 0; i < N; i++)
			if (!(which >> i & 1))
				expect(pcp_sheaf_pop(sheaves[i]) == object(i));
		pcp_sheaves_sweep(&set);
		expect_eq(sum_now().sheaves, N - retired);
		pcp_sheaves_free_all(&set);
	}
}
END_TEST

/* --- threads: all push and retire while one sweeps and counts ------------- */

static struct pcp_lock drain_lock = PCP_LOCK_INIT(PCP_RANK_DRAIN);
static atomic_uint running;
static atomic_ullong swept;

static void use(unsigned int id)
{
	enum { HELD = 5 };
	struct pcp_sheaf *mine[HELD] = { NULL };
	struct rng rng;

	rng_seed(&rng, id);
	for (unsigned int step = 0; step < 30000; step++) {
		struct pcp_sheaf **it = &mine[rng_below(&rng, HELD)];

		if (*it) {
			/* Nobody else wrote it meanwhile. */
			expect(pcp_sheaf_pop(*it) == object(id));
			expect_eq(pcp_sheaf_size(*it), 0);
			pcp_sheaf_retire(&set, *it);
			*it = NULL;
		} else {
			*it = must_new();
			pcp_sheaf_push(*it, object(id));
		}
	}
	for (unsigned int i = 0; i < HELD; i++)
		if (mine[i]) {
			expect(pcp_sheaf_pop(mine[i]) == object(id));
			pcp_sheaf_retire(&set, mine[i]);
		}
	atomic_fetch_sub(&running, 1);
}

static void sweep_and_count(void)
{
	while (atomic_load(&running)) {
		struct pcp_sheaves_sum sum;

		pcp_lock(&drain_lock);
		pcp_sheaves_sweep(&set);
		pcp_sheaves_sum(&set, &sum);
		pcp_unlock(&drain_lock);
		expect_cmp(sum.sheaves, <, 100000);
		atomic_fetch_add(&swept, 1);
		sched_yield();
	}
}

static void use_or_sweep(const struct worker *worker)
{
	if (worker->id < 2)
		sweep_and_count();
	else
		use(worker->id);
}

START_TEST(test_threads)
{
	atomic_store(&running, 4);
	run_threads(6, use_or_sweep, NULL);
	expect_cmp(atomic_load(&swept), >, 0);
	pcp_sheaves_sweep(&set);
	expect_eq(sum_now().sheaves, 0);
	expect(!set.all);
	expect_cmp(count(PCP_STAT_SHEAF_FREE), >, 0);
}
END_TEST

/* --- sheaves for users ------------------------------------------------------ */

START_TEST(test_move)
{
	for (uint32_t had = 0; had <= CAPACITY; had++) {
		for (uint32_t more = 0; more <= CAPACITY; more++) {
			struct pcp_sheaf *to = must_new(), *from = must_new();
			uint32_t sum = had + more;
			uint32_t fits = sum < CAPACITY ? sum : CAPACITY;

			for (uint32_t i = 0; i < had; i++)
				pcp_sheaf_push(to, object(i));
			for (uint32_t i = 0; i < more; i++)
				pcp_sheaf_push(from, object(100 + i));
			pcp_sheaf_move(to, from);
			expect_eq(pcp_sheaf_size(to), fits);
			expect_eq(pcp_sheaf_size(from), sum - fits);
			/* The last ones moved, in their order. */
			for (uint32_t i = 0; i < fits; i++)
				expect(to->objects[i] ==
				       (i < had ? object(i)
						: object(100 + sum - fits + i -
							 had)));
			for (uint32_t i = 0; i < sum - fits; i++)
				expect(from->objects[i] == object(100 + i));
			pcp_sheaf_set_size(to, 0);
			pcp_sheaf_set_size(from, 0);
			pcp_sheaf_retire(&set, to);
			pcp_sheaf_retire(&set, from);
		}
	}
	expect_eq(sum_now().sheaves, 2);
}
END_TEST

/* An oversize sheaf never serves as a plain one, nor the other way round. */
START_TEST(test_oversize)
{
	static const uint32_t sizes[] = { CAPACITY + 1, 100, 777, 65535 };
	struct pcp_sheaf *plain = must_new(), *large;

	pcp_sheaf_retire(&set, plain);
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(sizes); i++) {
		large = pcp_sheaf_new_oversize(&set, sizes[i]);
		expect(large && large != plain);
		expect_cmp(large->capacity, >=, sizes[i]);
		expect_cmp(large->capacity, <=, PCP_SHEAF_SIZE_MASK);
		/* Few sizes, the smallest of 64. */
		expect_cmp(large->capacity, <,
			   sizes[i] < 64 ? 65 : 2 * sizes[i]);
		pcp_sheaf_set_size(large, sizes[i]);
		expect_eq(pcp_sheaf_size(large), sizes[i]);
		pcp_sheaf_set_size(large, 0);
		pcp_sheaf_retire(&set, large);
		expect(pcp_sheaf_new_oversize(&set, sizes[i]) == large);
		pcp_sheaf_retire(&set, large);
		expect(must_new() == plain);
		pcp_sheaf_retire(&set, plain);
	}
	expect_eq(sum_now().sheaves, 1 + PCP_ARRAY_SIZE(sizes));
	/* Each number once: few sheaves serve. */
	for (uint32_t n = CAPACITY + 1; n < 700; n++) {
		large = pcp_sheaf_new_oversize(&set, n);
		expect(large);
		pcp_sheaf_retire(&set, large);
	}
	expect_cmp(sum_now().sheaves, <, 20);
	pcp_sheaves_sweep(&set);
	expect_eq(sum_now().sheaves, 0);
}
END_TEST

START_TEST(test_held)
{
	struct pcp_sheaf *a = must_new(), *b = must_new();

	pcp_sheaf_push(a, object(1));
	pcp_sheaf_push(a, object(2));
	pcp_sheaf_push(b, object(3));
	expect_eq(sum_now().held, 0);
	expect_eq(sum_now().held_objects, 0);
	pcp_sheaf_tail(a)->held = true;
	expect_eq(sum_now().held, 1);
	expect_eq(sum_now().held_objects, 2);
	pcp_sheaf_set_size(a, 0);
	expect_eq(sum_now().held, 1);
	expect_eq(sum_now().held_objects, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("sheaf", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_sentinels);
	tcase_add_test(tc, test_sentinels_are_read_only);
	tcase_add_test(tc, test_push_and_pop);
	tcase_add_test(tc, test_counts);
	tcase_add_test(tc, test_large_counts);
	tcase_add_test(tc, test_capacities);
	tcase_add_test(tc, test_no_memory);
	tcase_add_test(tc, test_reuse);
	tcase_add_test(tc, test_sweep);
	tcase_add_test(tc, test_move);
	tcase_add_test(tc, test_oversize);
	tcase_add_test(tc, test_held);
	tcase_add_test(tc, test_threads);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/slot/adapt.c: the ladder of capacities, when it is climbed and descended,
 * how much a refill takes, what prefilled sheaves ask for. */
#include <config.h>

#include "adapt_fixture.h"

/* What main and spare of a slot may hold, and a barn. */
#define SLOT_BYTES ((size_t)256 << 10)
#define BARN_BYTES ((size_t)8 << 20)

/* Misses of a window, and the capacities of operations over which they are
 * rare. */
#define WINDOW 4U
#define RARE 8U

/* Between the last miss and this one nothing else happened. */
static void window_of_misses(struct pcp_stock *stock)
{
	for (unsigned int i = 0; i < WINDOW; i++)
		pcp_adapt_miss(stock, here);
}

/* --- the ladder ----------------------------------------------------------- */

/* A sheaf's memory is whole cache lines, and the lines double. */
START_TEST(test_rungs_waste_nothing)
{
	for (size_t i = 0; sizeof(void *) == 8 && i < RUNGS; i++)
		expect_eq(sizeof(struct pcp_sheaf) + rungs[i] * sizeof(void *) +
				  sizeof(struct pcp_sheaf_tail),
			  (size_t)PCP_CACHELINE << i);
	expect_cmp(rungs[RUNGS - 1], <=, PCPOOL_SHEAF_CAPACITY_MAX);
}
END_TEST

static void check_barns(struct pcp_stock *stock)
{
	size_t sheaf = capacity_of(stock) * stock->kind.layout.size;
	size_t budget = pcp_index.nr_ids / stock->nr_nodes * SLOT_BYTES;
	size_t sheaves;

	/* One rung only is as good as fixed. */
	if (stock->floor == stock->ceiling)
		return;
	if (budget < BARN_BYTES)
		budget = BARN_BYTES;
	sheaves = budget / (SLOT_BYTES / 2);
	for (unsigned int i = 0; i < stock->nr_nodes; i++) {
		uint32_t most = stock->barns[i].most;

		expect_cmp(most, >=, PCP_BARN_FULL_MIN);
		expect_cmp(most, <=, sheaves);
		expect(most == PCP_BARN_FULL_MIN || most * sheaf <= budget);
		expect(most == sheaves ||
		       (most + 1) * sheaf > budget);
		expect_cmp(stock->barns[i].limit, <=, most);
	}
}

/* Up by misses from the floor to the ceiling. Returns how many rungs. */
static unsigned int climb(struct pcp_stock *stock, uint32_t *ceiling)
{
	uint32_t before = capacity_of(stock), next = 0;
	unsigned int steps = 0;

	for (;; steps++) {
		window_of_misses(stock);
		if (capacity_of(stock) == before)
			break;
		for (next = 0; next + 1 < RUNGS && rungs[next] <= before;
		     next++)
			;
		expect_eq(capacity_of(stock), rungs[next] < stock->ceiling
						      ? rungs[next]
						      : stock->ceiling);
		before = capacity_of(stock);
		check_barns(stock);
	}
	*ceiling = before;
	return steps;
}

static void descend(struct pcp_stock *stock, unsigned int steps, uint32_t floor)
{
	while (steps--) {
		uint32_t before = capacity_of(stock), now;

		pcp_adapt_relax(stock, PCP_USE_MISSES);
		expect_eq(capacity_of(stock), before);
		pcp_adapt_relax(stock, PCP_USE_HITS);
		now = capacity_of(stock);
		expect_cmp(now, <, before);
		expect(on_ladder(stock, now));
		expect(steps || now == floor);
		check_barns(stock);
	}
	pcp_adapt_relax(stock, PCP_USE_HITS);
	expect_eq(capacity_of(stock), floor);
}

static uint32_t ladder_of(size_t size)
{
	struct pcp_stock *stock = adaptive(size, NULL);
	uint32_t floor = capacity_of(stock), ceiling, again;
	unsigned int steps;

	expect(floor == 1 || on_ladder(stock, floor));
	expect(floor == 1 || floor * size <= SLOT_BYTES);
	check_barns(stock);
	steps = climb(stock, &ceiling);
	expect(!steps || 2 * ceiling * size <= SLOT_BYTES);
	for (size_t i = 0; i < RUNGS; i++)
		expect(rungs[i] <= ceiling || 2 * rungs[i] * size > SLOT_BYTES);
	descend(stock, steps, floor);
	/* Where nobody is, at once. */
	expect_eq(climb(stock, &again), steps);
	expect_eq(again, ceiling);
	pcp_adapt_relax(stock, PCP_USE_NONE);
	expect_eq(capacity_of(stock), floor);
	expect_eq(stock_stat(stock, PCP_STAT_CAPACITY_UP), 2 * steps);
	expect_eq(stock_stat(stock, PCP_STAT_CAPACITY_DOWN),
		  steps ? steps + 1 : 0);
	stock_drop(stock);
	return floor;
}

START_TEST(test_ladders)
{
	uint32_t last = UINT32_MAX;

	for (size_t size = 1; size <= PCPOOL_SIZE_MAX; size += 1 + size / 16) {
		uint32_t floor = ladder_of(size);

		expect_cmp(floor, <=, last);
		last = floor;
	}
	expect_eq(ladder_of(1), 27);
	expect_eq(ladder_of(PCPOOL_SIZE_MAX), 1);
}
END_TEST

START_TEST(test_fixed)
{
	static const uint32_t capacities[] = { 1, 2, 27, 60, 1024 };

	for (size_t i = 0; i < PCP_ARRAY_SIZE(capacities); i++) {
		struct pcp_stock *stock;
		uint32_t capacity = capacities[i];

		pin_to(0);
		stock = stock_make_of(64, NULL, 0, capacity);
		here = pcp_this_index();
		for (unsigned int n = 0; n < 100; n++)
			window_of_misses(stock);
		expect_eq(capacity_of(stock), capacity);
		expect(pcp_adapt_suffices(stock, capacity));
		expect(!pcp_adapt_suffices(stock, capacity + 1));
		pcp_adapt_relax(stock, PCP_USE_HITS);
		pcp_adapt_relax(stock, PCP_USE_NONE);
		expect_eq(capacity_of(stock), capacity);
		expect_eq(pcp_adapt_fill(stock, here, 5000), 5000);
		expect_eq(stock->barns[0].most, PCP_BARN_FULL);
		expect_eq(stock_stat(stock, PCP_STAT_SLOT_MISS), 100 * WINDOW);
		expect_eq(stock_stat(stock, PCP_STAT_CAPACITY_UP), 0);
		stock_drop(stock);
	}
}
END_TEST

/* --- windows -------------------------------------------------------------- */

static void operations(struct pcp_stock *stock, uint64_t n)
{
	pcp_stat_add(&stock->kind.stat, PCP_STAT_FAST_ALLOC, n / 2);
	pcp_stat_add(&stock->kind.stat, PCP_STAT_FAST_FREE, n - n / 2);
}

/* The counts are of no operation that was: to be taken back. */
static void drop_counts(struct pcp_stock *stock)
{
	size_t words = pcp_this_slot() * PCP_STAT_STRIDE;

	stock->kind.stat.words[words + PCP_STAT_FAST_ALLOC] = 0;
	stock->kind.stat.words[words + PCP_STAT_FAST_FREE] = 0;
	stock_drop(stock);
}

START_TEST(test_only_frequent_misses_raise)
{
	struct pcp_stock *stock = adaptive(64, NULL);
	const uint64_t rare = (uint64_t)WINDOW * RARE * capacity_of(stock);

	expect_eq(capacity_of(stock), 27);
	/* Anything there was before the first window counts to it. */
	window_of_misses(stock);
	expect_eq(capacity_of(stock), 59);
	pcp_adapt_relax(stock, PCP_USE_NONE);

	for (unsigned int i = 0; i < 100; i++) {
		operations(stock, rare);
		window_of_misses(stock);
		expect_eq(capacity_of(stock), 27);
	}
	/* Spread in whatever way, up to the last of the window. */
	for (unsigned int i = 0; i < 100; i++) {
		for (unsigned int j = 0; j < WINDOW; j++) {
			operations(stock, rare / WINDOW);
			pcp_adapt_miss(stock, here);
		}
		expect_eq(capacity_of(stock), 27);
	}
	/* One less is too often. */
	operations(stock, rare - 1);
	for (unsigned int i = 0; i + 1 < WINDOW; i++) {
		pcp_adapt_miss(stock, here);
		expect_eq(capacity_of(stock), 27);
	}
	pcp_adapt_miss(stock, here);
	expect_eq(capacity_of(stock), 59);
	expect_eq(stock_stat(stock, PCP_STAT_CAPACITY_UP), 2);
	drop_counts(stock);
}
END_TEST

/* What a thread read of another slot when it had moved on does no more than
 * spoil one window. */
START_TEST(test_window_of_another_slot)
{
	struct pcp_stock *stock = adaptive(64, NULL);

	operations(stock, 10);
	stock->slots[here].window = 1000;
	window_of_misses(stock);
	expect_eq(capacity_of(stock), 27);
	expect_eq(stock->slots[here].window, 10);
	window_of_misses(stock);
	expect_eq(capacity_of(stock), 59);
	drop_counts(stock);
}
END_TEST

START_TEST(test_slots_count_apart)
{
	struct pcp_stock *stock = adaptive(64, NULL);
	long other = (here + 1) % (long)pcp_index.nr_ids;

	for (unsigned int i = 0; other != here && i + 1 < WINDOW; i++) {
		pcp_adapt_miss(stock, here);
		pcp_adapt_miss(stock, other);
	}
	expect_eq(capacity_of(stock), 27);
	if (other != here) {
		pcp_adapt_miss(stock, other);
		expect_eq(capacity_of(stock), 59);
	}
	stock_drop(stock);
}
END_TEST

/* As far as a burst needs it, or, since the first one finds nothing anywhere, a
 * step further; and no further however long it goes on. */
START_TEST(test_bursts)
{
	static const unsigned int lengths[] = { 1,   27,  54,  90, 118,
						200, 240, 400, 800 };

	for (size_t i = 0; i < PCP_ARRAY_SIZE(lengths); i++) {
		struct pcp_stock *stock = adaptive(64, NULL);
		uint32_t capacity;
		uint64_t misses;
		size_t enough;

		for (enough = 2; 2 * rungs[enough] < lengths[i]; enough++)
			;
		bursts(stock, lengths[i], 100);
		capacity = capacity_of(stock);
		expect(capacity == rungs[enough] ||
		       (enough > 2 && capacity == rungs[enough + 1]));
		misses = stock_stat(stock, PCP_STAT_SLOT_MISS);
		bursts(stock, lengths[i], 100);
		expect_eq(capacity_of(stock), capacity);
		expect_eq(stock_stat(stock, PCP_STAT_SLOT_MISS), misses);
		stock_drop(stock);
	}
}
END_TEST

/* --- how much a refill takes ---------------------------------------------- */

START_TEST(test_fill_doubles)
{
	struct pcp_stock *stock = adaptive(64, NULL);
	long other = (here + 1) % (long)pcp_index.nr_ids;
	uint32_t fill = stock->floor;

	expect_eq(stock->ceiling, 1019);
	for (; fill < stock->ceiling; fill *= 2)
		expect_eq(pcp_adapt_fill(stock, here, 10000), fill);
	for (unsigned int i = 0; i < 3; i++)
		expect_eq(pcp_adapt_fill(stock, here, 10000), fill);
	/* As much as there is room for. */
	expect_eq(pcp_adapt_fill(stock, here, 5), 5);
	if (other != here)
		expect_eq(pcp_adapt_fill(stock, other, 10000), stock->floor);
	/* A thread without a slot. */
	expect_eq(pcp_adapt_fill(stock, -1, 10000), 10000);
	stock_drop(stock);
}
END_TEST

/* Nothing is built ahead for a CPU that wants little, whatever capacity others
 * made necessary. */
START_TEST(test_first_refill_is_small)
{
	struct sheet sheet = { .fill = 64 };
	struct pcp_stock *stock = adaptive(64, &sheet);
	uint32_t refill = stock->floor;
	void *objs[512];

	expect(pcp_adapt_suffices(stock, 1000));
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++) {
		unsigned long long built = sheet.ok;

		objs[i] = stock_alloc(stock);
		expect_eq(sheet.ok, i < built ? built : built + refill);
		refill *= i < built ? 1 : 2;
	}
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++)
		stock_free(stock, objs[i]);
	stock_drop(stock);
	sheet_balanced(&sheet);
}
END_TEST

/* --- prefilled sheaves raise the capacity --------------------------------- */

START_TEST(test_prefill_raises)
{
	static const struct {
		uint32_t n, capacity;
	} cases[] = { { 0, 27 },      { 1, 27 },    { 27, 27 },
		      { 28, 59 },     { 60, 123 },  { 1, 123 },
		      { 124, 251 },   { 400, 507 }, { 1019, 1019 },
		      { 1020, 1019 }, { 5, 1019 } };
	struct sheet sheet = { .fill = 64 };
	struct pcp_stock *stock = adaptive(64, &sheet);
	unsigned int oversize = 0;

	for (size_t i = 0; i < PCP_ARRAY_SIZE(cases); i++) {
		bool larger = cases[i].n > stock->ceiling;
		struct pcp_sheaf *sheaf;
		int err;

		sheaf = pcp_stock_prefill(stock, cases[i].n, &err);
		expect(sheaf);
		expect_cmp(pcp_sheaf_size(sheaf), >=, cases[i].n);
		expect_cmp(sheaf->capacity, >=, cases[i].n);
		oversize += larger;
		expect_eq(pcp_sheaf_tail(sheaf)->oversize, larger);
		expect_eq(capacity_of(stock), cases[i].capacity);
		expect_eq(stock_stat(stock, PCP_STAT_PREFILL_OVERSIZE),
			  oversize);
		pcp_stock_return(stock, sheaf);
	}
	expect_eq(stock_stat(stock, PCP_STAT_CAPACITY_UP), 5);
	stock_drop(stock);
	sheet_balanced(&sheet);
}
END_TEST

START_TEST(test_refill_raises)
{
	struct pcp_stock *stock = adaptive(64, NULL);
	struct pcp_sheaf *sheaf;
	int err;

	sheaf = pcp_stock_prefill(stock, 10, &err);
	expect(sheaf && sheaf->capacity == 27);
	sheaf = pcp_stock_refill(stock, sheaf, 100, &err);
	expect_eq(err, 0);
	expect_eq(sheaf->capacity, 123);
	expect(!pcp_sheaf_tail(sheaf)->oversize);
	expect_eq(capacity_of(stock), 123);
	/* One that has become too small in a user's hands is taken back. */
	expect(pcp_adapt_suffices(stock, 1000));
	pcp_stock_return(stock, sheaf);
	sheaf = pcp_stock_prefill(stock, 200, &err);
	expect(sheaf && sheaf->capacity == 1019);
	pcp_adapt_relax(stock, PCP_USE_NONE);
	sheaf = pcp_stock_refill(stock, sheaf, 900, &err);
	expect_eq(err, 0);
	expect_cmp(pcp_sheaf_size(sheaf), >=, 900);
	pcp_stock_return(stock, sheaf);
	stock_drop(stock);
}
END_TEST

/* --- threads -------------------------------------------------------------- */

static struct pcp_stock *shared;

static void miss_and_relax(const struct worker *worker)
{
	long index = pcp_this_index();

	for (unsigned int i = 0; i < 20000; i++) {
		pcp_adapt_miss(shared, index < 0 ? 0 : index);
		if (i % 64 == worker->id)
			pcp_adapt_relax(shared,
					i % 3 ? PCP_USE_HITS : PCP_USE_NONE);
		expect(on_ladder(shared, capacity_of(shared)));
	}
}

/* Two that meet make one step. */
START_TEST(test_misses_of_many)
{
	shared = adaptive(64, NULL);
	run_threads(4, miss_and_relax, NULL);
	expect_eq(stock_stat(shared, PCP_STAT_SLOT_MISS), 4 * 20000);
	check_barns(shared);
	stock_drop(shared);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("sheaf_adapt", 60);

	tcase_add_test(tc, test_rungs_waste_nothing);
	tcase_add_test(tc, test_ladders);
	tcase_add_test(tc, test_fixed);
	tcase_add_test(tc, test_only_frequent_misses_raise);
	tcase_add_test(tc, test_window_of_another_slot);
	tcase_add_test(tc, test_slots_count_apart);
	tcase_add_test(tc, test_bursts);
	tcase_add_test(tc, test_fill_doubles);
	tcase_add_test(tc, test_first_refill_is_small);
	tcase_add_test(tc, test_prefill_raises);
	tcase_add_test(tc, test_refill_raises);
	tcase_add_test(tc, test_misses_of_many);
	return suite_run(tc);
}

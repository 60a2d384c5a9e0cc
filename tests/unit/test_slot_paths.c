/* SPDX-License-Identifier: MIT */
/* lib/slot/refill.c, prefill.c, flush.c, give.c, stock.c: where objects come from
 * and go to beyond the slot's main, and what happens when one of those places
 * fails. */
#include <config.h>

#include "slot_fixture.h"

/* --- the order of refills and flushes ------------------------------------- */

START_TEST(test_refill_order)
{
	struct pcp_sheaf *spare = stocked(1), *full = stocked(CAPACITY),
			 *part = stocked(2);
	uint64_t refills = count(PCP_STAT_SHEAF_REFILL);
	void *objs[CAPACITY + 4], *want;
	uint32_t n = 0;

	expect(pcp_slot_commit(stock, here, PCP_SPARE, NULL, spare));
	expect(pcp_barn_put_full(&stock->barns[0], full));
	expect(!pcp_barn_put_partial(&stock->barns[0], part));
	want = spare->objects[0];
	objs[n++] = stock_alloc(stock);
	expect(objs[0] == want);
	expect(peek(PCP_MAIN) == spare);
	/* The barn's full one, then its part-filled one. */
	while (n < CAPACITY + 1) {
		want = full->objects[CAPACITY - n];
		objs[n] = stock_alloc(stock);
		expect(objs[n] == want);
		n++;
	}
	while (n < CAPACITY + 3) {
		want = part->objects[CAPACITY + 2 - n];
		objs[n] = stock_alloc(stock);
		expect(objs[n] == want);
		n++;
	}
	/* Then the slabs, a sheaf at once. */
	expect_eq(count(PCP_STAT_SHEAF_REFILL), refills);
	objs[n++] = stock_alloc(stock);
	expect_eq(count(PCP_STAT_SHEAF_REFILL), refills + 1);
	expect_eq(book_check(stock, n).cached, CAPACITY - 1);
	while (n)
		stock_free(stock, objs[--n]);
	book_check(stock, 0);
}
END_TEST

/* Frees fill main, spare, the barn's full ones, then the slabs. */
START_TEST(test_flush_order)
{
	enum { N = CAPACITY * (PCP_BARN_FULL + 6) };
	void *objs[N];
	struct pcp_book book;

	for (unsigned int i = 0; i < N; i++)
		objs[i] = stock_alloc(stock);
	for (unsigned int i = 0; i < N; i++) {
		stock_free(stock, objs[i]);
		book = book_check(stock, N - 1 - i);
		expect_cmp(book.cached, <=, CAPACITY * (PCP_BARN_FULL + 2));
	}
	expect_cmp(book.cached, >=, CAPACITY * (PCP_BARN_FULL + 1));
	expect_eq(stock->barns[0].nr_full, PCP_BARN_FULL);
	expect(pcp_sheaf_full(peek(PCP_SPARE)));
	expect_cmp(count(PCP_STAT_SHEAF_FLUSH), >, 0);
	expect_cmp(count(PCP_STAT_BARN_PUT_FAIL), >, 0);
	/* Few sheaves serve. */
	expect_cmp(book.sheaves, <=, PCP_BARN_FULL + 4);
}
END_TEST

/* A pair at the border of two sheaves must not go to the barn each time. */
START_TEST(test_no_flapping)
{
	void *objs[CAPACITY + 1];
	uint64_t slow;

	for (unsigned int i = 0; i <= CAPACITY; i++)
		objs[i] = stock_alloc(stock);
	for (unsigned int i = 0; i <= CAPACITY; i++)
		stock_free(stock, objs[i]);
	slow = count(PCP_STAT_SLOW_ALLOC) + count(PCP_STAT_SLOW_FREE);
	for (unsigned int round = 0; round < 100; round++) {
		objs[0] = stock_alloc(stock);
		objs[1] = stock_alloc(stock);
		stock_free(stock, objs[0]);
		stock_free(stock, objs[1]);
	}
	expect_eq(count(PCP_STAT_BARN_GET), 0);
	expect_cmp(count(PCP_STAT_SLOW_ALLOC) + count(PCP_STAT_SLOW_FREE) -
			   slow, <=, 200);
	book_check(stock, 0);
}
END_TEST

/* --- prefilled sheaves ------------------------------------------------------------ */

/* Topped up from the barn's part-filled sheaf, then from a full one, of which
 * the rest becomes the part-filled one; slabs are not touched. */
START_TEST(test_prefill_order)
{
	struct pcp_sheaf *spare = stocked(1), *part = stocked(2),
			 *full = stocked(CAPACITY), *sheaf;
	struct pcp_barn *barn = &stock->barns[0];
	void *want[CAPACITY];
	int err;

	want[0] = spare->objects[0];
	want[1] = part->objects[0];
	want[2] = part->objects[1];
	for (uint32_t i = 3; i < CAPACITY; i++)
		want[i] = full->objects[i];
	expect(pcp_slot_commit(stock, here, PCP_SPARE, NULL, spare));
	expect(pcp_barn_put_full(barn, full));
	expect(!pcp_barn_put_partial(barn, part));
	sheaf = pcp_stock_prefill(stock, 4, &err);
	expect(sheaf == spare);
	expect(pcp_sheaf_full(sheaf));
	for (uint32_t i = 0; i < CAPACITY; i++)
		expect(sheaf->objects[i] == want[i]);
	expect(barn->partial == full);
	expect_eq(pcp_sheaf_size(full), 3);
	expect_eq(barn->nr_full, 0);
	expect_eq(barn->nr_empty, 1);
	expect_eq(count(PCP_STAT_PREFILL_SLOW), 1);
	expect_eq(count(PCP_STAT_SHEAF_FLUSH), 0);
	expect_eq(book_check(stock, 0).cached, CAPACITY + 3);
	expect_eq(book_check(stock, 0).held, 1);
	/* As it is, from the barn. */
	full = pcp_stock_prefill(stock, 3, &err);
	expect_eq(pcp_sheaf_size(full), 3);
	expect_eq(count(PCP_STAT_PREFILL_FAST), 1);
	pcp_stock_return(stock, sheaf);
	expect(peek(PCP_SPARE) == sheaf);
	expect_eq(count(PCP_STAT_RETURN_FAST), 1);
	pcp_stock_return(stock, full);
	expect(barn->partial == full);
	expect_eq(count(PCP_STAT_RETURN_SLOW), 1);
	expect_eq(book_check(stock, 0).held, 0);
}
END_TEST

/* barn_refill:off: from slabs, and the barn's part-filled one stays. */
START_TEST(test_prefill_from_slabs)
{
	struct pcp_sheaf *spare = stocked(1), *part = stocked(2), *sheaf;
	struct pcp_barn *barn = &stock->barns[0];
	int err;

	expect(pcp_slot_commit(stock, here, PCP_SPARE, NULL, spare));
	expect(!pcp_barn_put_partial(barn, part));
	pcp_options.no_barn_refill = 1;
	sheaf = pcp_stock_prefill(stock, 4, &err);
	pcp_options.no_barn_refill = 0;
	expect(sheaf == spare);
	expect(pcp_sheaf_full(sheaf));
	expect(barn->partial == part);
	expect_eq(pcp_sheaf_size(part), 2);
	expect_eq(book_check(stock, 0).cached, CAPACITY + 2);
	pcp_stock_return(stock, sheaf);
}
END_TEST

/* --- without memory ------------------------------------------------------------------ */

START_TEST(test_no_sheaf)
{
	void *objs[5];

	pcp_fault_set(PCP_FAULT_META, 1, true);
	for (unsigned int i = 0; i < 5; i++)
		objs[i] = stock_alloc(stock);
	expect(peek(PCP_MAIN) == PCP_EMPTY);
	expect_eq(book_check(stock, 5).cached, 0);
	for (unsigned int i = 0; i < 5; i++)
		stock_free(stock, objs[i]);
	expect_eq(count(PCP_STAT_BYPASS), 10);
	expect_eq(book_check(stock, 0).sheaves, 0);
	pcp_fault_set(PCP_FAULT_META, 0, false);
	stock_free(stock, stock_alloc(stock));
	expect_eq(book_check(stock, 0).sheaves, 1);
}
END_TEST

START_TEST(test_no_slab)
{
	struct pcp_slab_link none;
	int err = 0;

	pcp_slabs_init(&none);
	pcp_fault_set(PCP_FAULT_SLAB, 1, true);
	expect(!pcp_slot_alloc_slow(stock, &err));
	expect_eq(err, ENOMEM);
	err = 0;
	expect(!pcp_stock_alloc(stock, 0, &err));
	expect_eq(err, ENOMEM);
	expect_eq(count(PCP_STAT_ALLOC_FAIL), 2);
	expect_eq(count(PCP_STAT_MEM_FAIL), 2);
	expect_eq(count(PCP_STAT_CTOR_FAIL), 0);
	pcp_fault_set(PCP_FAULT_SLAB, 0, false);
	book_check(stock, 0);
}
END_TEST

/* --- the last resort ------------------------------------------------------ */

static void push_there(void *arg)
{
	void **objs = arg;

	for (unsigned int i = 0; i < CAPACITY; i++)
		stock_free(stock, objs[i]);
}

/* Nothing can be built: what is built anywhere is found, then no more. */
START_TEST(test_search)
{
	struct helper there = { 0 };
	uint64_t built;
	void **objs;
	int err = 0;

	/* Objects in this slot, in the other CPU's, in the barn, in slabs. */
	objs = calloc(10 * CAPACITY, sizeof(*objs));
	expect(objs);
	for (unsigned int i = 0; i < 4 * CAPACITY; i++)
		objs[i] = stock_alloc(stock);
	helper_start(&there, 1);
	helper_call(&there, push_there, objs);
	helper_stop(&there);
	for (unsigned int i = CAPACITY; i < 4 * CAPACITY; i++)
		stock_free(stock, objs[i]);
	pcp_stock_put_sheaf(stock, 0, stocked(2), &dead);
	empty_sheaf(stocked(3));
	built = sheet_built(&sheet);
	expect_cmp(built, <=, 10 * CAPACITY);
	book_check(stock, 0);
	atomic_store(&sheet.fail_from, 1);
	atomic_store(&sheet.error, ENOSPC);
	for (uint64_t i = 0; i < built; i++) {
		if (_i)
			objs[i] = pcp_stock_alloc(stock, 0, &err);
		else
			objs[i] = stock_alloc(stock);
		expect(objs[i]);
		sheet_pattern_check(objs[i], STOCK_OBJECT);
		book_check(stock, i + 1);
	}
	/* The other CPU's slot had to be emptied. */
	if (allowed_cpus() > 1 && pcp_index.nr_ids > 1 && !pcp_index.hash)
		expect_cmp(count(PCP_STAT_DRAIN), >, 0);
	expect_eq(count(PCP_STAT_ALLOC_FAIL), 0);
	for (unsigned int i = 1; i < 4; i++) {
		expect(!pcp_slot_alloc_slow(stock, &err));
		expect_eq(err, ENOSPC);
		expect_eq(count(PCP_STAT_ALLOC_FAIL), i);
		book_check(stock, built);
	}
	expect_eq(sheet_built(&sheet), built);
	atomic_store(&sheet.fail_from, 0);
	for (uint64_t i = 0; i < built; i++)
		stock_free(stock, objs[i]);
	free(objs);
}
END_TEST

/* The constructor fails now and then: no object is lost, none comes twice. */
START_TEST(test_failing_constructor)
{
	void *objs[40];
	unsigned int failed = 0;

	for (unsigned int every = 1; every < 12; every++) {
		unsigned int n = 0;

		atomic_store(&sheet.fail_every, every);
		for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++) {
			int err = 0;

			if (!pcp_slot_pop(stock, &objs[n]))
				objs[n] = pcp_slot_alloc_slow(stock, &err);
			if (objs[n])
				sheet_pattern_check(objs[n++], STOCK_OBJECT);
			else
				failed += err == EXDEV;
			book_check(stock, n);
		}
		expect_eq(count(PCP_STAT_ALLOC_FAIL), failed);
		while (n)
			stock_free(stock, objs[--n]);
		drain_there(NULL);
		for (unsigned int i = 0; i < stock->nr_nodes; i++)
			pcp_node_trim(&stock->nodes[i], 0, &dead);
		pcp_stock_bury(stock, &dead, true);
		expect_eq(sheet_built(&sheet), 0);
	}
	expect_cmp(failed, >=, PCP_ARRAY_SIZE(objs));
	atomic_store(&sheet.fail_every, 0);
}
END_TEST

/* --- other nodes ---------------------------------------------------------- */

static unsigned int node_of(const void *obj)
{
	return pcp_slab_of(&stock->kind, obj)->node;
}

START_TEST(test_nodes)
{
	uint32_t n = stock->kind.layout.objects + 1;
	void **objs = calloc(n, sizeof(*objs));
	int err = 0;

	expect(objs);
	expect_eq(stock->nr_nodes, 2);
	objs[0] = pcp_stock_alloc(stock, 0, &err);
	expect(objs[0]);
	expect_eq(node_of(objs[0]), 0);
	for (uint32_t i = 1; i < n; i++) {
		objs[i] = pcp_stock_alloc(stock, 1, &err);
		expect(objs[i]);
		expect_eq(node_of(objs[i]), 1);
		/* From now on that slab is all there is. */
		pcp_fault_set(PCP_FAULT_SLAB, 1, true);
	}
	for (uint32_t i = 0; i < n; i++)
		pcp_slot_free_slow(stock, objs[i]);
	for (uint32_t i = 0; i < n; i++) {
		objs[i] = pcp_stock_alloc(stock, 1, &err);
		expect(objs[i]);
	}
	/* The last resort is the other node's. */
	expect_eq(count(PCP_STAT_ALLOC_SLAB), 2);
	pcp_fault_set(PCP_FAULT_SLAB, 0, false);
	book_check(stock, n);
	pcp_stock_give(stock, n, objs, &dead);
	pcp_stat_add(&stock->kind.stat, PCP_STAT_SLOW_FREE, n);
	expect_eq(book_check(stock, 0).slabs, 2);
	free(objs);
}
END_TEST

static void setup_nodes(void)
{
	decide("nodes:2");
	setup();
}

/* --- the stock as a whole ------------------------------------------------- */

START_TEST(test_init_fails)
{
	static const struct {
		enum pcp_fault_point point;
		unsigned long nth;
	} cases[] = {
		{ PCP_FAULT_RESERVE, 1 },
		{ PCP_FAULT_COMMIT, 1 },
		{ PCP_FAULT_META, 1 },
		{ PCP_FAULT_META, 2 },
	};
	struct pcp_stock *other = pcp_meta_alloc(
		sizeof(*other) + pcp_index.nr_ids * sizeof(struct pcp_slot),
		128);

	expect(other);
	for (size_t i = 0; i < PCP_ARRAY_SIZE(cases); i++) {
		pcp_fault_set(cases[i].point, cases[i].nth, false);
		expect_eq(pcp_stock_init(other, 64, 0, 4, 1), ENOMEM);
		expect_eq(pcp_fault_passed(cases[i].point) >= cases[i].nth, 1);
		pcp_fault_set(cases[i].point, 0, false);
	}
	expect_eq(pcp_stock_init(other, 64, 0, 4, 1), 0);
	stock_drop(other);
}
END_TEST

/* A checking cache never uses its slots; a dying one hands nothing out. */
START_TEST(test_bypass_and_dying)
{
	struct pcp_stock *checked = stock_make_of(64, NULL, PCPOOL_CHECK, 4);
	int err = 0;
	void *obj;

	expect(checked->bypass);
	expect(!pcp_slot_usable(checked, here));
	expect(!pcp_slot_pop(checked, &obj));
	obj = pcp_slot_alloc_slow(checked, &err);
	expect(obj);
	expect_eq(book_check(checked, 1).cached, 0);
	expect(!pcp_slot_push(checked, obj));
	pcp_slot_free_slow(checked, obj);
	expect_eq(book_check(checked, 0).sheaves, 0);
	stock_drop(checked);

	checked = stock_make(NULL, 4);
	checked->dying = true;
	pcp_stock_close(checked);
	expect(!pcp_slot_alloc_slow(checked, &err));
	expect_eq(err, ESHUTDOWN);
	checked->dying = false;
	stock_drop(checked);
}
END_TEST

/* A slab with one built object, taken by nobody. */
static struct pcp_slab *built_slab(void)
{
	struct pcp_slab *slab = pcp_slab_create(&stock->kind, 0, 0, NULL);
	void *obj;
	bool full;

	expect(slab);
	expect_eq(pcp_slab_take(slab, 1, &obj, &full), 1);
	expect_eq(build_one(slab, pcp_slab_index(slab, obj)), 0);
	slab_give(slab, 1, &obj);
	return slab;
}

/* Destructors run where they may; elsewhere the slab waits. */
START_TEST(test_bury)
{
	struct pcp_slab_link doomed;

	for (unsigned int i = 0; i < 3; i++) {
		pcp_slabs_init(&doomed);
		pcp_slabs_add_tail(&doomed, &built_slab()->list);
		atomic_store(&sheet.no_dtor, i < 2);
		pcp_stock_bury(stock, &doomed, i == 2);
		atomic_store(&sheet.no_dtor, false);
		expect(pcp_slabs_empty(&doomed));
		/* The call that may run them does so for all that wait. */
		expect_eq(book_check(stock, 0).waiting, i < 2 ? i + 1 : 0);
		expect_eq(book_check(stock, 0).slabs, i < 2 ? i + 1 : 0);
		expect_eq(atomic_load(&sheet.dtor), i < 2 ? 0 : 3);
	}
}
END_TEST

/* Without a destructor they are released at once. */
START_TEST(test_bury_plain)
{
	struct pcp_stock *plain = stock_make(NULL, 4);
	struct pcp_slab *slab = pcp_slab_create(&plain->kind, 0, 0, NULL);
	struct pcp_slab_link doomed;

	expect(slab);
	pcp_slabs_init(&doomed);
	pcp_slabs_add_tail(&doomed, &slab->list);
	pcp_stock_bury(plain, &doomed, false);
	expect_eq(book_check(plain, 0).slabs, 0);
	stock_drop(plain);
}
END_TEST

/* Destructors that end other slabs do not pile up on the stack. */
static unsigned int depth, deepest, chain_left;

static void dtor_that_buries(void *obj, void *arg)
{
	struct pcp_slab_link doomed;

	sheet_dtor(obj, arg);
	depth++;
	deepest = depth > deepest ? depth : deepest;
	if (chain_left) {
		chain_left--;
		pcp_slabs_init(&doomed);
		pcp_slabs_add_tail(&doomed, &built_slab()->list);
		pcp_stock_bury(stock, &doomed, true);
	}
	depth--;
}

START_TEST(test_bury_is_flat)
{
	struct pcp_slab_link doomed;

	stock->kind.dtor = dtor_that_buries;
	chain_left = 50;
	pcp_slabs_init(&doomed);
	pcp_slabs_add_tail(&doomed, &built_slab()->list);
	pcp_stock_bury(stock, &doomed, true);
	expect_eq(chain_left, 0);
	expect_eq(deepest, 1);
	expect_eq(atomic_load(&sheet.dtor), 51);
	expect_eq(book_check(stock, 0).slabs, 0);
}
END_TEST

/* Whoever finds another at it leaves the slab to that one. */
static void bury_many(const struct worker *worker)
{
	(void)worker;
	for (unsigned int i = 0; i < 500; i++) {
		struct pcp_slab_link doomed;

		pcp_slabs_init(&doomed);
		pcp_slabs_add_tail(&doomed, &built_slab()->list);
		pcp_stock_bury(stock, &doomed, true);
	}
}

START_TEST(test_bury_together)
{
	run_threads(4, bury_many, NULL);
	expect_eq(atomic_load(&sheet.dtor), 2000);
	expect_eq(book_check(stock, 0).waiting, 0);
	expect_eq(book_check(stock, 0).slabs, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("slot_paths", 60), *nodes = tcase_create("nodes");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_refill_order);
	tcase_add_test(tc, test_flush_order);
	tcase_add_test(tc, test_no_flapping);
	tcase_add_test(tc, test_prefill_order);
	tcase_add_test(tc, test_prefill_from_slabs);
	tcase_add_test(tc, test_no_sheaf);
	tcase_add_test(tc, test_no_slab);
	tcase_add_loop_test(tc, test_search, 0, 2);
	tcase_add_test(tc, test_failing_constructor);
	tcase_add_test(tc, test_init_fails);
	tcase_add_test(tc, test_bypass_and_dying);
	tcase_add_test(tc, test_bury);
	tcase_add_test(tc, test_bury_plain);
	tcase_add_test(tc, test_bury_is_flat);
	tcase_add_test(tc, test_bury_together);
	tcase_add_checked_fixture(nodes, setup_nodes, teardown);
	tcase_add_test(nodes, test_nodes);
	suite_add_tcase(suite_one, nodes);
	return suite_run(tc);
}

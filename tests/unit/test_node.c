/* SPDX-License-Identifier: MIT */
/* lib/node/node.c: each row of the table in node.h driven by itself, and slabs
 * that are held while a free comes. */
#include <config.h>

#include "node_fixture.h"

/* --- the rows ------------------------------------------------------------- */

START_TEST(test_partial_to_partial)
{
	struct whole w = grow(4);
	uint64_t locks = kind_stat(&kind, PCP_STAT_LIST_LOCK);

	give(&w, 0, 2);
	expect(w.slab->on_list);
	expect_state(1, 0, 0);
	/* By its swap alone. */
	expect_eq(kind_stat(&kind, PCP_STAT_LIST_LOCK), locks);
	give(&w, 2, 4);
}
END_TEST

START_TEST(test_full_to_partial)
{
	struct whole w = grow(all());

	expect_state(0, 0, 0);
	give(&w, 0, 1);
	expect(w.slab->on_list);
	expect_state(1, 0, 0);
	give(&w, 1, all());
	expect_state(1, 0, 0);
}
END_TEST

START_TEST(test_partial_to_empty_too_few)
{
	struct whole w = grow(3);

	give(&w, 0, 3);
	expect(w.slab->on_list);
	expect_state(1, 0, 0);
}
END_TEST

/* Where a surplus slab goes: it waits, built, unless nothing is to be run. */
static void check_surplus(struct sheet *with, unsigned int flags, bool waits)
{
	struct whole first, second;
	uint64_t locks;

	teardown();
	make(with, flags, 1);
	/* partial -> empty, on the list, enough */
	first = grow(2);
	second = grow(2);
	expect_state(2, 0, 0);
	give(&second, 0, 2);
	expect(!second.slab->on_list);
	expect_state(1, waits, !waits);
	/* full -> empty, enough: without the lock */
	second = grow(all());
	locks = kind_stat(&kind, PCP_STAT_LIST_LOCK);
	give(&second, 0, all());
	expect_eq(kind_stat(&kind, PCP_STAT_LIST_LOCK), locks);
	expect(!second.slab->on_list);
	expect_state(1, waits ? 2 : 0, waits ? 0 : 2);
	give(&first, 0, 2);
	expect_state(1, waits ? 2 : 0, waits ? 0 : 2);
}

START_TEST(test_partial_to_empty_enough)
{
	check_surplus(&sheet, 0, true);
	check_surplus(NULL, 0, false);
	check_surplus(&sheet, PCPOOL_DTOR_ON_FREE, false);
}
END_TEST

START_TEST(test_full_to_empty_too_few)
{
	struct whole w = grow(all());

	give(&w, 0, all());
	expect(w.slab->on_list);
	expect_state(1, 0, 0);
}
END_TEST

START_TEST(test_min_partial)
{
	struct whole w[6];

	teardown();
	make(&sheet, 0, 4);
	for (unsigned int i = 0; i < 6; i++)
		w[i] = grow(all());
	for (unsigned int i = 0; i < 6; i++)
		give(&w[i], 0, all());
	expect_state(4, 2, 0);
}
END_TEST

/* --- held slabs: a free comes between the taker's walk and its swap ------- */

static struct whole held;
static uint32_t give_from, give_to;

static void give_while_held(enum pcp_hook_id id)
{
	uint32_t from = give_from, to = give_to;

	if (id != PCP_HOOK_SLAB_TAKE || from == to)
		return;
	give_from = give_to;
	expect(!held.slab->on_list);
	give(&held, from, to);
	/* The holder decides. */
	expect(!held.slab->on_list);
	expect_eq(node.nr_waiting, 0);
	expect(pcp_slabs_empty(&dead));
}

/* Whoever wants all that is free unlinks the slab for it. */
static void take_held_while(uint32_t from, uint32_t to)
{
	struct whole took = { .slab = held.slab };
	uint32_t max = all() - 3;

	give_from = from;
	give_to = to;
	pcp_hook_set(give_while_held);
	expect_eq(pcp_node_take(&node, max, took.objs, &dead), max);
	pcp_hook_set(NULL);
	expect_eq(give_from, give_to);
	/* What came back meanwhile is left over. */
	expect(held.slab->on_list);
	expect_eq(pcp_slab_inuse(held.slab), 3 - (to - from) + max);
	expect_state(1, 0, 0);
	give(&took, 0, max);
}

START_TEST(test_held_partial_to_partial)
{
	held = grow(3);
	take_held_while(0, 2);
	give(&held, 2, 3);
}
END_TEST

START_TEST(test_held_partial_to_empty)
{
	held = grow(3);
	take_held_while(0, 3);
	expect_state(1, 0, 0);
}
END_TEST

/* The taker holds two slabs; meanwhile the first gets enough objects to serve
 * it alone, and the second becomes empty. */
static struct whole front;

static void give_both(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_SLAB_TAKE || give_from == give_to)
		return;
	give_from = give_to;
	expect(!front.slab->on_list && !held.slab->on_list);
	give(&front, 0, all() - 5);
	give(&held, 0, 5);
	expect(!front.slab->on_list && !held.slab->on_list);
	expect_eq(pcp_slab_inuse(held.slab), 0);
}

START_TEST(test_held_emptied_and_put_back)
{
	struct whole third, took = { 0 };
	uint32_t max = all() - 4;

	/* _i: whether there are enough without it. */
	front = grow(all() - 1);
	held = grow(5);
	third = grow(_i ? 1 : all());
	give_from = 0;
	give_to = 1;
	pcp_hook_set(give_both);
	expect_eq(pcp_node_take(&node, max, took.objs, &dead), max);
	pcp_hook_set(NULL);
	expect_eq(give_from, give_to);
	took.slab = front.slab;
	for (uint32_t i = 0; i < max; i++)
		expect(pcp_slab_of(&kind, took.objs[i]) == front.slab);
	expect(!front.slab->on_list);
	expect_eq(held.slab->on_list, !_i);
	expect_state(1, _i ? 1 : 0, 0);
	give(&took, 0, max);
	give(&front, all() - 5, all() - 1);
	give(&third, 0, _i ? 1 : all());
}
END_TEST

/* A taker that leaves something behind leaves the slab listed, too. */
static void look_at_list(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_SLAB_TAKE)
		return;
	pcp_assert_held(PCP_RANK_LIST);
	expect(held.slab->on_list);
	expect_eq(node.nr_partial, 1);
	give_from++;
}

START_TEST(test_taken_while_listed)
{
	struct whole took = { 0 };
	uint64_t locks;

	held = grow(2);
	took.slab = held.slab;
	give_from = 0;
	locks = kind_stat(&kind, PCP_STAT_LIST_LOCK);
	pcp_hook_set(look_at_list);
	expect_eq(pcp_node_take(&node, 3, took.objs, &dead), 3);
	pcp_hook_set(NULL);
	expect_eq(give_from, 1);
	expect_eq(kind_stat(&kind, PCP_STAT_LIST_LOCK), locks + 1);
	expect_state(1, 0, 0);
	give(&took, 0, 3);
	give(&held, 0, 2);
}
END_TEST

/* Full when looked at, not when swapped, and the other way round. */
static void fill_up(enum pcp_hook_id id)
{
	uint32_t from = give_from;

	if (id != PCP_HOOK_SLAB_GIVE || give_from == give_to)
		return;
	give_from = give_to;
	give(&held, from, give_to);
}

START_TEST(test_full_no_more)
{
	held = grow(all());
	give_from = 0;
	give_to = 2;
	pcp_hook_set(fill_up);
	give(&held, 2, 4);
	pcp_hook_set(NULL);
	expect(held.slab->on_list);
	/* Linked by the first swap alone. */
	expect_eq(kind_stat(&kind, PCP_STAT_ADD_PARTIAL), 1);
	expect_state(1, 0, 0);
	give(&held, 4, all());
}
END_TEST

/* Not the last ones when looked at, but when swapped. */
START_TEST(test_empty_after_all)
{
	struct whole other = grow(1);

	held = grow(4);
	give_from = 0;
	give_to = 2;
	pcp_hook_set(fill_up);
	give(&held, 2, 4);
	pcp_hook_set(NULL);
	expect(!held.slab->on_list);
	expect_state(1, 1, 0);
	give(&other, 0, 1);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("node", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_partial_to_partial);
	tcase_add_test(tc, test_full_to_partial);
	tcase_add_test(tc, test_partial_to_empty_too_few);
	tcase_add_test(tc, test_partial_to_empty_enough);
	tcase_add_test(tc, test_full_to_empty_too_few);
	tcase_add_test(tc, test_min_partial);
	tcase_add_test(tc, test_held_partial_to_partial);
	tcase_add_test(tc, test_held_partial_to_empty);
	tcase_add_loop_test(tc, test_held_emptied_and_put_back, 0, 2);
	tcase_add_test(tc, test_taken_while_listed);
	tcase_add_test(tc, test_full_no_more);
	tcase_add_test(tc, test_empty_after_all);
	return suite_run(tc);
}

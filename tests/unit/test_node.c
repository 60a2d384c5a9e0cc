/* SPDX-License-Identifier: MIT */
/* lib/node/node.c: each row of the table in node.h driven by itself, what takes
 * see, and many threads on one node. */
#include <config.h>

#include <sched.h>

#include "floors.h"

#include "node/node.h"

#define OBJECT 3000U
#define OBJECTS_MAX 64U

static struct pcp_kind kind;
static struct pcp_node node;
static struct sheet sheet;
static struct pcp_slab_link dead;

/* A slab and all its objects. */
struct whole {
	struct pcp_slab *slab;
	void *objs[OBJECTS_MAX];
};

static uint32_t all(void)
{
	return kind.layout.objects;
}

static void make(struct sheet *with, unsigned int flags, uint32_t min_partial)
{
	kind_make(&kind, OBJECT, 0, with, flags);
	expect_cmp(all(), >=, 8);
	expect_cmp(all(), <=, OBJECTS_MAX);
	pcp_node_init(&node, &kind, min_partial);
	pcp_slabs_init(&dead);
}

static void setup(void)
{
	sheet = (struct sheet){ 0 };
	make(&sheet, 0, 1);
}

/* Every slab is on one list, and the numbers are those of the lists. */
static void check_lists(void)
{
	uint32_t on_list = 0;

	expect_eq(links(&node.partial), node.nr_partial);
	expect_eq(links(&node.waiting), node.nr_waiting);
	for (struct pcp_slab_link *link = kind.all.next; link != &kind.all;
	     link = link->next) {
		struct pcp_slab *slab =
			pcp_container_of(link, struct pcp_slab, all);

		slab_verify(slab);
		on_list += slab->on_list;
		/* A full slab is nobody's. */
		expect(!slab->on_list || pcp_slab_inuse(slab) < all());
	}
	expect_eq(on_list, node.nr_partial);
	for (struct pcp_slab_link *link = node.partial.next;
	     link != &node.partial; link = link->next)
		expect(pcp_slab_of_list(link)->on_list);
	for (struct pcp_slab_link *link = node.waiting.next;
	     link != &node.waiting; link = link->next) {
		expect(!pcp_slab_of_list(link)->on_list);
		expect_eq(pcp_slab_inuse(pcp_slab_of_list(link)), 0);
	}
	expect_eq(kind_stat(&kind, PCP_STAT_ADD_PARTIAL) -
			  kind_stat(&kind, PCP_STAT_REMOVE_PARTIAL),
		  node.nr_partial);
}

/* Everything is in its slab. */
static void teardown(void)
{
	check_lists();
	expect_eq(pcp_kind_inuse(&kind), 0);
	pcp_slabs_kill(&dead);
	pcp_node_trim(&node, 0, &dead);
	expect_eq(node.nr_partial, 0);
	expect_eq(node.nr_waiting, 0);
	pcp_slabs_kill(&dead);
	expect_eq(kind.nr_slabs, 0);
	pcp_node_destroy(&node);
	kind_drop(&kind);
	sheet_balanced(&sheet);
}

/* A new slab with n of its objects out; it is linked unless full. */
static struct whole grow(uint32_t n)
{
	struct whole whole = { 0 };

	expect_eq(pcp_node_grow(&node, 0, n, whole.objs, &dead), n);
	whole.slab = pcp_slab_of(&kind, whole.objs[0]);
	expect_eq(whole.slab->on_list, n < all());
	expect_eq(pcp_slab_inuse(whole.slab), n);
	return whole;
}

/* Give objects from to to-1 of a slab as one chain. */
static void give(const struct whole *whole, uint32_t from, uint32_t to)
{
	struct pcp_chain chain = { .slab = whole->slab };

	for (uint32_t i = from; i < to; i++)
		pcp_chain_add(&chain, pcp_slab_index(whole->slab,
						     whole->objs[i]));
	pcp_node_give(&node, &chain, &dead);
}

static void expect_state(uint32_t partial, uint32_t waiting, uint32_t nr_dead)
{
	expect_eq(node.nr_partial, partial);
	expect_eq(node.nr_waiting, waiting);
	expect_eq(links(&dead), nr_dead);
	check_lists();
}

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

/* --- held slabs: a free comes between the taker's walk and its swap ---------- */

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

/* --- takes ------------------------------------------------------------------ */

START_TEST(test_take_over_slabs)
{
	struct whole w[4];
	void *objs[4 * OBJECTS_MAX];
	uint32_t got, left = 0;

	expect_eq(pcp_node_take(&node, 5, objs, &dead), 0);
	expect_eq(kind_stat(&kind, PCP_STAT_LIST_LOCK), 0);
	for (unsigned int i = 0; i < 4; i++) {
		w[i] = grow(all() - 1 - i);
		left += 1 + i;
	}
	expect_state(4, 0, 0);
	/* Two full slabs and one of the third. */
	got = pcp_node_take(&node, 4, objs, &dead);
	expect_eq(got, 4);
	expect_state(2, 0, 0);
	expect_eq(pcp_slab_inuse(w[0].slab), all());
	expect_eq(pcp_slab_inuse(w[1].slab), all());
	got += pcp_node_take(&node, 4 * OBJECTS_MAX - got, objs + got, &dead);
	expect_eq(got, left);
	expect_state(0, 0, 0);
	for (uint32_t i = 0; i < got; i++) {
		struct whole one = { pcp_slab_of(&kind, objs[i]), { objs[i] } };

		for (uint32_t j = 0; j < i; j++)
			expect(objs[i] != objs[j]);
		give(&one, 0, 1);
	}
	for (unsigned int i = 0; i < 4; i++)
		give(&w[i], 0, all() - 1 - i);
	expect_state(1, 3, 0);
}
END_TEST

START_TEST(test_grow_fails)
{
	void *obj;

	pcp_fault_set(PCP_FAULT_SLAB, 1, true);
	errno = 0;
	expect_eq(pcp_node_grow(&node, 0, 1, &obj, &dead), 0);
	expect_errno(ENOMEM);
	pcp_fault_set(PCP_FAULT_SLAB, 0, false);
	expect_state(0, 0, 0);
}
END_TEST

/* Waiting slabs are used again, the one queued last first, and what is left is
 * linked. */
START_TEST(test_take_waiting)
{
	struct whole w[3], again = { 0 };
	void *objs[OBJECTS_MAX];

	expect_eq(pcp_node_take_waiting(&node, 1, objs, &dead), 0);
	for (unsigned int i = 0; i < 3; i++)
		w[i] = grow(all());
	for (unsigned int i = 0; i < 3; i++)
		give(&w[i], 0, all());
	expect_state(1, 2, 0);
	expect_eq(pcp_node_take_waiting(&node, 2, objs, &dead), 2);
	expect(pcp_slab_of(&kind, objs[0]) == w[2].slab);
	expect(w[2].slab->on_list);
	expect_state(2, 1, 0);
	expect_eq(pcp_node_take_waiting(&node, OBJECTS_MAX, again.objs, &dead),
		  all());
	again.slab = w[1].slab;
	expect(pcp_slab_of(&kind, again.objs[0]) == again.slab);
	expect_state(2, 0, 0);
	give(&again, 0, all());
	w[2].objs[0] = objs[0];
	w[2].objs[1] = objs[1];
	give(&w[2], 0, 2);
	expect_state(1, 2, 0);
}
END_TEST

/* --- trim --------------------------------------------------------------------- */

START_TEST(test_trim)
{
	enum { N = 150 }; /* more than are looked at per hold of the lock */
	struct whole *w = calloc(N, sizeof(*w));
	uint32_t busy = 0;

	expect(w);
	teardown();
	make(&sheet, 0, N);
	for (unsigned int i = 0; i < N; i++)
		w[i] = grow(2);
	for (unsigned int i = 0; i < N; i++) {
		busy += i % 3 == 0;
		give(&w[i], i % 3 == 0, 2);
	}
	expect_state(N, 0, 0);
	pcp_node_trim(&node, N - 10, &dead);
	expect_state(N - 10, 0, 10);
	pcp_node_trim(&node, 0, &dead);
	expect_state(busy, 0, N - busy);
	for (struct pcp_slab_link *link = dead.next; link != &dead;
	     link = link->next)
		expect_eq(pcp_slab_inuse(pcp_slab_of_list(link)), 0);
	pcp_slabs_kill(&dead);
	for (unsigned int i = 0; i < N; i += 3)
		give(&w[i], 0, 1);
	expect_state(busy, 0, 0);
	pcp_node_trim(&node, 0, &dead);
	expect_state(0, 0, busy);
	free(w);
}
END_TEST

START_TEST(test_trim_takes_waiting)
{
	struct whole w[3];

	for (unsigned int i = 0; i < 3; i++)
		w[i] = grow(all());
	for (unsigned int i = 0; i < 3; i++)
		give(&w[i], 0, all());
	expect_state(1, 2, 0);
	pcp_node_trim(&node, 1, &dead);
	expect_state(1, 0, 2);
}
END_TEST

/* --- any built object ---------------------------------------------------------- */

/* Slabs whose objects are all in place, of which only those given are built. */
static void expect_built_found(const struct whole *w, unsigned int n,
			       uint32_t built)
{
	for (uint32_t i = 0; i < built; i++) {
		void *obj = pcp_node_take_built(&node, &dead);
		struct pcp_slab *slab;
		uint32_t index;

		expect(obj);
		slab = pcp_slab_of(&kind, obj);
		index = pcp_slab_index(slab, obj);
		expect(pcp_is_built(slab, index));
		pcp_unbuild(slab, index);
		slab_verify(slab);
		check_lists();
		expect_eq(pcp_kind_inuse(&kind), 1);
		for (unsigned int j = 0; j < n; j++)
			if (w[j].slab == slab) {
				struct whole one = { slab, { obj } };

				give(&one, 0, 1);
			}
		expect_eq(pcp_kind_inuse(&kind), 0);
	}
	/* None left: NULL, whatever the lists look like. */
	expect(!pcp_node_take_built(&node, &dead));
	check_lists();
	expect_eq(pcp_kind_inuse(&kind), 0);
}

START_TEST(test_take_built)
{
	enum { N = 6 };
	struct whole w[N];
	uint32_t built = 0;

	expect(!pcp_node_take_built(&node, &dead));
	for (unsigned int i = 0; i < N; i++) {
		w[i] = grow(all());
		for (uint32_t j = i; j < all(); j += 4 + i)
			if (i != 2 && i != 3) {
				expect_eq(pcp_build(w[i].slab, j), 0);
				built++;
			}
	}
	for (unsigned int i = 0; i < N; i++)
		give(&w[i], 0, all());
	expect_state(1, N - 1, 0);
	expect_built_found(w, N, built);
}
END_TEST

/* The only built object was the last one of its free list. */
START_TEST(test_take_built_fills)
{
	struct whole w = grow(all()), one = { 0 };

	expect_eq(pcp_build(w.slab, pcp_slab_index(w.slab, w.objs[0])), 0);
	for (uint32_t i = 0; i < all(); i++)
		give(&w, i, i + 1);
	one.slab = w.slab;
	one.objs[0] = pcp_node_take_built(&node, &dead);
	expect(one.objs[0] == w.objs[0]);
	expect_eq(pcp_slab_inuse(w.slab), 1);
	expect_state(1, 0, 0);
	give(&one, 0, 1);
}
END_TEST

/* --- threads -------------------------------------------------------------------- */

static atomic_uint step;

static void widen(enum pcp_hook_id id)
{
	unsigned int n = atomic_fetch_add(&step, 1);

	if ((id == PCP_HOOK_LIST_LOCKED && n % 7 == 0) ||
	    (id == PCP_HOOK_SLAB_GIVE && n % 5 == 0) ||
	    (id == PCP_HOOK_SLAB_TAKE && n % 3 == 0))
		sched_yield();
}

static atomic_uint takes[4];

static uint32_t take_somewhere(struct rng *rng, uint32_t max, void **objs,
			       struct pcp_slab_link *mine)
{
	uint32_t n;

	if (rng_below(rng, 8) == 0) {
		objs[0] = pcp_node_take_built(&node, mine);
		atomic_fetch_add(&takes[0], !!objs[0]);
		return objs[0] ? 1 : 0;
	}
	n = pcp_node_take(&node, max, objs, mine);
	atomic_fetch_add(&takes[1], !!n);
	if (n)
		return n;
	n = pcp_node_take_waiting(&node, max, objs, mine);
	atomic_fetch_add(&takes[2], !!n);
	if (n)
		return n;
	n = pcp_node_grow(&node, 0, max, objs, mine);
	atomic_fetch_add(&takes[3], !!n);
	return n;
}

static void bury(struct pcp_slab_link *mine, bool kill)
{
	if (kill) {
		pcp_slabs_kill(mine);
		return;
	}
	while (!pcp_slabs_empty(mine)) {
		struct pcp_slab *slab = pcp_slab_of_list(mine->next);

		pcp_slabs_del(&slab->list);
		pcp_node_queue(&node, slab);
	}
}

static void give_some(struct rng *rng, void **objs, uint32_t *n, uint32_t want,
		      struct pcp_slab_link *mine, uint64_t id)
{
	while (*n && want) {
		struct pcp_chain chain = { 0 };

		/* One chain: those of one slab, up to a few. */
		for (uint32_t i = 0; i < *n && want;) {
			struct pcp_slab *slab = pcp_slab_of(&kind, objs[i]);

			if (chain.count && slab != chain.slab) {
				i++;
				continue;
			}
			chain.slab = slab;
			owner_leave(objs[i], id);
			pcp_chain_add(&chain, pcp_slab_index(slab, objs[i]));
			objs[i] = objs[--*n];
			want--;
		}
		pcp_node_give(&node, &chain, mine);
	}
	if (rng_below(rng, 200) == 0)
		pcp_node_trim(&node, rng_below(rng, 2), mine);
}

static void hammer(const struct worker *worker)
{
	enum { HELD = 200 };
	struct pcp_slab_link mine;
	uint64_t id = worker->id + 1;
	void *objs[HELD];
	uint32_t n = 0;
	struct rng rng;

	pcp_slabs_init(&mine);
	rng_seed(&rng, id);
	for (unsigned int i = 0; i < 4000; i++) {
		if (rng_below(&rng, 2) && n < HELD - 40) {
			uint32_t got = take_somewhere(
				&rng, 1 + rng_below(&rng, 40), objs + n, &mine);

			for (uint32_t j = 0; j < got; j++) {
				void *obj = objs[n + j];
				struct pcp_slab *slab = pcp_slab_of(&kind, obj);

				expect_eq(pcp_build(slab,
						    pcp_slab_index(slab, obj)),
					  0);
				owner_take(obj, id);
			}
			n += got;
		} else {
			give_some(&rng, objs, &n, 1 + rng_below(&rng, 60),
				  &mine, id);
		}
		if (rng_below(&rng, 4) == 0)
			bury(&mine, rng_below(&rng, 2));
	}
	give_some(&rng, objs, &n, HELD, &mine, id);
	bury(&mine, false);
}

/* _i: surplus slabs wait; or frees may run their destructors. */
START_TEST(test_threads)
{
	teardown();
	sheet = (struct sheet){ .clear = OBJECT };
	make(&sheet, _i ? PCPOOL_DTOR_ON_FREE : 0, 2);
	pcp_hook_set(widen);
	run_threads(4, hammer, NULL);
	pcp_hook_set(NULL);
	check_lists();
	expect_eq(node.nr_partial + node.nr_waiting, kind.nr_slabs);
	for (size_t i = 0; i < PCP_ARRAY_SIZE(takes); i++)
		expect_cmp(atomic_load(&takes[i]), >, 0);
	expect_cmp(kind_stat(&kind, PCP_STAT_LIST_LOCK), >=,
		   kind_stat(&kind, PCP_STAT_LIST_LOCK_CONTENDED));
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
	tcase_add_test(tc, test_take_over_slabs);
	tcase_add_test(tc, test_grow_fails);
	tcase_add_test(tc, test_take_waiting);
	tcase_add_test(tc, test_trim);
	tcase_add_test(tc, test_trim_takes_waiting);
	tcase_add_test(tc, test_take_built);
	tcase_add_test(tc, test_take_built_fills);
	tcase_add_loop_test(tc, test_threads, 0, 2);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/node/node.c: what takes, trims and searches find, and many threads on one
 * node. */
#include <config.h>

#include <sched.h>

#include "node_fixture.h"

/* --- takes ---------------------------------------------------------------- */

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

/* --- trim ----------------------------------------------------------------- */

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

/* --- any built object ----------------------------------------------------- */

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
				expect_eq(build_one(w[i].slab, j), 0);
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

	expect_eq(build_one(w.slab, pcp_slab_index(w.slab, w.objs[0])), 0);
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

/* --- threads -------------------------------------------------------------- */

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

				expect_eq(build_one(slab,
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
	TCase *tc = suite_case("node_takes", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
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

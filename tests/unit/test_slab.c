/* SPDX-License-Identifier: MIT */
/* lib/slab/slab.c: one slab against a model, misuse of it, and what a pointer of
 * unknown origin is taken for. */
#include <config.h>

#include "slab_fixture.h"

#include "base/compiler.h"

/* --- birth ---------------------------------------------------------------- */

START_TEST(test_birth)
{
	struct pcp_slab *slab = must_create();

	slab_verify(slab);
	expect_eq(pcp_slab_inuse(slab), 0);
	expect(slab->kind == &kind);
	expect(!slab->on_list);
	expect_eq(slab->node, 0);
	expect_eq((uintptr_t)slab & (kind.layout.slab_size - 1), 0);
	expect_eq(kind.nr_slabs, 1);
	expect_eq(links(&kind.all), 1);
	expect_eq(kind_stat(&kind, PCP_STAT_ALLOC_SLAB), 1);
	pcp_slab_release(slab);
	expect_eq(kind.nr_slabs, 0);
	expect_eq(kind_stat(&kind, PCP_STAT_FREE_SLAB), 1);
}
END_TEST

/* However the block was used before. */
START_TEST(test_birth_in_dirt)
{
	struct sheet sheet = { 0 };
	struct pcp_kind built;
	struct pcp_slab *slab;

	kind_make(&built, OBJECT, 0, &sheet, PCPOOL_CHECK);
	for (unsigned int round = 0; round < 3; round++) {
		slab = pcp_slab_create(&built, 0, 0, NULL);
		expect(slab);
		slab_verify(slab);
		expect(!slab->on_list);
		for (uint32_t i = 0; i < built.layout.objects; i++) {
			struct pcp_check *check =
				(struct pcp_check *)(void *)((char *)slab +
							     built.layout.check);

			expect(!pcp_is_built(slab, i));
			expect_eq(check[i].state, 0);
		}
		memset((char *)slab + sizeof(*slab), 0xff,
		       built.layout.slab_size - sizeof(*slab));
		slab->on_list = true;
		pcp_slab_release(slab);
	}
	pcp_kind_destroy(&built);
}
END_TEST

static void order_of(struct pcp_slab *slab, void **objs)
{
	bool full;

	expect_eq(pcp_slab_take(slab, all(), objs, &full), all());
	expect(full);
}

/* A permutation, which is not the memory's, and begins elsewhere from slab to
 * slab but for a chance that two have the same beginning. */
START_TEST(test_shuffle)
{
	enum { SLABS = 8 };
	struct pcp_slab *slabs[SLABS];
	void **orders[SLABS];
	unsigned int alike = 0;

	for (unsigned int s = 0; s < SLABS; s++) {
		uint32_t ascending = 0, same = 0;

		slabs[s] = must_create();
		orders[s] = object_array();
		slab_verify(slabs[s]);
		order_of(slabs[s], orders[s]);
		for (uint32_t i = 0; i < all(); i++) {
			uint32_t index = pcp_slab_index(slabs[s], orders[s][i]);

			expect(orders[s][i] == pcp_slab_object(slabs[s], index));
			ascending += i && orders[s][i] ==
						  (char *)orders[s][i - 1] +
							  kind.layout.stride;
			same += s && index == pcp_slab_index(slabs[s - 1],
							     orders[s - 1][i]);
		}
		expect_cmp(ascending, <, all() / 8);
		alike += same >= all() / 8;
	}
	expect_cmp(alike, <, SLABS - 1);
	for (unsigned int s = 0; s < SLABS; s++) {
		slab_give(slabs[s], all(), orders[s]);
		free(orders[s]);
	}
}
END_TEST

/* A slab is born with some objects out: those, and the others, are all. */
static void deal_and_count(uint32_t max)
{
	void **objs = object_array();
	struct pcp_slab *slab = pcp_slab_create(&kind, 0, max, objs);
	uint32_t dealt = max < all() ? max : all();
	bool full;

	expect(slab);
	expect_eq(pcp_slab_inuse(slab), dealt);
	slab_verify(slab);
	expect_eq(pcp_slab_take(slab, all(), objs + dealt, &full),
		  all() - dealt);
	expect(dealt == all() || full);
	/* Each once, or the second give of one would abort. */
	slab_give(slab, all(), objs);
	slab_verify(slab);
	pcp_slab_release(slab);
	free(objs);
}

START_TEST(test_dealt)
{
	for (int round = 0; round < 20; round++) {
		deal_and_count(0);
		deal_and_count(1);
		deal_and_count(all() / 2);
		deal_and_count(all() - 1);
		deal_and_count(all());
		deal_and_count(all() + 7);
	}
}
END_TEST

/* In the order of memory, from anywhere; the next slab tries again. */
START_TEST(test_dealt_without_memory)
{
	pcp_fault_set(PCP_FAULT_META, 1, true);
	deal_and_count(0);
	deal_and_count(all() / 2);
	deal_and_count(all());
	expect(!kind.order);
	pcp_fault_set(PCP_FAULT_META, 0, false);
	deal_and_count(all() / 2);
	expect(kind.order);
}
END_TEST

START_TEST(test_few_objects)
{
	struct pcp_kind few;
	struct pcp_slab *slab;
	void *objs[2];
	bool full;

	for (size_t align = (size_t)1 << 19; align <= PCPOOL_ALIGN_MAX;
	     align *= 2) {
		kind_make(&few, align, align, NULL, 0);
		slab = pcp_slab_create(&few, 0, 0, NULL);
		expect(slab);
		slab_verify(slab);
		expect_eq(pcp_slab_take(slab, 2, objs, &full), 2);
		expect(objs[0] != objs[1]);
		expect_eq((uintptr_t)objs[0] & (align - 1), 0);
		slab_give(slab, 2, objs);
		slab_verify(slab);
		kind_drop(&few);
	}
}
END_TEST

START_TEST(test_no_memory)
{
	struct pcp_kind other = { .name = "none" };

	pcp_fault_set(PCP_FAULT_SLAB, 1, true);
	expect_refused(pcp_slab_create(&kind, 0, 0, NULL), ENOMEM);
	expect_refused(pcp_slab_create(&kind, 0, 0, NULL), ENOMEM);
	pcp_fault_set(PCP_FAULT_SLAB, 0, false);
	expect_eq(kind_stat(&kind, PCP_STAT_MEM_FAIL), 2);
	expect_eq(kind_stat(&kind, PCP_STAT_ALLOC_SLAB), 0);
	expect(pcp_slabs_empty(&kind.all));
	/* A kind needs memory too. */
	pcp_fault_set(PCP_FAULT_RESERVE, 1, false);
	expect_eq(pcp_kind_init(&other, OBJECT, 0), ENOMEM);
	pcp_fault_set(PCP_FAULT_COMMIT, 1, false);
	expect_eq(pcp_kind_init(&other, OBJECT, 0), ENOMEM);
	pcp_fault_set(PCP_FAULT_COMMIT, 0, false);
}
END_TEST

/* --- take and give against a model ---------------------------------------- */

START_TEST(test_model)
{
	struct pcp_slab *slab = must_create();
	void **out = object_array();
	uint32_t nr = 0;
	struct rng rng;

	rng_seed(&rng, (uint64_t)_i + 7);
	for (unsigned int step = 0; step < 5000; step++) {
		uint64_t before = slab->word;
		uint32_t n = 1 + rng_below(&rng, rng_below(&rng, 4)
							 ? 8
							 : all());

		if (rng_below(&rng, 2)) {
			uint32_t left = all() - nr, got;
			bool full;

			got = pcp_slab_take(slab, n, out + nr, &full);
			expect_eq(got, n < left ? n : left);
			expect_eq(full, got == left);
			/* The tag grows with each swap, and only then. */
			expect_eq(slab->word >> 32, (before >> 32) + !!got);
			for (uint32_t i = 0; i < got; i++)
				memset(out[nr + i], 0xff, OBJECT);
			nr += got;
		} else {
			n = n < nr ? n : nr;
			/* Any n of them. */
			for (uint32_t i = 0; i < n; i++) {
				uint32_t other = rng_below(&rng, nr - i);
				void *obj = out[other];

				out[other] = out[nr - 1 - i];
				out[nr - 1 - i] = obj;
			}
			slab_give(slab, n, out + nr - n);
			nr -= n;
			expect_eq(slab->word >> 32, (before >> 32) + !!n);
		}
		expect_eq(pcp_slab_inuse(slab), nr);
		expect_eq(pcp_kind_inuse(&kind), nr);
		slab_verify(slab);
	}
	slab_give(slab, nr, out);
	expect_eq(kind_stat(&kind, PCP_STAT_CMPXCHG_FAIL), 0);
	free(out);
}
END_TEST

/* What was given last is taken first, for it is the warmest. */
START_TEST(test_last_in_first_out)
{
	struct pcp_slab *slab = must_create();
	void *objs[4], *again[4];
	bool full;

	expect_eq(pcp_slab_take(slab, 4, objs, &full), 4);
	slab_give(slab, 4, objs);
	expect_eq(pcp_slab_take(slab, 4, again, &full), 4);
	for (unsigned int i = 0; i < 4; i++)
		expect(again[i] == objs[3 - i]);
	slab_give(slab, 4, again);
}
END_TEST

START_TEST(test_lost_swap)
{
	struct pcp_slab *slab = must_create();
	struct pcp_chain chain = { .slab = slab };
	void *objs[3];
	uint64_t word;
	bool full;

	expect_eq(pcp_slab_take(slab, 3, objs, &full), 3);
	pcp_chain_add(&chain, pcp_slab_index(slab, objs[0]));
	word = slab->word;
	slab_give(slab, 1, objs + 1);
	expect(!pcp_slab_give(&chain, &word));
	expect_eq(word, slab->word);
	expect_eq(kind_stat(&kind, PCP_STAT_CMPXCHG_FAIL), 1);
	expect_eq(pcp_slab_inuse(slab), 2);
	expect(pcp_slab_give(&chain, &word));
	slab_give(slab, 1, objs + 2);
	slab_verify(slab);
}
END_TEST

/* --- misuse --------------------------------------------------------------- */

static void give_twice(void *arg)
{
	struct pcp_slab *slab = arg;
	void *objs[4];
	bool full;

	expect_eq(pcp_slab_take(slab, 4, objs, &full), 4);
	slab_give(slab, 2, objs);
	slab_give(slab, 1, objs);
}

static void give_twice_in_one(void *arg)
{
	struct pcp_slab *slab = arg;
	void *objs[4];
	bool full;

	expect_eq(pcp_slab_take(slab, 3, objs, &full), 3);
	objs[3] = objs[0];
	slab_give(slab, 4, objs);
}

static void give_never_taken(void *arg)
{
	struct pcp_slab *slab = arg;
	void *obj = pcp_slab_object(slab, 0);

	slab_give(slab, 1, &obj);
}

/* The word says that fewer are out. */
static void give_too_many(void *arg)
{
	struct pcp_slab *slab = arg;
	void *objs[4];
	bool full;

	expect_eq(pcp_slab_take(slab, 4, objs, &full), 4);
	slab->word = pcp_word_next(slab->word, pcp_word_head(slab->word), 1);
	slab_give(slab, 4, objs);
}

START_TEST(test_double_give)
{
	struct pcp_slab *slab = must_create();

	must_abort(give_twice, slab, "\"unit\"", "freed twice");
	must_abort(give_twice_in_one, slab, "\"unit\"", "freed twice");
	must_abort(give_never_taken, slab, "\"unit\"", "freed twice");
	must_abort(give_too_many, slab, "\"unit\"", "4 back");
	slab_verify(slab);
}
END_TEST

/* Something wrote over the tables. */
static void take_from_garbage(void *arg)
{
	struct pcp_slab *slab = arg;
	void *objs[8];
	bool full;

	slab->next[pcp_word_head(slab->word)] = 0xfff0;
	pcp_slab_take(slab, 8, objs, &full);
}

static void take_from_bad_head(void *arg)
{
	struct pcp_slab *slab = arg;
	void *objs[8];
	bool full;

	slab->word = pcp_word_next(slab->word, all() + 1, 0);
	pcp_slab_take(slab, 8, objs, &full);
}

START_TEST(test_corrupted)
{
	struct pcp_slab *slab = must_create();

	must_abort(take_from_garbage, slab, "\"unit\"");
	must_abort(take_from_bad_head, slab, "\"unit\"");
	slab_verify(slab);
}
END_TEST

/* --- the first built one -------------------------------------------------- */

static void set_built(struct pcp_slab *slab, uint32_t index)
{
	*pcp_built_word(slab, index) |= UINT64_C(1) << (index % 64);
}

/* Index of the nth object of the free list. */
static uint32_t nth_free(const struct pcp_slab *slab, uint32_t n)
{
	uint32_t index = pcp_word_head(slab->word);

	while (n--)
		index = slab->next[index];
	return index;
}

START_TEST(test_take_built)
{
	struct sheet sheet = { 0 };
	struct pcp_kind built;
	uint32_t n;

	kind_make(&built, OBJECT, 0, &sheet, 0);
	n = built.layout.objects;
	for (uint32_t at = 0; at <= n; at += at < 4 || at > n - 4 ? 1 : 5) {
		struct pcp_slab *slab = pcp_slab_create(&built, 0, 0, NULL);
		struct pcp_chain rest;
		uint32_t index = PCP_INDEX_END;
		uint64_t word;
		bool full;
		void *obj;

		expect(slab);
		if (at < n) {
			index = nth_free(slab, at);
			set_built(slab, index);
		}
		obj = pcp_slab_take_built(slab, &rest, &full);
		if (at == n) {
			expect(!obj && !rest.count && !full);
			slab_verify(slab);
			pcp_slab_release(slab);
			continue;
		}
		expect(obj == pcp_slab_object(slab, index));
		expect_eq(rest.count, at);
		expect_eq(full, at == n - 1);
		expect_eq(pcp_slab_inuse(slab), at + 1);
		word = slab->word;
		if (rest.count)
			expect(pcp_slab_give(&rest, &word));
		expect_eq(pcp_slab_inuse(slab), 1);
		slab_verify(slab);
		slab_give(slab, 1, &obj);
		pcp_unbuild(slab, index);
		pcp_slab_release(slab);
	}
	pcp_kind_destroy(&built);
}
END_TEST

/* --- pointers of unknown origin ------------------------------------------- */

static void expect_not_ours(const void *p)
{
	uint32_t index;

	expect(!pcp_slab_check(&kind, p, &index));
}

START_TEST(test_check)
{
	struct pcp_slab *slab = must_create(), *other;
	struct pcp_kind twin;
	uint32_t index, n = all();
	char *end, *stale, local = 0;

	kind_make(&twin, OBJECT, 0, NULL, 0);
	other = pcp_slab_create(&twin, 0, 0, NULL);
	expect(other);
	for (uint32_t i = 0; i < n; i++) {
		char *obj = pcp_slab_object(slab, i);

		expect(pcp_slab_check(&kind, obj, &index) == slab);
		expect_eq(index, i);
		expect_eq(pcp_slab_index(slab, obj), i);
		for (size_t in = 1; in < OBJECT; in *= 2)
			expect_not_ours(obj + in);
		expect_not_ours(obj + OBJECT - 1);
		expect_not_ours(pcp_slab_object(other, i));
	}
	end = (char *)pcp_slab_object(slab, n - 1) + kind.layout.stride;
	for (char *p = (char *)slab;
	     p < (char *)pcp_slab_object(slab, 0); p += 8)
		expect_not_ours(p);
	for (char *p = end; p < (char *)slab + kind.layout.slab_size; p += 8)
		expect_not_ours(p);
	expect_not_ours(NULL);
	expect_not_ours(&local);
	expect_not_ours(&kind);
	expect_not_ours((void *)UINTPTR_MAX);
	expect_not_ours((void *)(UINTPTR_MAX / 2 & ~(uintptr_t)15));
	/* A slab that is gone, mapped or not. */
	stale = pcp_slab_object(slab, 0);
	pcp_slab_release(slab);
	expect_not_ours(stale);
	kind_drop(&twin);
}
END_TEST

/* --- lists ---------------------------------------------------------------- */

START_TEST(test_lists)
{
	struct pcp_slab_link a, b, items[6];

	pcp_slabs_init(&a);
	pcp_slabs_init(&b);
	pcp_slabs_splice(&a, &b);
	expect(pcp_slabs_empty(&a) && pcp_slabs_empty(&b));
	for (unsigned int i = 0; i < 6; i++)
		pcp_slabs_add_tail(i < 3 ? &a : &b, &items[i]);
	pcp_slabs_splice(&a, &b);
	expect(pcp_slabs_empty(&b));
	expect_eq(links(&a), 6);
	for (unsigned int i = 0; i < 6; i++) {
		expect(a.next == &items[i]);
		pcp_slabs_del(a.next);
	}
	expect(pcp_slabs_empty(&a));
	pcp_slabs_add_tail(&b, &items[0]);
	pcp_slabs_splice(&a, &b);
	expect_eq(links(&a), 1);
	expect_eq(links(&b), 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("slab", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_birth);
	tcase_add_test(tc, test_birth_in_dirt);
	tcase_add_test(tc, test_shuffle);
	tcase_add_test(tc, test_dealt);
	tcase_add_test(tc, test_dealt_without_memory);
	tcase_add_test(tc, test_few_objects);
	tcase_add_test(tc, test_no_memory);
	tcase_add_loop_test(tc, test_model, 0, 4);
	tcase_add_test(tc, test_last_in_first_out);
	tcase_add_test(tc, test_lost_swap);
	tcase_add_test(tc, test_double_give);
	tcase_add_test(tc, test_corrupted);
	tcase_add_test(tc, test_take_built);
	tcase_add_test(tc, test_check);
	tcase_add_test(tc, test_lists);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/slab/build.c: constructed once, destructed once, whatever fails between,
 * and never with a lock held. */
#include <config.h>

#include "floors.h"

#define OBJECT 1000U

static struct pcp_kind kind;
static struct pcp_slab *slab;
static struct sheet sheet;
static void **objs;

static uint32_t all(void)
{
	return kind.layout.objects;
}

static void take_all(void)
{
	bool full;

	expect_eq(pcp_slab_take(slab, all(), objs, &full), all());
}

static void setup(void)
{
	sheet = (struct sheet){ .fill = OBJECT };
	kind_make(&kind, OBJECT, 0, &sheet, 0);
	slab = pcp_slab_create(&kind, 0, 0, NULL);
	objs = calloc(all(), sizeof(*objs));
	expect(slab && objs);
	take_all();
}

static void teardown(void)
{
	kind_drop(&kind);
	sheet_balanced(&sheet);
	free(objs);
}

/* The books say what the sheet says. */
static void check_books(void)
{
	expect_eq(kind_stat(&kind, PCP_STAT_CTOR_OK), atomic_load(&sheet.ok));
	expect_eq(kind_stat(&kind, PCP_STAT_CTOR_FAIL),
		  atomic_load(&sheet.failed));
	expect_eq(kind_stat(&kind, PCP_STAT_DTOR), atomic_load(&sheet.dtor));
}

static uint32_t index_of(uint32_t i)
{
	return pcp_slab_index(slab, objs[i]);
}

START_TEST(test_once)
{
	for (uint32_t i = 0; i < all(); i++) {
		expect(!pcp_is_built(slab, index_of(i)));
		expect_eq(build_one(slab, index_of(i)), 0);
		expect(pcp_is_built(slab, index_of(i)));
		expect_eq(atomic_load(&sheet.calls), i + 1);
		expect_eq(build_one(slab, index_of(i)), 0);
		expect_eq(atomic_load(&sheet.calls), i + 1);
		check_books();
	}
	expect_eq(pcp_slab_built_inuse(slab), all());
	for (uint32_t i = 0; i < all(); i++)
		sheet_pattern_check(objs[i], OBJECT);
	for (uint32_t i = 0; i < all(); i++) {
		pcp_unbuild(slab, index_of(i));
		expect(!pcp_is_built(slab, index_of(i)));
		pcp_unbuild(slab, index_of(i));
		expect_eq(atomic_load(&sheet.dtor), i + 1);
		check_books();
	}
	slab_give(slab, all(), objs);
}
END_TEST

/* A failed place stays unbuilt and is tried again. */
START_TEST(test_failed_place)
{
	atomic_store(&sheet.fail_from, 1);
	atomic_store(&sheet.error, EDQUOT);
	for (unsigned int i = 0; i < 3; i++) {
		expect_eq(build_one(slab, index_of(0)), EDQUOT);
		expect(!pcp_is_built(slab, index_of(0)));
		check_books();
	}
	pcp_unbuild(slab, index_of(0));
	expect_eq(atomic_load(&sheet.dtor), 0);
	atomic_store(&sheet.fail_from, 0);
	expect_eq(build_one(slab, index_of(0)), 0);
	expect_eq(atomic_load(&sheet.calls), 4);
	slab_give(slab, all(), objs);
}
END_TEST

/* The constructor fails at its k-th call, with every third object built
 * before: those after the failure are kept as well. */
START_TEST(test_many)
{
	const uint32_t n = 24;

	for (uint32_t k = 1; k <= n + 1; k++) {
		uint32_t unbuilt = 0, expected = 0;
		unsigned long long calls;
		unsigned char seen[24] = { 0 };
		void *batch[24];
		size_t good;
		int err;

		for (uint32_t i = 0; i < n; i++) {
			batch[i] = objs[i];
			pcp_unbuild(slab, index_of(i));
			if (i % 3 == 0)
				expect_eq(build_one(slab, index_of(i)), 0);
		}
		for (uint32_t i = 0; i < n; i++) {
			unbuilt += i % 3 != 0;
			expected += i % 3 == 0 || unbuilt < k;
		}
		calls = atomic_load(&sheet.calls);
		atomic_store(&sheet.fail_from, calls + k);
		good = pcp_build_many(&kind, n, batch, &err);
		atomic_store(&sheet.fail_from, 0);
		expect_eq(good, expected);
		expect_eq(err, unbuilt < k ? 0 : EXDEV);
		expect_eq(atomic_load(&sheet.calls) - calls,
			  unbuilt < k ? unbuilt : k);
		/* All are still there, the built ones in front. */
		for (uint32_t i = 0; i < n; i++) {
			uint32_t at = 0;

			expect_eq(pcp_is_built(slab, pcp_slab_index(slab,
								    batch[i])),
				  i < good);
			while (at < n && objs[at] != batch[i])
				at++;
			expect(at < n && !seen[at]);
			seen[at] = 1;
		}
		check_books();
	}
	slab_give(slab, all(), objs);
}
END_TEST

START_TEST(test_plain_memory)
{
	struct pcp_kind plain;
	struct pcp_slab *other;
	void *batch[4];
	bool full;
	int err = 1;

	kind_make(&plain, OBJECT, 0, NULL, 0);
	other = pcp_slab_create(&plain, 0, 0, NULL);
	expect(other);
	expect_eq(pcp_slab_take(other, 4, batch, &full), 4);
	expect_eq(pcp_build_many(&plain, 4, batch, &err), 4);
	expect_eq(err, 0);
	expect_eq(build_one(other, pcp_slab_index(other, batch[0])), 0);
	expect(pcp_is_built(other, pcp_slab_index(other, batch[0])));
	pcp_unbuild(other, pcp_slab_index(other, batch[0]));
	expect_eq(pcp_slab_built_inuse(other), 0);
	slab_give(other, 4, batch);
	kind_drop(&plain);
	slab_give(slab, all(), objs);
}
END_TEST

/* One of the two callbacks is enough. */
START_TEST(test_halves)
{
	for (unsigned int half = 0; half < 2; half++) {
		struct sheet own = { 0 };
		struct pcp_kind one;
		struct pcp_slab *other;
		void *obj;
		bool full;

		kind_make(&one, OBJECT, 0, &own, 0);
		pcp_kind_destroy(&one);
		if (half)
			one.ctor = NULL;
		else
			one.dtor = NULL;
		expect_eq(pcp_kind_init(&one, OBJECT, 0), 0);
		other = pcp_slab_create(&one, 0, 0, NULL);
		expect(other);
		for (unsigned int i = 0; i < 2; i++) {
			uint32_t index;

			expect_eq(pcp_slab_take(other, 1, &obj, &full), 1);
			index = pcp_slab_index(other, obj);
			expect_eq(build_one(other, index), 0);
			expect(pcp_is_built(other, index));
			slab_give(other, 1, &obj);
		}
		expect_eq(atomic_load(&own.calls), half ? 0 : 1);
		pcp_slab_kill(other);
		expect_eq(atomic_load(&own.dtor), half ? 1 : 0);
		kind_drop(&one);
	}
	slab_give(slab, all(), objs);
}
END_TEST

/* --- death ---------------------------------------------------------------- */

static void dtor_that_looks(void *obj, void *arg)
{
	uint32_t index = pcp_slab_index(slab, obj);

	/* A fork now must not destruct it again in the child, and a destroy
	 * must see that the cache is in use. */
	expect(!pcp_is_built(slab, index));
	expect_eq(pcp_kind_inuse(&kind), all());
	expect_eq(kind.nr_slabs, 1);
	sheet_dtor(obj, arg);
}

START_TEST(test_kill)
{
	for (uint32_t i = 0; i < all(); i += 2)
		expect_eq(build_one(slab, index_of(i)), 0);
	slab_give(slab, all(), objs);
	kind.dtor = dtor_that_looks;
	pcp_slab_kill(slab);
	expect_eq(atomic_load(&sheet.dtor), (all() + 1) / 2);
	check_books();
	expect_eq(kind.nr_slabs, 0);
}
END_TEST

/* What is out belongs to threads that do not exist in this forked child. */
START_TEST(test_kill_spares_what_is_out)
{
	for (uint32_t i = 0; i < all(); i++)
		expect_eq(build_one(slab, index_of(i)), 0);
	slab_give(slab, all() - 3, objs + 3);
	expect_eq(pcp_slab_built_inuse(slab), 3);
	pcp_slab_kill(slab);
	expect_eq(atomic_load(&sheet.dtor), all() - 3);
	expect_eq(kind.nr_slabs, 0);
	atomic_fetch_add(&sheet.dtor, 3); /* for the teardown */
}
END_TEST

START_TEST(test_kill_list)
{
	struct pcp_slab_link dead;
	void *obj;
	bool full;

	pcp_slabs_init(&dead);
	pcp_slabs_kill(&dead);
	for (unsigned int i = 0; i < 5; i++) {
		struct pcp_slab *other = pcp_slab_create(&kind, 0, 0, NULL);

		expect(other);
		expect_eq(pcp_slab_take(other, 1, &obj, &full), 1);
		expect_eq(build_one(other, pcp_slab_index(other, obj)), 0);
		slab_give(other, 1, &obj);
		pcp_slabs_add_tail(&dead, &other->list);
	}
	expect_eq(kind.nr_slabs, 6);
	pcp_slabs_kill(&dead);
	expect(pcp_slabs_empty(&dead));
	expect_eq(kind.nr_slabs, 1);
	expect_eq(atomic_load(&sheet.dtor), 5);
	slab_give(slab, all(), objs);
}
END_TEST

/* --- threads: neighbours' bits -------------------------------------------- */

static void build_and_unbuild(const struct worker *worker)
{
	for (unsigned int round = 0; round < 500; round++)
		for (uint32_t i = worker->id; i < all(); i += worker->n) {
			expect_eq(build_one(slab, index_of(i)), 0);
			expect(pcp_is_built(slab, index_of(i)));
			if ((round + i) % 3 == 0)
				continue;
			pcp_unbuild(slab, index_of(i));
			expect(!pcp_is_built(slab, index_of(i)));
		}
}

START_TEST(test_threads)
{
	run_threads(4, build_and_unbuild, NULL);
	check_books();
	slab_give(slab, all(), objs);
}
END_TEST

/* --- locks ---------------------------------------------------------------- */

static struct pcp_lock lock = PCP_LOCK_INIT(PCP_RANK_ARENA);

static void build_locked(void *arg)
{
	(void)arg;
	pcp_lock(&lock);
	build_one(slab, index_of(0));
}

static void unbuild_locked(void *arg)
{
	(void)arg;
	build_one(slab, index_of(0));
	pcp_lock(&lock);
	pcp_unbuild(slab, index_of(0));
}

START_TEST(test_locks)
{
	must_abort(build_locked, NULL, "a callback runs with a lock");
	must_abort(unbuild_locked, NULL, "a callback runs with a lock");
	slab_give(slab, all(), objs);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("build", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_once);
	tcase_add_test(tc, test_failed_place);
	tcase_add_test(tc, test_many);
	tcase_add_test(tc, test_plain_memory);
	tcase_add_test(tc, test_halves);
	tcase_add_test(tc, test_kill);
	tcase_add_test(tc, test_kill_spares_what_is_out);
	tcase_add_test(tc, test_kill_list);
	tcase_add_test(tc, test_threads);
	tcase_add_test(tc, test_locks);
	return suite_run(tc);
}

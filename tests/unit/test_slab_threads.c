/* SPDX-License-Identifier: MIT */
/* lib/slab/slab.c: one holder beside many givers; births and releases side by
 * side. */
#include <config.h>

#include <pthread.h>
#include <sched.h>

#include "slab_fixture.h"

#include "base/compiler.h"

/* --- threads -------------------------------------------------------------- */

static atomic_uint hook_step;

static void widen(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_SLAB_TAKE && id != PCP_HOOK_SLAB_GIVE)
		return;
	if (atomic_fetch_add(&hook_step, 1) % 8 == 0)
		sched_yield();
}

/* One holder takes and hands over; the others give back. */
struct shared {
	struct pcp_slab *slab;
	void *_Atomic ring[256];
	atomic_uint running;
	bool built; /* now and then the first built one */
};

static bool pass_on(struct shared *shared, void *obj)
{
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(shared->ring); i++) {
		void *none = NULL;

		if (atomic_compare_exchange_strong(&shared->ring[i], &none,
						   obj))
			return true;
	}
	return false;
}

static void take_and_pass(struct shared *shared)
{
	struct pcp_slab *slab = shared->slab;
	struct rng rng;
	void *objs[16];

	rng_seed(&rng, 3);
	for (unsigned int step = 0; step < 20000; step++) {
		struct pcp_chain rest = { 0 };
		uint32_t got = 1;
		bool full;

		if (shared->built && rng_below(&rng, 4) == 0) {
			objs[0] = pcp_slab_take_built(slab, &rest, &full);
			got = objs[0] ? 1 : 0;
		} else {
			got = pcp_slab_take(slab, 1 + rng_below(&rng, 16),
					    objs, &full);
		}
		if (rest.count) {
			uint64_t word = pcp_load(&slab->word);

			while (!pcp_slab_give(&rest, &word))
				;
		}
		for (uint32_t i = 0; i < got; i++) {
			owner_take(objs[i], 1);
			if (pass_on(shared, objs[i]))
				continue;
			owner_leave(objs[i], 1);
			slab_give(slab, 1, &objs[i]);
		}
		if (!got)
			sched_yield();
	}
	atomic_store(&shared->running, 0);
}

static void give_back(struct shared *shared, unsigned int id)
{
	struct rng rng;
	bool more;

	rng_seed(&rng, id);
	do {
		void *objs[8];
		uint32_t n = 0, want = 1 + rng_below(&rng, 8);

		more = atomic_load(&shared->running);
		for (unsigned int i = 0;
		     i < PCP_ARRAY_SIZE(shared->ring) && n < want; i++) {
			void *obj = atomic_exchange(&shared->ring[i], NULL);

			if (!obj)
				continue;
			owner_leave(obj, 1);
			objs[n++] = obj;
			more = true;
		}
		slab_give(shared->slab, n, objs);
		if (!n)
			sched_yield();
	} while (more);
}

static void hold_or_give(const struct worker *worker)
{
	struct shared *shared = worker->arg;

	if (!worker->id)
		take_and_pass(shared);
	else
		give_back(shared, worker->id);
}

START_TEST(test_one_holder)
{
	struct sheet sheet = { .clear = OBJECT };
	struct shared *shared = calloc(1, sizeof(*shared));
	struct pcp_kind built;

	kind_make(&built, OBJECT, 0, &sheet, 0);
	shared->slab = pcp_slab_create(&built, 0, 0, NULL);
	expect(shared->slab);
	for (uint32_t i = 0; i < built.layout.objects; i++)
		memset(pcp_slab_object(shared->slab, i), 0, OBJECT);
	shared->built = _i;
	for (uint32_t i = 0; i < built.layout.objects && shared->built; i += 3)
		expect_eq(build_one(shared->slab, i), 0);
	atomic_store(&shared->running, 1);
	pcp_hook_set(widen);
	run_threads(4, hold_or_give, shared);
	pcp_hook_set(NULL);
	expect_eq(pcp_slab_inuse(shared->slab), 0);
	slab_verify(shared->slab);
	for (uint32_t i = 0; i < built.layout.objects; i++)
		expect_eq(*(uint64_t *)pcp_slab_object(shared->slab, i), 0);
	kind_drop(&built);
	sheet_balanced(&sheet);
	free(shared);
}
END_TEST

static void create_and_release(const struct worker *worker)
{
	struct pcp_slab *slabs[5];

	for (unsigned int round = 0; round < 100; round++) {
		for (unsigned int i = 0; i < 5; i++)
			slabs[i] = must_create();
		for (unsigned int i = 0; i < 5; i++)
			pcp_slab_release(slabs[(i + worker->id) % 5]);
	}
}

START_TEST(test_births_beside)
{
	run_threads(4, create_and_release, NULL);
	expect_eq(kind.nr_slabs, 0);
	expect(pcp_slabs_empty(&kind.all));
	expect_eq(kind_stat(&kind, PCP_STAT_ALLOC_SLAB), 2000);
	expect_eq(kind_stat(&kind, PCP_STAT_FREE_SLAB), 2000);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("slab_threads", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, test_one_holder, 0, 2);
	tcase_add_test(tc, test_births_beside);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/cpu/fence.c: after a fence no section that began before it commits any
 * more. */
#include <config.h>

#include <pthread.h>
#include <sched.h>

#include "floors.h"

#include "cpu/fence.h"
#include "cpu/rseq.h"
#include "sheaf/sheaf.h"

START_TEST(test_calls)
{
	pcp_init();
	if (!pcp_index.rseq)
		return;
	for (unsigned int i = 0; i < 3; i++) {
		errno = ERANGE;
		expect_eq(pcp_fence_init(), 0);
		expect_eq(pcp_fence_all(), 0);
		for (unsigned int slot = 0; slot < pcp_index.nr_ids; slot++)
			expect_eq(pcp_fence_slot(slot), 0);
		expect_errno(ERANGE);
	}
}
END_TEST

START_TEST(test_faults)
{
	pcp_init();
	pcp_fault_set(PCP_FAULT_FENCE, 1, true);
	errno = ERANGE;
	expect_eq(pcp_fence_all(), ENOMEM);
	expect_eq(pcp_fence_slot(0), ENOMEM);
	expect_errno(ERANGE);
	/* Each counts once, with cid as well. */
	expect_eq(pcp_fault_passed(PCP_FAULT_FENCE), 2);
	pcp_fault_set(PCP_FAULT_FENCE, 0, false);
}
END_TEST

static void in_child(void *arg)
{
	(void)arg;
	expect_eq(pcp_fence_all(), 0);
	expect_eq(pcp_fence_slot(0), 0);
}

START_TEST(test_child)
{
	struct child child;

	pcp_init();
	if (!pcp_index.rseq)
		return;
	run_child(in_child, NULL, 10, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* --- what it is for ------------------------------------------------------- */

struct slot {
	struct pcp_sheaf *main, *spare, *rcu;
} PCP_ALIGNED(64);

#define CAPACITY 1000U
#define ROUNDS 3000U

static struct slot *slots;
static struct pcp_sheaf *sheaves[2];
static atomic_bool stop;

static void run_sections(void)
{
	void *obj;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (unsigned int i = 0; i < 64; i++)
			(void)pcp_rseq_push(slots, slots);
		for (unsigned int i = 0; i < 64; i++)
			(void)pcp_rseq_pop(slots, &obj);
	}
}

/* Take the main away, fence, and see that it stands still. */
static void take_away(bool all, unsigned int index)
{
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct pcp_sheaf *old, *other;
		uint64_t word;

		old = pcp_xchg(&slots[index].main, PCP_CLOSED);
		other = old == sheaves[0] ? sheaves[1] : sheaves[0];
		expect_eq(all ? pcp_fence_all() : pcp_fence_slot(index), 0);
		word = pcp_load(&old->word);
		for (unsigned int i = 0; i < 50; i++)
			expect_eq(pcp_load(&old->word), word);
		pcp_store(&old->word, CAPACITY / 2);
		pcp_store_release(&slots[index].main, other);
		/* Let it get going. */
		while (pcp_load(&other->word) == CAPACITY / 2)
			sched_yield();
	}
	atomic_store(&stop, true);
}

struct game {
	bool all;
	unsigned int index;
};

static void play(const struct worker *worker)
{
	const struct game *game = worker->arg;

	if (worker->id)
		run_sections();
	else
		take_away(game->all, game->index);
}

/* _i: fences of all CPUs, or of the slot's. The one who fences is on another
 * CPU than the sections. */
START_TEST(test_stands_still)
{
	struct game arg = { .all = _i };
	long index;

	pcp_init();
	if (!pcp_index.rseq || pcp_index.cid || allowed_cpus() < 2)
		return;
	slots = aligned_alloc(64, pcp_index.nr_ids * sizeof(*slots));
	expect(slots);
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++)
		slots[i] = (struct slot){ .main = PCP_CLOSED };
	for (unsigned int i = 0; i < 2; i++) {
		sheaves[i] = calloc(1, sizeof(struct pcp_sheaf) +
					       CAPACITY * sizeof(void *));
		expect(sheaves[i]);
		sheaves[i]->capacity = CAPACITY;
		sheaves[i]->word = CAPACITY / 2;
	}
	pin_to(1);
	index = pcp_this_index();
	unpin();
	expect_cmp(index, >=, 0);
	arg.index = (unsigned int)index;
	slots[index].main = sheaves[0];
	run_threads(2, play, &arg);
	free(slots);
	free(sheaves[0]);
	free(sheaves[1]);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fence", 60);

	tcase_add_test(tc, test_calls);
	tcase_add_test(tc, test_faults);
	tcase_add_test(tc, test_child);
	tcase_add_loop_test(tc, test_stands_still, 0, 2);
	return suite_run(tc);
}

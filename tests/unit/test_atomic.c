/* SPDX-License-Identifier: MIT */
/* The atomics and the lock-free stack: nothing lost, nothing twice. */
#include <config.h>

#include <sched.h>

#include "base/atomic.h"

#include "../common.h"
#include "../suite.h"

START_TEST(test_words)
{
	uint64_t word = 5, expected = 4;
	void *pointer = NULL, *seen;

	expect_eq(pcp_load(&word), 5);
	pcp_store(&word, (uint64_t)6);
	expect_eq(pcp_load_acquire(&word), 6);
	pcp_store_release(&word, (uint64_t)7);
	expect_eq(pcp_xchg(&word, (uint64_t)8), 7);
	expect_eq(pcp_add(&word, (uint64_t)2), 8);
	expect_eq(pcp_sub(&word, (uint64_t)1), 10);
	expect_eq(pcp_or(&word, (uint64_t)6), 9);
	expect_eq(pcp_and(&word, (uint64_t)3), 15);
	expect_eq(word, 3);
	expect(!pcp_cas(&word, &expected, (uint64_t)9));
	expect_eq(expected, 3);
	expect(pcp_cas(&word, &expected, (uint64_t)9));
	expect_eq(word, 9);
	seen = pcp_xchg(&pointer, (void *)&word);
	expect(!seen && pointer == &word);
}
END_TEST

struct node {
	struct pcp_stack_node link;
	unsigned int id;
	uint64_t owner;
	uint64_t plain; /* handed over by the stack alone */
};

static struct node *node_of(struct pcp_stack_node *link)
{
	return pcp_container_of(link, struct node, link);
}

START_TEST(test_stack_order)
{
	struct pcp_stack stack;
	struct node nodes[100];

	pcp_stack_init(&stack);
	expect(pcp_stack_seems_empty(&stack));
	expect(!pcp_stack_pop(&stack));
	for (unsigned int i = 0; i < 100; i++) {
		nodes[i].id = i;
		pcp_stack_push(&stack, &nodes[i].link);
		expect(!pcp_stack_seems_empty(&stack));
	}
	for (unsigned int i = 100; i--;)
		expect_eq(node_of(pcp_stack_pop(&stack))->id, i);
	expect(pcp_stack_seems_empty(&stack));
	expect(!pcp_stack_pop(&stack));
}
END_TEST

START_TEST(test_stack_alignment)
{
	struct {
		char pad;
		struct pcp_stack stack;
	} holder[3];

	/* The head is swapped as one double word. */
	expect_eq(_Alignof(struct pcp_stack) % 16, 0);
	for (int i = 0; i < 3; i++)
		expect_eq((uintptr_t)&holder[i].stack.head % 16, 0);
}
END_TEST

enum { NODES = 64 };

struct shared {
	struct pcp_stack stack[2];
	struct node nodes[NODES];
	atomic_ulong moved;
};

static void move(const struct worker *w)
{
	struct shared *shared = w->arg;
	uint64_t id = w->id + 1;
	unsigned long moved = 0;
	struct rng rng;

	rng_seed(&rng, id);
	for (int i = 0; i < 50000; i++) {
		struct node *held[4];
		unsigned int n = 0;

		while (n < 4) {
			struct pcp_stack_node *link = pcp_stack_pop(
				&shared->stack[rng_below(&rng, 2)]);

			if (!link)
				break;
			held[n] = node_of(link);
			owner_take(&held[n]->owner, id);
			held[n]->plain++;
			n++;
		}
		if (i % 1000 == 0)
			sched_yield();
		moved += n;
		while (n--) {
			owner_leave(&held[n]->owner, id);
			pcp_stack_push(&shared->stack[rng_below(&rng, 2)],
				       &held[n]->link);
		}
	}
	atomic_fetch_add(&shared->moved, moved);
}

/* Nodes go round between threads: each is somebody's or the stack's, and what
 * its last owner wrote is there for the next. */
START_TEST(test_stack_threads)
{
	static struct shared shared;
	struct pcp_stack_node *link;
	unsigned long plain = 0;
	unsigned int seen = 0;

	pcp_stack_init(&shared.stack[0]);
	pcp_stack_init(&shared.stack[1]);
	for (unsigned int i = 0; i < NODES; i++)
		pcp_stack_push(&shared.stack[i % 2], &shared.nodes[i].link);
	run_threads(6, move, &shared);
	for (int s = 0; s < 2; s++)
		while ((link = pcp_stack_pop(&shared.stack[s]))) {
			owner_take(&node_of(link)->owner, 1);
			plain += node_of(link)->plain;
			seen++;
		}
	expect_eq(seen, NODES);
	expect_eq(plain, atomic_load(&shared.moved));
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("atomic", 60);

	tcase_add_test(tc, test_words);
	tcase_add_test(tc, test_stack_order);
	tcase_add_test(tc, test_stack_alignment);
	tcase_add_test(tc, test_stack_threads);
	return suite_run(tc);
}

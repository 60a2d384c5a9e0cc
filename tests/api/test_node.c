/* SPDX-License-Identifier: MIT */
/*
 * Memory by node: refusals, the preference, and another node's object rather
 * than none. Runs itself again with synthetic nodes.
 */
#include <config.h>

#include <limits.h>
#include <sys/wait.h>

#include "../caches.h"
#include "../suite.h"

static bool again;

START_TEST(test_refusals)
{
	struct pcpool_cache *cache = pcpool_cache_create("n", 64, NULL);
	int nodes = (int)pcpool_nr_nodes();

	expect(nodes >= 1);
	expect_refused(pcpool_alloc_node(NULL, 0), EINVAL);
	expect_refused(pcpool_alloc_node(NULL, -1), EINVAL);
	expect_refused(pcpool_alloc_node(cache, -2), EINVAL);
	expect_refused(pcpool_alloc_node(cache, INT_MIN), EINVAL);
	expect_refused(pcpool_alloc_node(cache, nodes), EINVAL);
	expect_refused(pcpool_alloc_node(cache, INT_MAX), EINVAL);
	must_destroy(cache);
}
END_TEST

static void every_node(unsigned int flags, unsigned int capacity)
{
	struct sheet sheet = { .fill = 120 };
	struct pcpool_cache *cache =
		sheet_cache_of("n", 120, &sheet, flags, capacity);
	int nodes = (int)pcpool_nr_nodes();
	static void *objs[2000];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 2000; i++) {
			int node = i % (nodes + 1) - 1;

			objs[i] = pcpool_alloc_node(cache, node);
			expect(objs[i]);
			sheet_pattern_check(objs[i], 120);
		}
		expect_eq(stats_of(cache).live, 2000);
		for (int i = 0; i < 2000; i++)
			pcpool_free(cache, objs[(i * 7) % 2000]);
		expect_eq(stats_of(cache).live, 0);
		if (round == 1) {
			expect_eq(pcpool_cache_shrink(cache), 0);
			expect_eq(stats_of(cache).slabs, 0);
		}
	}
	destroy_balanced(cache, &sheet);
}

START_TEST(test_every_node)
{
	every_node(0, 0);
	every_node(0, 1);
	every_node(PCPOOL_CHECK, 0);
	every_node(PCPOOL_DTOR_ON_FREE, 0);
}
END_TEST

/* 64 objects exist wherever; each must be had from every node. */
START_TEST(test_another_node_rather_than_none)
{
	struct sheet sheet = { .clear = 8, .fail_from = 65 };
	struct pcpool_cache *cache = sheet_cache("n", 120, &sheet);
	int nodes = (int)pcpool_nr_nodes();
	void *objs[64];

	for (int home = 0; home < nodes; home++) {
		for (int i = 0; i < 64; i++) {
			objs[i] = pcpool_alloc_node(cache, (home + i) % nodes);
			expect(objs[i]);
			owner_take(objs[i], 1);
		}
		expect_refused(pcpool_alloc_node(cache, home), EXDEV);
		for (int i = 0; i < 64; i++) {
			owner_leave(objs[i], 1);
			pcpool_free(cache, objs[i]);
		}
		/* In the slot, in a barn, in slabs: all the same. */
		for (int i = 0; i < 64; i++) {
			objs[i] = pcpool_alloc_node(cache, home);
			expect(objs[i]);
		}
		expect_eq(pcpool_free_bulk(cache, 64, objs), 0);
		if (home == 1)
			break;
	}
	expect_eq(sheet.ok, 64);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* With a node given the slot's stock is not touched. */
START_TEST(test_goes_past_the_slot)
{
	struct pcpool_cache *cache = pcpool_cache_create("n", 64, NULL);
	struct pcpool_cache_stats before, after;
	void *objs[10];

	pin_to(0);
	pcpool_free(cache, must_alloc(cache));
	before = stats_of(cache);
	for (int i = 0; i < 10; i++)
		expect(objs[i] = pcpool_alloc_node(cache, 0));
	after = stats_of(cache);
	expect_eq(after.alloc_fastpath, before.alloc_fastpath);
	expect_eq(after.alloc_slowpath, before.alloc_slowpath + 10);
	expect_eq(after.live, 10);
	expect_eq(pcpool_free_bulk(cache, 10, objs), 0);
	must_destroy(cache);
}
END_TEST

static void mixed(const struct worker *w)
{
	struct pcpool_cache *cache = w->arg;
	uint32_t nodes = pcpool_nr_nodes();
	void *objs[50];
	struct rng rng;

	rng_seed(&rng, w->id);
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 50; i++) {
			objs[i] = pcpool_alloc_node(
				cache, (int)rng_below(&rng, nodes + 1) - 1);
			expect(objs[i]);
			owner_take(objs[i], w->id + 1);
		}
		for (int i = 0; i < 50; i++) {
			owner_leave(objs[i], w->id + 1);
			pcpool_free(cache, objs[i]);
		}
		if (w->id == 0 && round % 10 == 0)
			expect_eq(pcpool_cache_shrink(cache), 0);
	}
}

START_TEST(test_threads)
{
	struct sheet sheet = { .clear = 8 };
	struct pcpool_cache *cache = sheet_cache("n", 96, &sheet);

	run_threads(4, mixed, cache);
	expect_eq(pcpool_cache_shrink(cache), 0);
	sheet_balanced(&sheet);
	destroy_balanced(cache, &sheet);
}
END_TEST

START_TEST(test_with_synthetic_nodes)
{
	static const char *const args[] = { "--again", NULL };
	static const char *const options[] = { "nodes:2", "nodes:4,slots:16",
					       "nodes:64,slots:200" };
	static struct child child;

	for (int i = 0; i < 3 && !again; i++) {
		run_self(args, options[i], 100, &child);
		if (!WIFEXITED(child.status) || WEXITSTATUS(child.status))
			fprintf(stderr, "with %s:\n", options[i]);
		expect_child_exit(&child, 0);
	}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc = suite_case("node", 110);

	again = argc > 1 && !strcmp(argv[1], "--again");
	tcase_add_test(tc, test_refusals);
	tcase_add_test(tc, test_every_node);
	tcase_add_test(tc, test_another_node_rather_than_none);
	tcase_add_test(tc, test_goes_past_the_slot);
	tcase_add_test(tc, test_threads);
	tcase_add_test(tc, test_with_synthetic_nodes);
	return suite_run(tc);
}

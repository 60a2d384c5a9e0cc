/* SPDX-License-Identifier: MIT */
/* lib/cpu/init.c: the library wakes up once, whoever comes first. */
#include <config.h>

#include <unistd.h>

#include <pcpool/pcpool.h>

#include "floors.h"

#include "base/options.h"
#include "cpu/topology.h"

static void check_awake(void)
{
	expect_eq(pcp_ready, 1);
	expect_cmp(pcp_topology.nr_cpus, >=, 1);
	expect_cmp(pcp_index.nr_ids, >=, 1);
	expect(strcmp(pcp_index.reason, "not decided yet"));
}

static void asleep(void)
{
	expect_eq(pcp_ready, 0);
	expect(!strcmp(pcp_index.reason, "not decided yet"));
}

static void init(void *arg)
{
	(void)arg;
	asleep();
	pcp_init();
	check_awake();
	pcp_init();
	check_awake();
}

START_TEST(test_once)
{
	init(NULL);
}
END_TEST

/* --- every public call that may be the first ------------------------------ */

static void call_create(void *arg)
{
	(void)arg;
	expect_eq(pcpool_cache_destroy(pcpool_cache_create("x", 8, NULL)), 0);
}

static void call_percpu(void *arg)
{
	(void)arg;
	pcpool_percpu_free(pcpool_percpu_alloc(8, 0));
}

static void call_percpu_bulk(void *arg)
{
	void *ptrs[2];

	(void)arg;
	expect_eq(pcpool_percpu_alloc_bulk(2, 8, 0, ptrs), 0);
	expect_eq(pcpool_percpu_free_bulk(2, ptrs), 0);
}

static void call_nr_slots(void *arg)
{
	(void)arg;
	expect_cmp(pcpool_nr_slots(), >=, 1);
}

static void call_nr_nodes(void *arg)
{
	(void)arg;
	expect_cmp(pcpool_nr_nodes(), >=, 1);
}

static void call_this_slot(void *arg)
{
	(void)arg;
	expect_cmp(pcpool_this_slot(), <, pcpool_nr_slots());
}

static void call_mode(void *arg)
{
	(void)arg;
	expect(!strcmp(pcpool_mode(), "rseq") || !strcmp(pcpool_mode(), "lock"));
}

static void call_index(void *arg)
{
	(void)arg;
	expect(pcpool_index());
}

static void call_reason(void *arg)
{
	(void)arg;
	expect(strcmp(pcpool_mode_reason(), "not decided yet"));
}

static void call_percpu_stats(void *arg)
{
	struct pcpool_percpu_stats stats = { .stats_size = sizeof(stats) };

	(void)arg;
	expect_eq(pcpool_percpu_get_stats(&stats), 0);
	expect_cmp(stats.slots, >=, 1);
}

static void call_print(void *arg)
{
	(void)arg;
	expect_eq(pcpool_print(STDERR_FILENO), 0);
}

START_TEST(test_first_call)
{
	static void (*const calls[])(void *) = {
		call_create, call_percpu, call_percpu_bulk, call_nr_slots,
		call_nr_nodes, call_this_slot, call_mode, call_index,
		call_reason, call_percpu_stats, call_print,
	};

	for (size_t i = 0; i < PCP_ARRAY_SIZE(calls); i++) {
		struct child child;

		asleep();
		run_child(calls[i], NULL, 10, &child);
		expect_child_exit(&child, 0);
		/* A refused argument wakes nothing up. */
		asleep();
	}
}
END_TEST

/* --- threads and forks ---------------------------------------------------- */

static void all_at_once(const struct worker *worker)
{
	(void)worker;
	pcp_init();
	check_awake();
}

static void many_first(void *arg)
{
	(void)arg;
	asleep();
	run_threads(8, all_at_once, NULL);
	check_awake();
}

START_TEST(test_threads)
{
	for (unsigned int i = 0; i < 50; i++) {
		struct child child;

		run_child(many_first, NULL, 10, &child);
		expect_child_exit(&child, 0);
	}
}
END_TEST

static void use_in_child(void *arg)
{
	struct pcpool_cache *cache;

	(void)arg;
	pcp_init();
	check_awake();
	cache = pcpool_cache_create("x", 64, NULL);
	expect(cache);
	pcpool_free(cache, pcpool_alloc(cache));
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(pcpool_cache_destroy(cache), 0);
}

static void fork_or_init(const struct worker *worker)
{
	struct child child;

	if (worker->id) {
		pcp_init();
		use_in_child(NULL);
		return;
	}
	run_child(use_in_child, NULL, 10, &child);
	expect_child_exit(&child, 0);
}

static void fork_beside_init(void *arg)
{
	(void)arg;
	asleep();
	run_threads(3, fork_or_init, NULL);
}

/* A child forked in the middle of the first call wakes up by itself. */
START_TEST(test_fork_in_the_middle)
{
	for (unsigned int i = 0; i < 60; i++) {
		struct child child;

		run_child(fork_beside_init, NULL, 20, &child);
		expect_child_exit(&child, 0);
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("init", 60);

	tcase_add_test(tc, test_once);
	tcase_add_test(tc, test_first_call);
	tcase_add_test(tc, test_threads);
	/* Their allocators may be locked for ever in such a child. */
	if (!TEST_ASAN && !TEST_TSAN)
		tcase_add_test(tc, test_fork_in_the_middle);
	return suite_run(tc);
}

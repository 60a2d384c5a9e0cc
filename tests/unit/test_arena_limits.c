/* SPDX-License-Identifier: MIT */
/* lib/slab/arena.c: what may be read, what happens without memory, on other
 * nodes, and with many threads. */
#include <config.h>

#include <sys/wait.h>
#include <unistd.h>

#include "arena_fixture.h"

/* --- readable ------------------------------------------------------------- */

START_TEST(test_readable)
{
	static char somewhere[64];
	char local = 0, *heap, *block, *base, *edge;

	expect(!pcp_block_readable(&local, 1));
	pcp_init();
	heap = malloc(1);
	block = must_alloc(2);
	base = arena_of(block);
	expect(!pcp_block_readable(NULL, 1));
	expect(!pcp_block_readable(&local, 1));
	expect(!pcp_block_readable(heap, 1));
	expect(!pcp_block_readable(&somewhere, sizeof(somewhere)));
	expect(!pcp_block_readable((void *)(uintptr_t)&test_readable, 1));
	expect(!pcp_block_readable((void *)UINTPTR_MAX, 1));
	for (unsigned int bit = 0; bit < sizeof(void *) * 8; bit++) {
		uintptr_t p = (uintptr_t)1 << bit;

		expect(!pcp_block_readable((void *)p, 1));
		/* One bit off: the wrong arena, or another byte of this. */
		p ^= (uintptr_t)block;
		if (arena_of((void *)p) != base)
			expect(!pcp_block_readable((void *)p, 1));
	}
	/* The header is not a user's; what is usable is readable to its end. */
	expect(!pcp_block_readable(base, 1));
	expect(!pcp_block_readable(base + PCP_BLOCK_MIN - 1, 1));
	for (edge = base + PCP_BLOCK_MIN; pcp_block_readable(edge, 1);
	     edge += pcp_page_size())
		expect_eq(*(volatile char *)edge, 0);
	expect(edge >= block + (PCP_BLOCK_MIN << 2));
	expect(edge < base + ARENA);
	expect(pcp_block_readable(edge - 1, 1));
	expect(!pcp_block_readable(edge - 1, 2));
	expect(!pcp_block_readable(base + ARENA - 1, 1));
	pcp_block_free(block, PCP_BLOCK_MIN << 2);
	free(heap);
}
END_TEST

/* --- without memory ------------------------------------------------------- */

static void expect_no_block(size_t size)
{
	expect_refused(pcp_block_alloc(size, 0), ENOMEM);
}

START_TEST(test_first_arena_fails)
{
	static const enum pcp_fault_point points[] = {
		PCP_FAULT_SLAB, PCP_FAULT_RESERVE, PCP_FAULT_COMMIT,
	};

	pcp_init();
	for (size_t i = 0; i < PCP_ARRAY_SIZE(points); i++) {
		pcp_fault_set(points[i], 1, false);
		expect_no_block(PCP_BLOCK_MIN);
		expect_eq(pcp_fault_passed(points[i]), 1);
		pcp_fault_set(points[i], 0, false);
	}
	pcp_block_free(must_alloc(0), PCP_BLOCK_MIN);
}
END_TEST

/* Growing what is usable fails: nothing is marked, and later it works. */
START_TEST(test_commit_fails)
{
	char *small, *first, *second, *third;

	pcp_init();
	small = must_alloc(0);
	pcp_fault_set(PCP_FAULT_COMMIT, 1, true);
	expect_no_block(PCP_BLOCK_MAX);
	expect_cmp(pcp_fault_passed(PCP_FAULT_COMMIT), >=, 2);
	/* What is usable already needs no commit. */
	first = must_alloc(0);
	pcp_fault_set(PCP_FAULT_COMMIT, 0, false);
	second = must_alloc(ORDERS - 1);
	expect(arena_of(second) == arena_of(small));
	expect_eq(second - arena_of(second), PCP_BLOCK_MAX);
	memset(second, 1, PCP_BLOCK_MAX);
	/* One that fails once is no reason to fail. */
	pcp_fault_set(PCP_FAULT_COMMIT, 1, false);
	third = must_alloc(ORDERS - 1);
	expect_cmp(pcp_fault_passed(PCP_FAULT_COMMIT), >=, 2);
	pcp_fault_set(PCP_FAULT_COMMIT, 0, false);
	pcp_block_free(first, PCP_BLOCK_MIN);
	pcp_block_free(third, PCP_BLOCK_MAX);
	pcp_block_free(second, PCP_BLOCK_MAX);
	pcp_block_free(small, PCP_BLOCK_MIN);
}
END_TEST

/* --- nodes ---------------------------------------------------------------- */

START_TEST(test_nodes)
{
	void *zero, *one, *other;

	decide("nodes:2");
	expect_eq(pcp_topology.nr_nodes, 2);
	zero = pcp_block_alloc(PCP_BLOCK_MIN, 0);
	one = pcp_block_alloc(PCP_BLOCK_MIN, 1);
	expect(zero && one && arena_of(zero) != arena_of(one));
	other = pcp_block_alloc(PCP_BLOCK_MIN, 1);
	expect(arena_of(other) == arena_of(one));
	pcp_block_free(other, PCP_BLOCK_MIN);
	pcp_block_free(one, PCP_BLOCK_MIN);
	/* One arena of each node is kept. */
	expect(mapped(one) && mapped(zero));
	pcp_block_free(zero, PCP_BLOCK_MIN);
	expect(mapped(one) && mapped(zero));
}
END_TEST

/* Memory from another node beats none. */
START_TEST(test_other_node_serves)
{
	void *zero, *one;

	decide("nodes:2");
	zero = pcp_block_alloc(PCP_BLOCK_MIN, 0);
	expect(zero);
	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	one = pcp_block_alloc(PCP_BLOCK_MIN, 1);
	expect(one && one != zero && arena_of(one) == arena_of(zero));
	pcp_block_free(one, PCP_BLOCK_MIN);
	pcp_block_free(zero, PCP_BLOCK_MIN);
}
END_TEST

/* --- threads -------------------------------------------------------------- */

static void stamp(struct live *it, uint64_t value)
{
	uint64_t *first = (uint64_t *)(void *)it->block;

	first[0] = value;
	first[(PCP_BLOCK_MIN << it->order) / sizeof(*first) - 1] = value;
}

static void give_up(struct live *it, uint64_t value)
{
	uint64_t *first = (uint64_t *)(void *)it->block;

	expect_eq(first[0], value);
	expect_eq(first[(PCP_BLOCK_MIN << it->order) / sizeof(*first) - 1],
		  value);
	pcp_block_free(it->block, PCP_BLOCK_MIN << it->order);
	it->block = NULL;
}

static void churn(const struct worker *worker)
{
	enum { HELD = 24 };
	struct live held[HELD] = { 0 };
	struct rng rng;

	rng_seed(&rng, worker->id);
	for (unsigned int step = 0; step < 4000; step++) {
		struct live *it = &held[rng_below(&rng, HELD)];

		if (it->block) {
			give_up(it, worker->id + 1);
			continue;
		}
		it->order = rng_below(&rng, 20) ? rng_below(&rng, 5)
						: rng_below(&rng, ORDERS);
		it->block = must_alloc(it->order);
		stamp(it, worker->id + 1);
		if (step % 256 == 0)
			pcp_block_purge();
	}
	for (unsigned int i = 0; i < HELD; i++)
		if (held[i].block)
			give_up(&held[i], worker->id + 1);
}

/* Arenas there are, by the map. */
static unsigned int arenas_mapped(void)
{
	unsigned long start, end, aligned, seen = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	char line[512];

	expect(maps);
	while (fgets(line, sizeof(line), maps)) {
		expect_eq(sscanf(line, "%lx-%lx", &start, &end), 2);
		aligned = (start + ARENA - 1) & ~(ARENA - 1);
		for (; aligned >= start && aligned < end; aligned += ARENA) {
			if (aligned == seen ||
			    !pcp_block_readable((char *)aligned + PCP_BLOCK_MIN,
						1))
				continue;
			seen = aligned;
			n++;
		}
	}
	fclose(maps);
	return n;
}

START_TEST(test_threads)
{
	pcp_init();
	run_threads(6, churn, NULL);
	expect_eq(sum_now().bytes, 0);
	pcp_block_purge();
	expect_eq(sum_now().idle, 0);
	expect_eq(sum_now().arenas, 1);
	/* However many threads made one at the same moment. */
	expect_eq(arenas_mapped(), 1);
}
END_TEST

static void *first_blocks[8];

static void take_first(const struct worker *worker)
{
	first_blocks[worker->id] = must_alloc(0);
}

/* All find no arena at the same time; the surplus ones go back. */
START_TEST(test_together)
{
	for (unsigned int i = 0; i < 50; i++) {
		pid_t pid = fork();

		expect(pid >= 0);
		if (!pid) {
			pcp_init();
			run_threads(8, take_first, NULL);
			for (unsigned int t = 0; t < 8; t++)
				pcp_block_free(first_blocks[t], PCP_BLOCK_MIN);
			pcp_block_purge();
			expect_eq(sum_now().arenas, 1);
			expect_eq(arenas_mapped(), 1);
			_exit(0);
		} else {
			int status;

			expect_eq(waitpid(pid, &status, 0), pid);
			expect_eq(status, 0);
		}
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("arena_limits", 60);

	tcase_add_test(tc, test_readable);
	tcase_add_test(tc, test_first_arena_fails);
	tcase_add_test(tc, test_commit_fails);
	tcase_add_test(tc, test_nodes);
	tcase_add_test(tc, test_other_node_serves);
	tcase_add_test(tc, test_threads);
	tcase_add_test(tc, test_together);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/slab/arena.c: blocks against a model that keeps a bit for each cell, what
 * goes back to the system and when, and what may be read. */
#include <config.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "floors.h"

#include "base/options.h"
#include "cpu/topology.h"
#include "slab/arena.h"

#if UINTPTR_MAX > UINT32_MAX
#define ARENA ((size_t)1 << 26)
#else
#define ARENA ((size_t)1 << 24)
#endif
#define CELLS (ARENA / PCP_BLOCK_MIN)
#define ORDERS 10U

/* Stand before the libc's: tests of this file make them fail. */
static bool munmap_fails, madvise_fails;

int munmap(void *p, size_t size)
{
	if (munmap_fails) {
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_munmap, p, size);
}

int madvise(void *p, size_t size, int advice)
{
	if (madvise_fails) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_madvise, p, size, advice);
}

static char *arena_of(const void *p)
{
	return (char *)((uintptr_t)p & ~(uintptr_t)(ARENA - 1));
}

static bool mapped(const void *p)
{
	unsigned char one;

	return !mincore(arena_of(p), 1, &one);
}

/* Pages of [p, p+size) that have memory behind them. */
static size_t resident(const void *p, size_t size)
{
	size_t page = pcp_page_size(), n = 0;
	unsigned char *pages = malloc(size / page);

	expect(pages);
	expect(!mincore((void *)(uintptr_t)p, size, pages));
	for (size_t i = 0; i < size / page; i++)
		n += pages[i] & 1;
	free(pages);
	return n;
}

static struct pcp_block_sum sum_now(void)
{
	struct pcp_block_sum sum;

	pcp_block_sum(&sum);
	return sum;
}

static bool is_zero(const void *p, size_t size)
{
	const uint64_t *words = p;

	for (size_t i = 0; i < size / sizeof(*words); i++)
		if (words[i])
			return false;
	return true;
}

static void *must_alloc(unsigned int order)
{
	size_t size = PCP_BLOCK_MIN << order;
	void *block = pcp_block_alloc(size, 0);

	expect(block);
	expect_eq((uintptr_t)block & (size - 1), 0);
	expect(pcp_block_readable(block, size));
	return block;
}

START_TEST(test_one_of_each)
{
	void *blocks[ORDERS];
	uint64_t bytes = 0;

	pcp_init();
	for (unsigned int order = 0; order < ORDERS; order++) {
		size_t size = PCP_BLOCK_MIN << order;

		blocks[order] = must_alloc(order);
		/* From a new arena; else the content is anything. */
		expect(is_zero(blocks[order], size));
		memset(blocks[order], (int)order + 1, size);
		bytes += size;
		expect_eq(sum_now().bytes, bytes);
	}
	for (unsigned int order = 0; order < ORDERS; order++) {
		size_t size = PCP_BLOCK_MIN << order;
		unsigned char *p = blocks[order];

		for (size_t i = 0; i < size; i++)
			expect_eq(p[i], order + 1);
		pcp_block_free(blocks[order], size);
	}
	expect_eq(sum_now().bytes, 0);
	pcp_block_purge();
	expect_eq(sum_now().idle, 0);
}
END_TEST

/* --- against a model ------------------------------------------------------ */

static bool model[CELLS];

/* Where a block of that order has to come from: as low as it can be. */
static size_t model_place(unsigned int order)
{
	size_t count = (size_t)1 << order;

	for (size_t cell = 0; cell < CELLS; cell += count) {
		size_t i = 0;

		while (i < count && !model[cell + i])
			i++;
		if (i == count)
			return cell;
	}
	return CELLS;
}

static void model_mark(size_t cell, unsigned int order, bool taken)
{
	for (size_t i = 0; i < (size_t)1 << order; i++) {
		expect_eq(model[cell + i], !taken);
		model[cell + i] = taken;
	}
}

struct live {
	char *block;
	unsigned int order;
};

static struct live live[CELLS];
static size_t nr_live;

static void free_one(size_t i)
{
	struct live *it = &live[i];

	/* Nobody wrote over its first cell meanwhile. */
	expect_eq(*(uint64_t *)(void *)it->block, (uintptr_t)it->block);
	model_mark((size_t)(it->block - arena_of(it->block)) / PCP_BLOCK_MIN,
		   it->order, false);
	pcp_block_free(it->block, PCP_BLOCK_MIN << it->order);
	pcp_block_purge();
	*it = live[--nr_live];
}

/* One arena, filled and thinned out in random order. */
START_TEST(test_model)
{
	char *base, *anchor;
	struct rng rng;

	pcp_init();
	rng_seed(&rng, (uint64_t)_i + 1);
	anchor = must_alloc(0); /* keeps the arena */
	base = arena_of(anchor);
	model[0] = true;
	model_mark((size_t)(anchor - base) / PCP_BLOCK_MIN, 0, true);
	for (unsigned int step = 0; step < 20000; step++) {
		unsigned int order = rng_below(&rng, 3) ? rng_below(&rng, 4)
							: rng_below(&rng, 10);
		bool fill = rng_below(&rng, 100) <
			    ((step / 2000) % 2 ? 40U : 60U);
		size_t cell = model_place(order);
		char *block;

		if (!fill || cell == CELLS) {
			if (nr_live)
				free_one(rng_below(&rng, (uint32_t)nr_live));
			continue;
		}
		block = must_alloc(order);
		expect_eq(block - base, cell * PCP_BLOCK_MIN);
		model_mark(cell, order, true);
		expect_eq(*(uint64_t *)(void *)block, 0);
		*(uint64_t *)(void *)block = (uintptr_t)block;
		live[nr_live++] = (struct live){ block, order };
	}
	expect_eq(sum_now().arenas, 1);
	while (nr_live)
		free_one(0);
	expect_eq(sum_now().bytes, PCP_BLOCK_MIN);
	pcp_block_free(anchor, PCP_BLOCK_MIN);
}
END_TEST

/* --- memory goes back ------------------------------------------------------ */

START_TEST(test_discard)
{
	const size_t size = (size_t)1 << 20;
	char *keep, *block;

	pcp_init();
	keep = must_alloc(0);
	block = must_alloc(6);
	memset(keep, 1, PCP_BLOCK_MIN);
	memset(block, 1, size);
	expect_eq(resident(block, size), size / pcp_page_size());
	/* Idle: its pages stay for the next one that wants such a block. */
	pcp_block_free(block, size);
	expect_eq(sum_now().idle, size);
	expect_eq(resident(block, size), size / pcp_page_size());
	expect(must_alloc(6) == block);
	expect_eq(sum_now().idle, 0);
	pcp_block_free(block, size);
	pcp_block_purge();
	expect_eq(sum_now().idle, 0);
	expect(mapped(block));
	expect_eq(resident(block, size), 0);
	expect_eq(resident(keep, PCP_BLOCK_MIN),
		  PCP_BLOCK_MIN / pcp_page_size());
	expect(must_alloc(6) == block);
	expect(is_zero(block, size));
	pcp_block_free(block, size);
	pcp_block_free(keep, PCP_BLOCK_MIN);
}
END_TEST

/* No more lies idle than is in use, or than a fixed amount. */
START_TEST(test_idle_is_bounded)
{
	enum { N = 24 };
	char *blocks[2 * N];
	uint64_t most = 0;

	pcp_init();
	for (unsigned int i = 0; i < 2 * N; i++) {
		blocks[i] = must_alloc(7);
		memset(blocks[i], 1, PCP_BLOCK_MIN << 7);
	}
	for (unsigned int i = 0; i < 2 * N; i++) {
		struct pcp_block_sum sum;

		pcp_block_free(blocks[i], PCP_BLOCK_MIN << 7);
		sum = sum_now();
		expect_eq(sum.bytes, (2 * N - 1 - i) *
					     (PCP_BLOCK_MIN << 7));
		expect(sum.idle <= sum.bytes || sum.idle <= 16U << 20);
		most = sum.idle > most ? sum.idle : most;
	}
	expect_cmp(most, >, 0);
	pcp_block_purge();
	expect_eq(sum_now().idle, 0);
	expect_eq(sum_now().arenas, 1);
}
END_TEST

/* When there is no other memory, a block of another size that lies idle is
 * taken apart. */
START_TEST(test_idle_serves_all)
{
	char *large, *block;

	pcp_init();
	large = must_alloc(6);
	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	for (unsigned int order = ORDERS; order-- > 0;)
		while (pcp_block_alloc(PCP_BLOCK_MIN << order, 0))
			;
	expect_refused(pcp_block_alloc(PCP_BLOCK_MIN, 0), ENOMEM);
	pcp_block_free(large, PCP_BLOCK_MIN << 6);
	block = pcp_block_alloc(PCP_BLOCK_MIN, 0);
	expect(block);
	expect(block >= large && block < large + (PCP_BLOCK_MIN << 6));
	pcp_fault_set(PCP_FAULT_RESERVE, 0, false);
}
END_TEST

/* Locked memory cannot be given back: the block is free all the same. */
START_TEST(test_discard_refused)
{
	char *keep, *block;

	pcp_init();
	keep = must_alloc(0);
	block = must_alloc(3);
	madvise_fails = true;
	errno = ERANGE;
	pcp_block_free(block, PCP_BLOCK_MIN << 3);
	pcp_block_purge();
	expect_errno(ERANGE);
	madvise_fails = false;
	expect_eq(sum_now().idle, 0);
	expect(must_alloc(3) == block);
	pcp_block_free(block, PCP_BLOCK_MIN << 3);
	pcp_block_free(keep, PCP_BLOCK_MIN);
}
END_TEST

#define MANY 20U /* largest blocks: at least three arenas */

static char *bases[MANY];
static unsigned int nr_bases;

static void note_base(const void *block)
{
	for (unsigned int i = 0; i < nr_bases; i++)
		if (bases[i] == arena_of(block))
			return;
	bases[nr_bases++] = arena_of(block);
}

static unsigned int bases_mapped(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < nr_bases; i++) {
		n += mapped(bases[i]);
		/* One that is gone may not be touched. */
		expect_eq(pcp_block_readable(bases[i] + PCP_BLOCK_MIN, 1),
			  mapped(bases[i]));
	}
	return n;
}

START_TEST(test_arenas_go_back)
{
	char *blocks[MANY], *again;

	pcp_init();
	for (unsigned int i = 0; i < MANY; i++) {
		blocks[i] = must_alloc(ORDERS - 1);
		note_base(blocks[i]);
	}
	expect_cmp(nr_bases, >=, 3);
	expect_eq(bases_mapped(), nr_bases);
	for (unsigned int i = 0; i < MANY; i++)
		pcp_block_free(blocks[i], PCP_BLOCK_MAX);
	expect_eq(sum_now().bytes, 0);
	expect_cmp(bases_mapped(), <, nr_bases);
	pcp_block_purge();
	expect_eq(bases_mapped(), 1);
	expect_eq(sum_now().arenas, 1);
	/* The one that was kept serves. */
	again = must_alloc(0);
	note_base(again);
	expect_eq(bases_mapped(), 1);
	pcp_block_free(again, PCP_BLOCK_MIN);
	pcp_block_purge();
	expect_eq(bases_mapped(), 1);
}
END_TEST

/* An arena that cannot be unmapped for lack of a map entry is used again. */
START_TEST(test_unmap_fails)
{
	char *blocks[MANY];
	unsigned int n;

	pcp_init();
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < MANY; i++) {
			blocks[i] = must_alloc(ORDERS - 1);
			note_base(blocks[i]);
		}
		if (!round)
			n = nr_bases;
		expect_eq(nr_bases, n);
		munmap_fails = true;
		for (unsigned int i = 0; i < MANY; i++)
			pcp_block_free(blocks[i], PCP_BLOCK_MAX);
		pcp_block_purge();
		expect_eq(bases_mapped(), n);
		expect_eq(sum_now().arenas, n);
		munmap_fails = false;
	}
	/* As soon as one becomes empty again, it goes. */
	pcp_block_free(must_alloc(0), PCP_BLOCK_MIN);
	pcp_block_purge();
	expect_eq(bases_mapped(), n - 1);
}
END_TEST

/* --- readable -------------------------------------------------------------- */

START_TEST(test_readable)
{
	char local = 0, *heap, *block, *base, *edge;

	expect(!pcp_block_readable(&local, 1));
	pcp_init();
	heap = malloc(1);
	block = must_alloc(2);
	base = arena_of(block);
	expect(!pcp_block_readable(NULL, 1));
	expect(!pcp_block_readable(&local, 1));
	expect(!pcp_block_readable(heap, 1));
	expect(!pcp_block_readable(&bases, sizeof(bases)));
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

/* --- without memory -------------------------------------------------------- */

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

/* --- nodes ----------------------------------------------------------------- */

START_TEST(test_nodes)
{
	void *zero, *one, *other;

	expect_eq(pcp_options_parse("nodes:2"), 0);
	pcp_init();
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

	expect_eq(pcp_options_parse("nodes:2"), 0);
	pcp_init();
	zero = pcp_block_alloc(PCP_BLOCK_MIN, 0);
	expect(zero);
	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	one = pcp_block_alloc(PCP_BLOCK_MIN, 1);
	expect(one && one != zero && arena_of(one) == arena_of(zero));
	pcp_block_free(one, PCP_BLOCK_MIN);
	pcp_block_free(zero, PCP_BLOCK_MIN);
}
END_TEST

/* --- threads --------------------------------------------------------------- */

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
	TCase *tc = suite_case("arena", 60);

	tcase_add_test(tc, test_one_of_each);
	tcase_add_loop_test(tc, test_model, 0, 4);
	tcase_add_test(tc, test_discard);
	tcase_add_test(tc, test_idle_is_bounded);
	tcase_add_test(tc, test_idle_serves_all);
	tcase_add_test(tc, test_discard_refused);
	tcase_add_test(tc, test_arenas_go_back);
	tcase_add_test(tc, test_unmap_fails);
	tcase_add_test(tc, test_readable);
	tcase_add_test(tc, test_first_arena_fails);
	tcase_add_test(tc, test_commit_fails);
	tcase_add_test(tc, test_nodes);
	tcase_add_test(tc, test_other_node_serves);
	tcase_add_test(tc, test_threads);
	tcase_add_test(tc, test_together);
	return suite_run(tc);
}

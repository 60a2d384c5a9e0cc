/* SPDX-License-Identifier: MIT */
/*
 * Counters under many threads on few CPUs: adds of all sizes and batches up and
 * down, limited adds, sums, comparisons, from threads that move about; counters
 * in groups come and go meanwhile; and the process forks now and then. A child
 * finds a count that only grows between what it was before the fork and what it
 * was after, and can use every counter at once. In the end each count is the
 * sum of what all threads say they added.
 *
 *	stress_counter [SECONDS [SEED]]
 */
#include <config.h>

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pcpool/counter.h>

#include "common.h"

#include "percpu/region.h"

#define THREADS 12U
#define COUNTERS 24U
/* Few, so that they are crossed all the time. */
#define SMALL_BATCH 64

struct thread {
	struct rng rng;
	int64_t added[COUNTERS];
	int64_t grown;
};

static struct thread threads[THREADS + 1];
static struct pcpool_counter counters[COUNTERS];
static struct pcpool_counter growing; /* nobody subtracts */
static struct pcpool_counter limited; /* never above LIMIT */
static atomic_bool stop;
static atomic_ullong rounds;

#define LIMIT 100000

static int64_t some_amount(struct rng *rng)
{
	uint64_t amount = rng_next(rng) >> (20 + rng_below(rng, 44));

	return rng_below(rng, 2) ? (int64_t)amount : -(int64_t)amount;
}

static void add(struct thread *t, unsigned int i, int64_t amount)
{
	if (rng_below(&t->rng, 4))
		pcpool_counter_add(&counters[i], amount);
	else
		pcpool_counter_add_batch(&counters[i], amount,
					 1 + (int64_t)rng_below(&t->rng, 99));
	t->added[i] += amount;
}

/* Take of the limit and give all of it back. */
static void within_limit(struct thread *t)
{
	int64_t amount = 1 + (int64_t)rng_below(&t->rng, LIMIT / 4);
	bool ok = pcpool_counter_limited_add(&limited, LIMIT, amount);

	expect_cmp(pcpool_counter_sum(&limited), <=, LIMIT);
	if (ok)
		pcpool_counter_sub(&limited, amount);
}

static void come_and_go(struct thread *t)
{
	struct pcpool_counter some[5];
	int64_t first = some_amount(&t->rng);

	expect_eq(pcpool_counter_init_many(some, 5, first), 0);
	for (int i = 0; i < 50; i++)
		pcpool_counter_add_batch(&some[i % 5], 7, 10);
	for (int i = 0; i < 5; i++) {
		expect_eq(pcpool_counter_sum(&some[i]), first + 70);
		expect_eq(pcpool_counter_compare(&some[i], first + 71, 0), -1);
	}
	pcpool_counter_destroy_many(some, 5);
}

static void step(struct thread *t)
{
	unsigned int i = rng_below(&t->rng, COUNTERS);

	switch (rng_below(&t->rng, 32)) {
	case 0:
		within_limit(t);
		break;
	case 1:
		come_and_go(t);
		break;
	case 2:
		(void)pcpool_counter_sum(&counters[i]);
		break;
	case 3:
		pin_to(rng_below(&t->rng, 64));
		break;
	case 4:
		unpin();
		break;
	default:
		add(t, i, some_amount(&t->rng));
	}
	for (int k = 0; k < 8; k++)
		pcpool_counter_add_batch(&growing, 5, SMALL_BATCH);
	t->grown += 40;
}

static void run(const struct worker *worker)
{
	struct thread *t = &threads[worker->id];

	while (!atomic_load(&stop)) {
		for (int i = 0; i < 100; i++)
			step(t);
		atomic_fetch_add(&rounds, 100);
	}
}

static int64_t *shared; /* the child's answer */

static void forked(void *arg)
{
	struct thread *t = arg;

	*shared = pcpool_counter_sum(&growing);
	expect_cmp(pcpool_counter_sum(&limited), <=, LIMIT);
	for (unsigned int i = 0; i < COUNTERS; i++) {
		int64_t sum = pcpool_counter_sum(&counters[i]);

		pcpool_counter_add(&counters[i], 123456789);
		expect_eq(pcpool_counter_sum(&counters[i]), sum + 123456789);
	}
	for (int i = 0; i < 200; i++)
		step(t);
	/* This thread is alone here: what it adds is all that is added. */
	expect_eq(pcpool_counter_sum(&growing), *shared + 200 * 40);
	pcpool_counter_destroy_many(counters, COUNTERS);
	_exit(0);
}

static void check_fork(struct thread *t)
{
	static struct child child;
	int64_t before = pcpool_counter_sum(&growing), after;

	*shared = 0;
	run_child(forked, t, 60, &child);
	after = pcpool_counter_sum(&growing);
	expect_child_exit(&child, 0);
	expect_cmp(*shared, >=, before);
	expect_cmp(*shared, <=, after);
	expect_eq(*shared % 5, 0);
}

static double seconds = 5;

/* The last worker: forks, and ends the others. */
static void run_or_fork(const struct worker *worker)
{
	struct timespec start, now;
	double passed;

	if (worker->id != THREADS) {
		run(worker);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		if (TEST_TSAN)
			step(&threads[THREADS]);
		else
			check_fork(&threads[THREADS]);
		clock_gettime(CLOCK_MONOTONIC, &now);
		passed = (double)(now.tv_sec - start.tv_sec) +
			 (double)(now.tv_nsec - start.tv_nsec) / 1e9;
	} while (passed < seconds);
	atomic_store(&stop, true);
}

static void check_sums(void)
{
	int64_t grown = 0;

	for (unsigned int i = 0; i < COUNTERS; i++) {
		int64_t sum = 1000;

		for (unsigned int t = 0; t <= THREADS; t++)
			sum += threads[t].added[i];
		expect_eq(pcpool_counter_sum(&counters[i]), sum);
	}
	for (unsigned int t = 0; t <= THREADS; t++)
		grown += threads[t].grown;
	expect_eq(pcpool_counter_sum(&growing), grown);
	expect_eq(pcpool_counter_sum(&limited), 0);
}

int main(int argc, char **argv)
{
	struct pcp_percpu_snapshot stats;
	uint64_t seed = 1;

	if (argc > 1)
		seconds = strtod(argv[1], NULL);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect(shared != MAP_FAILED);
	expect_eq(pcpool_counter_init_many(counters, COUNTERS, 1000), 0);
	expect_eq(pcpool_counter_init(&growing, 0), 0);
	expect_eq(pcpool_counter_init(&limited, 0), 0);
	for (unsigned int i = 0; i <= THREADS; i++)
		rng_seed(&threads[i].rng, seed * 1000 + i);
	run_threads(THREADS + 1, run_or_fork, NULL);
	check_sums();
	pcpool_counter_destroy_many(counters, COUNTERS);
	pcpool_counter_destroy(&growing);
	pcpool_counter_destroy(&limited);
	pcp_percpu_stats(&stats);
	expect_eq(stats.regions, 0);
	printf("%llu rounds\n", (unsigned long long)atomic_load(&rounds));
	return 0;
}

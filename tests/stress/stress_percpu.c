/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU regions under many threads on few CPUs: regions of mixed sizes come
 * and go, one by one and in bulk, freed by other threads than took them; every
 * copy of each carries its owner's stamp, which must be there when it goes and
 * gone when it comes back; counters are added to and summed all the time; pages
 * of free space are given back; and the process forks now and then, whose child does the same for a moment.
 *
 *	stress_percpu [SECONDS [SEED]]
 */
#include <config.h>

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <pcpool/percpu.h>

#include "common.h"

#include "percpu/region.h"

#define THREADS 16U
#define LIVE 64U
#define HANDOVERS 64U
#define BULK 24U

struct region {
	uint64_t *p;
	uint32_t words;
	uint64_t stamp; /* what slot 0's words hold; one more for each slot */
};

struct thread {
	struct rng rng;
	uint64_t id;
	uint64_t next; /* of its stamps */
	uint64_t added;
	struct region live[LIVE];
};

static struct thread threads[THREADS + 1];
/* Regions on their way from one thread to another, whole or not at all. */
static struct region *_Atomic handovers[HANDOVERS];
static uint64_t *counter;
static atomic_bool stop;
static atomic_ullong rounds;

static void stamp(struct thread *t, struct region *region)
{
	region->stamp = t->id << 48 | ++t->next << 16;
	for (unsigned int s = 0; s < pcpool_nr_slots(); s++) {
		uint64_t *copy = pcp_percpu_copy(region->p, s);

		if (s == pcp_index.stray && pcp_index.rseq)
			copy = pcpool_percpu_ptr(region->p, s);
		for (uint32_t i = 0; i < region->words; i++) {
			if (copy[i])
				fail_now(
					"%p, slot %u, word %u of %u: not zero, "
					"stamp %llx",
					(void *)region->p, s, i, region->words,
					(unsigned long long)copy[i]);
			copy[i] = region->stamp + s;
		}
	}
}

static void check(const struct region *region)
{
	for (unsigned int s = 0; s < pcpool_nr_slots(); s++) {
		const uint64_t *copy = pcp_percpu_copy(region->p, s);

		for (uint32_t i = 0; i < region->words; i++)
			if (copy[i] != region->stamp + s)
				fail_now("%p, slot %u, word %u of %u: stamp "
					 "%llx is %llx",
					 (void *)region->p, s, i, region->words,
					 (unsigned long long)region->stamp + s,
					 (unsigned long long)copy[i]);
	}
}

static uint32_t some_words(struct rng *rng)
{
	switch (rng_below(rng, 64)) {
	case 0:
		return 1 + rng_below(rng, 8192);
	case 1:
	case 2:
	case 3:
		return 1 + rng_below(rng, 1024);
	default:
		return 1 + rng_below(rng, 24);
	}
}

static void renew(struct thread *t, struct region *region)
{
	size_t align =
		rng_below(&t->rng, 4) ? 0 : (size_t)1 << rng_below(&t->rng, 13);

	if (region->p) {
		check(region);
		pcpool_percpu_free(region->p);
	}
	region->words = some_words(&t->rng);
	region->p = pcpool_percpu_alloc(region->words * 8, align);
	expect(region->p);
	expect(!align || !((uintptr_t)region->p & (align - 1)));
	stamp(t, region);
}

static void bulk(struct thread *t)
{
	void *p[BULK];
	struct region regions[BULK];
	uint32_t words = 1 + rng_below(&t->rng, 32);

	expect_eq(pcpool_percpu_alloc_bulk(BULK, words * 8, 0, p), 0);
	for (unsigned int i = 0; i < BULK; i++) {
		regions[i].p = p[i];
		regions[i].words = words;
		stamp(t, &regions[i]);
	}
	for (unsigned int i = 0; i < BULK; i++)
		check(&regions[i]);
	expect_eq(pcpool_percpu_free_bulk(BULK, p), 0);
}

/* Leave a region for somebody and free what somebody left. */
static void hand_over(struct thread *t)
{
	struct region *mine = malloc(sizeof(*mine)), *other;

	expect(mine);
	mine->p = NULL;
	renew(t, mine);
	other = atomic_exchange(&handovers[rng_below(&t->rng, HANDOVERS)],
				mine);
	if (!other)
		return;
	check(other);
	pcpool_percpu_free(other->p);
	free(other);
}

static void step(struct thread *t)
{
	switch (rng_below(&t->rng, 16)) {
	case 0:
		bulk(t);
		break;
	case 1:
	case 2:
		hand_over(t);
		break;
	case 3:
		expect(pcpool_percpu_sum_u64(counter) % 3 == 0);
		break;
	default:
		renew(t, &t->live[rng_below(&t->rng, LIVE)]);
	}
	for (int i = 0; i < 8; i++) {
		pcpool_this_cpu_add_u64(counter, 3);
		t->added += 3;
	}
}

static void drop_all(struct thread *t)
{
	for (unsigned int i = 0; i < LIVE; i++) {
		if (!t->live[i].p)
			continue;
		check(&t->live[i]);
		pcpool_percpu_free(t->live[i].p);
		t->live[i].p = NULL;
	}
}

static void run(const struct worker *worker)
{
	struct thread *t = &threads[worker->id];

	while (!atomic_load(&stop)) {
		for (int i = 0; i < 50; i++)
			step(t);
		/* Empty chunks come about only when much is freed. */
		if (!rng_below(&t->rng, 40))
			drop_all(t);
		atomic_fetch_add(&rounds, 50);
	}
	drop_all(t);
}

static void verify(void)
{
	int line = pcp_percpu_verify();

	if (line)
		fail_now("verify.c:%d", line);
}

static void forked(void *arg)
{
	struct thread *t = arg;

	verify();
	for (int i = 0; i < 300; i++)
		step(t);
	drop_all(t);
	verify();
	_exit(0);
}

/* The last worker: forks, and ends the others. */
static void fork_and_wait(double seconds)
{
	static struct child child;
	struct timespec start, now;
	double passed;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		run_child(forked, &threads[THREADS], 60, &child);
		expect_child_exit(&child, 0);
		verify();
		clock_gettime(CLOCK_MONOTONIC, &now);
		passed = (double)(now.tv_sec - start.tv_sec) +
			 (double)(now.tv_nsec - start.tv_nsec) / 1e9;
	} while (passed < seconds);
	atomic_store(&stop, true);
}

static double seconds = 5;

/* Pages go back under everybody's feet. */
static void tend(void)
{
	struct rng rng;

	rng_seed(&rng, 77);
	while (!atomic_load(&stop)) {
		struct pcp_budget budget = { .bounded = true,
					     .left = rng_below(&rng, 20) };

		pcp_region_tend(&budget);
		sched_yield();
	}
}

static void run_or_fork(const struct worker *worker)
{
	if (worker->id == THREADS)
		fork_and_wait(seconds);
	else if (worker->id == THREADS + 1)
		tend();
	else
		run(worker);
}

int main(int argc, char **argv)
{
	struct pcp_percpu_snapshot stats;
	uint64_t added = 0, seed = 1;

	if (argc > 1)
		seconds = strtod(argv[1], NULL);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	counter = pcpool_percpu_alloc(8, 8);
	expect(counter);
	for (unsigned int i = 0; i <= THREADS; i++) {
		threads[i].id = i + 1;
		rng_seed(&threads[i].rng, seed * 1000 + i);
	}
	run_threads(THREADS + 2, run_or_fork, NULL);
	for (unsigned int i = 0; i < HANDOVERS; i++) {
		struct region *left = atomic_load(&handovers[i]);

		if (!left)
			continue;
		check(left);
		pcpool_percpu_free(left->p);
		free(left);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		added += threads[i].added;
	expect(pcpool_percpu_sum_u64(counter) == added);
	pcpool_percpu_free(counter);
	verify();
	pcp_percpu_stats(&stats);
	expect_eq(stats.regions, 0);
	expect_eq(stats.region_bytes, 0);
	expect_eq(stats.chunks, 1);
	expect_eq(stats.chunk_alloc - stats.chunk_free, 1);
	expect_cmp(stats.discarded_bytes, >, 0);
	printf("%llu rounds, %llu chunks made, %llu KiB of a unit given back\n",
	       (unsigned long long)atomic_load(&rounds),
	       (unsigned long long)stats.chunk_alloc,
	       (unsigned long long)stats.discarded_bytes >> 10);
	return 0;
}

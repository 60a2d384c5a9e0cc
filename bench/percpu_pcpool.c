/* SPDX-License-Identifier: MIT */
/* Percpu variants on pcpool, one region at a time and many. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include <pcpool/pcpool.h>

#include "job.h"
#include "percpu.h"
#include "touch.h"

/* The other regions. */
struct others {
	size_t n;
	void *region[];
};

/* xorshift, the same sequence in each run. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* From one counter to a page of them, small ones most often. */
static void *other_region(uint64_t *random)
{
	static const size_t sizes[] = { 8,  8,	16,  24,  32,
					64, 64, 128, 256, 512 };
	uint64_t i = next_random(random) % (sizeof(sizes) / sizeof(sizes[0]));

	return pcpool_percpu_alloc(sizes[i], 0);
}

static int close_others(void *shared)
{
	struct others *others = shared;

	pcpool_percpu_free_bulk(others->n, others->region);
	free(others);
	return 0;
}

/* One after the other they would lie without a gap: so every fourth is
 * given back at random for one of another size, as in a process that runs for
 * long. */
static int open_others(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	struct others *others =
		calloc(1, sizeof(*others) + params->live * sizeof(void *));
	uint64_t random = 88172645463325252;

	(void)peer;
	if (!others)
		return ENOMEM;
	others->n = params->live;
	for (size_t i = 0; i < others->n + others->n / 4; i++) {
		size_t at = i;

		if (i >= others->n)
			at = next_random(&random) % others->n;

		pcpool_percpu_free(others->region[at]);
		others->region[at] = other_region(&random);
		if (!others->region[at]) {
			close_others(others);
			return ENOMEM;
		}
	}
	*shared = others;
	return 0;
}

static int run(struct bench_thread *t, unsigned int n)
{
	const size_t size = t->params->size;

	for (unsigned int i = 0; i < n; i++) {
		void *region = pcpool_percpu_alloc(size, 0);

		if (__builtin_expect(!region, 0))
			return errno;
		bench_forget();
		pcpool_percpu_free(region);
	}
	return 0;
}

static int run_bulk(struct bench_thread *t, unsigned int n)
{
	const size_t size = t->params->size;
	void *region[BENCH_PERCPU_BULK];
	int err = 0;

	for (unsigned int i = 0; i < n && !err; i += BENCH_PERCPU_BULK) {
		err = pcpool_percpu_alloc_bulk(BENCH_PERCPU_BULK, size, 0,
					       region);
		if (!err)
			err = pcpool_percpu_free_bulk(BENCH_PERCPU_BULK,
						      region);
	}
	return err;
}

const struct bench_variant bench_percpu_pcpool = {
	.name = "pcpool",
	.open = open_others,
	.run = run,
	.close = close_others,
};

const struct bench_variant bench_percpu_pcpool_bulk = {
	.name = "pcpool-bulk",
	.open = open_others,
	.run = run_bulk,
	.close = close_others,
};

const struct bench_variant bench_percpu_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_others,
	.run = run,
	.close = close_others,
};

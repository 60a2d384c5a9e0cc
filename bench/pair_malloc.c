/* SPDX-License-Identifier: MIT */
/* Pair variants on the malloc implementations. */
#include <config.h>

#include "job.h"
#include "pair.h"

static int open_malloc(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	(void)params;
	*shared = (void *)(uintptr_t)peer;
	return 0;
}

BENCH_INLINE void *take(const void *ctx, size_t size)
{
	const struct bench_malloc *peer = ctx;

	return peer->malloc(size);
}

BENCH_INLINE void give(const void *ctx, void *obj)
{
	const struct bench_malloc *peer = ctx;

	peer->free(obj);
}

static int run(struct bench_thread *t, unsigned int n)
{
	const struct bench_malloc peer =
		*(const struct bench_malloc *)t->shared;

	return bench_pair_loop(t->params->size, n, &peer, take, give);
}

const struct bench_variant bench_pair_glibc = {
	.name = "glibc",
	.peer = "glibc",
	.open = open_malloc,
	.run = run,
};

const struct bench_variant bench_pair_jemalloc = {
	.name = "jemalloc",
	.peer = "jemalloc",
	.open = open_malloc,
	.run = run,
};

const struct bench_variant bench_pair_mimalloc = {
	.name = "mimalloc",
	.peer = "mimalloc",
	.open = open_malloc,
	.run = run,
};

const struct bench_variant bench_pair_tcmalloc = {
	.name = "tcmalloc",
	.peer = "tcmalloc",
	.open = open_malloc,
	.run = run,
};

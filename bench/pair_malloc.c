/* SPDX-License-Identifier: MIT */
/* Pair variants on the malloc implementations. */
#include <config.h>

#include "job.h"
#include "pair.h"
#include "plain.h"

static int run(struct bench_thread *t, unsigned int n)
{
	const struct bench_malloc peer =
		*(const struct bench_malloc *)t->shared;

	return bench_pair_loop(t->params->size, n, &peer, bench_take_malloc,
			       bench_give_malloc);
}

const struct bench_variant bench_pair_glibc = {
	.name = "glibc",
	.peer = "glibc",
	.open = bench_open_malloc,
	.run = run,
};

const struct bench_variant bench_pair_jemalloc = {
	.name = "jemalloc",
	.peer = "jemalloc",
	.open = bench_open_malloc,
	.run = run,
};

const struct bench_variant bench_pair_mimalloc = {
	.name = "mimalloc",
	.peer = "mimalloc",
	.open = bench_open_malloc,
	.run = run,
};

const struct bench_variant bench_pair_tcmalloc = {
	.name = "tcmalloc",
	.peer = "tcmalloc",
	.open = bench_open_malloc,
	.run = run,
};

/* SPDX-License-Identifier: MIT */
/* Batch variants on the malloc implementations. */
#include <config.h>

#include "batch.h"
#include "job.h"
#include "plain.h"

static int run(struct bench_thread *t, unsigned int n)
{
	const struct bench_malloc peer =
		*(const struct bench_malloc *)t->shared;

	return bench_batch_loop(t, n, &peer, bench_take_malloc,
				bench_give_malloc);
}

const struct bench_variant bench_batch_glibc = {
	.name = "glibc",
	.peer = "glibc",
	.open = bench_open_malloc,
	.enter = bench_batch_enter,
	.run = run,
	.leave = bench_batch_leave,
};

const struct bench_variant bench_batch_jemalloc = {
	.name = "jemalloc",
	.peer = "jemalloc",
	.open = bench_open_malloc,
	.enter = bench_batch_enter,
	.run = run,
	.leave = bench_batch_leave,
};

const struct bench_variant bench_batch_mimalloc = {
	.name = "mimalloc",
	.peer = "mimalloc",
	.open = bench_open_malloc,
	.enter = bench_batch_enter,
	.run = run,
	.leave = bench_batch_leave,
};

const struct bench_variant bench_batch_tcmalloc = {
	.name = "tcmalloc",
	.peer = "tcmalloc",
	.open = bench_open_malloc,
	.enter = bench_batch_enter,
	.run = run,
	.leave = bench_batch_leave,
};

/* SPDX-License-Identifier: MIT */
/* Remote variants on the malloc implementations. */
#include <config.h>

#include "job.h"
#include "plain.h"
#include "remote.h"

static int run(struct bench_thread *t, unsigned int n)
{
	const struct bench_malloc peer =
		*(const struct bench_malloc *)t->shared;

	(void)n;
	return bench_remote_loop(t, &peer, bench_take_malloc,
				 bench_give_malloc);
}

static void leave(struct bench_thread *t)
{
	bench_remote_leave(t, t->shared, bench_give_malloc);
}

const struct bench_variant bench_remote_glibc = {
	.name = "glibc",
	.peer = "glibc",
	.open = bench_open_malloc,
	.enter = bench_remote_enter,
	.run = run,
	.leave = leave,
};

const struct bench_variant bench_remote_jemalloc = {
	.name = "jemalloc",
	.peer = "jemalloc",
	.open = bench_open_malloc,
	.enter = bench_remote_enter,
	.run = run,
	.leave = leave,
};

const struct bench_variant bench_remote_mimalloc = {
	.name = "mimalloc",
	.peer = "mimalloc",
	.open = bench_open_malloc,
	.enter = bench_remote_enter,
	.run = run,
	.leave = leave,
};

const struct bench_variant bench_remote_tcmalloc = {
	.name = "tcmalloc",
	.peer = "tcmalloc",
	.open = bench_open_malloc,
	.enter = bench_remote_enter,
	.run = run,
	.leave = leave,
};

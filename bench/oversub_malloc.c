/* SPDX-License-Identifier: MIT */
/* Oversub variants on the malloc implementations. Where one can be told to give
 * memory back it is told: by each thread that keeps some, and then once. */
#include <config.h>

#include "job.h"
#include "oversub.h"
#include "plain.h"

static int fill(struct bench_oversub_thread *t)
{
	const struct bench_malloc peer = *t->o->peer;

	return bench_oversub_fill(t, &peer, bench_take_malloc);
}

static int replace(struct bench_oversub_thread *t, unsigned int n)
{
	const struct bench_malloc peer = *t->o->peer;

	return bench_oversub_replace(t, n, &peer, bench_take_malloc,
				     bench_give_malloc);
}

static void empty(struct bench_oversub_thread *t)
{
	const struct bench_malloc peer = *t->o->peer;

	bench_oversub_empty(t, &peer, bench_give_malloc);
}

static void idle(struct bench_oversub_thread *t)
{
	if (t->o->peer->idle)
		t->o->peer->idle();
}

static int shrink(struct bench_oversub *o)
{
	if (o->peer->trim)
		o->peer->trim();
	return 0;
}

static const struct bench_oversub_ops ops = {
	.fill = fill,
	.replace = replace,
	.empty = empty,
	.idle = idle,
	.shrink = shrink,
};

static int open_ops(const struct bench_params *params,
		    const struct bench_malloc *peer, void **shared)
{
	(void)params;
	return bench_oversub_open(&ops, peer, shared);
}

const struct bench_variant bench_oversub_glibc = {
	.name = "glibc",
	.peer = "glibc",
	.open = open_ops,
	.close = bench_oversub_close,
};

const struct bench_variant bench_oversub_jemalloc = {
	.name = "jemalloc",
	.peer = "jemalloc",
	.open = open_ops,
	.close = bench_oversub_close,
};

const struct bench_variant bench_oversub_mimalloc = {
	.name = "mimalloc",
	.peer = "mimalloc",
	.open = open_ops,
	.close = bench_oversub_close,
};

const struct bench_variant bench_oversub_tcmalloc = {
	.name = "tcmalloc",
	.peer = "tcmalloc",
	.open = open_ops,
	.close = bench_oversub_close,
};

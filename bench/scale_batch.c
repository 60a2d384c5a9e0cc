/* SPDX-License-Identifier: MIT */
/*
 * The batch core of job scale: what job batch does, in steps of 64, between
 * which other threads come to run. So many threads on few CPUs are in the
 * middle of it at the same time, as they would be with a CPU each; one that did
 * all at once would give everything back before the next one began.
 */
#include <config.h>

#include <stdlib.h>

#include "batch.h"
#include "plain.h"
#include "scale.h"

/* t->own. */
struct burst {
	bool giving;
	unsigned int held;
	void *objs[];
};

static int enter(struct bench_thread *t)
{
	struct burst *b = calloc(1, sizeof(*b) + t->params->batch *
						       sizeof(void *));

	t->own = b;
	return b ? 0 : ENOMEM;
}

static int take_some(struct bench_thread *t, struct burst *b, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;
	unsigned int room = t->params->batch - b->held, taken;

	n = n < room ? n : room;
	taken = bench_batch_take(t->params->size, b->objs + b->held, n, &cache,
				 bench_take_pcpool);
	b->held += taken;
	b->giving = b->held == t->params->batch;
	return taken < n ? ENOMEM : 0;
}

static void give_some(struct bench_thread *t, struct burst *b, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;

	n = n < b->held ? n : b->held;
	b->held -= n;
	bench_batch_give(BENCH_LIFO, b->objs + b->held, n, &cache,
			 bench_give_pcpool);
	b->giving = b->held > 0;
}

/* An operation is an allocation and a free, so half of these count. */
static int run(struct bench_thread *t, unsigned int n)
{
	struct burst *b = t->own;
	unsigned int before = b->held, done;
	int err = 0;

	if (b->giving)
		give_some(t, b, n);
	else
		err = take_some(t, b, n);
	done = b->held > before ? b->held - before : before - b->held;
	t->undone += n - done / 2;
	return err;
}

static void leave(struct bench_thread *t)
{
	struct burst *b = t->own;

	give_some(t, b, b->held);
	free(b);
}

const struct bench_variant bench_scale_batch = {
	.name = "pcpool",
	.open = bench_open_pcpool,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

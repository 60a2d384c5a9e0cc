/* SPDX-License-Identifier: MIT */
/*
 * Job mmap's variants: pcpool, and pcpool with one of its features off.
 *
 * A thread keeps a ring of nodes, the oldest of which makes way for each new
 * one, so that the number of live nodes stays what it was. What made way may
 * have been seen by readers, and is freed after a grace period.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <urcu.h>

#include "job.h"
#include "plain.h"
#include "touch.h"

/* Nodes in a ring, per node prefilled. */
#define RING_FACTOR 4U
/* Iterations between two looks at the backlog. */
#define CHECK_INTERVAL 64U

struct tree {
	uint64_t random; /* the state of a xorshift generator */
	unsigned int iterations;
	unsigned int oldest;
	unsigned int nr_nodes;
	void *node[];
};

static uint64_t next_random(struct tree *tree)
{
	tree->random ^= tree->random << 13;
	tree->random ^= tree->random >> 7;
	tree->random ^= tree->random << 17;
	return tree->random;
}

static int open_deferred(const struct bench_params *params,
			 const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	return bench_open_deferred(params, NULL, shared);
}

static void free_tree(struct pcpool_cache *cache, struct tree *tree)
{
	/* Their readers were this thread's own. */
	for (unsigned int i = 0; i < tree->nr_nodes; i++)
		pcpool_free(cache, tree->node[i]);
	free(tree);
}

static int enter(struct bench_thread *t)
{
	size_t n = (size_t)RING_FACTOR * t->params->batch;
	struct tree *tree = calloc(1, sizeof(*tree) + n * sizeof(void *));

	if (!tree)
		return ENOMEM;
	/* The same in every window, another one for each thread. */
	tree->random = (t->index + 1) * UINT64_C(0x9e3779b97f4a7c15);
	for (; tree->nr_nodes < n; tree->nr_nodes++) {
		tree->node[tree->nr_nodes] = pcpool_alloc(t->shared);
		if (!tree->node[tree->nr_nodes]) {
			int err = errno;

			free_tree(t->shared, tree);
			return err;
		}
	}
	t->own = tree;
	rcu_register_thread();
	return 0;
}

static void leave(struct bench_thread *t)
{
	rcu_unregister_thread();
	free_tree(t->shared, t->own);
}

/* As a tree does that must not fail half way: set aside what it could need in
 * the worst case, use a part of it, give back the rest. */
static int change(struct pcpool_cache *cache, struct tree *tree,
		  const struct bench_params *params)
{
	unsigned int n = 1 + (unsigned int)(next_random(tree) % params->batch);
	struct pcpool_sheaf *sheaf = pcpool_sheaf_prefill(cache, params->batch);

	if (__builtin_expect(!sheaf, 0))
		return errno;
	for (unsigned int i = 0; i < n; i++) {
		void *node = pcpool_sheaf_alloc(cache, sheaf);

		if (__builtin_expect(!node, 0)) {
			pcpool_sheaf_return(cache, sheaf);
			return EPROTO;
		}
		bench_touch(node, params->size);
		pcpool_free_rcu(cache, tree->node[tree->oldest]);
		tree->node[tree->oldest] = node;
		if (++tree->oldest == tree->nr_nodes)
			tree->oldest = 0;
	}
	pcpool_sheaf_return(cache, sheaf);
	return 0;
}

static void look_up(struct tree *tree, size_t size)
{
	unsigned int i = (unsigned int)(next_random(tree) % tree->nr_nodes);

	rcu_read_lock();
	bench_touch(tree->node[i], size);
	rcu_read_unlock();
}

static int run(struct bench_thread *t, unsigned int n)
{
	struct pcpool_cache *cache = t->shared;
	struct tree *tree = t->own;
	int err = 0;

	for (unsigned int i = 0; i < n && !err; i++) {
		err = change(cache, tree, t->params);
		look_up(tree, t->params->size);
		/* Or threads that outrun grace periods fill the memory. */
		if (!err && ++tree->iterations % CHECK_INTERVAL == 0)
			err = pcpool_rcu_wait(cache, 0, -1);
	}
	return err;
}

const struct bench_variant bench_mmap_pcpool = {
	.name = "pcpool",
	.open = open_deferred,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_mmap_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_deferred,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_mmap_no_barn_refill = {
	.name = "no-barn-refill",
	.options = "barn_refill:off",
	.open = open_deferred,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_mmap_no_barn_refill_lock = {
	.name = "no-barn-refill-lock",
	.options = "mode:lock,barn_refill:off",
	.open = open_deferred,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_mmap_no_parking = {
	.name = "no-parking",
	.options = "parking:off",
	.open = open_deferred,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

const struct bench_variant bench_mmap_no_parking_lock = {
	.name = "no-parking-lock",
	.options = "mode:lock,parking:off",
	.open = open_deferred,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = bench_close_pcpool,
	.cache = bench_cache_pcpool,
};

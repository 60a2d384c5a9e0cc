/* SPDX-License-Identifier: MIT */
/*
 * Job scale: what CPUs share, counted. It runs the loops of the jobs pair,
 * batch, remote and exec, one after the other as this job's orders, and reports
 * the library's counters for each million operations instead of times: with
 * virtual slots these say on a small machine what a large one has to share.
 */
#include <config.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <pcpool/pcpool.h>

#include "../examples/mm_struct.h"
#include "job.h"
#include "scale.h"

/* As --slots takes. */
#define SLOTS_MAX 4096U

enum core { PAIR, BATCH, REMOTE, EXEC, CORES };

static const char *const orders[] = { "pair", "batch", "remote", "exec", NULL };

static const struct bench_variant *const cores[CORES] = {
	&bench_pair_pcpool,
	&bench_scale_batch,
	&bench_remote_pcpool,
	&bench_exec_pcpool,
};

/* What the cores made, each with sizes of its own, and which one runs. */
struct scale {
	void *shared[CORES];
	struct bench_params params[CORES];
	uint32_t now; /* for cache_of() */
};

static int close_scale(void *shared)
{
	struct scale *s = shared;
	int err = 0;

	for (unsigned int i = 0; i < CORES; i++) {
		int failed = s->shared[i] ? cores[i]->close(s->shared[i]) : 0;

		err = err ? err : failed;
	}
	free(s);
	return err;
}

static int open_scale(const struct bench_params *params,
		      const struct bench_malloc *peer, void **shared)
{
	struct scale *s = calloc(1, sizeof(*s));
	int err = 0;

	if (!s)
		return ENOMEM;
	for (unsigned int i = 0; i < CORES && !err; i++) {
		s->params[i] = *params;
		if (i == EXEC && params->size < sizeof(struct mm_struct))
			s->params[i].size = sizeof(struct mm_struct);
		err = cores[i]->open(&s->params[i], peer, &s->shared[i]);
	}
	if (err)
		close_scale(s);
	else
		*shared = s;
	return err;
}

/* A thread's: what its core is told to do. */
static _Thread_local struct {
	uint32_t core;
	struct bench_params params;
} own;

/* The thread becomes one of the core's: it gets what that made, its sizes, and
 * none of this job's orders, which are the cores themselves. */
static int enter(struct bench_thread *t)
{
	struct scale *s = t->shared;

	own.core = t->params->order;
	own.params = *t->params;
	own.params.size = s->params[own.core].size;
	own.params.order = 0;
	/* All come here before anything is counted. */
	if (!t->index)
		s->now = own.core;
	t->params = &own.params;
	t->shared = s->shared[own.core];
	return cores[own.core]->enter ? cores[own.core]->enter(t) : 0;
}

static int run(struct bench_thread *t, unsigned int n)
{
	int err = cores[own.core]->run(t, n);

	if (own.core != REMOTE)
		t->busy = true;
	/* Nothing is timed here: all come to run, as often as can be. */
	sched_yield();
	return err;
}

static void leave(struct bench_thread *t)
{
	if (cores[own.core]->leave)
		cores[own.core]->leave(t);
}

static struct pcpool_cache *cache_of(void *shared)
{
	struct scale *s = shared;

	return cores[s->now]->cache(s->shared[s->now]);
}

/* Threads that have a slot each, as those that run on the CPUs of a large machine
 * do. In lock mode two may be given the same one, and when one of them loses
 * its CPU inside it, the other finds it taken for a long time: that would be
 * counted, and is a matter of the few CPUs here. */
static bool admit(const struct bench_thread *t)
{
	static bool taken[SLOTS_MAX + 1];
	static unsigned int nr_taken;
	unsigned int slot = pcpool_this_slot();

	if (!strcmp(pcpool_mode(), "rseq"))
		return true;
	if (!t->index) {
		memset(taken, 0, sizeof(taken));
		nr_taken = 0;
	}
	/* More threads than slots have to share. */
	if (nr_taken == pcpool_nr_slots())
		return true;
	if (slot > SLOTS_MAX || taken[slot])
		return false;
	taken[slot] = true;
	nr_taken++;
	return true;
}

static const struct bench_variant scale_pcpool = {
	.name = "pcpool",
	.open = open_scale,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = close_scale,
	.cache = cache_of,
};

static const struct bench_variant scale_pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_scale,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = close_scale,
	.cache = cache_of,
};

/* Only lock mode spreads threads over virtual slots; in rseq mode a thread is
 * on the slot of its CPU, as it would be on the machine that has them. */
static const struct bench_variant *const variants[] = {
	&scale_pcpool_lock,
	&scale_pcpool,
};

static const uint64_t sizes[] = { 256, 0 };
static const uint32_t threads[] = { 2, 0 };

enum {
	SHARED_ATOMIC,
	LOCKS,
	CONTENDED,
	FENCES,
	SLAB_TRIPS,
	MISSES,
	BYPASS,
	HELD,
	METRICS
};

static const struct bench_metric metrics[METRICS] = {
	[SHARED_ATOMIC] = { "shared_atomic_per_Mop", "atomics/Mop", NULL },
	[LOCKS] = { "lock_per_Mop", "locks/Mop", NULL },
	[CONTENDED] = { "lock_contended_per_Mop", "contended/Mop", NULL },
	[FENCES] = { "fence_per_Mop", "fences/Mop", NULL },
	[SLAB_TRIPS] = { "slab_trip_per_Mop", "slabs/Mop", NULL },
	[MISSES] = { "miss_per_Mop", "misses/Mop", NULL },
	[BYPASS] = { "bypass_per_Mop", "bypass/Mop", NULL },
	[HELD] = { "held_bytes", "held bytes", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return BENCH_SCALE_STEP;
}

static void measure(const struct bench_window *w, double *value)
{
	const struct pcpool_cache_stats *a = &w->after, *b = &w->before;
	double mops = (double)w->ops / 1e6;

/* How often it happened in the window. */
#define DELTA(counter) ((double)(a->counter - b->counter))
	value[SHARED_ATOMIC] =
		(DELTA(shared_atomic) + DELTA(cmpxchg_fail)) / mops;
	value[LOCKS] = (DELTA(list_lock) + DELTA(other_lock) +
			(double)w->region_locks) /
		       mops;
	value[CONTENDED] = DELTA(list_lock_contended) / mops;
	/* Each drain has one for all CPUs, and so has each retry. */
	value[FENCES] = (DELTA(drain) + DELTA(drain_retry)) / mops;
	value[SLAB_TRIPS] = (DELTA(alloc_slab) + DELTA(free_slab)) / mops;
	value[MISSES] = DELTA(slot_miss) / mops;
	value[BYPASS] = DELTA(bypass) / mops;
#undef DELTA
	value[HELD] = (double)(a->slabs * a->slab_size + a->metadata_bytes);
}

const struct bench_job bench_job_scale = {
	.name = "scale",
	.title = "what is shared, in the loops of other jobs",
	.default_sizes = sizes,
	.min_size = 1,
	.default_threads = threads,
	.threads_step = 2,
	.threads_by_slots = 64,
	.waits = true,
	.admit = admit,
	.default_batch = 10000,
	.orders = orders,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = METRICS,
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

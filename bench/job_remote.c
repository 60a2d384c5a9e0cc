/* SPDX-License-Identifier: MIT */
/*
 * Job remote: one thread allocates, another frees. What an allocator keeps for
 * each thread or CPU runs dry on the one side and over on the other, so this
 * shows how it carries objects back.
 */
#include <config.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "module.h"
#include "remote.h"

#define PAIRS_MAX 2048U

/* Guards pairs[] and the user counts in them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bench_remote_pair *pairs[PAIRS_MAX];

/* Of the two threads, whichever comes first makes it: each window has pairs of
 * its own. */
int bench_remote_enter(struct bench_thread *t)
{
	struct bench_remote_pair **pair = &pairs[t->index / 2];
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!*pair) {
		*pair = aligned_alloc(_Alignof(struct bench_remote_pair),
				      sizeof(**pair));
		if (*pair)
			memset(*pair, 0, sizeof(**pair));
		else
			err = ENOMEM;
	}
	if (!err)
		(*pair)->users++;
	t->own = *pair;
	pthread_mutex_unlock(&lock);
	return err;
}

bool bench_remote_last(struct bench_thread *t)
{
	struct bench_remote_pair *pair = t->own;
	bool last;

	pthread_mutex_lock(&lock);
	last = !--pair->users;
	pthread_mutex_unlock(&lock);
	return last;
}

void bench_remote_end(struct bench_thread *t)
{
	pthread_mutex_lock(&lock);
	free(pairs[t->index / 2]);
	pairs[t->index / 2] = NULL;
	pthread_mutex_unlock(&lock);
}

static const struct bench_variant *const variants[] = {
	&bench_remote_glibc,
	&bench_remote_jemalloc,
	&bench_remote_mimalloc,
	&bench_remote_tcmalloc,
	&bench_apr,
	&bench_rte_mempool,
	&bench_remote_mutex_list,
	&bench_remote_tls_list,
	&bench_remote_limit,
	&bench_remote_ring,
	&bench_remote_pcpool,
	&bench_remote_pcpool_lock,
	&bench_remote_pcpool_inline,
	&bench_remote_pcpool_resident,
};

static const uint64_t sizes[] = { 256, 0 };
/* A thread for each of the two ends. */
static const uint32_t threads[] = { 2, 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_object", "ns/object", NULL },
	{ "cpu_ns_per_object", "CPU ns/object", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return BENCH_REMOTE_BATCH;
}

/* The time in which a pair that has its CPUs passes one object on: both ends
 * work at the same time, and the slower one sets the pace. */
static void measure(const struct bench_window *w, double *value)
{
	unsigned int pairs_at_work = w->threads / 2;

	if (pairs_at_work > w->cpus / 2)
		pairs_at_work = w->cpus > 1 ? w->cpus / 2 : 1;
	value[0] = (double)w->elapsed_ns * pairs_at_work / (double)w->ops;
	value[1] = (double)w->cpu_ns / (double)w->ops;
}

const struct bench_job bench_job_remote = {
	.name = "remote",
	.title = "one thread allocates, another frees",
	.default_sizes = sizes,
	.min_size = 1,
	.default_threads = threads,
	.threads_step = 2,
	.waits = true,
	.has_work = true,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

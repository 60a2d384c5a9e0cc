/* SPDX-License-Identifier: MIT */
/*
 * Job batch: many plain objects taken, then all of them given back. Where pair
 * shows the CPU's stock at its best, this shows what happens beyond it. Both
 * halves are timed apart, because allocators shift work from one to the other.
 */
#include <config.h>

#include <math.h>
#include <stdlib.h>

#include "batch.h"
#include "job.h"
#include "module.h"

int bench_batch_enter(struct bench_thread *t)
{
	t->own = calloc(t->params->batch, sizeof(void *));
	return t->own ? 0 : ENOMEM;
}

void bench_batch_leave(struct bench_thread *t)
{
	free(t->own);
}

static const struct bench_variant *const variants[] = {
	&bench_batch_glibc,
	&bench_batch_jemalloc,
	&bench_batch_mimalloc,
	&bench_batch_tcmalloc,
	&bench_apr,
	&bench_rte_mempool,
	&bench_batch_mutex_list,
	&bench_batch_tls_list,
	&bench_batch_limit,
	&bench_batch_pcpool,
	&bench_batch_pcpool_lock,
	&bench_batch_pcpool_inline,
	&bench_batch_pcpool_resident,
};

/* As enum bench_batch_order. */
static const char *const orders[] = { "lifo", "fifo", NULL };

static const uint64_t sizes[] = { 32, 64, 128, 256, 512, 1024, 2048, 4096, 0 };

static const struct bench_metric metrics[] = {
	{ "ns_alloc", "ns/alloc", NULL },
	{ "ns_free", "ns/free", NULL },
	{ "cycles_alloc", "cycles/alloc", NULL },
	{ "cycles_free", "cycles/free", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	return params->batch;
}

static double cycles(const struct bench_window *w, unsigned int phase)
{
	return BENCH_HAVE_CYCLES ? bench_per_op(w, w->phase[phase].cycles)
				 : NAN;
}

static void measure(const struct bench_window *w, double *value)
{
	value[0] = bench_per_op(w, w->phase[BENCH_ALLOC].ns);
	value[1] = bench_per_op(w, w->phase[BENCH_FREE].ns);
	value[2] = cycles(w, BENCH_ALLOC);
	value[3] = cycles(w, BENCH_FREE);
}

const struct bench_job bench_job_batch = {
	.name = "batch",
	.title = "allocate and touch many, then free them all",
	.default_sizes = sizes,
	.min_size = 1,
	.default_batch = 10000,
	.orders = orders,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

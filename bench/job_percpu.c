/* SPDX-License-Identifier: MIT */
/*
 * Job percpu: the region allocator itself, allocation and free of one region,
 * while --live others of mixed sizes are alive. Its copies are not touched: the
 * allocator zeroes them.
 */
#include <config.h>

#include <pcpool/percpu.h>

#include "job.h"
#include "percpu.h"

static const struct bench_variant *const variants[] = {
	&bench_percpu_mutex,
	&bench_percpu_pcpool,
	&bench_percpu_pcpool_bulk,
	&bench_percpu_pcpool_lock,
};

static const uint64_t sizes[] = { 64, 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_pair", "ns/pair", NULL },
	{ "cpu_ns_per_pair", "CPU ns/pair", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return BENCH_PERCPU_BATCH;
}

static void measure(const struct bench_window *w, double *value)
{
	value[0] = bench_ns_per_op(w);
	value[1] = (double)w->cpu_ns / (double)w->ops;
}

const struct bench_job bench_job_percpu = {
	.name = "percpu",
	.title = "allocate a per-CPU region, free it",
	.default_sizes = sizes,
	.min_size = 1,
	.max_size = PCPOOL_PERCPU_SIZE_MAX,
	.has_live = true,
	.default_live = 1000,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

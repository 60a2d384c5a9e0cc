/* SPDX-License-Identifier: MIT */
/*
 * Job mmap: many threads that change trees the way the kernel's maple tree is
 * changed by mmap(): a sheaf of nodes is prefilled for the worst case, some are
 * taken from it, as many old ones are freed by RCU, and the sheaf goes back
 * part-filled. Readers look a node up in between.
 */
#include <config.h>

#include "job.h"

static const struct bench_variant *const variants[] = {
	&bench_mmap_pcpool,	    &bench_mmap_pcpool_lock,
	&bench_mmap_no_barn_refill, &bench_mmap_no_barn_refill_lock,
	&bench_mmap_no_parking,	    &bench_mmap_no_parking_lock,
};

static const uint64_t sizes[] = { 256, 0 };
static const uint32_t threads[] = { 64, 192, 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_op", "ns/op", NULL },
	{ "ops_per_s", NULL, NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return 8;
}

static void measure(const struct bench_window *w, double *value)
{
	value[0] = bench_ns_per_op(w);
	value[1] = (double)w->ops * 1e9 / (double)w->elapsed_ns;
}

const struct bench_job bench_job_mmap = {
	.name = "mmap",
	.title = "prefill a sheaf, take nodes, free as many by RCU, return it",
	.default_sizes = sizes,
	.min_size = 1,
	.default_threads = threads,
	.has_counters = true,
	.default_batch = 10,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

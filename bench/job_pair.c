/* SPDX-License-Identifier: MIT */
/* Job pair: the hot allocation and free of one plain object. */
#include <config.h>

#include "job.h"
#include "module.h"

static const struct bench_variant *const variants[] = {
	&bench_pair_glibc,
	&bench_pair_jemalloc,
	&bench_pair_mimalloc,
	&bench_pair_tcmalloc,
	&bench_apr,
	&bench_rte_mempool,
	&bench_pair_mutex_list,
	&bench_pair_tls_list,
	&bench_pair_limit,
	&bench_pair_pcpool,
	&bench_pair_pcpool_lock,
	&bench_pair_pcpool_inline,
	&bench_pair_pcpool_resident,
};

static const uint64_t sizes[] = { 256, 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_pair", "ns/pair", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return 256;
}

static void measure(const struct bench_window *w, double *value)
{
	value[0] = bench_ns_per_op(w);
}

const struct bench_job bench_job_pair = {
	.name = "pair",
	.title = "allocate, touch, free",
	.default_sizes = sizes,
	.min_size = 1,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

/* SPDX-License-Identifier: MIT */
/*
 * Job oversub: many more threads than CPUs, each with objects of its own, some
 * of which it replaces. It asks for speed, and for what an allocator that keeps
 * something for each thread costs in memory, then and afterwards.
 */
#include <config.h>

#include "job.h"
#include "oversub.h"

static const struct bench_variant *const variants[] = {
	&bench_oversub_glibc,		&bench_oversub_jemalloc,
	&bench_oversub_mimalloc,	&bench_oversub_tcmalloc,
	&bench_oversub_tls_list,	&bench_oversub_pcpool,
	&bench_oversub_pcpool_lock,	&bench_oversub_pcpool_inline,
	&bench_oversub_pcpool_resident,
};

static const uint64_t sizes[] = { 256, 0 };
static const uint32_t threads[] = { 64, 0 };

static const struct bench_metric metrics[BENCH_OVERSUB_VALUES] = {
	[BENCH_OVERSUB_OPS] = { "ops_per_s", "replaces/s", NULL },
	[BENCH_OVERSUB_PEAK] = { "peak_growth", "peak bytes", NULL },
	[BENCH_OVERSUB_FREED] = { "growth_after_free", "after free", NULL },
	[BENCH_OVERSUB_SHRUNK] = { "growth_after_shrink", "after shrink",
				   NULL },
};

const struct bench_job bench_job_oversub = {
	.name = "oversub",
	.title = "more threads than CPUs: replace some of many objects",
	.default_sizes = sizes,
	.min_size = 1,
	.default_threads = threads,
	.has_live = true,
	.default_live = 1000,
	.min_live = 1,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.window = bench_oversub_window,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

/* SPDX-License-Identifier: MIT */
/* Job rcu: objects that are freed after a grace period. */
#include <config.h>

#include "job.h"
#include "rcu.h"

static const struct bench_variant *const variants[] = {
	&bench_rcu_call_malloc,	  &bench_rcu_call_jemalloc,
	&bench_rcu_call_mimalloc, &bench_rcu_call_tcmalloc,
	&bench_rcu_pcpool,	  &bench_rcu_pcpool_lock,
};

static const uint64_t sizes[] = { 256, 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_object", "ns/object", NULL },
	{ "peak_backlog", "peak backlog", NULL },
	{ "cpu_ns_per_object", "CPU ns/object", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return BENCH_RCU_INTERVAL;
}

static void measure(const struct bench_window *w, double *value)
{
	value[0] = bench_ns_per_op(w);
	value[1] = (double)w->peak;
	value[2] = (double)w->process_ns / (double)w->ops;
}

const struct bench_job bench_job_rcu = {
	.name = "rcu",
	.title = "allocate, touch, free after a grace period",
	.default_sizes = sizes,
	.min_size = sizeof(struct rcu_head),
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

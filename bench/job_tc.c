/* SPDX-License-Identifier: MIT */
/*
 * Job tc: threads that insert a filter whose action has three per-CPU regions,
 * and remove it. With --work N, N packets match it in between and are counted.
 */
#include <config.h>

#include <stdlib.h>

#include "job.h"
#include "tc.h"

/*
 * A table for each thread, as each network device has its own filters. What
 * threads share then is the allocators alone, which is what the job measures;
 * examples/tc_table.c is a table that is shared.
 */
int bench_tc_enter(struct bench_thread *t)
{
	struct bench_tc_table *table = calloc(1, sizeof(*table));

	if (!table)
		return ENOMEM;
	table->next_key = t->index << 24;
	t->own = table;
	return 0;
}

void bench_tc_leave(struct bench_thread *t)
{
	free(t->own);
}

static const struct bench_variant *const variants[] = {
	&bench_tc_construct,	      &bench_tc_construct_jemalloc,
	&bench_tc_construct_mimalloc, &bench_tc_construct_tcmalloc,
	&bench_tc_pcpool,	      &bench_tc_pcpool_declared,
	&bench_tc_pcpool_lock,
};

static const uint64_t sizes[] = { sizeof(struct tc_action), 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_cycle", "ns/cycle", NULL },
	{ "cpu_ns_per_cycle", "CPU ns/cycle", NULL },
	{ "mutex_per_Mop", "mutex/Mop", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return 64;
}

static void measure(const struct bench_window *w, double *value)
{
	double ops = (double)w->ops;

	value[0] = bench_ns_per_op(w);
	value[1] = (double)w->cpu_ns / ops;
	value[2] = (double)w->region_locks * 1e6 / ops;
}

const struct bench_job bench_job_tc = {
	.name = "tc",
	.title = "insert a filter with a three-region action, remove it",
	.default_sizes = sizes,
	.min_size = sizeof(struct tc_action),
	.has_work = true,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

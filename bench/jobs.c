/* SPDX-License-Identifier: MIT */
/* The list of jobs, look-up by name, and what all jobs compute alike. */
#include <config.h>

#include <string.h>

#include "core.h"
#include "counters.h"
#include "job.h"

const struct bench_job *const bench_jobs[] = {
	&bench_job_account,
	&bench_job_batch,
	&bench_job_conn,
	&bench_job_counter,
	&bench_job_exec,
	&bench_job_mmap,
	&bench_job_oversub,
	&bench_job_pair,
	&bench_job_percpu,
	&bench_job_rcu,
	&bench_job_remote,
	&bench_job_scale,
	&bench_job_tc,
};
const unsigned int bench_nr_jobs = sizeof(bench_jobs) / sizeof(bench_jobs[0]);

const struct bench_job *bench_find_job(const char *name)
{
	for (unsigned int i = 0; i < bench_nr_jobs; i++)
		if (!strcmp(bench_jobs[i]->name, name))
			return bench_jobs[i];
	return NULL;
}

const struct bench_variant *bench_find_variant(const struct bench_job *job,
					       const char *name)
{
	for (unsigned int i = 0; i < job->nr_variants; i++)
		if (!strcmp(job->variants[i]->name, name))
			return job->variants[i];
	return NULL;
}

const struct bench_metric *bench_metric(const struct bench_job *job,
					unsigned int i)
{
	return i < job->nr_metrics ? &job->metrics[i]
				   : &bench_counters[i - job->nr_metrics];
}

static unsigned int busy(const struct bench_window *w)
{
	return w->threads < w->cpus ? w->threads : w->cpus;
}

double bench_ns_per_op(const struct bench_window *w)
{
	return (double)w->elapsed_ns * busy(w) / (double)w->ops;
}

/* A thread that shares its CPU counts the time of the others as its own. */
double bench_per_op(const struct bench_window *w, uint64_t sum)
{
	return (double)sum / w->threads * busy(w) / (double)w->ops;
}

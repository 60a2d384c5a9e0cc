/* SPDX-License-Identifier: MIT */
/* The list of jobs, look-up by name, and what all jobs compute alike. */
#include <config.h>

#include <string.h>

#include "core.h"
#include "job.h"

const struct bench_job *const bench_jobs[] = {
	&bench_job_exec,
	&bench_job_pair,
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

double bench_ns_per_op(const struct bench_window *w)
{
	unsigned int busy = w->threads < w->cpus ? w->threads : w->cpus;

	return (double)w->elapsed_ns * busy / (double)w->ops;
}

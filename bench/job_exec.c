/* SPDX-License-Identifier: MIT */
/*
 * Job exec: threads that take an mm-like object with two per-CPU regions, do
 * with it what an exec() does, and give it back. With --work 0 only the taking
 * and giving back, and a touch, is left.
 */
#include <config.h>

#include <sys/mman.h>
#include <unistd.h>

#include "exec.h"
#include "job.h"

/* Far more than an exec maps. */
#define RANGE_PAGES ((size_t)256)

/*
 * A range of addresses for each thread, as t->own: room for an exec's areas
 * behind one page that stays mapped.
 *
 * Real execs belong to different processes and share no address space; those of
 * this job's threads do. Left to itself the kernel puts the areas of all
 * threads side by side and treats them as one, so that threads spend most of
 * their time waiting for its lock, and the job would measure that. With a range
 * of its own a thread's areas merely extend what it has mapped there already,
 * and touching them needs no lock that others hold. All variants get the same.
 */
int bench_exec_enter(struct bench_thread *t)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *range = mmap(NULL, RANGE_PAGES * page, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (range == MAP_FAILED)
		return errno;
	if (munmap(range + page, (RANGE_PAGES - 1) * page) ||
	    mprotect(range, page, PROT_READ | PROT_WRITE))
		return errno;
	*(volatile char *)range = 1;
	t->own = range + page;
	return 0;
}

void bench_exec_leave(struct bench_thread *t)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	munmap((char *)t->own - page, page);
}

static const struct bench_variant *const variants[] = {
	&bench_exec_construct,
	&bench_exec_construct_jemalloc,
	&bench_exec_construct_mimalloc,
	&bench_exec_construct_tcmalloc,
	&bench_exec_mutex_list,
	&bench_exec_tls_list,
	&bench_exec_limit,
	&bench_exec_pcpool,
	&bench_exec_pcpool_lock,
	&bench_exec_pcpool_inline,
	&bench_exec_pcpool_resident,
};

static const uint64_t sizes[] = { sizeof(struct mm_struct), 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_cycle", "ns/cycle", NULL },
	{ "cpu_ns_per_cycle", "CPU ns/cycle", NULL },
	{ "mutex_per_Mop", "mutex/Mop", NULL },
	{ "ops_per_s", "cycles/s", NULL },
};

/* With work a cycle takes tens of microseconds. */
static unsigned int batch(const struct bench_params *params)
{
	return params->work ? 1 : 64;
}

static void measure(const struct bench_window *w, double *value)
{
	double ops = (double)w->ops;

	value[0] = bench_ns_per_op(w);
	value[1] = (double)w->cpu_ns / ops;
	value[2] = (double)w->region_locks * 1e6 / ops;
	value[3] = ops * 1e9 / (double)w->elapsed_ns;
}

const struct bench_job bench_job_exec = {
	.name = "exec",
	.title = "take an mm-like object, exec, give it back",
	.default_sizes = sizes,
	.min_size = sizeof(struct mm_struct),
	.has_work = true,
	.default_work = 1,
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

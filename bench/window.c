/* SPDX-License-Identifier: MIT */
/*
 * One timed window.
 *
 * All threads first warm up (the code, their caches, the malloc's view of a new
 * thread), then wait at a gate; what the library counts is read while they all
 * stand there; then they run until the stop flag, and wait at the gate again
 * until the counts are read a second time. So neither the making of the first
 * objects nor their end belongs to the window.
 *
 * The window's length is measured, not assumed: from the first thread's start
 * to the last one's end.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <pcpool/pcpool.h>

#include "clock.h"
#include "window.h"

#define WARM_UP_NS UINT64_C(2000000)

enum phase { PHASE_READY, PHASE_GO, PHASE_LEAVE };

/* Where threads meet, and what all of them read while they run. */
struct window {
	const struct bench_job *job;
	const struct bench_variant *variant;
	/* Guards the following. Threads wait for the phase; an arrival wakes
	 * none of them, or it would take time from those that still run. */
	pthread_mutex_t lock;
	pthread_cond_t all_arrived;
	pthread_cond_t phase_changed;
	pthread_cond_t answered;
	unsigned int arrived;
	unsigned int awaited;
	enum phase phase;
	/* Read in the timed loop, written once: a line of its own. */
	_Alignas(2 * BENCH_CACHE_LINE) atomic_bool stop;
	atomic_bool failed; /* written once at most */
	_Alignas(2 * BENCH_CACHE_LINE) struct bench_thread thread[];
};

/* bench_thread has no room for its window: the variants need not see it. */
struct start {
	struct window *window;
	struct bench_thread *thread;
	pthread_t id;
	enum { UNKNOWN, ADMITTED, REFUSED } answer; /* under window->lock */
};

/* Threads that may be refused in a window. */
#define REFUSALS_MAX 8192U

static unsigned int cpus[CPU_SETSIZE];
static unsigned int nr_cpus;

int bench_cpus_init(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return errno;
	nr_cpus = 0;
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[nr_cpus++] = cpu;
	return nr_cpus ? 0 : ENODEV;
}

unsigned int bench_nr_cpus(void)
{
	return nr_cpus;
}

static int pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? errno : 0;
}

int bench_pin(unsigned int index)
{
	return pin(cpus[index % nr_cpus]);
}

/* Say that this thread is here; wait until the phase is reached. */
static enum phase gate(struct window *w, enum phase phase)
{
	enum phase reached;

	pthread_mutex_lock(&w->lock);
	if (++w->arrived == w->awaited)
		pthread_cond_signal(&w->all_arrived);
	while (w->phase < phase)
		pthread_cond_wait(&w->phase_changed, &w->lock);
	reached = w->phase;
	pthread_mutex_unlock(&w->lock);
	return reached;
}

/* Whether this thread takes part. One that does not stays until the end, or the
 * next one made would be like it: on its stack. */
static bool take_part(struct start *start)
{
	struct window *w = start->window;
	bool admitted = !w->job->admit || w->job->admit(start->thread);

	pthread_mutex_lock(&w->lock);
	start->answer = admitted ? ADMITTED : REFUSED;
	pthread_cond_signal(&w->answered);
	while (!admitted && w->phase < PHASE_LEAVE)
		pthread_cond_wait(&w->phase_changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return admitted;
}

static bool is_admitted(struct start *start)
{
	struct window *w = start->window;
	bool admitted;

	pthread_mutex_lock(&w->lock);
	while (start->answer == UNKNOWN)
		pthread_cond_wait(&w->answered, &w->lock);
	admitted = start->answer == ADMITTED;
	pthread_mutex_unlock(&w->lock);
	return admitted;
}

static void await_all(struct window *w, unsigned int arrived)
{
	pthread_mutex_lock(&w->lock);
	w->awaited = arrived;
	while (w->arrived < arrived)
		pthread_cond_wait(&w->all_arrived, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static void set_phase(struct window *w, enum phase phase)
{
	pthread_mutex_lock(&w->lock);
	w->phase = phase;
	pthread_cond_broadcast(&w->phase_changed);
	pthread_mutex_unlock(&w->lock);
}

static void warm_up(struct window *w, struct bench_thread *t,
		    unsigned int batch)
{
	uint64_t until = bench_now(CLOCK_MONOTONIC) + WARM_UP_NS;

	do {
		t->error = w->variant->run(t, batch);
	} while (!t->error && bench_now(CLOCK_MONOTONIC) < until);
}

/* Whether the window is over for this thread. One that depends on others may not
 * have come to anything yet; then the window lasts longer. */
static bool over(struct window *w, const struct bench_thread *t)
{
	if (t->error) {
		atomic_store(&w->failed, true);
		return true;
	}
	if (!atomic_load_explicit(&w->stop, memory_order_relaxed))
		return false;
	return !w->job->waits || t->busy || atomic_load(&w->failed);
}

static void timed_loop(struct window *w, struct bench_thread *t,
		       unsigned int batch)
{
	int (*batch_of)(struct bench_thread *, unsigned int) = w->variant->run;
	uint64_t cpu_start = bench_now(CLOCK_THREAD_CPUTIME_ID);
	uint64_t ops = 0;

	memset(t->phase, 0, sizeof(t->phase));
	t->peak = 0;
	t->undone = 0;
	t->busy = false;
	t->start_ns = bench_now(CLOCK_MONOTONIC);
	do {
		t->error = batch_of(t, batch);
		ops += batch;
	} while (!over(w, t));
	t->end_ns = bench_now(CLOCK_MONOTONIC);
	t->cpu_ns = bench_now(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
	t->ops = ops - t->undone;
}

static void *thread_main(void *arg)
{
	struct start *start = arg;
	struct window *w = start->window;
	struct bench_thread *t = start->thread;
	unsigned int batch = w->job->batch(t->params);
	bool entered = false;

	t->error = pin(t->cpu);
	if (!take_part(start))
		return NULL;
	if (!t->error && w->variant->enter)
		t->error = w->variant->enter(t);
	if (!t->error) {
		entered = true;
		warm_up(w, t, batch);
	}
	if (gate(w, PHASE_GO) == PHASE_GO) {
		timed_loop(w, t, batch);
		gate(w, PHASE_LEAVE);
	}
	if (entered && w->variant->leave)
		w->variant->leave(t);
	return NULL;
}

/* Each hold of the region allocator's locks once: whoever takes the growth
 * mutex takes the map lock under it, and single allocations count in both
 * figures. */
static uint64_t region_locks(void)
{
	struct pcpool_percpu_stats stats = { .stats_size = sizeof(stats) };

	pcpool_percpu_get_stats(&stats);
	return stats.map_lock;
}

static int first_error(const struct window *w, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (w->thread[i].error)
			return w->thread[i].error;
	return 0;
}

static int cache_stats(const struct bench_variant *variant, void *shared,
		       struct pcpool_cache_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->stats_size = sizeof(*stats);
	return variant->cache
		       ? pcpool_cache_get_stats(variant->cache(shared), stats)
		       : 0;
}

/* All threads stand at the gate and none has failed: run the window. */
static int run(struct window *w, void *shared,
	       const struct bench_params *params, struct bench_window *out)
{
	struct timespec length = {
		.tv_sec = (time_t)(params->window_ns / BENCH_NS_PER_S),
		.tv_nsec = (long)(params->window_ns % BENCH_NS_PER_S),
	};
	int err = cache_stats(w->variant, shared, &out->before);

	if (err)
		return err;
	out->process_ns = bench_now(CLOCK_PROCESS_CPUTIME_ID);
	out->region_locks = region_locks();
	set_phase(w, PHASE_GO);
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &length) == EINTR)
		;
	atomic_store_explicit(&w->stop, true, memory_order_relaxed);
	await_all(w, 2 * params->threads);
	out->region_locks = region_locks() - out->region_locks;
	out->process_ns = bench_now(CLOCK_PROCESS_CPUTIME_ID) - out->process_ns;
	return cache_stats(w->variant, shared, &out->after);
}

static void sum_up(const struct window *w, const struct bench_params *params,
		   struct bench_window *out)
{
	uint64_t start = UINT64_MAX, end = 0;

	out->threads = params->threads;
	out->cpus = nr_cpus;
	out->ops = 0;
	out->cpu_ns = 0;
	out->peak = 0;
	memset(out->phase, 0, sizeof(out->phase));
	for (unsigned int i = 0; i < params->threads; i++) {
		const struct bench_thread *t = &w->thread[i];

		out->ops += t->ops;
		out->cpu_ns += t->cpu_ns;
		for (unsigned int p = 0; p < BENCH_PHASES; p++) {
			out->phase[p].ns += t->phase[p].ns;
			out->phase[p].cycles += t->phase[p].cycles;
		}
		out->peak = t->peak > out->peak ? t->peak : out->peak;
		start = t->start_ns < start ? t->start_ns : start;
		end = t->end_ns > end ? t->end_ns : end;
	}
	out->elapsed_ns = end - start;
}

static struct window *make(const struct bench_job *job,
			   const struct bench_variant *variant, void *shared,
			   const struct bench_params *params)
{
	size_t size = sizeof(struct window) +
		      params->threads * sizeof(struct bench_thread);
	struct window *w = aligned_alloc(_Alignof(struct window), size);

	if (!w)
		return NULL;
	memset(w, 0, size);
	w->job = job;
	w->variant = variant;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->all_arrived, NULL);
	pthread_cond_init(&w->phase_changed, NULL);
	pthread_cond_init(&w->answered, NULL);
	for (unsigned int i = 0; i < params->threads; i++) {
		w->thread[i].params = params;
		w->thread[i].shared = shared;
		w->thread[i].index = i;
		w->thread[i].cpu = cpus[i % nr_cpus];
	}
	return w;
}

/* Make the threads: *started of them, of which *admitted take part. Returns 0 or
 * an errno value. */
static int start_threads(struct window *w, struct start *start, unsigned int n,
			 unsigned int *started, unsigned int *admitted)
{
	while (*admitted < n) {
		struct start *s = &start[*started];
		int err;

		if (*started == n + REFUSALS_MAX)
			return EAGAIN;
		s->window = w;
		s->thread = &w->thread[*admitted];
		err = pthread_create(&s->id, NULL, thread_main, s);
		if (err)
			return err;
		++*started;
		if (!w->job->admit || is_admitted(s))
			++*admitted;
	}
	return 0;
}

int bench_run_window(const struct bench_job *job,
		     const struct bench_variant *variant, void *shared,
		     const struct bench_params *params,
		     struct bench_window *out)
{
	struct window *w = make(job, variant, shared, params);
	struct start *start = calloc(params->threads + REFUSALS_MAX,
				     sizeof(*start));
	unsigned int started = 0, admitted = 0;
	int err = ENOMEM;

	if (!w || !start)
		goto out;
	err = start_threads(w, start, params->threads, &started, &admitted);
	await_all(w, admitted);
	if (!err)
		err = first_error(w, admitted);
	if (!err)
		err = run(w, shared, params, out);
	set_phase(w, PHASE_LEAVE);
	for (unsigned int i = 0; i < started; i++)
		pthread_join(start[i].id, NULL);
	if (!err)
		err = first_error(w, admitted);
	if (!err)
		sum_up(w, params, out);
out:
	free(start);
	free(w);
	return err;
}

/* SPDX-License-Identifier: MIT */
/*
 * One window of job oversub, in a child process: what an allocator kept of an
 * earlier window would else be there before this one, and hide that it keeps
 * it.
 *
 * The steps of a window, with a barrier between them: the threads are there,
 * and have touched their stacks and arrays; memory is read; they take their
 * objects; replace some at random until told to stop; give all back; sleep
 * while memory is read; say that they are idle; sleep while the variant
 * shrinks and memory is read again.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <config.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "oversub.h"
#include "window.h"

/* How long a thread is left alone before its memory is read: longer than most
 * allocators wait before they give something back by themselves. In a run with
 * tiny windows, to try things, that would be most of the time. */
#define REST_NS (1500ULL * 1000 * 1000)
#define REST_WINDOWS 5U
/* Looks at the memory in a window. */
#define SAMPLES 10U
#define REPLACE_BATCH 64U
/* What a thread may need of its stack; touched before anything is read. */
#define STACK_TOUCHED 16384

/* Where the child leaves what it found. */
struct found {
	int error;
	double value[BENCH_OVERSUB_VALUES];
};

struct run {
	struct bench_oversub *o;
	pthread_barrier_t step;
	int started; /* start()'s result */
	_Alignas(2 * BENCH_CACHE_LINE) atomic_bool stop;
};

struct worker {
	_Alignas(2 * BENCH_CACHE_LINE) struct bench_oversub_thread t;
	struct run *run;
	unsigned int index;
	pthread_t id;
	int error;
	uint64_t ops, start_ns, end_ns;
};

/* Bytes of anonymous memory this process has: what was allocated, without
 * pages of programs and libraries. Counted by the kernel page by page when
 * asked, whereas the sums elsewhere in /proc lag behind. NAN: not to be had. */
static double anonymous(void)
{
	static char text[4096];
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	const char *line;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	line = strstr(text, "Anonymous:");
	return line ? strtod(line + strlen("Anonymous:"), NULL) * 1024
		    : __builtin_nan("");
}

static __attribute__((noinline)) void touch_stack(void)
{
	volatile char page[STACK_TOUCHED];

	for (size_t i = 0; i < sizeof(page); i += 256)
		page[i] = 1;
}

static void step(struct run *run)
{
	pthread_barrier_wait(&run->step);
}

static void replace_until_stop(struct worker *w)
{
	const struct bench_oversub_ops *ops = w->run->o->ops;

	w->start_ns = bench_now(CLOCK_MONOTONIC);
	while (!w->error && !atomic_load_explicit(&w->run->stop,
						  memory_order_relaxed)) {
		w->error = ops->replace(&w->t, REPLACE_BATCH);
		w->ops += REPLACE_BATCH;
	}
	w->end_ns = bench_now(CLOCK_MONOTONIC);
}

static void *thread_main(void *arg)
{
	struct worker *w = arg;
	const struct bench_oversub_ops *ops = w->run->o->ops;

	w->error = bench_pin(w->index);
	touch_stack();
	memset(w->t.objs, 0, w->run->o->params->live * sizeof(void *));
	step(w->run); /* ready */
	step(w->run); /* started */
	if (!w->error)
		w->error = w->run->started;
	if (!w->error)
		w->error = ops->fill(&w->t);
	step(w->run); /* filled */
	replace_until_stop(w);
	step(w->run); /* stopped */
	step(w->run); /* read */
	if (!w->run->started)
		ops->empty(&w->t);
	step(w->run); /* emptied */
	step(w->run); /* read */
	if (ops->idle)
		ops->idle(&w->t);
	step(w->run); /* idle */
	step(w->run); /* read */
	return NULL;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / BENCH_NS_PER_S),
			      .tv_nsec = (long)(ns % BENCH_NS_PER_S) };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* The window itself: memory is looked at a few times meanwhile. */
static double watch(struct run *run)
{
	uint64_t window_ns = run->o->params->window_ns;
	double most = 0;

	step(run); /* filled */
	for (unsigned int i = 0; i < SAMPLES; i++) {
		double now;

		sleep_ns(window_ns / SAMPLES);
		now = anonymous();
		most = now > most ? now : most;
	}
	atomic_store_explicit(&run->stop, true, memory_order_relaxed);
	step(run); /* stopped */
	return most;
}

static double growth(double now, double before)
{
	double grown = now - before;

	/* Not negative: no growth. NAN stays. */
	return grown < 0 ? 0 : grown;
}

/* The first thread's part, beside thread_main(). */
static int lead(struct run *run, double *value)
{
	const struct bench_oversub_ops *ops = run->o->ops;
	uint64_t rest = run->o->params->window_ns * REST_WINDOWS;
	double before, most, now;
	int err;

	step(run); /* ready */
	before = anonymous();
	if (ops->start)
		run->started = ops->start(run->o);
	err = run->started;
	step(run); /* started */
	most = watch(run);
	now = anonymous();
	value[BENCH_OVERSUB_PEAK] = growth(now > most ? now : most, before);
	step(run); /* read */
	step(run); /* emptied */
	sleep_ns(rest < REST_NS ? rest : REST_NS);
	value[BENCH_OVERSUB_FREED] = growth(anonymous(), before);
	step(run); /* read */
	step(run); /* idle */
	if (!err && ops->shrink)
		err = ops->shrink(run->o);
	value[BENCH_OVERSUB_SHRUNK] = growth(anonymous(), before);
	step(run); /* read */
	return err;
}

static int sum_up(const struct worker *w, unsigned int n, double *value)
{
	uint64_t start = UINT64_MAX, end = 0, ops = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (w[i].error)
			return w[i].error;
		start = w[i].start_ns < start ? w[i].start_ns : start;
		end = w[i].end_ns > end ? w[i].end_ns : end;
		ops += w[i].ops;
	}
	value[BENCH_OVERSUB_OPS] = (double)ops * 1e9 / (double)(end - start);
	return 0;
}

/* All of it; the process ends after it, and with it what is not freed here. */
static int child(struct bench_oversub *o, double *value)
{
	unsigned int n = o->params->threads;
	size_t live = o->params->live;
	struct worker *w = aligned_alloc(_Alignof(struct worker),
					 n * sizeof(*w));
	struct run run = { .o = o };
	int err;

	if (!w)
		return ENOMEM;
	memset(w, 0, n * sizeof(*w));
	err = pthread_barrier_init(&run.step, NULL, n + 1);
	for (unsigned int i = 0; i < n && !err; i++) {
		w[i].run = &run;
		w[i].index = i;
		w[i].t.o = o;
		w[i].t.random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
		w[i].t.objs = malloc(live * sizeof(void *));
		err = w[i].t.objs ? pthread_create(&w[i].id, NULL, thread_main,
						   &w[i])
				  : ENOMEM;
	}
	/* Those that were started wait for the others for ever. */
	if (err)
		return err;
	err = lead(&run, value);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(w[i].id, NULL);
	if (!run.started && o->ops->stop && !err)
		err = o->ops->stop(o);
	return err ? err : sum_up(w, n, value);
}

int bench_oversub_window(void *shared, const struct bench_params *params,
			 double *value)
{
	struct bench_oversub *o = shared;
	struct found *found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int err, status = 0;
	pid_t pid;

	if (found == MAP_FAILED)
		return errno;
	o->params = params;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		found->error = child(o, found->value);
		_exit(0);
	}
	err = pid < 0 ? errno : 0;
	while (!err && waitpid(pid, &status, 0) < 0)
		err = errno == EINTR ? 0 : errno;
	if (!err && status)
		err = EIO;
	if (!err)
		err = found->error;
	if (!err)
		memcpy(value, found->value, sizeof(found->value));
	munmap(found, sizeof(*found));
	return err;
}

int bench_oversub_open(const struct bench_oversub_ops *ops,
		       const struct bench_malloc *peer, void **shared)
{
	struct bench_oversub *o = calloc(1, sizeof(*o));

	if (!o)
		return ENOMEM;
	o->ops = ops;
	o->peer = peer;
	*shared = o;
	return 0;
}

int bench_oversub_close(void *shared)
{
	free(shared);
	return 0;
}

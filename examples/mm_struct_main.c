/* SPDX-License-Identifier: MIT */
/*
 * The mm-like object at work: threads that take one, exec with it and give it
 * back, first building it anew each time, then through a cache. Prints how
 * often objects were built and the region allocator's locks were taken, and
 * whether every built object was torn down.
 *
 *   mm_struct [-t THREADS] [-n CYCLES] [-f K]
 *
 * -f K makes each K-th construction fail, to show that a failure costs that one
 * object only. Exit status: 0, 1 when the balance is off or a call failed, 2
 * for bad arguments.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "mm_struct.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One thread's share of a run. */
struct worker {
	pthread_t thread;
	/* NULL: build each object anew. */
	struct pcpool_cache *cache;
	struct mm_env *env;
	unsigned long cycles;
	/* Results. */
	unsigned long done;
	unsigned long refused;
	int error;
};

/* What one run did. */
struct outcome {
	unsigned long done;
	unsigned long refused;
	uint64_t mutex;
	uint64_t map_lock;
	struct mm_env env;
};

struct settings {
	unsigned long threads;
	unsigned long cycles;
	unsigned int fail_every;
};

/* The way without a cache: memory from malloc, built here and now. */
static struct mm_struct *build_new(struct mm_env *env)
{
	struct mm_struct *mm = malloc(sizeof(*mm));
	int err;

	if (!mm)
		return NULL;
	err = mm_ctor(mm, env);
	if (err) {
		free(mm);
		errno = err;
		return NULL;
	}
	mm_begin(mm, NULL);
	return mm;
}

static void tear_down(struct mm_struct *mm, struct mm_env *env)
{
	mm_end(mm);
	mm_dtor(mm, env);
	free(mm);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct mm_struct *mm;

	for (unsigned long i = 0; i < w->cycles; i++) {
		mm = w->cache ? mm_get(w->cache, NULL) : build_new(w->env);
		if (!mm && errno == EAGAIN && w->env->fail_every) {
			w->refused++;
			continue;
		}
		if (!mm) {
			w->error = errno;
			break;
		}
		w->error = mm_exec(mm);
		/* Give back in the constructed state, or the next user of this
		 * object starts from nonsense. Checking it each time is for an
		 * example; it reads every CPU's copies. */
		if (!w->error && !mm_is_built_state(mm))
			w->error = EPROTO;
		if (w->cache)
			mm_put(w->cache, mm);
		else
			tear_down(mm, w->env);
		if (w->error)
			break;
		w->done++;
	}
	return NULL;
}

/* Run the threads and gather. Returns 0 or an errno value. */
static int run_threads(struct worker *w, unsigned long n, struct outcome *out)
{
	unsigned long started = 0;
	int err = 0;

	while (started < n && !err) {
		err = pthread_create(&w[started].thread, NULL, work,
				     &w[started]);
		if (!err)
			started++;
	}
	for (unsigned long i = 0; i < started; i++) {
		pthread_join(w[i].thread, NULL);
		out->done += w[i].done;
		out->refused += w[i].refused;
		if (!err)
			err = w[i].error;
	}
	return err;
}

/* One run, with or without a cache. Returns 0 or an errno value. */
static int run(const struct settings *s, bool cached, struct outcome *out)
{
	struct pcpool_percpu_stats before = { .stats_size = sizeof(before) };
	struct pcpool_percpu_stats after = { .stats_size = sizeof(after) };
	struct pcpool_cache *cache = NULL;
	struct worker *w = calloc(s->threads, sizeof(*w));
	int err, destroyed;

	if (!w)
		return ENOMEM;
	memset(out, 0, sizeof(*out));
	out->env.fail_every = s->fail_every;
	pcpool_percpu_get_stats(&before);
	if (cached) {
		cache = mm_cache_create(&out->env);
		if (!cache) {
			err = errno;
			goto out_free;
		}
	}
	for (unsigned long i = 0; i < s->threads; i++) {
		w[i].cache = cache;
		w[i].env = &out->env;
		w[i].cycles = s->cycles;
	}
	err = run_threads(w, s->threads, out);
	if (cache) {
		/* Every object was put: the destructors run now. */
		destroyed = pcpool_cache_destroy(cache);
		if (!err)
			err = destroyed;
	}
	pcpool_percpu_get_stats(&after);
	out->mutex = after.mutex - before.mutex;
	out->map_lock = after.map_lock - before.map_lock;
out_free:
	free(w);
	return err;
}

static void print_row(const char *name, const struct outcome *o)
{
	printf("%-22s %10lu %8lu %10llu %10llu %10" PRIu64 " %10" PRIu64 "\n",
	       name, o->done, o->refused, atomic_load(&o->env.ctor_ok),
	       atomic_load(&o->env.dtor), o->mutex, o->map_lock);
}

static bool balanced(const struct outcome *o)
{
	return atomic_load(&o->env.ctor_ok) == atomic_load(&o->env.dtor);
}

/* A number above 0 and not above max. Exits with 2 for anything else. */
static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || !value ||
	    value > max) {
		fprintf(stderr, "mm_struct: bad number: %s\n", text);
		exit(2);
	}
	return value;
}

static void parse(int argc, char **argv, struct settings *s)
{
	int opt;

	while ((opt = getopt(argc, argv, "t:n:f:")) != -1) {
		if (opt == 't')
			s->threads = number(optarg, 4096);
		else if (opt == 'n')
			s->cycles = number(optarg, ULONG_MAX);
		else if (opt == 'f')
			s->fail_every = (unsigned int)number(optarg, UINT_MAX);
		else
			break;
	}
	if (opt != -1 || optind != argc) {
		fprintf(stderr, "usage: mm_struct [-t THREADS] [-n CYCLES] "
				"[-f K]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct settings s = { .threads = 2, .cycles = 2000 };
	struct outcome anew, cached;
	int err;

	parse(argc, argv, &s);
	err = run(&s, false, &anew);
	if (!err)
		err = run(&s, true, &cached);
	if (err) {
		fprintf(stderr, "mm_struct: %s\n", strerror(err));
		return 1;
	}
	printf("%lu threads x %lu exec cycles, %u copies of each region, "
	       "%s mode\n\n",
	       s.threads, s.cycles, pcpool_nr_slots(), pcpool_mode());
	printf("%-22s %10s %8s %10s %10s %10s %10s\n", "", "cycles", "refused",
	       "built", "torn down", "mutex", "map lock");
	print_row("built anew each time", &anew);
	print_row("cached by pcpool", &cached);
	printf("\n\"mutex\" and \"map lock\" are the region allocator's locks: "
	       "what cached objects no\nlonger take.\n");
	if (!balanced(&anew) || !balanced(&cached)) {
		printf("The balance is off: some built object was not torn "
		       "down.\n");
		return 1;
	}
	printf("The balance holds: every built object was torn down.\n");
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * What everything beside the fast path costs: one line for each. Not a job of
 * pcpool-bench, for there is no peer that does the same.
 *
 *	bench/costs [--reps N]
 *
 * Medians of N repetitions (7), with the least and the greatest. Everything is
 * measured through the public headers; what happened in between comes from the
 * library's own counters.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <pcpool/pcpool.h>

#define REPS_MAX 1001U
#define OBJECT 256U

static unsigned int reps = 7;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void pin(unsigned int nth)
{
	cpu_set_t all, one;

	CPU_ZERO(&one);
	sched_getaffinity(0, sizeof(all), &all);
	nth %= (unsigned int)CPU_COUNT(&all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && !nth--) {
			CPU_SET(cpu, &one);
			break;
		}
	sched_setaffinity(0, sizeof(one), &one);
}

static size_t resident(void)
{
	unsigned long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu %lu", &size, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "costs: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct pcpool_cache *make(const struct pcpool_cache_attr *attr)
{
	struct pcpool_cache *cache = pcpool_cache_create("costs", OBJECT, attr);

	if (!cache)
		die("pcpool_cache_create");
	return cache;
}

static struct pcpool_cache_stats stats_of(struct pcpool_cache *cache)
{
	struct pcpool_cache_stats stats = { .stats_size = sizeof(stats) };

	pcpool_cache_get_stats(cache, &stats);
	return stats;
}

static void *take(struct pcpool_cache *cache)
{
	void *obj = pcpool_alloc(cache);

	if (!obj)
		die("pcpool_alloc");
	return obj;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void say(const char *what, const char *unit, double *values)
{
	qsort(values, reps, sizeof(*values), by_value);
	printf("%-46s %12.1f %12.1f %12.1f  %s\n", what, values[reps / 2],
	       values[0], values[reps - 1], unit);
	fflush(stdout);
}

/* --- refill and flush ------------------------------------------------------
 */

#define MANY 20000U
static void *objs[MANY];

/* Many taken and given back with a fixed capacity: the time beyond as many fast
 * calls, for each time the fast path found nothing. */
static void slow_paths(bool slabs)
{
	static double refill[REPS_MAX], flush[REPS_MAX], one[REPS_MAX];
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	attr.sheaf_capacity = 60;
	cache = make(&attr);
	/* Beyond the barn, objects go to and come from slabs. */
	const unsigned int n = slabs ? MANY : 400;

	for (unsigned int i = 0; i < reps + 2; i++) {
		struct pcpool_cache_stats a, b, c;
		uint64_t t0, t1, t2, t3;
		unsigned int rounds = slabs ? 1 : 50;
		double slow_a = 0, slow_f = 0, ns_a = 0, ns_f = 0;

		for (unsigned int r = 0; r < rounds; r++) {
			a = stats_of(cache);
			t0 = now();
			for (unsigned int j = 0; j < n; j++)
				objs[j] = take(cache);
			t1 = now();
			b = stats_of(cache);
			t2 = now();
			for (unsigned int j = 0; j < n; j++)
				pcpool_free(cache, objs[j]);
			t3 = now();
			c = stats_of(cache);
			slow_a += (double)(b.alloc_slowpath - a.alloc_slowpath);
			slow_f += (double)(c.free_slowpath - b.free_slowpath);
			ns_a += (double)(t1 - t0);
			ns_f += (double)(t3 - t2);
		}
		t0 = now();
		for (unsigned int j = 0; j < 100000; j++)
			pcpool_free(cache, take(cache));
		t1 = now();
		if (i < 2) /* warming */
			continue;
		one[i - 2] = (double)(t1 - t0) / 100000;
		ns_a -= one[i - 2] / 2 * n * rounds;
		ns_f -= one[i - 2] / 2 * n * rounds;
		refill[i - 2] = slow_a > 0 ? ns_a / slow_a : 0;
		flush[i - 2] = slow_f > 0 ? ns_f / slow_f : 0;
	}
	if (!slabs)
		say("pair, the fast path", "ns", one);
	say(slabs ? "refill of 60, from slabs" : "refill of 60, spare or barn",
	    "ns", refill);
	say(slabs ? "flush of 60, to slabs" : "flush of 60, spare or barn",
	    "ns", flush);
	pcpool_cache_destroy(cache);
}

/* --- drain, create and destroy ---------------------------------------------
 */

static void *use_there(void *arg)
{
	pin(1);
	pcpool_free(arg, take(arg));
	return NULL;
}

static void drains(void)
{
	static double none[REPS_MAX], here[REPS_MAX], both[REPS_MAX];
	struct pcpool_cache *cache = make(NULL);

	for (unsigned int i = 0; i < reps; i++) {
		pthread_t thread;
		uint64_t t0, t1;

		pcpool_cache_shrink(cache);
		t0 = now();
		pcpool_cache_shrink(cache);
		t1 = now();
		none[i] = (double)(t1 - t0) / 1000;
		pcpool_free(cache, take(cache));
		t0 = now();
		pcpool_cache_shrink(cache);
		t1 = now();
		here[i] = (double)(t1 - t0) / 1000;
		pcpool_free(cache, take(cache));
		if (pthread_create(&thread, NULL, use_there, cache))
			die("pthread_create");
		pthread_join(thread, NULL);
		t0 = now();
		pcpool_cache_shrink(cache);
		t1 = now();
		both[i] = (double)(t1 - t0) / 1000;
	}
	say("shrink, nothing to do", "us", none);
	say("shrink, one slot and a slab", "us", here);
	say("shrink, two slots and a slab", "us", both);
	pcpool_cache_destroy(cache);
}

static void lives(void)
{
	static double empty[REPS_MAX], used[REPS_MAX];

	for (unsigned int i = 0; i < reps; i++) {
		uint64_t t0 = now(), t1;

		for (unsigned int j = 0; j < 1000; j++)
			pcpool_cache_destroy(make(NULL));
		t1 = now();
		empty[i] = (double)(t1 - t0) / 1e6;
		t0 = now();
		for (unsigned int j = 0; j < 1000; j++) {
			struct pcpool_cache *cache = make(NULL);

			pcpool_free(cache, take(cache));
			pcpool_cache_destroy(cache);
		}
		t1 = now();
		used[i] = (double)(t1 - t0) / 1e6;
	}
	say("create, destroy", "us", empty);
	say("create, use once, destroy", "us", used);
}

static void memory(void)
{
	enum { CACHES = 1000 };
	static struct pcpool_cache *cache[CACHES];
	static double unused[REPS_MAX], used[REPS_MAX];
	size_t before, made, full;

	before = resident();
	for (unsigned int i = 0; i < CACHES; i++)
		cache[i] = make(NULL);
	made = resident();
	for (unsigned int i = 0; i < CACHES; i++)
		pcpool_free(cache[i], take(cache[i]));
	full = resident();
	for (unsigned int i = 0; i < reps; i++) {
		unused[i] = (double)(made - before) / CACHES;
		used[i] = (double)(full - made) / CACHES;
	}
	say("memory of a cache that was never used", "bytes", unused);
	say("more, when one CPU used it: sheaves, a slab", "bytes", used);
	for (unsigned int i = 0; i < CACHES; i++)
		pcpool_cache_destroy(cache[i]);
}

/* --- first use -------------------------------------------------------------
 */

static int first_use(void)
{
	uint64_t t0 = now();

	pcpool_free(make(NULL), NULL);
	printf("%llu\n", (unsigned long long)(now() - t0));
	return 0;
}

static void starts(void)
{
	static double first[REPS_MAX];

	for (unsigned int i = 0; i < reps; i++) {
		char path[4096], command[4200];
		ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
		unsigned long long ns;
		FILE *f;

		if (n < 0)
			die("/proc/self/exe");
		path[n] = '\0';
		snprintf(command, sizeof(command), "exec '%s' --first", path);
		f = popen(command, "re");
		if (!f || fscanf(f, "%llu", &ns) != 1)
			die("--first");
		pclose(f);
		first[i] = (double)ns / 1000;
	}
	say("first call of a process (a cache is made)", "us", first);
}

/* --- a large shrink beside an allocating thread ----------------------------
 */

struct beside {
	struct pcpool_cache *cache;
	atomic_bool stop, going;
	uint64_t worst;
	long sleeps; /* times the thread gave its CPU up: for a lock */
};

static void *allocate(void *arg)
{
	struct beside *b = arg;
	struct rusage before, after;
	uint64_t last;

	pin(1);
	pcpool_free(b->cache, take(b->cache));
	getrusage(RUSAGE_THREAD, &before);
	atomic_store(&b->going, true);
	last = now();
	while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
		uint64_t t;

		pcpool_free(b->cache, take(b->cache));
		t = now();
		if (t - last > b->worst)
			b->worst = t - last;
		last = t;
	}
	getrusage(RUSAGE_THREAD, &after);
	b->sleeps = after.ru_nvcsw - before.ru_nvcsw;
	return NULL;
}

static int built(void *obj, void *arg)
{
	(void)arg;
	*(char *)obj = 1;
	return 0;
}

static void torn_down(void *obj, void *arg)
{
	(void)arg;
	*(char *)obj = 0;
}

/* The thread beside, while this one is busy with nothing for so long or, 0,
 * shrinks. Returns how long that took. */
static uint64_t beside(struct beside *b, uint64_t ns)
{
	pthread_t thread;
	uint64_t t0, t1;

	b->worst = 0;
	atomic_store(&b->stop, false);
	atomic_store(&b->going, false);
	if (pthread_create(&thread, NULL, allocate, b))
		die("pthread_create");
	while (!atomic_load(&b->going))
		sched_yield();
	t0 = now();
	if (!ns)
		pcpool_cache_shrink(b->cache);
	while (ns && now() - t0 < ns)
		;
	t1 = now();
	atomic_store(&b->stop, true);
	pthread_join(thread, NULL);
	return t1 - t0;
}

/* 1 GiB of objects with a destructor, all free: they wait, built, in their
 * slabs. The worst pause of the same loop while nothing happens is the
 * machine's. */
static void large_shrink(void)
{
	static double took[REPS_MAX], worst[REPS_MAX], noise[REPS_MAX];
	static double sleeps[REPS_MAX];
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	const size_t n = ((size_t)1 << 30) / OBJECT;
	void **all = malloc(n * sizeof(*all));

	attr.ctor = built;
	attr.dtor = torn_down;
	if (!all)
		die("malloc");
	for (unsigned int i = 0; i < reps; i++) {
		struct beside b = { .cache = make(&attr) };
		uint64_t ns;

		for (size_t j = 0; j < n; j++)
			all[j] = take(b.cache);
		for (size_t j = 0; j < n; j++)
			pcpool_free(b.cache, all[j]);
		ns = beside(&b, 0);
		took[i] = (double)ns / 1000;
		worst[i] = (double)b.worst / 1000;
		sleeps[i] = (double)b.sleeps;
		beside(&b, ns);
		noise[i] = (double)b.worst / 1000;
		pcpool_cache_destroy(b.cache);
	}
	free(all);
	say("shrink of 1 GiB, with its destructors", "us", took);
	say("  worst pause of a thread that allocates beside", "us", worst);
	say("  times it slept, for a lock", "", sleeps);
	say("  the same for as long without a shrink", "us", noise);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--first"))
		return first_use();
	if (argc == 3 && !strcmp(argv[1], "--reps")) {
		reps = (unsigned int)strtoul(argv[2], NULL, 10);
		argc = 1;
	}
	if (argc != 1 || !reps || reps > REPS_MAX) {
		fprintf(stderr, "usage: costs [--reps N]\n");
		return 2;
	}
	pin(0);
	printf("pcpool %s, %s mode, %u slots, objects of %u bytes\n"
	       "%-46s %12s %12s %12s\n",
	       pcpool_version(), pcpool_mode(), pcpool_nr_slots(), OBJECT, "",
	       "median", "min", "max");
	starts();
	slow_paths(false);
	slow_paths(true);
	drains();
	lives();
	memory();
	large_shrink();
	return 0;
}

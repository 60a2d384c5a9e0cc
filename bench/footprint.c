/* SPDX-License-Identifier: MIT */
/*
 * Resident memory of many objects with per-CPU regions, beside the least it
 *could be. Not a job of pcpool-bench: it measures bytes, once, not time.
 *
 *	bench/footprint [--objects N] [--threads T]
 *
 * The objects are the actions of examples/tc_action, three regions each. A copy
 * costs memory only when its CPU touches it, so it matters which do:
 *
 *	cpu   slots are CPUs, and threads are moved about: in the end every
 *slot's copies were touched cid   slots are concurrency ids: T threads touch T
 *slots' copies, however many CPUs there are
 *
 * With --slots beyond the machine's CPUs the slots are virtual and the program
 * touches the copies of as many of them by hand; `real` are this machine's
 *slots and threads that add to their own copies, under index:cpu and index:cid.
 *
 * least = objects * sizeof(object) + touched slots * objects * bytes of
 *regions: no headers, no gaps, no pages that are not full.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpool/pcpool.h>

#include "../examples/tc_action.h"

static const size_t region_bytes =
	2 * sizeof(struct tc_stats) + sizeof(struct tc_queue);

static struct tc_action **actions;
static size_t objects = 10000;

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

/* The copies of one slot. */
static void touch_slot(unsigned int slot)
{
	for (size_t i = 0; i < objects; i++) {
		struct tc_stats *basic =
			pcpool_percpu_ptr(actions[i]->basic, slot);
		struct tc_stats *hw = pcpool_percpu_ptr(actions[i]->hw, slot);
		struct tc_queue *queue =
			pcpool_percpu_ptr(actions[i]->queue, slot);

		basic->packets++;
		hw->packets++;
		queue->drops++;
	}
}

/* The copies of wherever this thread runs; arg: its CPU among the allowed. */
static void *touch_own(void *arg)
{
	cpu_set_t *allowed = arg;

	sched_setaffinity(0, sizeof(*allowed), allowed);
	for (size_t i = 0; i < objects; i++) {
		pcpool_this_cpu_add_u64(&actions[i]->basic->packets, 1);
		pcpool_this_cpu_add_u64(&actions[i]->hw->packets, 1);
		pcpool_this_cpu_add_u64(&actions[i]->queue->drops, 1);
	}
	return NULL;
}

/* One thread for each of the first n allowed CPUs, at the same time. Returns
 * how many there were. */
static unsigned int touch_by_threads(unsigned int n)
{
	pthread_t thread[CPU_SETSIZE];
	static cpu_set_t set[CPU_SETSIZE], all;
	unsigned int started = 0;

	sched_getaffinity(0, sizeof(all), &all);
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE && started < n; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_SET(cpu, &set[started]);
		if (pthread_create(&thread[started], NULL, touch_own,
				   &set[started]))
			break;
		started++;
	}
	for (unsigned int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	return started;
}

/* What a child of ours measures, and its line of the table. touched 0: by as
 * many threads as --threads says. */
static int measure(enum tc_regions way, const char *index, unsigned int touched,
		   unsigned int threads)
{
	const bool real = !touched;
	struct pcpool_percpu_stats p = { .stats_size = sizeof(p) };
	struct pcpool_cache *cache;
	size_t before, rss, least;

	actions = calloc(objects, sizeof(*actions));
	if (!actions)
		return 1;
	memset(actions, 1, objects * sizeof(*actions));
	before = resident();
	cache = tc_cache_create(way, NULL);
	if (!cache)
		return 1;
	for (size_t i = 0; i < objects; i++) {
		actions[i] = pcpool_alloc(cache);
		if (!actions[i]) {
			perror("footprint: pcpool_alloc");
			return 1;
		}
	}
	pcpool_percpu_get_stats(&p);
	if (real)
		touched = touch_by_threads(threads);
	for (unsigned int slot = 0; !real && slot < touched; slot++)
		touch_slot(slot);
	rss = resident() - before;
	least = objects * (sizeof(struct tc_action) + touched * region_bytes);
	printf("%6" PRIu64 " %-5s %8u %-9s %12zu %12zu %7.2f %9zu\n", p.slots,
	       index, touched, way == TC_CTOR ? "ctor" : "declared", rss, least,
	       (double)rss / (double)least, rss / objects);
	for (size_t i = 0; i < objects; i++)
		pcpool_free(cache, actions[i]);
	return pcpool_cache_destroy(cache) ? 1 : 0;
}

/* In a process of its own, which has the options from its start. */
static int run(const char *options, const char *index, const char *way,
	       unsigned int touched, unsigned int threads)
{
	char count[24], slots[24], nr[24];
	int status;
	pid_t pid;

	snprintf(count, sizeof(count), "%zu", objects);
	snprintf(slots, sizeof(slots), "%u", touched);
	snprintf(nr, sizeof(nr), "%u", threads);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setenv("PCPOOL_OPTIONS", options, 1);
		execl("/proc/self/exe", "footprint", "--one", way, index, slots,
		      nr, count, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) {
		fprintf(stderr, "footprint: %s, %s: failed\n", options, way);
		return 1;
	}
	return 0;
}

static int run_all(unsigned int threads)
{
	static const unsigned int slots[] = { 2, 64, 256 };
	static const char *const ways[] = { "ctor", "declared" };
	int failed = 0;

	printf("%zu objects of %zu bytes with 3 regions of %zu bytes together\n"
	       "%6s %-5s %8s %-9s %12s %12s %7s %9s\n",
	       objects, sizeof(struct tc_action), region_bytes, "slots",
	       "index", "touched", "regions", "RSS", "least", "ratio",
	       "RSS/obj");
	for (unsigned int w = 0; w < 2; w++) {
		failed |= run("index:cpu", "cpu", ways[w], 0, threads);
		failed |= run("index:cid", "cid", ways[w], 0, threads);
	}
	for (unsigned int s = 0; s < 3; s++)
		for (unsigned int w = 0; w < 2; w++) {
			unsigned int few =
				threads < slots[s] ? threads : slots[s];
			char options[32];

			snprintf(options, sizeof(options), "slots:%u",
				 slots[s]);
			failed |= run(options, "(cpu)", ways[w], slots[s],
				      threads);
			failed |= run(options, "(cid)", ways[w], few, threads);
		}
	printf("(cpu), (cid): virtual slots in lock mode, touched by hand as "
	       "that index would\n");
	return failed;
}

int main(int argc, char **argv)
{
	unsigned int threads = 4;

	if (argc == 7 && !strcmp(argv[1], "--one")) {
		objects = strtoul(argv[6], NULL, 10);
		return measure(strcmp(argv[2], "ctor") ? TC_DECLARED : TC_CTOR,
			       argv[3],
			       (unsigned int)strtoul(argv[4], NULL, 10),
			       (unsigned int)strtoul(argv[5], NULL, 10));
	}
	for (int i = 1; i < argc; i += 2) {
		unsigned long n =
			i + 1 < argc ? strtoul(argv[i + 1], NULL, 10) : 0;

		if (!strcmp(argv[i], "--objects") && n && n <= 10000000) {
			objects = n;
		} else if (!strcmp(argv[i], "--threads") && n && n <= 256) {
			threads = (unsigned int)n;
		} else {
			fprintf(stderr, "usage: footprint [--objects N] "
					"[--threads T]\n");
			return 2;
		}
	}
	return run_all(threads);
}

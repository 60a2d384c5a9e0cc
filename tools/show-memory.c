/* SPDX-License-Identifier: MIT */
/*
 * The figures of doc/memory.md, from the library that runs:
 *
 *   show-memory sizes     what a slab loses, by object size
 *   show-memory cache     what a cache costs (try PCPOOL_OPTIONS=slots:256)
 *   show-memory return    how memory goes back to the system
 *   show-memory regions   what per-CPU regions cost
 *
 * Exit status: 0, 1 when a promise does not hold or a call failed, 2 for bad
 * arguments.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pcpool/pcpool.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void die(const char *what, int err)
{
	fprintf(stderr, "show-memory: %s: %s\n", what, strerror(err));
	exit(1);
}

/* A constructor and destructor that do nothing: what is shown are the costs of
 * keeping objects built, not those of building them. */
static int ctor(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
	return 0;
}

static void dtor(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
}

static struct pcpool_cache *create(size_t size, bool built)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	if (built) {
		attr.ctor = ctor;
		attr.dtor = dtor;
	}
	cache = pcpool_cache_create("show-memory", size, &attr);
	if (!cache)
		die("pcpool_cache_create", errno);
	return cache;
}

static void destroy(struct pcpool_cache *cache)
{
	int err = pcpool_cache_destroy(cache);

	if (err)
		die("pcpool_cache_destroy", err);
}

static void get_stats(struct pcpool_cache *cache, struct pcpool_cache_stats *s)
{
	int err;

	memset(s, 0, sizeof(*s));
	s->stats_size = sizeof(*s);
	err = pcpool_cache_get_stats(cache, s);
	if (err)
		die("pcpool_cache_get_stats", err);
}

static double kib(uint64_t bytes)
{
	return (double)bytes / 1024;
}

/* Bytes of memory the process has now: the field of /proc/self/statm. */
static long long resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long long pages;

	if (!f)
		die("/proc/self/statm", errno);
	if (fscanf(f, "%*d %lld", &pages) != 1)
		die("/proc/self/statm", EIO);
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

/* Use all there is of a cache once, so that what the library and the libc touch
 * only the first time is not counted as the price of what follows. */
static void warm_up(void)
{
	struct pcpool_cache *cache = create(64, true);
	static void *objs[10000];

	if (pcpool_alloc_bulk(cache, COUNT(objs), objs))
		die("pcpool_alloc_bulk", ENOMEM);
	for (size_t i = 0; i < COUNT(objs); i++)
		pcpool_free(cache, objs[i]);
	/* Idle memory would serve what comes next. */
	if (pcpool_cache_shrink(cache))
		die("pcpool_cache_shrink", ENOMEM);
	destroy(cache);
	(void)resident();
}

/* --- sizes -----------------------------------------------------------------
 */

/* Bytes of a slab in which no object lies, in percent of the slab: header,
 * tables, rounding of each object, and the end. */
static double lost(const struct pcpool_cache_stats *s)
{
	return 100 * (1 - (double)(s->objects_per_slab * s->object_size) /
				  (double)s->slab_size);
}

static void shape(size_t size, struct pcpool_cache_stats *s)
{
	struct pcpool_cache *cache = create(size, true);

	get_stats(cache, s);
	destroy(cache);
}

static int show_sizes(void)
{
	static const size_t sizes[] = {
		1,    8,    16,	  24,	 32,	48,    64,     96,
		100,  128,  192,  256,	 320,	384,   512,    640,
		768,  1024, 1280, 1536,	 2048,	2560,  3072,   4000,
		4096, 5000, 8192, 16384, 40000, 65536, 262144, 1048576,
	};
	const size_t from = 32, to = 4096;
	struct pcpool_cache_stats s;
	double worst = 0;
	size_t worst_size = 0;

	printf("| object, bytes | slab, KiB | objects | lost, %% | in a sheaf, "
	       "at first | two sheaves, KiB | at most | two, KiB |\n"
	       "|---:|---:|---:|---:|---:|---:|---:|---:|\n");
	for (size_t i = 0; i < COUNT(sizes); i++) {
		shape(sizes[i], &s);
		printf("| %zu | %.0f | %llu | %.1f | %llu | %.1f | %llu | %.1f |\n",
		       sizes[i], kib(s.slab_size),
		       (unsigned long long)s.objects_per_slab, lost(&s),
		       (unsigned long long)s.sheaf_capacity,
		       kib(2 * s.sheaf_capacity * sizes[i]),
		       (unsigned long long)s.sheaf_capacity_max,
		       kib(2 * s.sheaf_capacity_max * sizes[i]));
	}
	for (size_t size = from; size <= to; size++) {
		shape(size, &s);
		if (lost(&s) > worst) {
			worst = lost(&s);
			worst_size = size;
		}
	}
	printf("\nOf all sizes from %zu to %zu, %zu bytes lose most: %.1f "
	       "%%.\n",
	       from, to, worst_size, worst);
	return worst <= 12.5 ? 0 : 1;
}

/* --- cache -----------------------------------------------------------------
 */

enum { MANY = 1000 };

static int show_cache(void)
{
	static struct pcpool_cache *caches[MANY];
	struct pcpool_cache *one = create(256, true);
	unsigned long long slots = pcpool_nr_slots(), unused;
	struct pcpool_cache_stats s;
	long long before;
	void *obj;

	get_stats(one, &s);
	unused = s.metadata_bytes;
	warm_up();
	printf("%s mode, %llu slots, %u nodes\n", pcpool_mode(), slots,
	       pcpool_nr_nodes());
	printf("a cache nobody used: %llu bytes, %.1f for each slot, "
	       "%llu sheaves\n",
	       unused, (double)unused / (double)slots,
	       (unsigned long long)s.sheaves);
	if (s.sheaves)
		return 1;

	before = resident();
	for (int i = 0; i < MANY; i++)
		caches[i] = create(256, true);
	printf("memory of %d such caches: %.1f KiB each\n", MANY,
	       kib((uint64_t)(resident() - before)) / MANY);
	for (int i = 0; i < MANY; i++)
		destroy(caches[i]);

	obj = pcpool_alloc(one);
	if (!obj)
		die("pcpool_alloc", errno);
	pcpool_free(one, obj);
	get_stats(one, &s);
	printf("after one allocation and free: %llu bytes more, %llu sheaves, "
	       "%llu slab of %.0f KiB\n",
	       (unsigned long long)s.metadata_bytes - unused,
	       (unsigned long long)s.sheaves, (unsigned long long)s.slabs,
	       kib(s.slab_size));
	destroy(one);
	return 0;
}

/* --- return ----------------------------------------------------------------
 */

enum { OBJECTS = 100000, SIZE = 512 };

static void row(const char *what, struct pcpool_cache *cache, long long before)
{
	struct pcpool_memory_stats m = { .stats_size = sizeof(m) };
	struct pcpool_cache_stats s = { 0 };

	pcpool_memory_get_stats(&m);
	if (cache)
		get_stats(cache, &s);
	printf("| %s | %llu | %llu | %llu | %llu | %llu | %.1f | %.1f |\n",
	       what, (unsigned long long)s.live, (unsigned long long)s.cached,
	       (unsigned long long)s.slabs, (unsigned long long)s.partial,
	       (unsigned long long)s.waiting, (double)m.idle_bytes / (1 << 20),
	       (double)(resident() - before) / (1 << 20));
}

static void maintain(const char *what, struct pcpool_cache *cache,
		     long long before)
{
	int err = pcpool_maintain(0);

	if (err)
		die("pcpool_maintain", err);
	row(what, cache, before);
}

static bool run_return(void **objs, bool built)
{
	struct pcpool_cache_stats s;
	struct pcpool_cache *cache;
	long long before = resident();
	int err;

	cache = create(SIZE, built);
	printf("\nWith%s constructor and destructor:\n\n"
	       "| step | live | cached | slabs | partial | waiting | "
	       "idle, MiB | memory, MiB |\n"
	       "|---|---:|---:|---:|---:|---:|---:|---:|\n",
	       built ? "" : "out");
	row("created", cache, before);
	err = pcpool_alloc_bulk(cache, OBJECTS, objs);
	if (err)
		die("pcpool_alloc_bulk", err);
	for (int i = 0; i < OBJECTS; i++)
		memset(objs[i], 1, SIZE);
	row("all allocated and written to", cache, before);
	for (int i = 0; i < OBJECTS; i++)
		pcpool_free(cache, objs[i]);
	row("all freed", cache, before);
	maintain("maintained", cache, before);
	maintain("and again", cache, before);
	/* Released slabs stay idle for a second. */
	usleep(1200000);
	maintain("and again, a second later", cache, before);
	err = pcpool_cache_shrink(cache);
	if (err)
		die("pcpool_cache_shrink", err);
	row("shrunk", cache, before);
	get_stats(cache, &s);
	destroy(cache);
	row("destroyed", NULL, before);
	return !s.slabs && !s.sheaves;
}

static int show_return(void)
{
	static void *objs[OBJECTS];
	bool good;

	/* Touched before the first figure. */
	memset(objs, 1, sizeof(objs));
	warm_up();
	printf("%d objects of %d bytes, %.1f MiB in all; %s mode\n", OBJECTS,
	       SIZE, (double)OBJECTS * SIZE / (1 << 20), pcpool_mode());
	good = run_return(objs, true);
	good = run_return(objs, false) && good;
	return good ? 0 : 1;
}

/* --- regions ---------------------------------------------------------------
 */

enum { REGIONS = 10000, REGION_SIZE = 64 };

static void region_row(const char *what, long long before)
{
	struct pcpool_percpu_stats s = { .stats_size = sizeof(s) };

	pcpool_percpu_get_stats(&s);
	printf("| %s | %llu | %llu | %.1f | %.1f | %.1f |\n", what,
	       (unsigned long long)s.regions, (unsigned long long)s.chunks,
	       kib(s.chunks * s.unit_size * s.slots),
	       kib(s.region_bytes * s.slots),
	       kib((uint64_t)(resident() - before)));
}

static int show_regions(void)
{
	static void *regions[REGIONS];
	long long before;
	int err;

	memset(regions, 1, sizeof(regions));
	printf("%d regions of %d bytes, %u slots, %s mode\n\n"
	       "| step | regions | chunks | address space, KiB | "
	       "bytes asked for x slots, KiB | memory, KiB |\n"
	       "|---|---:|---:|---:|---:|---:|\n",
	       REGIONS, REGION_SIZE, pcpool_nr_slots(), pcpool_mode());
	before = resident();
	err = pcpool_percpu_alloc_bulk(REGIONS, REGION_SIZE, 0, regions);
	if (err)
		die("pcpool_percpu_alloc_bulk", err);
	region_row("allocated", before);
	for (int i = 0; i < REGIONS; i++)
		memset(pcpool_percpu_ptr(regions[i], 0), 1, REGION_SIZE);
	region_row("slot 0 written to", before);
	for (int i = 0; i < REGIONS; i++)
		for (unsigned int slot = 1; slot < pcpool_nr_slots(); slot++)
			memset(pcpool_percpu_ptr(regions[i], slot), 1,
			       REGION_SIZE);
	region_row("all slots written to", before);
	pcpool_percpu_free_bulk(REGIONS, regions);
	region_row("all freed", before);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*show)(void);
	} jobs[] = {
		{ "sizes", show_sizes },
		{ "cache", show_cache },
		{ "return", show_return },
		{ "regions", show_regions },
	};

	for (size_t i = 0; argc == 2 && i < COUNT(jobs); i++)
		if (!strcmp(jobs[i].name, argv[1]))
			return jobs[i].show();
	fprintf(stderr,
		"usage: show-memory sizes | cache | return | regions\n");
	return 2;
}

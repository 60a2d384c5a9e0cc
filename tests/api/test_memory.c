/* SPDX-License-Identifier: MIT */
/*
 * What a cache costs for CPUs that never use it: measured with few and with
 * many synthetic slots, by the library's own figure, by the heap's and by the
 * kernel's. The difference is what the slots cost.
 */
#include <config.h>

#include <malloc.h>
#include <sys/wait.h>

#include "../caches.h"

enum { CACHES = 64, FEW = 64, MANY = 256, PER_SLOT = 128 };

static unsigned long long smaps(const char *field)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long long kib = 0, n;
	char line[256];

	expect(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, field, strlen(field)) &&
		    sscanf(line + strlen(field), "%llu", &n) == 1)
			kib += n;
	fclose(file);
	return kib * 1024;
}

struct cost {
	unsigned long long metadata; /* of one cache */
	unsigned long long heap;     /* of all */
	unsigned long long dirty;    /* of all */
};

static void measure(bool use, struct cost *cost)
{
	struct pcpool_cache *caches[CACHES];
	struct mallinfo2 before, after;
	unsigned long long dirty;
	void *obj;

	pin_to(0);
	/* What the first cache of all costs is not what a cache costs. */
	caches[0] = pcpool_cache_create("first", 64, NULL);
	pcpool_free(caches[0], must_alloc(caches[0]));
	must_destroy(caches[0]);
	dirty = smaps("Private_Dirty:");
	before = mallinfo2();
	for (int i = 0; i < CACHES; i++) {
		caches[i] = pcpool_cache_create("memory", 64, NULL);
		expect(caches[i]);
		expect_eq(stats_of(caches[i]).sheaves, 0);
		if (use) {
			obj = must_alloc(caches[i]);
			pcpool_free(caches[i], obj);
		}
	}
	after = mallinfo2();
	cost->heap =
		after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
	cost->dirty = smaps("Private_Dirty:") - dirty;
	cost->metadata = stats_of(caches[0]).metadata_bytes;
	/* Only the CPU that allocated has sheaves. */
	expect_cmp(stats_of(caches[0]).sheaves, <=, use ? 3 : 0);
	for (int i = 0; i < CACHES; i++)
		must_destroy(caches[i]);
}

static int report(const char *slots, bool use)
{
	struct cost cost;

	expect_eq(pcpool_nr_slots() & ~1U, strtoul(slots, NULL, 10));
	measure(use, &cost);
	fprintf(stderr, "cost %llu %llu %llu\n", cost.metadata, cost.heap,
		cost.dirty);
	return 0;
}

static struct cost run_with(int slots, const char *how)
{
	static struct child child;
	char options[32], number[16];
	const char *args[] = { number, how, NULL };
	struct cost cost;
	const char *line;

	snprintf(options, sizeof(options), "slots:%d", slots);
	snprintf(number, sizeof(number), "%d", slots);
	run_self(args, options, 60, &child);
	expect_child_exit(&child, 0);
	line = strstr(child.err, "cost ");
	expect(line);
	expect_eq(sscanf(line, "cost %llu %llu %llu", &cost.metadata,
			 &cost.heap, &cost.dirty),
		  3);
	return cost;
}

static void compare(const char *how)
{
	struct cost few = run_with(FEW, how), many = run_with(MANY, how);
	const long long more = MANY - FEW;

	printf("%s, %d slots: %llu bytes of metadata, %llu of heap, %llu "
	       "dirty per cache\n",
	       how, MANY, many.metadata, many.heap / CACHES,
	       many.dirty / CACHES);
	expect_cmp(many.metadata - few.metadata, <=, more * PER_SLOT);
	expect_cmp((long long)(many.heap - few.heap), <=,
		   more * PER_SLOT * CACHES);
	/* The kernel counts whole pages: leave one for each cache. */
	expect_cmp((long long)(many.dirty - few.dirty), <=,
		   (more * PER_SLOT + 4096) * CACHES);
	/* And all of it, at 256 slots, with 8 KiB for the cache itself. */
	expect_cmp(many.metadata, <=, MANY * PER_SLOT + 8192);
}

int main(int argc, char **argv)
{
	if (argc > 2)
		return report(argv[1], !strcmp(argv[2], "used"));
	if (TEST_ASAN || TEST_TSAN)
		skip_test("a sanitizer's memory hides what is measured");
	compare("unused");
	compare("used");
	return 0;
}

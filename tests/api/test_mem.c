/* SPDX-License-Identifier: MIT */
/*
 * The system refuses: no map entries left, no address space left. Nothing
 * aborts, nothing is handed out twice, and all recovers afterwards.
 */
#include <config.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../caches.h"
#include "../suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- no map entries left -------------------------------------------------- */

struct filler {
	char *at;
	size_t size;
};

/* Alternating protections until the kernel has no entry left. */
static struct filler fill_maps(void)
{
	struct filler filler = { .size = (size_t)1 << 33 };
	const size_t page = 4096;

	filler.at = mmap(NULL, filler.size, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	expect(filler.at != MAP_FAILED);
	for (size_t at = page; at < filler.size - page; at += 2 * page)
		if (mprotect(filler.at + at, page, PROT_READ))
			return filler;
	fputs("note: the map limit was not reached\n", stderr);
	return filler;
}

static void free_maps(const struct filler *filler)
{
	expect(!munmap(filler->at, filler->size));
}

enum { OBJECTS = 3000 };

struct mem {
	struct sheet sheet;
	struct pcpool_cache *cache;
	uintptr_t slab_size;
	void *objs[OBJECTS];
};

static void mem_fill(struct mem *mem, size_t size)
{
	mem->sheet = (struct sheet){ .clear = 8 };
	mem->cache = sheet_cache("mem", size, &mem->sheet);
	mem->slab_size = stats_of(mem->cache).slab_size;
	for (int i = 0; i < OBJECTS; i++) {
		mem->objs[i] = must_alloc(mem->cache);
		owner_take(mem->objs[i], 1);
	}
}

enum which { EVERY_SECOND_SLAB, EVERY_SECOND, ALL };

static void mem_drop(struct mem *mem, enum which which)
{
	for (int i = 0; i < OBJECTS; i++) {
		if (!mem->objs[i] || (which == EVERY_SECOND && i % 2) ||
		    (which == EVERY_SECOND_SLAB &&
		     (uintptr_t)mem->objs[i] / mem->slab_size % 2))
			continue;
		owner_leave(mem->objs[i], 1);
		pcpool_free(mem->cache, mem->objs[i]);
		mem->objs[i] = NULL;
	}
}

static void no_maps(void *arg)
{
	static struct mem a, b;
	struct filler filler;
	size_t size = *(size_t *)arg;
	int got = 0;

	mem_fill(&a, size);
	mem_fill(&b, size);
	filler = fill_maps();
	mem_drop(&a, EVERY_SECOND_SLAB);
	mem_drop(&b, EVERY_SECOND);
	expect_eq(pcpool_cache_shrink(a.cache), 0);
	expect_eq(pcpool_cache_shrink(b.cache), 0);
	/* One goes for good, in the middle of all this. */
	mem_drop(&b, ALL);
	expect_eq(pcpool_cache_shrink(b.cache), 0);
	destroy_balanced(b.cache, &b.sheet);
	/* What can be had is had; what cannot is refused with ENOMEM. */
	for (int i = 0; i < OBJECTS; i++) {
		if (a.objs[i])
			continue;
		errno = 0;
		a.objs[i] = pcpool_alloc(a.cache);
		if (!a.objs[i]) {
			expect_errno(ENOMEM);
			break;
		}
		owner_take(a.objs[i], 1);
		got++;
	}
	fprintf(stderr, "note: %d again without map entries\n", got);
	free_maps(&filler);
	/* All is well again. */
	for (int i = 0; i < OBJECTS; i++) {
		if (a.objs[i])
			continue;
		a.objs[i] = must_alloc(a.cache);
		owner_take(a.objs[i], 1);
	}
	mem_drop(&a, ALL);
	expect_eq(pcpool_cache_shrink(a.cache), 0);
	expect_eq(stats_of(a.cache).slabs, 0);
	destroy_balanced(a.cache, &a.sheet);
}

START_TEST(case_MEM_01_no_map_entries)
{
	static struct child child;
	static const size_t sizes[] = { 64, 4096, 70000 };

	if (TEST_ASAN || TEST_TSAN)
		return; /* their own shadow needs map entries too */
	for (size_t i = 0; i < COUNT(sizes); i++) {
		run_child(no_maps, (void *)(uintptr_t)&sizes[i], 60, &child);
		if (child.status)
			fprintf(stderr, "size %zu:\n", sizes[i]);
		expect_child_exit(&child, 0);
	}
}
END_TEST

/* --- what is said to be given back is given back -------------------------- */

static size_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long total, pages;

	expect(file);
	expect_eq(fscanf(file, "%lu %lu", &total, &pages), 2);
	fclose(file);
	return pages * 4096UL;
}

static void given_back(void *arg)
{
	struct pcpool_cache *cache = pcpool_cache_create("rss", 4000, NULL);
	static void *objs[20000];
	size_t before, full, after;

	(void)arg;
	memset(objs, 1, sizeof(objs));
	pcpool_free(cache, must_alloc(cache));
	before = resident();
	expect_eq(pcpool_alloc_bulk(cache, 20000, objs), 0);
	for (int i = 0; i < 20000; i++)
		memset(objs[i], 1, 4000);
	full = resident();
	expect(full > before + 70000000);
	expect_eq(pcpool_free_bulk(cache, 20000, objs), 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	after = resident();
	expect_cmp(after, <, before + 8000000);
	must_destroy(cache);
}

START_TEST(test_memory_is_given_back)
{
	static struct child child;

	if (TEST_ASAN || TEST_TSAN)
		return; /* the shadow of what was touched stays */
	run_child(given_back, NULL, 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* --- no address space left ------------------------------------------------ */

static size_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages;

	expect(file);
	expect_eq(fscanf(file, "%lu", &pages), 1);
	fclose(file);
	return pages * 4096UL;
}

static void limit_space(size_t more)
{
	struct rlimit limit;

	expect(!getrlimit(RLIMIT_AS, &limit));
	limit.rlim_cur =
		more == SIZE_MAX ? limit.rlim_max : address_space() + more;
	expect(!setrlimit(RLIMIT_AS, &limit));
}

struct node {
	struct node *next;
};

static void no_space(void *arg)
{
	size_t size = *(size_t *)arg;
	struct sheet sheet = { .clear = 8 };
	struct pcpool_cache *cache = sheet_cache("space", size, &sheet);
	struct pcpool_cache_stats stats;
	struct node *all = NULL;
	unsigned long long n = 0;
	static void *objs[20000];

	limit_space((size_t)64 << 20);
	for (;; n++) {
		struct node *node;

		errno = 0;
		node = pcpool_alloc(cache);
		if (!node)
			break;
		expect(!node->next);
		node->next = all ? all : node;
		all = node;
		expect(n * size < (size_t)8 << 30);
	}
	expect_errno(ENOMEM);
	/* And again, singly and by bulk; nothing is lost by it. */
	for (int i = 0; i < 50; i++) {
		expect_refused(pcpool_alloc(cache), ENOMEM);
		expect_eq(pcpool_alloc_bulk(cache, 20000, objs), ENOMEM);
		expect(!objs[0] && !objs[19999]);
	}
	stats = stats_of(cache);
	expect_eq(stats.live, n);
	expect(stats.mem_fail > 0);
	expect_eq(stats.ctor_fail, 0);
	expect_eq(stats.built, n);
	/* An object that comes back is had again at once. */
	for (int i = 0; i < 100 && all && all->next != all; i++) {
		struct node *node = all;

		all = node->next;
		node->next = NULL;
		pcpool_free(cache, node);
		node = must_alloc(cache);
		node->next = all;
		all = node;
	}
	limit_space(SIZE_MAX);
	pcpool_free(cache, must_alloc(cache));
	while (all) {
		struct node *next = all->next == all ? NULL : all->next;

		all->next = NULL;
		pcpool_free(cache, all);
		all = next;
	}
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).slabs, 0);
	destroy_balanced(cache, &sheet);
}

START_TEST(test_no_address_space)
{
	static struct child child;
	static const size_t sizes[] = { 32, 4096, 100000, PCPOOL_SIZE_MAX };

	if (TEST_ASAN || TEST_TSAN || TEST_EMULATED)
		return;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		run_child(no_space, (void *)(uintptr_t)&sizes[i], 60, &child);
		if (child.status)
			fprintf(stderr, "size %zu:\n", sizes[i]);
		expect_child_exit(&child, 0);
	}
}
END_TEST

/* Creations that fail half way leave no mapping and no descriptor behind. */
static unsigned int lines_of(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned int lines = 0;
	int c;

	expect(file);
	while ((c = fgetc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

static void failing_creations(void *arg)
{
	unsigned int before = 0, made = 0, refused = 0;

	(void)arg;
	for (int round = 0; round < 1000; round++) {
		struct pcpool_cache *cache;
		void *region;

		limit_space((size_t)(round % 40) << 16);
		cache = pcpool_cache_create("tight", 100, NULL);
		if (!cache)
			expect_errno(ENOMEM);
		region = pcpool_percpu_alloc(5000, 8);
		if (!region)
			expect_errno(ENOMEM);
		made += cache != NULL;
		refused += cache == NULL;
		if (cache) {
			pcpool_free(cache, pcpool_alloc(cache));
			must_destroy(cache);
		}
		pcpool_percpu_free(region);
		limit_space(SIZE_MAX);
		if (round == 100)
			before = lines_of("/proc/self/maps");
	}
	fprintf(stderr, "note: %u made, %u refused\n", made, refused);
	expect_cmp(lines_of("/proc/self/maps"), <=, before + 5);
	expect_eq(percpu_stats_of().regions, 0);
}

START_TEST(case_PCP_02_failing_creations)
{
	static struct child child;

	if (TEST_ASAN || TEST_TSAN)
		return;
	run_child(failing_creations, NULL, 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("mem", 250);

	tcase_add_test(tc, case_MEM_01_no_map_entries);
	tcase_add_test(tc, test_memory_is_given_back);
	tcase_add_test(tc, test_no_address_space);
	tcase_add_test(tc, case_PCP_02_failing_creations);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* What tests of caches share: making one with a balance sheet, reading its
 * statistics, reading the printed text. */
#ifndef PCP_TESTS_CACHES_H
#define PCP_TESTS_CACHES_H

#include <unistd.h>

#include <pcpool/pcpool.h>

#include "common.h"

/* A cache whose ctor and dtor keep the sheet. */
static inline struct pcpool_cache *sheet_cache_of(const char *name, size_t size,
						  struct sheet *sheet,
						  unsigned int flags,
						  unsigned int capacity)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = sheet;
	attr.flags = flags;
	attr.sheaf_capacity = capacity;
	cache = pcpool_cache_create(name, size, &attr);
	if (!cache)
		fail_now("cache of %zu bytes: %s", size, strerror(errno));
	return cache;
}

static inline struct pcpool_cache *sheet_cache(const char *name, size_t size,
					       struct sheet *sheet)
{
	return sheet_cache_of(name, size, sheet, 0, 0);
}

static inline struct pcpool_cache_stats stats_of(struct pcpool_cache *cache)
{
	struct pcpool_cache_stats stats = { .stats_size = sizeof(stats) };

	expect_eq(pcpool_cache_get_stats(cache, &stats), 0);
	return stats;
}

static inline struct pcpool_percpu_stats percpu_stats_of(void)
{
	struct pcpool_percpu_stats stats = { .stats_size = sizeof(stats) };

	expect_eq(pcpool_percpu_get_stats(&stats), 0);
	return stats;
}

static inline void *must_alloc(struct pcpool_cache *cache)
{
	void *obj = pcpool_alloc(cache);

	if (!obj)
		fail_now("alloc from %s: %s", pcpool_cache_name(cache),
			 strerror(errno));
	return obj;
}

static inline void must_destroy(struct pcpool_cache *cache)
{
	expect_eq(pcpool_cache_destroy(cache), 0);
}

/* Destroys, and fails unless the sheet is even then. */
static inline void destroy_balanced(struct pcpool_cache *cache,
				    struct sheet *sheet)
{
	must_destroy(cache);
	sheet_balanced(sheet);
}

static inline bool rseq_mode(void)
{
	return !strcmp(pcpool_mode(), "rseq");
}

/* What pcpool_print() prints; to be freed. */
static inline char *printed(void)
{
	FILE *file = tmpfile();
	char *text;
	long size;

	expect(file);
	expect_eq(pcpool_print(fileno(file)), 0);
	size = (long)lseek(fileno(file), 0, SEEK_END);
	expect(size > 0);
	text = calloc(1, (size_t)size + 1);
	expect(text);
	expect_eq(pread(fileno(file), text, (size_t)size, 0), size);
	fclose(file);
	return text;
}

/* How often a text stands in another. */
static inline unsigned int occurrences(const char *text, const char *what)
{
	unsigned int n = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		n++;
	}
	return n;
}

#endif /* PCP_TESTS_CACHES_H */

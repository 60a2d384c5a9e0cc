/* SPDX-License-Identifier: MIT */
/* What the tests of maintenance share: caches with something to give back. */
#ifndef TESTS_API_MAINTAIN_FIXTURE_H
#define TESTS_API_MAINTAIN_FIXTURE_H

#include "../caches.h"
#include "../suite.h"

enum { MANY = 5000, SIZE = 2000, FILL = 16 };

static inline struct pcpool_cache *plain_cache(void)
{
	struct pcpool_cache *cache = pcpool_cache_create("plain", SIZE, NULL);

	expect(cache);
	return cache;
}

static inline void burst(struct pcpool_cache *cache, unsigned int n)
{
	void **objs = calloc(n, sizeof(*objs));

	expect(objs);
	for (unsigned int i = 0; i < n; i++)
		objs[i] = must_alloc(cache);
	for (unsigned int i = 0; i < n; i++)
		pcpool_free(cache, objs[i]);
	free(objs);
}

static inline void maintain_all(int times)
{
	while (times--)
		expect_eq(pcpool_maintain(0), 0);
}

static inline void nothing_left(struct pcpool_cache *cache)
{
	struct pcpool_cache_stats stats = stats_of(cache);

	expect_eq(stats.slabs, 0);
	expect_eq(stats.cached, 0);
	expect_eq(stats.waiting, 0);
	expect_eq(stats.built, 0);
	expect_eq(stats.rcu_backlog, 0);
}

#endif /* TESTS_API_MAINTAIN_FIXTURE_H */

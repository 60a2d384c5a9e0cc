/* SPDX-License-Identifier: MIT */
/*
 * Ways to take and give back: inline as a plug-in has it, inline in code that
 * stays, by calls since the layout is not known. Each is a file that defines
 * FAST_WAY as its name, and includes this.
 */
#ifndef PCP_TESTS_API_FAST_WAY_H
#define PCP_TESTS_API_FAST_WAY_H

#include <pcpool/fast.h>
#include <pcpool/pcpool.h>

struct fast_way {
	void *(*alloc)(struct pcpool_cache *cache);
	void (*free)(struct pcpool_cache *cache, void *obj);
	void (*add)(struct pcpool_counter *c, int64_t amount);
};

extern const struct fast_way fast_way_inline, fast_way_resident, fast_way_other;

#ifdef FAST_WAY
static void *way_alloc(struct pcpool_cache *cache)
{
	return pcpool_fast_alloc(cache);
}

static void way_free(struct pcpool_cache *cache, void *obj)
{
	pcpool_fast_free(cache, obj);
}

static void way_add(struct pcpool_counter *c, int64_t amount)
{
	pcpool_fast_counter_add(c, amount);
}

const struct fast_way FAST_WAY = { way_alloc, way_free, way_add };
#endif

#endif /* PCP_TESTS_API_FAST_WAY_H */

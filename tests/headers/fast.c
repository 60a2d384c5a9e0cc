/* SPDX-License-Identifier: MIT */
/*
 * pcpool/fast.h as others compile it, in C and C++, one of two translation units
 * that are linked together: UNIT names the function. Whatever the compiler makes
 * of it has to hand out objects and to take them back. With LAST it has main.
 */
#include <pcpool/fast.h>
#include <pcpool/pcpool.h>

#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
int unit_one(struct pcpool_cache *cache);
int unit_two(struct pcpool_cache *cache);
#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
/* Both units have these, and the linker keeps one: with it must go what the other
 * has in sections of its own. */
template <typename T> struct pool {
	struct pcpool_cache *cache;

	T *take()
	{
		return static_cast<T *>(pcpool_fast_alloc(cache));
	}

	void give(T *obj)
	{
		pcpool_fast_free(cache, obj);
	}
};

/* Not inlined itself, so that it is there twice. */
__attribute__((noinline)) inline int pair_in_group(struct pcpool_cache *cache)
{
	pool<int> of_ints = { cache };
	int *obj = of_ints.take();

	if (obj == NULL)
		return 0;
	*obj = 1;
	of_ints.give(obj);
	return 1;
}
#else
static int pair_in_group(struct pcpool_cache *cache)
{
	void *obj = pcpool_fast_alloc(cache);

	pcpool_fast_free(cache, obj);
	return obj != NULL;
}
#endif

int UNIT(struct pcpool_cache *cache)
{
	struct pcpool_counter count;
	void *objs[300];
	int i;

	/* Inlined more than once, and in a loop that may be unrolled. */
	for (i = 0; i < 300; i++) {
		objs[i] = pcpool_fast_alloc(cache);
		if (objs[i] == NULL)
			return 0;
	}
	for (i = 1; i < 300; i++)
		if (objs[i] == objs[0])
			return 0;
	pcpool_fast_free(cache, NULL);
	if (pcpool_counter_init(&count, 0))
		return 0;
	for (i = 0; i < 3000; i++)
		pcpool_fast_counter_add(&count, i);
	if (pcpool_counter_sum(&count) != 4498500)
		return 0;
	pcpool_counter_destroy(&count);
	for (i = 0; i < 300; i++)
		pcpool_fast_free(cache, objs[i]);
	for (i = 0; i < 1000; i++)
		if (!pair_in_group(cache))
			return 0;
	return 1;
}

#ifdef LAST
int main(void)
{
	struct pcpool_cache *cache = pcpool_cache_create("unit", 64, NULL);
	struct pcpool_cache_stats stats;

	if (cache == NULL || !unit_one(cache) || !unit_two(cache))
		return 1;
	memset(&stats, 0, sizeof(stats));
	stats.stats_size = sizeof(stats);
	if (pcpool_cache_get_stats(cache, &stats) != 0)
		return 1;
	printf("%s mode\n", pcpool_mode());
	if (stats.live != 0 ||
	    stats.alloc_fastpath + stats.alloc_slowpath != 2600)
		return 1;
	return pcpool_cache_destroy(cache) != 0;
}
#endif

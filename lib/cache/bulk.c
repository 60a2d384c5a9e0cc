/* SPDX-License-Identifier: MIT */
/* Many objects in one call: all or none out, all back. */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "cache/cache.h"
#include "slot/ops.h"

static bool bad_array(size_t n, void *const *objs)
{
	return n && !objs;
}

static bool overflows(size_t n)
{
	return n > SIZE_MAX / sizeof(void *);
}

/* n built objects that still have to be handed out. Returns how many there
 * were; with fewer, *err says why. */
static size_t take_many(struct pcpool_cache *cache, size_t n, void **objs,
			const void *caller, int *err)
{
	struct pcp_stat *stat = &cache->stock.kind.stat;
	size_t done = 0;

	while (done < n) {
		size_t held;

		done += pcp_slot_pop_many(&cache->stock, n - done,
					  objs + done);
		if (done == n)
			break;
		/* One by the slow path, which leaves the main stocked. It may
		 * be long in a constructor, and if another thread forks there,
		 * what is in hand here is lost, not handed out. */
		held = done;
		pcp_stat_add(stat, PCP_STAT_BULK_HELD, held);
		objs[done] = pcp_cache_take_slow(cache, false, caller);
		pcp_stat_add(stat, PCP_STAT_BULK_HELD, -(uint64_t)held);
		if (!objs[done]) {
			*err = errno;
			break;
		}
		done++;
	}
	return done;
}

PCP_API int pcpool_alloc_bulk(struct pcpool_cache *cache, size_t n,
			      void **objs)
{
	int saved = errno, err = 0;
	size_t done;

	if (!cache || bad_array(n, objs))
		return EINVAL;
	if (overflows(n))
		return ENOMEM;
	done = take_many(cache, n, objs, __builtin_return_address(0), &err);
	if (err) {
		pcpool_free_bulk(cache, done, objs);
		memset(objs, 0, n * sizeof(*objs));
	} else if (cache->stock.kind.reset) {
		/* Only now is it certain that they are handed out. */
		for (size_t i = 0; i < n; i++)
			pcp_cache_reset(cache, objs[i]);
	}
	errno = saved;
	return err;
}

PCP_API int pcpool_free_bulk(struct pcpool_cache *cache, size_t n,
			     void **objs)
{
	const void *caller = __builtin_return_address(0);
	size_t done = 0;

	if (!cache || bad_array(n, objs) || overflows(n))
		return EINVAL;
	for (size_t i = 0; cache->accounted && i < n; i++)
		if (objs[i])
			pcp_cache_uncharge(cache, objs[i], caller);
	while (done < n) {
		size_t run = 0;

		while (done + run < n && objs[done + run])
			run++;
		if (!run) {
			done++;
			continue;
		}
		run = pcp_slot_push_many(&cache->stock, run, objs + done);
		done += run;
		/* One by the slow path, which leaves the main with room. */
		if (!run)
			pcp_cache_free_slow(cache, objs[done++], false, caller);
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* pcpool_maintain(): all caches, then the regions, a few steps at a time. */
#include <config.h>

#include <errno.h>

#include <pcpool/maintain.h>

#include "cache/cache.h"
#include "percpu/region.h"
#include "slab/arena.h"
#include "slot/tend.h"

PCP_API int pcpool_maintain(unsigned int steps)
{
	struct pcp_budget budget = { .bounded = steps != 0, .left = steps };
	struct pcpool_cache *cache;
	int saved = errno, err = 0;
	bool anew, all;

	if (!pcp_registry_tend_begin())
		return EBUSY;
	/* With the budget used up a cache may still be found to have nothing to
	 * give back. */
	while ((cache = pcp_registry_tend_next(&anew))) {
		bool done = pcp_stock_tend(&cache->stock, anew, &budget, &err);

		pcp_registry_tend_done(done);
		if (!done)
			break;
	}
	/* Regions come last: destructors may have freed some. */
	all = !cache && pcp_region_tend(&budget);
	if (all)
		pcp_block_expire();
	pcp_registry_tend_end(all);
	pcp_grace_kick();
	errno = saved;
	return all ? err : EAGAIN;
}

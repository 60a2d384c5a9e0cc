/* SPDX-License-Identifier: MIT */
/* pcpool_maintain(): all caches, a few steps at a time. */
#include <config.h>

#include <errno.h>

#include <pcpool/maintain.h>

#include "cache/cache.h"
#include "slab/arena.h"
#include "slot/tend.h"

PCP_API int pcpool_maintain(unsigned int steps)
{
	struct pcp_budget budget = { .bounded = steps != 0, .left = steps };
	struct pcpool_cache *cache;
	int saved = errno, err = 0;
	bool anew;

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
	if (!cache)
		pcp_block_expire();
	pcp_registry_tend_end(!cache);
	pcp_grace_kick();
	errno = saved;
	return cache ? EAGAIN : err;
}

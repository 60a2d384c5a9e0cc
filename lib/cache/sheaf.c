/* SPDX-License-Identifier: MIT */
/* The calls on prefilled sheaves. */
#include <config.h>

#include <errno.h>

#include <pcpool/sheaf.h>

#include "base/report.h"
#include "cache/cache.h"
#include "slab/check.h"

static struct pcp_sheaf *inner(struct pcpool_sheaf *sheaf)
{
	return (struct pcp_sheaf *)(void *)sheaf;
}

static struct pcpool_sheaf *outer(struct pcp_sheaf *sheaf)
{
	return (struct pcpool_sheaf *)(void *)sheaf;
}

/* A sheaf that is nobody's, or another cache's, would be in two places at once. As
 * long as its memory is a sheaf's that is found out. */
static inline void check(struct pcpool_cache *cache, struct pcp_sheaf *sheaf,
			 const void *caller)
{
	const struct pcp_sheaf_tail *tail = pcp_sheaf_tail(sheaf);

	if (pcp_likely(pcp_load(&tail->held) &&
		       tail->set == &cache->stock.sheaves))
		return;
	pcp_die(cache->name, sheaf, caller, "%s",
		pcp_load(&tail->held) ? "a sheaf of another cache"
				      : "a sheaf that is not out (returned "
					"twice, or used after it?)");
}

PCP_API struct pcpool_sheaf *pcpool_sheaf_prefill(struct pcpool_cache *cache,
						  unsigned int n)
{
	struct pcp_sheaf *sheaf;
	int err;

	if (!cache || n > PCPOOL_SHEAF_PREFILL_MAX) {
		errno = EINVAL;
		return NULL;
	}
	sheaf = pcp_stock_prefill(&cache->stock, n, &err);
	if (!sheaf)
		errno = err;
	return outer(sheaf);
}

PCP_API void *pcpool_sheaf_alloc(struct pcpool_cache *cache,
				 struct pcpool_sheaf *handle)
{
	struct pcp_sheaf *sheaf = inner(handle);
	uint64_t word;
	void *obj;

	if (!cache || !sheaf) {
		errno = EINVAL;
		return NULL;
	}
	check(cache, sheaf, __builtin_return_address(0));
	if (!pcp_sheaf_size(sheaf)) {
		errno = ENOENT;
		return NULL;
	}
	word = pcp_load(&sheaf->word);
	obj = sheaf->objects[(word & PCP_SHEAF_SIZE_MASK) - 1];
	/* As a section would: less one, and one allocation counted. */
	pcp_store(&sheaf->word,
		  word - 1 + (UINT64_C(1) << PCP_SHEAF_ALLOC_SHIFT));
	if (cache->stock.bypass) {
		struct pcp_slab *slab = pcp_slab_of(&cache->stock.kind, obj);

		pcp_check_alloc(slab, pcp_slab_index(slab, obj),
				__builtin_return_address(0));
	}
	return pcp_cache_hand_out(cache, obj);
}

PCP_API int pcpool_sheaf_refill(struct pcpool_cache *cache,
				struct pcpool_sheaf **handle, unsigned int n)
{
	int saved = errno, err;

	if (!cache || !handle || !*handle || n > PCPOOL_SHEAF_PREFILL_MAX)
		return EINVAL;
	check(cache, inner(*handle), __builtin_return_address(0));
	*handle = outer(pcp_stock_refill(&cache->stock, inner(*handle), n,
					 &err));
	errno = saved;
	return err;
}

PCP_API void pcpool_sheaf_return(struct pcpool_cache *cache,
				 struct pcpool_sheaf *handle)
{
	int saved = errno;

	if (!handle)
		return;
	if (!cache)
		pcp_die(NULL, handle, __builtin_return_address(0),
			"sheaf returned to no cache");
	check(cache, inner(handle), __builtin_return_address(0));
	pcp_stock_return(&cache->stock, inner(handle));
	errno = saved;
}

PCP_API unsigned int pcpool_sheaf_size(const struct pcpool_sheaf *handle)
{
	const struct pcp_sheaf *sheaf =
		(const struct pcp_sheaf *)(const void *)handle;

	return sheaf ? pcp_sheaf_size(sheaf) : 0;
}

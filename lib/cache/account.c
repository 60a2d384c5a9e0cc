/* SPDX-License-Identifier: MIT */
/* Accounts: the calls of pcpool/account.h. */
#include <config.h>

#include <errno.h>

#include <pcpool/account.h>
#include <pcpool/percpu.h>

#include "cache/cache.h"
#include "cpu/init.h"
#include "percpu/ledger.h"
#include "slab/check.h"

/* Bits of the maps for each 8 bytes of a region. */
#define MAP_BITS 3U

PCP_API struct pcpool_account *
pcpool_account_create(struct pcpool_account *parent, uint64_t limit)
{
	pcp_init();
	return pcp_ledger_new(parent, limit);
}

PCP_API void pcpool_account_release(struct pcpool_account *account)
{
	if (account)
		pcp_ledger_close(account);
}

PCP_API int pcpool_account_set_limit(struct pcpool_account *account,
				     uint64_t limit)
{
	if (!account)
		return EINVAL;
	pcp_ledger_limit(account, limit);
	return 0;
}

PCP_API int pcpool_account_charge(struct pcpool_account *account,
				  uint64_t bytes)
{
	return account ? pcp_ledger_charge(account, bytes) : EINVAL;
}

PCP_API void pcpool_account_uncharge(struct pcpool_account *account,
				     uint64_t bytes)
{
	if (account)
		pcp_ledger_uncharge(account, bytes);
}

PCP_API int pcpool_account_get_stats(struct pcpool_account *account,
				     struct pcpool_account_stats *stats)
{
	struct pcp_ledger_sum sum;

	if (!account || !stats || stats->stats_size != sizeof(*stats))
		return EINVAL;
	pcp_ledger_sum(account, &sum);
	*stats = (struct pcpool_account_stats){
		.stats_size = sizeof(*stats),
		/* Read one after the other while threads run. */
		.used = sum.charged > sum.aside ? sum.charged - sum.aside : 0,
		.set_aside = sum.aside,
		.limit = sum.limit,
		.peak = sum.peak,
		.fails = sum.fails,
	};
	return 0;
}

PCP_API uint64_t pcpool_cache_charge(const struct pcpool_cache *cache)
{
	return cache ? cache->charge : 0;
}

PCP_API uint64_t pcpool_percpu_cost(size_t size)
{
	uint64_t granules = (size + 7) / 8;

	if (size > PCPOOL_PERCPU_SIZE_MAX)
		return UINT64_MAX;
	pcp_init();
	return granules * 8 * pcp_nr_slots() + (granules * MAP_BITS + 7) / 8;
}

static struct pcpool_account **owner_of(struct pcpool_cache *cache, void *obj)
{
	struct pcp_slab *slab = pcp_slab_of(&cache->stock.kind, obj);

	return &slab->owners[pcp_slab_index(slab, obj)];
}

void pcp_cache_uncharge(struct pcpool_cache *cache, void *obj,
			const void *caller)
{
	struct pcpool_account **owner, *account;
	struct pcp_slab *slab;
	uint32_t index;

	slab = pcp_check_owner(&cache->stock.kind, obj, caller, &index);
	owner = &slab->owners[index];
	account = pcp_load(owner);
	if (!account)
		return;
	/* The object is the caller's still, and with it this word. */
	pcp_store(owner, NULL);
	pcp_ledger_uncharge(account, cache->charge);
}

/* 0, or why the cache's objects cannot be charged to an account. */
static int charge(struct pcpool_cache *cache, struct pcpool_account *account,
		  size_t n)
{
	if (!cache || !cache->accounted)
		return EINVAL;
	if (n && cache->charge > UINT64_MAX / n)
		return ENOMEM;
	return account ? pcp_ledger_charge(account, n * cache->charge) : 0;
}

static void undo(struct pcpool_cache *cache, struct pcpool_account *account,
		 size_t n)
{
	if (account)
		pcp_ledger_uncharge(account, n * cache->charge);
}

PCP_API void *pcpool_alloc_charged(struct pcpool_cache *cache,
				   struct pcpool_account *account)
{
	int err = charge(cache, account, 1);
	void *obj;

	if (err) {
		errno = err;
		return NULL;
	}
	obj = pcpool_alloc(cache);
	if (obj)
		pcp_store(owner_of(cache, obj), account);
	else
		undo(cache, account, 1);
	return obj;
}

PCP_API int pcpool_alloc_bulk_charged(struct pcpool_cache *cache,
				      struct pcpool_account *account, size_t n,
				      void **objs)
{
	int err;

	/* No array is that long: there is nothing to set. */
	if (n > SIZE_MAX / sizeof(*objs))
		return cache && cache->accounted ? ENOMEM : EINVAL;
	err = charge(cache, account, n);
	if (err) {
		for (size_t i = 0; objs && i < n; i++)
			objs[i] = NULL;
		return err;
	}
	err = pcpool_alloc_bulk(cache, n, objs);
	if (err) {
		undo(cache, account, n);
		return err;
	}
	for (size_t i = 0; i < n; i++)
		pcp_store(owner_of(cache, objs[i]), account);
	return 0;
}

PCP_API void *pcpool_sheaf_alloc_precharged(struct pcpool_cache *cache,
					    struct pcpool_sheaf *sheaf,
					    struct pcpool_account *account)
{
	void *obj;

	if (!cache || !cache->accounted) {
		errno = EINVAL;
		return NULL;
	}
	obj = pcpool_sheaf_alloc(cache, sheaf);
	if (obj)
		pcp_store(owner_of(cache, obj), account);
	return obj;
}

PCP_API void *pcpool_sheaf_alloc_charged(struct pcpool_cache *cache,
					 struct pcpool_sheaf *sheaf,
					 struct pcpool_account *account)
{
	int err = charge(cache, account, 1);
	void *obj;

	if (err) {
		errno = err;
		return NULL;
	}
	obj = pcpool_sheaf_alloc_precharged(cache, sheaf, account);
	if (!obj)
		undo(cache, account, 1);
	return obj;
}

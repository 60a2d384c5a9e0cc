/* SPDX-License-Identifier: MIT */
/*
 * Accounts: who has how much, with limits, in a tree.
 *
 * An account is a ledger of bytes. What is charged to it is charged to its
 * parent too, and so on up; each may have a limit, and a charge that any of them
 * refuses is charged to none. Objects of a cache with PCPOOL_ACCOUNT are charged
 * when they are handed out and uncharged when they come back, by whomever and in
 * whatever way: the account stands beside the object. Nothing is allocated for a
 * charge, and objects and the regions in them stay built while nobody is charged
 * for them.
 *
 * Each CPU sets some bytes of an account aside, so that most charges touch
 * nothing shared; they count as not used. Before a charge is refused what all
 * CPUs have set aside of the accounts in question is called in.
 *
 * Unless a comment says otherwise a call may be made from any thread and from
 * callbacks, takes a leaf lock of the library at most, and keeps errno.
 *
 * Reference: page counters and their per-CPU stocks in Linux mm/memcontrol.c.
 */
#ifndef PCPOOL_ACCOUNT_H
#define PCPOOL_ACCOUNT_H

#include <pcpool/cache.h>
#include <pcpool/sheaf.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A ledger. Opaque; made by pcpool_account_create(). */
struct pcpool_account;

/** No limit. */
#define PCPOOL_NO_LIMIT UINT64_MAX

/**
 * Create an account.
 *
 * parent: charged along, and kept as long as this one is; or NULL.
 * limit:  bytes, PCPOOL_NO_LIMIT for none.
 *
 * Returns the account, or NULL with errno
 *   EINVAL  the tree would be deeper than 16;
 *   ENOMEM  no memory.
 */
struct pcpool_account *pcpool_account_create(struct pcpool_account *parent,
					     uint64_t limit);

/**
 * Give an account up: nothing may be charged to it any more by this pointer. What
 * is charged stays so until it comes back, and the account goes with the last of
 * it. account may be NULL: nothing happens.
 */
void pcpool_account_release(struct pcpool_account *account);

/**
 * Change the limit. What is used already is not taken back when it is more.
 * Returns 0, or EINVAL when account is NULL.
 */
int pcpool_account_set_limit(struct pcpool_account *account, uint64_t limit);

/**
 * Charge bytes of the caller's own, for instance pcpool_percpu_cost() for a
 * region. Returns 0, or an errno value:
 *   EINVAL  account is NULL;
 *   EDQUOT  a limit would be passed; nothing was charged.
 */
int pcpool_account_charge(struct pcpool_account *account, uint64_t bytes);

/** Take back what was charged so. account may be NULL: nothing happens. More than
 *  was charged is a bug that is reported to stderr and aborts, at the latest
 *  when what a CPU has set aside is called in. */
void pcpool_account_uncharge(struct pcpool_account *account, uint64_t bytes);

/** An account now. Clear it and set stats_size first. */
struct pcpool_account_stats {
	size_t stats_size;  /**< set by the caller */
	uint64_t used;      /**< bytes charged, to it and to those below it; exact
			     *   at rest */
	uint64_t set_aside; /**< bytes CPUs have set aside, of it and below */
	uint64_t limit;     /**< PCPOOL_NO_LIMIT: none */
	uint64_t peak;      /**< most of used + set_aside at a time */
	uint64_t fails;     /**< charges that this account's limit refused */
};

/** Fill *stats. Returns 0, or EINVAL when an argument is NULL or stats_size is
 *  not one this library knows. */
int pcpool_account_get_stats(struct pcpool_account *account,
			     struct pcpool_account_stats *stats);

/** Bytes an object of a cache is charged with: its share of a slab, its declared
 *  per-CPU fields for all slots, and the `charge` of the attributes. 0 for
 *  NULL. */
uint64_t pcpool_cache_charge(const struct pcpool_cache *cache);

/** Bytes a per-CPU region of that size takes in all slots, with metadata;
 *  UINT64_MAX, which nobody can be charged, for more than a region can have. */
uint64_t pcpool_percpu_cost(size_t size);

/**
 * pcpool_alloc(), charged to an account. The cache has PCPOOL_ACCOUNT; account
 * may be NULL: then it is charged to nobody. Additional errno:
 *   EINVAL  the cache has no PCPOOL_ACCOUNT;
 *   EDQUOT  a limit would be passed: no object was taken.
 */
void *pcpool_alloc_charged(struct pcpool_cache *cache,
			   struct pcpool_account *account);

/** pcpool_alloc_bulk(), charged to an account, all or none. Additional errno
 *  values as above. */
int pcpool_alloc_bulk_charged(struct pcpool_cache *cache,
			      struct pcpool_account *account, size_t n,
			      void **objs);

/**
 * pcpool_sheaf_alloc(), charged to an account: this, and not the taking of the
 * object, may fail. Additional errno as above. Who wants to be sure beforehand
 * charges n * pcpool_cache_charge() by pcpool_account_charge(), takes objects
 * with pcpool_sheaf_alloc_precharged(), and uncharges what it did not take.
 */
void *pcpool_sheaf_alloc_charged(struct pcpool_cache *cache,
				 struct pcpool_sheaf *sheaf,
				 struct pcpool_account *account);

/** The same where the caller has charged the object already: does not fail as
 *  long as the sheaf holds objects. */
void *pcpool_sheaf_alloc_precharged(struct pcpool_cache *cache,
				    struct pcpool_sheaf *sheaf,
				    struct pcpool_account *account);

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_ACCOUNT_H */

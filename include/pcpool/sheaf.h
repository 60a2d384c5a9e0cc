/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves: a number of objects set aside, so that taking them cannot
 * fail.
 *
 * For code that must not fail half way, or that must not construct or sleep
 * while it holds a lock: prefill a sheaf before, take objects from it inside,
 * return it after. A sheaf belongs to one thread at a time and to the cache it
 * came from. While it is out its objects count as cached, and the cache cannot be
 * destroyed.
 *
 * Reference: prefilled sheaves of Linux SLUB, as the maple tree uses them.
 */
#ifndef PCPOOL_SHEAF_H
#define PCPOOL_SHEAF_H

#include <pcpool/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A sheaf. Opaque; made by pcpool_sheaf_prefill(). */
struct pcpool_sheaf;

/** Most objects a sheaf can be asked for. */
#define PCPOOL_SHEAF_PREFILL_MAX 65535U

/**
 * Get a sheaf with at least n built objects: the next n calls of
 * pcpool_sheaf_alloc() on it succeed.
 *
 * n: 0 to PCPOOL_SHEAF_PREFILL_MAX. More than the cache's sheaf capacity is
 *    served by a sheaf of its own, which costs more.
 *
 * Returns the sheaf, or NULL with errno as pcpool_alloc(), and
 *   EINVAL  cache is NULL or n out of range.
 * A failure gives everything back that was found. May call the constructor.
 */
struct pcpool_sheaf *pcpool_sheaf_prefill(struct pcpool_cache *cache,
					  unsigned int n);

/**
 * Take an object from a sheaf. Runs the reset hook, nothing else; takes no
 * lock, and none of the cache's other resources.
 *
 * Returns it, or NULL with errno
 *   EINVAL  an argument is NULL;
 *   ENOENT  the sheaf is empty.
 */
void *pcpool_sheaf_alloc(struct pcpool_cache *cache,
			 struct pcpool_sheaf *sheaf);

/**
 * Make a sheaf hold at least n objects again. It may be replaced by another:
 * *sheaf is the one to go on with, whatever is returned.
 *
 * Returns 0, or an errno value as pcpool_sheaf_prefill(); the sheaf then holds
 * at least what it held before.
 */
int pcpool_sheaf_refill(struct pcpool_cache *cache,
			struct pcpool_sheaf **sheaf, unsigned int n);

/**
 * Give a sheaf back with the objects left in it. sheaf may be NULL: nothing
 * happens. Objects taken from it are freed as any other. Keeps errno.
 *
 * A sheaf that was returned before, or belongs to another cache, aborts the
 * process with a message, here and in the two calls above.
 */
void pcpool_sheaf_return(struct pcpool_cache *cache,
			 struct pcpool_sheaf *sheaf);

/** Objects left in a sheaf; 0 for NULL. */
unsigned int pcpool_sheaf_size(const struct pcpool_sheaf *sheaf);

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_SHEAF_H */

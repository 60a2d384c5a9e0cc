/* SPDX-License-Identifier: MIT */
/*
 * Plain objects, as the jobs pair, batch and others use them: what each group
 * of variants opens and closes, and how an object is taken and given back. ctx
 * is the address of a local copy of what they need (see pair.h).
 */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include <pcpool/pcpool.h>

#include "freelist.h"

/* --- home-made free lists ---------------------------------- */

/** An object with a list header; only the first operations need one. */
void *bench_new_object(size_t size);
/** Free all that is on the list. */
void bench_free_list(struct bench_list *list);

int bench_open_mutex_list(const struct bench_params *params,
			  const struct bench_malloc *peer, void **shared);
int bench_close_mutex_list(void *shared);

/* ctx: struct bench_mutex_list ** */
BENCH_INLINE void *bench_take_mutex_list(const void *ctx, size_t size)
{
	struct bench_mutex_list *const *list = ctx;
	void *obj = bench_mutex_list_pop(*list);

	return __builtin_expect(!obj, 0) ? bench_new_object(size) : obj;
}

BENCH_INLINE void bench_give_mutex_list(const void *ctx, void *obj)
{
	struct bench_mutex_list *const *list = ctx;

	bench_mutex_list_push(*list, obj);
}

/* --- malloc implementations ---------------------------------- */

/** shared is the peer. */
int bench_open_malloc(const struct bench_params *params,
		      const struct bench_malloc *peer, void **shared);

/* ctx: struct bench_malloc * */
BENCH_INLINE void *bench_take_malloc(const void *ctx, size_t size)
{
	const struct bench_malloc *peer = ctx;

	return peer->malloc(size);
}

BENCH_INLINE void bench_give_malloc(const void *ctx, void *obj)
{
	const struct bench_malloc *peer = ctx;

	peer->free(obj);
}

/* --- pcpool, by calls into the shared library ------------------ */

/** shared is the cache. */
int bench_open_pcpool(const struct bench_params *params,
		      const struct bench_malloc *peer, void **shared);
int bench_close_pcpool(void *shared);
struct pcpool_cache *bench_cache_pcpool(void *shared);

/** As bench_open_pcpool(), for a variant that defers frees: with these
 *  attributes, or NULL, and with the library's thread running. */
int bench_open_deferred(const struct bench_params *params,
			const struct pcpool_cache_attr *attr, void **shared);

/* ctx: struct pcpool_cache ** */
BENCH_INLINE void *bench_take_pcpool(const void *ctx, size_t size)
{
	struct pcpool_cache *const *cache = ctx;

	(void)size;
	return pcpool_alloc(*cache);
}

BENCH_INLINE void bench_give_pcpool(const void *ctx, void *obj)
{
	struct pcpool_cache *const *cache = ctx;

	pcpool_free(*cache, obj);
}

#endif /* BENCH_PLAIN_H */

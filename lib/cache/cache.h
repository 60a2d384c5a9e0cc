/* SPDX-License-Identifier: MIT */
/* An object cache: a stock with a name, and its place in the registry. */
#ifndef PCP_CACHE_CACHE_H
#define PCP_CACHE_CACHE_H

/* The library is never unloaded. */
#define PCPOOL_FAST_RESIDENT
#include <pcpool/fast.h>

#include "slot/book.h"
#include "slot/stock.h"

#define PCP_NAME_MAX 64

/* Of struct pcpool_cache, what is before `room`. */
#define PCP_CACHE_HEAD 128

/*
 * What comes first is read by every call, inline ones too (pcpool/fast.h), and
 * written by create alone; so the lines of the registry's links, which change
 * when other caches come and go, lie behind it. The slots have to be where
 * fast.h has them: `room` is what is not needed before them.
 */
struct pcpool_cache {
	/* Set by create. */
	int64_t fast;	     /* see pcpool/fast.h; 0: by calls only */
	uint64_t generation; /* of the process that created it, in forks */
	bool accounted;	     /* objects may be charged to accounts */
	uint64_t charge;     /* bytes, for each */
	char name[PCP_NAME_MAX];
	/* Under the registry lock. */
	struct pcpool_cache *prev, *next;
	bool leaving;	 /* being destroyed */
	bool unfinished; /* tending could not give all back */
	uint64_t looked; /* round of tending that has looked at it */
	unsigned char room[PCPOOL_FAST_SLOTS_ - PCP_CACHE_HEAD -
			   offsetof(struct pcp_stock, slots)];
	struct pcp_stock stock; /* last: ends with the slots */
};

_Static_assert(offsetof(struct pcpool_cache, fast) == 0, "pcpool/fast.h");
_Static_assert(sizeof(void *) != 8 ||
		       offsetof(struct pcpool_cache, room) == PCP_CACHE_HEAD,
	       "pcpool/fast.h");
_Static_assert(offsetof(struct pcpool_cache, stock) +
				       offsetof(struct pcp_stock, slots) ==
			       PCPOOL_FAST_SLOTS_ ||
		       sizeof(void *) != 8,
	       "pcpool/fast.h");

/* What `fast` is of a cache that is otherwise made. */
int64_t pcp_cache_fast(const struct pcpool_cache *cache);

#if PCPOOL_FAST_INLINE
/* A cache that has nothing for the calls to look at but its slot, and a slot for
 * each CPU. One word says both, and where the area is: fewer loads than from
 * variables of the process. */
static inline bool pcp_cache_is_plain(const struct pcpool_cache *cache)
{
	return PCPOOL_FAST_KIND_(cache->fast) == PCPOOL_FAST_LAYOUT;
}

static inline ptrdiff_t pcp_cache_area(const struct pcpool_cache *cache)
{
	return cache->fast >> PCPOOL_FAST_AREA_SHIFT_;
}
#endif

/* Slow halves of alloc and free, after a refused or aborted section. The first
 * returns a built object that still has to be handed out, or NULL with errno;
 * the second includes that. */
PCP_NOINLINE void *pcp_cache_take_slow(struct pcpool_cache *cache,
				       bool aborted, const void *caller);
PCP_NOINLINE void *pcp_cache_alloc_slow(struct pcpool_cache *cache,
					bool aborted, const void *caller);
PCP_NOINLINE void pcp_cache_free_slow(struct pcpool_cache *cache, void *obj,
				      bool aborted, const void *caller);

/* An accounted cache's object comes back: whoever was charged for it gets its
 * bytes back. Aborts when it is no object of the cache. */
PCP_NOINLINE void pcp_cache_uncharge(struct pcpool_cache *cache, void *obj,
				     const void *caller);

/* Run the reset hook. Out of line, so that the fast path needs no frame. */
PCP_NOINLINE void *pcp_cache_reset(struct pcpool_cache *cache, void *obj);

/* What every hand-out ends with. */
static inline void *pcp_cache_hand_out(struct pcpool_cache *cache, void *obj)
{
	if (pcp_unlikely(cache->stock.kind.reset))
		return pcp_cache_reset(cache, obj);
	return obj;
}

/* Enter the fork handlers of the caches' locks and of the arenas'. Before any of
 * these is taken; the calls below do so. */
void pcp_registry_init(void);

/* The registry of all caches; rank PCP_RANK_REGISTRY. */
void pcp_registry_add(struct pcpool_cache *cache);
/* Returns whether it was the last. */
bool pcp_registry_del(struct pcpool_cache *cache);

/* Call visit for each cache under the registry lock, which keeps them from
 * being destroyed; visit may take locks of the cache, and runs no callback. */
void pcp_registry_each(void (*visit)(struct pcpool_cache *cache, void *arg),
		       void *arg);

/* Tending: one thread at a time walks over all caches, in rounds that may take
 * several walks. begin is false while another walks. next pins the cache it
 * returns, after the one it returned before, and says whether this round has yet
 * to look at it; NULL: no cache is left in this round. done unpins it. end with
 * `all` begins a new round. */
bool pcp_registry_tend_begin(void);
struct pcpool_cache *pcp_registry_tend_next(bool *anew);
void pcp_registry_tend_done(bool done);
void pcp_registry_tend_end(bool all);

/* About to destroy a cache: waits while another thread tends it. False: the
 * caller does so itself, or it is being destroyed. */
bool pcp_registry_leave(struct pcpool_cache *cache);
/* It was not destroyed. */
void pcp_registry_stay(struct pcpool_cache *cache);

/* Whether a cache is older than the fork that made this process. */
bool pcp_cache_forked(const struct pcpool_cache *cache);
uint64_t pcp_fork_generation(void);

#endif /* PCP_CACHE_CACHE_H */

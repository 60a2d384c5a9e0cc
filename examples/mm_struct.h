/* SPDX-License-Identifier: MIT */
/*
 * An object that is dear to build and cheap to reuse: the pattern to copy.
 *
 * The model is the kernel's mm_struct, the description of one address space.
 * Each exec() needs one, works with it for a moment and drops it. It holds a
 * mutex, lists, and two per-CPU regions; building the regions means taking the
 * region allocator's mutex and zeroing one copy for each CPU, twice. On a
 * machine with 192 CPUs that costs more than all the rest of the object, and
 * every exec() in the machine queues for the same mutex.
 *
 * So the object is built once and kept built:
 *
 *   mm_ctor()   builds what survives from one use to the next. It may fail.
 *               pcpool runs it when the memory is first used.
 *   mm_get()    hands out a built object and sets the few words that differ
 *               from use to use. No lock, no system call.
 *   mm_put()    brings the object back to the state mm_ctor() left it in, and
 *               hands it in. It stays built.
 *   mm_dtor()   undoes mm_ctor(). pcpool runs it when it gives the memory back
 *               to the system, long after the last mm_put().
 *
 * The contract that makes this work is one sentence: *between mm_put() and the
 * next mm_get() the object is as mm_ctor() left it*. struct mm_struct below
 * says for each field what that state is.
 *
 * Reference: the "slab destructor" RFC for Linux (April 2025), whose first user
 * is this object.
 */
#ifndef MM_STRUCT_H
#define MM_STRUCT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pcpool/pcpool.h>

/** Areas one address space can have at a time. */
#define MM_AREAS 4U

/** A circular, doubly linked list; an empty one points at itself. */
struct mm_list {
	struct mm_list *next;
	struct mm_list *prev;
};

/** What a page is counted as. */
enum mm_rss {
	MM_RSS_FILE,
	MM_RSS_ANON,
	MM_RSS_SWAP,
	MM_RSS_SHMEM,
	MM_RSS_KINDS,
};

/** One mapped area. Linked on mm->areas while mapped, else on mm->spare. */
struct mm_area {
	struct mm_list link;
	void *start;
	size_t pages;
	/** What its pages are counted as in mm->rss_stat. */
	enum mm_rss kind;
};

/** One CPU's copy of the first region. */
struct mm_cid {
	/** Threads that entered this address space on this CPU, less those that
	 *  left it here. One copy alone may be "negative", since a thread can
	 *  enter here and leave there; the sum over the copies is the truth. */
	uint64_t running;
};

/** One CPU's copy of the second region: again only the sums mean something. */
struct mm_rss_stat {
	uint64_t pages[MM_RSS_KINDS];
};

/**
 * The object. Fields are ordered by who needs them when: what mm_get() writes
 * comes first and last, what survives stands between.
 */
struct mm_struct {
	/** Users of the object. Belongs to one use: mm_get() sets it, and it
	 *  means nothing in between. */
	uint64_t users;

	/** Guards areas, spare and area[]. Built: unlocked. Initialising a
	 *  mutex is cheap here; on systems where it registers a kernel object
	 *  this alone is reason enough to keep the object built. */
	pthread_mutex_t lock;
	/** Mapped areas. Built: empty. */
	struct mm_list areas;
	/** The others. Built: all MM_AREAS of them. */
	struct mm_list spare;
	struct mm_area area[MM_AREAS];

	/** Region 1, a per-CPU pointer: never dereferenced, only handed to the
	 *  pcpool_this_cpu_ and pcpool_percpu_ calls. Built: sums to zero. */
	struct mm_cid *cid;
	/** Region 2, the same. Built: each field sums to zero. */
	struct mm_rss_stat *rss_stat;

	/** Where the next area goes, and where the first one went; NULL leaves
	 *  it to the system. Both belong to one use, as users does. */
	char *mmap_next;
	char *mmap_base;
};

/**
 * What the constructor is told, and what it tells. One for all objects of a
 * cache; it must live until the cache is destroyed. Start from all zero.
 *
 * The counters prove the balance: after pcpool_cache_destroy() as many objects
 * were torn down as were built. They are written from any thread, hence
 * atomic; since construction is rare their cache line is not contended.
 */
struct mm_env {
	atomic_ullong ctor_ok;
	atomic_ullong ctor_failed;
	atomic_ullong dtor;
	/** When not 0, every fail_every-th construction fails with EAGAIN:
	 *  for trying out what happens then. */
	unsigned int fail_every;
};

/** Build one object; arg is a struct mm_env or NULL. Returns 0 or an errno
 *  value, and has undone all its doing then. */
int mm_ctor(void *obj, void *arg);

/** Tear down one built object that is not in use; arg as for mm_ctor(). */
void mm_dtor(void *obj, void *arg);

/** A cache of such objects. Returns NULL with errno as pcpool_cache_create().
 *  Destroy it with pcpool_cache_destroy() once every object was put. */
struct pcpool_cache *mm_cache_create(struct mm_env *env);

/** Take an object for one use. Returns NULL with errno as pcpool_alloc(), so
 *  what mm_ctor() returned if that is why. mmap_base: where
 *  the areas are to be placed, a wish only; or NULL. */
struct mm_struct *mm_get(struct pcpool_cache *cache, void *mmap_base);

/** End the use and give the object back. Unmaps what is still mapped. */
void mm_put(struct pcpool_cache *cache, struct mm_struct *mm);

/** The two halves of mm_get() and mm_put() that do not concern the cache, for
 *  those who keep the object elsewhere. */
void mm_begin(struct mm_struct *mm, void *mmap_base);
void mm_end(struct mm_struct *mm);

/** Map an anonymous area and touch its pages: MM_RSS_FILE by reading them, as
 *  one does with code, other kinds by writing to them. Returns 0, or an errno
 *  value: ENOSPC when there are MM_AREAS already, else that of mmap(2). */
int mm_map(struct mm_struct *mm, size_t pages, enum mm_rss kind);

/** Unmap every area. */
void mm_unmap_all(struct mm_struct *mm);

/** What an exec() does, as far as this object sees it: enter, map three areas
 *  (code, heap, stack), touch their 16 pages, unmap all, leave. Returns 0 or an
 *  errno value. The object needs to be in use. */
int mm_exec(struct mm_struct *mm);

/** Pages of one kind, summed over the CPUs: exact at rest. */
uint64_t mm_rss(const struct mm_struct *mm, enum mm_rss kind);

/** Whether the object is in its constructed state, as it must be when it is
 *  given back. Reads all copies of both regions: for tests and assertions. */
bool mm_is_built_state(struct mm_struct *mm);

#endif /* MM_STRUCT_H */

/* SPDX-License-Identifier: MIT */
/*
 * Object caches that keep expensive objects constructed.
 *
 * A cache hands out objects of one size. The constructor runs once when the
 * memory of an object is first used, and may fail; the destructor runs once
 * before that memory goes back to the system. In between the object may be
 * handed out any number of times with its mutexes, buffers and per-CPU regions
 * still in place. Every CPU has a stock of its own, so that most calls take no
 * lock and write no shared cache line.
 *
 * Unless a comment says otherwise a call may be made from any thread, at any
 * time after the cache was created and before it is destroyed, also from a
 * constructor or destructor of this or another cache. No call is async-signal-
 * safe as a whole, and none may be made in a vfork() child.
 *
 * Design references: the "slab destructor" RFC for Linux (April 2025), sheaves
 * in Linux SLUB, init/fini in FreeBSD UMA.
 */
#ifndef PCPOOL_CACHE_H
#define PCPOOL_CACHE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An object cache. Opaque; made by pcpool_cache_create(). */
struct pcpool_cache;

/** Largest object size in bytes. */
#define PCPOOL_SIZE_MAX ((size_t)1 << 20)
/** Largest alignment of an object in bytes. */
#define PCPOOL_ALIGN_MAX ((size_t)1 << 21)
/** Largest number of objects a sheaf (a CPU's stock) may hold. */
#define PCPOOL_SHEAF_CAPACITY_MAX 1024U

/**
 * Build one object.
 *
 * obj: uninitialised memory of the cache's size and alignment (never memory of
 *      an object that is still built; not zeroed).
 * arg: the `arg` of the cache's attributes.
 *
 * Returns 0, or an errno value: the object then counts as not built, nothing
 * in it is kept, and its place is tried again later. The constructor must undo
 * what it did before failing. Called without any pcpool lock held, at the
 * latest when the object is first handed out; at most one batch ahead of it.
 */
typedef int (*pcpool_ctor_fn)(void *obj, void *arg);

/**
 * Tear down one built object. Runs exactly once for each successful
 * constructor call, before the memory is released, without any pcpool lock
 * held, and only inside pcpool_cache_destroy(), pcpool_cache_shrink(),
 * pcpool_maintain() and pcpool_discard(); with PCPOOL_DTOR_ON_FREE also inside pcpool_free(),
 * pcpool_free_bulk(), and pcpool_alloc_bulk() when it fails and gives back.
 */
typedef void (*pcpool_dtor_fn)(void *obj, void *arg);

/**
 * Make a built object fresh for its next user: runs on every hand-out, after
 * the constructor where both run. It cannot fail.
 */
typedef void (*pcpool_reset_fn)(void *obj, void *arg);

/** A free that empties a slab may destruct its objects at once. */
#define PCPOOL_DTOR_ON_FREE 0x1U
/** Check pointer, owner and state at every call on this cache (slow). */
#define PCPOOL_CHECK 0x2U
/**
 * An object's memory stays an object of this cache, built, for as long as a
 * reader that found it is inside (of the RCU flavour `rcu`): it may be freed and
 * handed out again under the reader, who has to check that it still is what it
 * was looking for, but its destructor runs, and its memory goes, only after a
 * grace period. Not together with PCPOOL_DTOR_ON_FREE. Destructors then run on
 * the library's thread (pcpool/rcu.h), which is registered with the flavour
 * meanwhile, or inside pcpool_cache_destroy().
 */
#define PCPOOL_TYPESAFE_BY_RCU 0x4U

/** Objects can be charged to accounts (pcpool/account.h). */
#define PCPOOL_ACCOUNT 0x8U

struct rcu_flavor_struct;

/**
 * A per-CPU field of an object: a pointer to a region of `size` bytes for each
 * slot (pcpool/percpu.h), which the cache takes and gives back.
 */
struct pcpool_percpu_field {
	/** Of the pointer in the object, in bytes; a multiple of its size. */
	size_t offset;
	/** Bytes for each slot, 1 to PCPOOL_PERCPU_SIZE_MAX, and as much for all
	 *  fields of an object together. */
	size_t size;
	/** Power of two up to PCPOOL_PERCPU_ALIGN_MAX; 0: 8. */
	size_t align;
};

/** Most fields that can be declared. */
#define PCPOOL_PERCPU_FIELDS_MAX 64U

/**
 * What a cache is made of. Start from PCPOOL_CACHE_ATTR_INIT or
 * pcpool_cache_attr_init(), so that fields which later releases add keep their
 * defaults.
 */
struct pcpool_cache_attr {
	/** sizeof(struct pcpool_cache_attr) as the caller was compiled. */
	size_t attr_size;
	/** Alignment in bytes, a power of two up to PCPOOL_ALIGN_MAX; 0: that
	 *  of max_align_t for sizes that can need it, at most the size's
	 *  largest power-of-two factor. */
	size_t align;
	/** May be NULL: objects then are plain memory of unspecified content. */
	pcpool_ctor_fn ctor;
	/** May be NULL. */
	pcpool_dtor_fn dtor;
	/** May be NULL. */
	pcpool_reset_fn reset;
	/** Passed to ctor, dtor and reset. */
	void *arg;
	/** PCPOOL_DTOR_ON_FREE, PCPOOL_CHECK, PCPOOL_TYPESAFE_BY_RCU,
	 *  PCPOOL_ACCOUNT, or 0. */
	unsigned int flags;
	/** Objects per sheaf, 1 to PCPOOL_SHEAF_CAPACITY_MAX, for good; 0: it
	 *  starts small and follows how often CPUs run out of stock, up to
	 *  256 KiB of objects per CPU. */
	unsigned int sheaf_capacity;
	/** Empty or partial slabs a node keeps before it lets empty ones go;
	 *  0: chosen from the object size. At most 65535. */
	unsigned int min_partial;
	/** The flavour of RCU for deferred frees: &rcu_flavor of liburcu as the
	 *  caller includes it; NULL: that of liburcu-memb. */
	const struct rcu_flavor_struct *rcu;
	/** Objects that may wait for a grace period before it is hurried;
	 *  0: chosen from the object size. See pcpool_rcu_wait(). */
	size_t rcu_backlog;
	/** Per-CPU fields of each object, or NULL; copied. Their pointers are
	 *  set before the constructor runs, and the memory is zero then; it is
	 *  released after the destructor, with the slab. One region serves all
	 *  objects of a slab. The object must leave the pointers as they are, and
	 *  must not free what they point to. */
	const struct pcpool_percpu_field *fields;
	/** How many, up to PCPOOL_PERCPU_FIELDS_MAX. */
	size_t nr_fields;
	/** Bytes an object is charged with besides its own: what the constructor
	 *  allocates. See pcpool_cache_charge(). */
	size_t charge;
};

#define PCPOOL_CACHE_ATTR_INIT \
	{ sizeof(struct pcpool_cache_attr), 0, NULL, NULL, NULL, NULL, 0, 0, 0, \
	  NULL, 0, NULL, 0, 0 }

/** Set every field of *attr to its default. attr must not be NULL. */
static inline void pcpool_cache_attr_init(struct pcpool_cache_attr *attr)
{
	struct pcpool_cache_attr init = PCPOOL_CACHE_ATTR_INIT;

	*attr = init;
}

/**
 * Create a cache.
 *
 * name: copied; at most 63 bytes are kept. Need not be unique.
 * size: object size in bytes, 1 to PCPOOL_SIZE_MAX.
 * attr: attributes, or NULL for a cache of plain memory.
 *
 * Returns the cache, or NULL with errno
 *   EINVAL  name is NULL or empty; size is 0 or over PCPOOL_SIZE_MAX; align is
 *           not a power of two or over PCPOOL_ALIGN_MAX; unknown flags; a
 *           sheaf_capacity or min_partial out of range; fields that are
 *           misaligned, outside the object, at the same offset, or too large
 *           together; an attr_size this library cannot know;
 *   ENOMEM  no memory.
 * No constructor runs.
 */
struct pcpool_cache *pcpool_cache_create(const char *name, size_t size,
					 const struct pcpool_cache_attr *attr);

/**
 * Take a built object.
 *
 * Returns it, or NULL with errno
 *   EINVAL     cache is NULL;
 *   ESHUTDOWN  called from a destructor that pcpool_cache_destroy() of this
 *              very cache runs;
 *   ENOMEM     no memory for another slab, and no free object anywhere;
 *   otherwise  the value the constructor returned, when no built object could
 *              be found either.
 * May call the constructor and the reset hook of this cache.
 */
void *pcpool_alloc(struct pcpool_cache *cache);

/**
 * As pcpool_alloc(), preferring memory of one NUMA node.
 *
 * node: a node number below pcpool_nr_nodes(), or -1 for the caller's own.
 *
 * The node is a preference: another node's object is returned rather than
 * none. Bypasses the CPU's stock when node is not -1. Additional errno:
 *   EINVAL  node is out of range.
 */
void *pcpool_alloc_node(struct pcpool_cache *cache, int node);

/**
 * Give an object back, built as it is. Never runs the destructor (but see
 * PCPOOL_DTOR_ON_FREE), never fails, keeps errno. obj may be NULL: nothing
 * happens. Freeing what is not an allocated object of this cache is a bug that
 * is reported to stderr and aborts: at this call for a PCPOOL_CHECK cache or
 * with PCPOOL_OPTIONS=debug:on, at the latest when the object reaches its slab
 * otherwise.
 */
void pcpool_free(struct pcpool_cache *cache, void *obj);

/**
 * Take n objects, all or none.
 *
 * objs: array of n pointers. On success all are set; on failure all are NULL, or
 *       untouched where an argument was refused.
 *
 * Returns 0, or an errno value: as pcpool_alloc(), and
 *   EINVAL  objs is NULL while n is not 0;
 *   ENOMEM  n * sizeof(void *) overflows.
 * n == 0 is a success that does nothing.
 */
int pcpool_alloc_bulk(struct pcpool_cache *cache, size_t n, void **objs);

/**
 * Give n objects back, as n calls of pcpool_free(). NULL entries are skipped.
 *
 * Returns 0, or EINVAL when cache is NULL, objs is NULL while n is not 0, or
 * n * sizeof(void *) overflows (nothing is freed then).
 */
int pcpool_free_bulk(struct pcpool_cache *cache, size_t n, void **objs);

/**
 * Give back an object that must not be used again as it is: the destructor
 * runs now, in the caller, and the place is built anew on its next use. In a
 * PCPOOL_TYPESAFE_BY_RCU cache the destructor runs after a grace period.
 * Returns 0, or EINVAL when cache is NULL. obj may be NULL: nothing happens.
 */
int pcpool_discard(struct pcpool_cache *cache, void *obj);

/**
 * Return free memory to the system: empty every CPU's stock and every barn,
 * destruct and release all empty slabs. May run beside any other call on the
 * cache but destroy. Objects other threads free meanwhile may stay, and so do
 * those deferred by pcpool_free_rcu(). In a PCPOOL_TYPESAFE_BY_RCU cache it
 * waits for a grace period; called inside a reader it does not, and the memory
 * goes back later.
 *
 * Returns 0, or an errno value; what could be released was released then:
 *   EINVAL  cache is NULL;
 *   EPERM, ENOSYS, ENOMEM and others of membarrier(2): some CPU's stock could
 *           not be emptied.
 */
int pcpool_cache_shrink(struct pcpool_cache *cache);

/**
 * Destroy a cache. No other call on it may run meanwhile, except those its own
 * destructors make (allocation then fails with ESHUTDOWN). Waits for the grace
 * period of deferred frees (pcpool/rcu.h), and while another thread is in
 * pcpool_maintain() on this cache.
 *
 * Returns 0: every built object was destructed and the cache is gone. Or:
 *   EINVAL  cache is NULL;
 *   EBUSY   objects or prefilled sheaves (even empty ones) are out, or it was
 *           called from one of the cache's own callbacks, or another thread is
 *           destroying it;
 *   EDEADLK, ENOTRECOVERABLE  frees are deferred, or the cache is typesafe, and
 *           a grace period cannot be waited for: as pcpool_rcu_barrier().
 * No destructor ran then, and the cache stays usable.
 */
int pcpool_cache_destroy(struct pcpool_cache *cache);

/** The object size the cache was created with; 0 for NULL. */
size_t pcpool_cache_size(const struct pcpool_cache *cache);

/** The (copied, perhaps shortened) name; "" for NULL. Valid until destroy. */
const char *pcpool_cache_name(const struct pcpool_cache *cache);

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_CACHE_H */

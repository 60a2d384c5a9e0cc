/* SPDX-License-Identifier: MIT */
/*
 * What the library did and holds: snapshots of counters, and a text print.
 *
 * Counters are kept per slot and summed on read. A snapshot taken while other
 * threads work is a little blurred; at rest it is exact.
 */
#ifndef PCPOOL_STATS_H
#define PCPOOL_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <pcpool/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One cache. Clear it and set stats_size first. */
struct pcpool_cache_stats {
	/** Set by the caller: sizeof(struct pcpool_cache_stats). */
	size_t stats_size;

	/* Shape. */
	uint64_t object_size;     /**< as asked for, bytes */
	uint64_t stride;          /**< distance between two objects, bytes */
	uint64_t slab_size;       /**< address range of a slab, bytes */
	uint64_t objects_per_slab;
	uint64_t slab_overhead;   /**< bytes of a slab that hold no object */
	uint64_t sheaf_capacity;  /**< objects in a sheaf made now */
	uint64_t sheaf_capacity_max; /**< the most that may become */
	uint64_t barn_limit;      /**< full sheaves the first node's barn may hold
				   *   now */

	/* Now. */
	uint64_t slabs;           /**< slabs that exist, waiting ones too */
	uint64_t partial;         /**< slabs on the nodes' partial lists */
	uint64_t waiting;         /**< empty slabs queued for their death */
	uint64_t total_objects;   /**< slabs * objects_per_slab */
	uint64_t objects;         /**< objects out of their slabs: live or cached */
	uint64_t live;            /**< handed out and not given back */
	uint64_t cached;          /**< in sheaves: slots, barns, prefilled */
	uint64_t rcu_backlog;     /**< given to pcpool_free_rcu(), not free yet;
				   *   neither live nor cached */
	uint64_t rcu_backlog_peak; /**< most of these that waited for a grace
				   *   period at a time, without those in CPUs'
				   *   part-filled sheaves */
	uint64_t built;           /**< constructed now: ctor_ok - dtor */
	uint64_t sheaves;         /**< sheaves that exist */
	uint64_t metadata_bytes;  /**< cache, slots, sheaves, barns */

	/* Since creation. Names as in SLUB where it has one. */
	uint64_t ctor_ok;         /**< successful constructor calls */
	uint64_t ctor_fail;       /**< failed constructor calls */
	uint64_t dtor;            /**< destructor calls */
	uint64_t mem_fail;        /**< slabs that could not be had for memory */
	uint64_t lost_in_fork;    /**< built objects that other threads held
				   *   inside pcpool when this child was forked */
	uint64_t alloc_fastpath;  /**< allocations from the slot's main sheaf */
	uint64_t alloc_slowpath;  /**< all others */
	uint64_t free_fastpath;   /**< frees into the slot's main sheaf */
	uint64_t free_slowpath;   /**< all others */
	uint64_t alloc_fail;      /**< allocations that failed */
	uint64_t alloc_slab;      /**< slabs made */
	uint64_t free_slab;       /**< slabs released */
	uint64_t free_add_partial;    /**< slabs linked to a partial list */
	uint64_t free_remove_partial; /**< slabs unlinked from one */
	uint64_t cmpxchg_fail;    /**< slab word CAS that lost */
	uint64_t barn_get;        /**< full sheaves taken from a barn */
	uint64_t barn_get_fail;   /**< barn had none */
	uint64_t barn_put;        /**< full sheaves put into a barn */
	uint64_t barn_put_fail;   /**< barn was full */
	uint64_t sheaf_alloc;     /**< sheaves made */
	uint64_t sheaf_free;      /**< sheaves released */
	uint64_t sheaf_refill;    /**< sheaves filled from slabs */
	uint64_t sheaf_flush;     /**< sheaves emptied into slabs */
	uint64_t rseq_abort;      /**< sections the kernel restarted, but for the
				   *   first try of pcpool_alloc() and pcpool_free()
				   *   in a plain cache, which is made again; a few
				   *   in lock mode too, where one runs and refuses */
	uint64_t bypass;          /**< calls that went past the slots */
	uint64_t drain;           /**< drains of all slots */
	uint64_t drain_retry;     /**< slots closed again, a local commit had won */
	uint64_t drain_fail;      /**< slots not drained: the fence failed */
	uint64_t sheaf_prefill_fast;  /**< prefills by a sheaf as it was */
	uint64_t sheaf_prefill_slow;  /**< prefills that had to top one up */
	uint64_t sheaf_prefill_oversize; /**< prefills beyond the capacity */
	uint64_t sheaf_return_fast;   /**< returned sheaves hooked as a spare */
	uint64_t sheaf_return_slow;   /**< all others */
	uint64_t slot_miss;       /**< calls that found neither main nor spare
				   *   of use and went to the barn */
	uint64_t free_rcu_sheaf;  /**< objects deferred by way of a sheaf */
	uint64_t free_rcu_sheaf_fail; /**< deferred singly: no slot, or no
				   *   memory for a sheaf */
	uint64_t rcu_hurry;       /**< grace periods begun at once, the backlog
				   *   being over its bound */
	uint64_t capacity_up;     /**< times the sheaf capacity was raised */
	uint64_t capacity_down;   /**< times it was lowered */
	uint64_t barn_limit_up;   /**< times a barn's limit was raised */
	uint64_t maintained;      /**< times pcpool_maintain() saw to it; while it
				   *   stays 0, what waits has no bound */
	uint64_t park_slab;       /**< slabs parked, the lock being busy */
	uint64_t unpark_slab;     /**< parked slabs linked or retired */
	uint64_t unpark_event;    /**< times there was something parked */
	uint64_t list_lock;       /**< list_lock acquisitions */
	uint64_t list_lock_contended; /**< of these, not had at the first try */
	uint64_t shared_atomic;   /**< atomic changes of words that CPUs share:
				   *   barns, slabs' free lists, spent sheaves;
				   *   not those of locks and of constructions */
	uint64_t other_lock;      /**< acquisitions of the locks of waiting
				   *   slabs, of all slabs of the cache, and of
				   *   the memory they come from */
};

/** Fill *stats. Returns 0, or EINVAL when an argument is NULL or stats_size is
 *  not one this library knows. Takes the cache's drain lock. */
int pcpool_cache_get_stats(struct pcpool_cache *cache,
		       struct pcpool_cache_stats *stats);

/** Entries of pcpool_percpu_stats.sizes. */
#define PCPOOL_PERCPU_SIZES 14

/** The per-CPU region allocator and the process as a whole. */
struct pcpool_percpu_stats {
	size_t stats_size;        /**< set by the caller */
	uint64_t slots;           /**< copies of each region */
	uint64_t unit_size;       /**< bytes of one slot's part of a chunk */
	uint64_t chunks;          /**< chunks that exist */
	uint64_t regions;         /**< live regions */
	uint64_t region_bytes;    /**< bytes of one copy of all live regions */
	uint64_t block_bytes;     /**< bytes of one unit's worth of the 4 KiB
				   *   blocks they lie in, over all chunks: what
				   *   it is more than region_bytes is lost to
				   *   fragmentation, or held for the next that
				   *   asks */
	uint64_t populated_bytes; /**< bytes of one unit's worth of touched pages,
				   *   over all chunks */
	uint64_t mutex;           /**< holds that serialise allocations: the map
				   *   lock by a single one, the growth mutex by
				   *   a bulk one or to make a chunk */
	uint64_t map_lock;        /**< all holds of the map lock, frees' too */
	uint64_t chunk_alloc;     /**< chunks made */
	uint64_t chunk_free;      /**< chunks given back */
	uint64_t alloc_fail;      /**< allocations that failed */
	uint64_t discarded_bytes; /**< bytes of one unit's pages that
				   *   pcpool_maintain() gave back */
	uint64_t sizes[PCPOOL_PERCPU_SIZES]; /**< live regions by size: of up to
				   *   8 bytes, 16, 32, ... 64 KiB */
};

/** Fill *stats. Returns 0, or EINVAL as above. */
int pcpool_percpu_get_stats(struct pcpool_percpu_stats *stats);

/** Where slabs of all caches get their memory. */
struct pcpool_memory_stats {
	size_t stats_size;   /**< set by the caller */
	uint64_t arenas;     /**< reservations of address space, 64 MiB each */
	uint64_t slab_bytes; /**< in slabs that exist */
	uint64_t idle_bytes; /**< of slabs released lately, kept for the next slab
			      *   of any cache: at most 16 MiB, or as much as
			      *   slab_bytes, or what is missing to its peak of
			      *   the last second or two; what is idle for longer
			      *   goes back with the next released slab, with
			      *   pcpool_maintain(), and all of it with any
			      *   pcpool_cache_shrink() */
};

/** Fill *stats. Returns 0, or EINVAL as above. */
int pcpool_memory_get_stats(struct pcpool_memory_stats *stats);

/** How slots are found: "rseq" or "lock". Static string. */
const char *pcpool_mode(void);
/** What indexes slots: "cpu", "cid", or "hint" in lock mode. Static string. */
const char *pcpool_index(void);
/** Why that mode: one line for a person. Static string. */
const char *pcpool_mode_reason(void);
/** The library's version, "MAJOR.MINOR.PATCH". */
const char *pcpool_version(void);

/**
 * Print mode, regions and every cache as text to a file descriptor. Names are
 * printed with control characters, quotes and backslashes escaped.
 * Returns 0, or an errno value: ENOMEM, EIO, or what write(2) gave.
 */
int pcpool_print(int fd);

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_STATS_H */

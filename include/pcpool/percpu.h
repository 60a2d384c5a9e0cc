/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU regions: memory with one copy for every slot, and operations on the
 * copy of the slot the caller is on.
 *
 * A region is named by a per-CPU pointer, which must not be dereferenced:
 * pcpool_percpu_ptr() turns it into the address of one slot's copy. A slot is
 * a CPU (or, with PCPOOL_OPTIONS=index:cid, a concurrency id). The last slot
 * is nobody's CPU: threads whose CPU the kernel does not tell use it, so that a
 * sum over all slots is exact.
 *
 * Reference: units, chunks and hints of Linux mm/percpu.c; rseq_mempool.
 */
#ifndef PCPOOL_PERCPU_H
#define PCPOOL_PERCPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Largest region in bytes (of one slot's copy). */
#define PCPOOL_PERCPU_SIZE_MAX ((size_t)1 << 16)
/** Largest alignment of a region in bytes. */
#define PCPOOL_PERCPU_ALIGN_MAX ((size_t)4096)

/**
 * Number of slots: an upper bound for pcpool_this_slot() that never changes in
 * the life of the process. Initialises the library; never fails.
 */
unsigned int pcpool_nr_slots(void);

/** Number of NUMA nodes slots are spread over; at least 1, never changes. */
unsigned int pcpool_nr_nodes(void);

/**
 * The slot the caller is on at this moment, below pcpool_nr_slots(). A hint:
 * the thread may move before the value is used.
 */
unsigned int pcpool_this_slot(void);

/**
 * Allocate a region: size bytes for every slot, zeroed.
 *
 * size:  bytes per slot, 1 to PCPOOL_PERCPU_SIZE_MAX.
 * align: power of two up to PCPOOL_PERCPU_ALIGN_MAX; 0: 8, or less for sizes
 *        that cannot need it.
 *
 * Returns the per-CPU pointer, or NULL with errno
 *   EINVAL  size or align out of range, align not a power of two;
 *   ENOMEM  no memory.
 * Takes the lock of the region maps, and the growth mutex when there is no room;
 * no lock of any cache. May be called from a constructor.
 */
void *pcpool_percpu_alloc(size_t size, size_t align);

/**
 * Allocate n regions of the same size and alignment under one hold of the
 * growth mutex, all or none.
 *
 * Returns 0 with ptrs[0..n-1] set, or an errno value with all of them NULL:
 *   EINVAL  as above, or ptrs is NULL while n is not 0;
 *   ENOMEM  no memory, or n * sizeof(void *) overflows.
 */
int pcpool_percpu_alloc_bulk(size_t n, size_t size, size_t align, void **ptrs);

/**
 * Free a region. ptr may be NULL. A pointer that is not the start of a live
 * region (a second free, a stray pointer) is reported to stderr and aborts.
 * May be called from a destructor.
 */
void pcpool_percpu_free(void *ptr);

/** Free n regions; NULL entries are skipped. Returns 0, or EINVAL when ptrs is
 *  NULL while n is not 0 or n * sizeof(void *) overflows. */
int pcpool_percpu_free_bulk(size_t n, void **ptrs);

/**
 * The address of one slot's copy. slot must be below pcpool_nr_slots().
 * Returns NULL with errno EINVAL for a NULL ptr or a slot out of range.
 */
void *pcpool_percpu_ptr(void *ptr, unsigned int slot);

/*
 * Operations on the copy of the slot the caller is on. The whole operation
 * happens on one slot: it is restarted when the thread is preempted or moved,
 * and is atomic against signal handlers. ptr is a per-CPU pointer, perhaps
 * displaced inside the region, to a naturally aligned object. No system call,
 * no lock; safe in a signal handler.
 */
void pcpool_this_cpu_add_u64(void *ptr, uint64_t value);
void pcpool_this_cpu_add_u32(void *ptr, uint32_t value);
uint64_t pcpool_this_cpu_read_u64(void *ptr);
uint32_t pcpool_this_cpu_read_u32(void *ptr);

/** Sum of the 8-byte (4-byte) objects at ptr over all slots, each read once;
 *  exact when nobody adds meanwhile. Wraps like the unsigned type. */
uint64_t pcpool_percpu_sum_u64(void *ptr);
uint32_t pcpool_percpu_sum_u32(void *ptr);

/** Add to the caller's copy of *ptr, a 4- or 8-byte integer; anything else does
 *  not compile. ptr is a typed per-CPU pointer, for instance a uint64_t *.
 *  Evaluates each argument once. */
#define pcpool_this_cpu_add(ptr, value)                                       \
	((void)sizeof(char[sizeof(*(ptr) | 0) && (sizeof(*(ptr)) == 4 ||      \
						  sizeof(*(ptr)) == 8)        \
				   ? 1                                        \
				   : -1]),                                    \
	 sizeof(*(ptr)) == 8                                                  \
		 ? pcpool_this_cpu_add_u64((ptr), (uint64_t)(value))          \
		 : pcpool_this_cpu_add_u32(                                   \
			   (ptr), (uint32_t)(value)))
#define pcpool_this_cpu_inc(ptr) pcpool_this_cpu_add((ptr), 1)

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_PERCPU_H */

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

/*
 * PCPOOL_PERCPU marks a per-CPU pointer for tools that check it: clang (when it
 * knows the attribute) and sparse warn where one is dereferenced or becomes an
 * ordinary pointer. To other compilers it is nothing. It stands where const
 * would:
 *
 *	uint64_t PCPOOL_PERCPU *hits;
 *
 * Parameters below have it and take pointers without it as well; results do not
 * have it, so that who does not use it is not bothered.
 */
#if defined(__CHECKER__)
#define PCPOOL_PERCPU __attribute__((noderef))
#elif defined(__clang__) && defined(__has_attribute)
#if __has_attribute(noderef)
#define PCPOOL_PERCPU __attribute__((noderef))
#endif
#endif
#ifndef PCPOOL_PERCPU
#define PCPOOL_PERCPU
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
void pcpool_percpu_free(void PCPOOL_PERCPU *ptr);

/** Free n regions; NULL entries are skipped. Returns 0, or EINVAL when ptrs is
 *  NULL while n is not 0 or n * sizeof(void *) overflows. */
int pcpool_percpu_free_bulk(size_t n, void **ptrs);

/**
 * The address of one slot's copy. slot must be below pcpool_nr_slots().
 * Returns NULL with errno EINVAL for a NULL ptr or a slot out of range.
 */
void *pcpool_percpu_ptr(void PCPOOL_PERCPU *ptr, unsigned int slot);

/*
 * Operations on the copy of the slot the caller is on. The whole operation
 * happens on one slot: it is restarted when the thread is preempted or moved,
 * and is atomic against signal handlers and against the other operations here.
 * Two operations in a row may happen on two slots.
 *
 * ptr is a per-CPU pointer, perhaps displaced inside the region, to an object
 * of 8 (_u64) or 4 (_u32) bytes, naturally aligned; there is no check. They
 * cannot fail, keep errno, take no lock and make no system call (but for
 * sched_getcpu(3) in lock mode), and are safe in a signal handler.
 *
 * A thread whose CPU the kernel does not tell, and a call that was restarted
 * many times in a row, use the copy of the last slot.
 *
 * Reference: this_cpu operations of Linux.
 */

/** Add value to the caller's copy; it wraps. Orders nothing. */
void pcpool_this_cpu_add_u64(void PCPOOL_PERCPU *ptr, uint64_t value);
void pcpool_this_cpu_add_u32(void PCPOOL_PERCPU *ptr, uint32_t value);

/** The caller's copy, as it was at some moment of the call. Orders nothing. */
uint64_t pcpool_this_cpu_read_u64(void PCPOOL_PERCPU *ptr);
uint32_t pcpool_this_cpu_read_u32(void PCPOOL_PERCPU *ptr);

/**
 * Store value in the caller's copy, and return what was there before.
 *
 * Whoever gets a value by this call or the next sees what the thread that
 * stored it by one of them had written before: a slot's copy can hand over
 * what the value stands for. It is any thread's that comes to the slot; where
 * one value must not be lost, look through all slots in the end.
 */
uint64_t pcpool_this_cpu_xchg_u64(void PCPOOL_PERCPU *ptr, uint64_t value);
uint32_t pcpool_this_cpu_xchg_u32(void PCPOOL_PERCPU *ptr, uint32_t value);

/**
 * Store desired in the caller's copy if that is expected.
 *
 * Returns the copy as it was before: desired was stored if and only if that is
 * equal to expected. A value that was read on another slot is as good as any
 * other: it only makes the call store nothing, or store where the same value
 * was. Order as above, if stored.
 */
uint64_t pcpool_this_cpu_cmpxchg_u64(void PCPOOL_PERCPU *ptr,
				     uint64_t expected, uint64_t desired);
uint32_t pcpool_this_cpu_cmpxchg_u32(void PCPOOL_PERCPU *ptr,
				     uint32_t expected, uint32_t desired);

/** Sum of the 8-byte (4-byte) objects at ptr over all slots, each read once;
 *  exact when nobody adds meanwhile. Wraps like the unsigned type. */
uint64_t pcpool_percpu_sum_u64(void PCPOOL_PERCPU *ptr);
uint32_t pcpool_percpu_sum_u32(void PCPOOL_PERCPU *ptr);

/*
 * The same by the type of *ptr, an integer of 4 or 8 bytes; anything else does
 * not compile. ptr is a typed per-CPU pointer, for instance a uint64_t *. Each
 * argument is evaluated once. What has a result has the type of *ptr.
 */

/* In the three macros that follow: refuse what is no integer of 4 or 8 bytes;
 * the integer's type without qualifiers; one of two calls by its size. */
#define PCPOOL_THIS_CPU_CHECK_(ptr)                                           \
	((void)sizeof(char[sizeof(*(ptr) | 0) && (sizeof(*(ptr)) == 4 ||      \
						  sizeof(*(ptr)) == 8)        \
				   ? 1                                        \
				   : -1]))
#define PCPOOL_THIS_CPU_TYPE_(ptr) __typeof__(*(ptr) | 0)
#define PCPOOL_THIS_CPU_CALL_(ptr, wide, narrow)                              \
	(PCPOOL_THIS_CPU_CHECK_(ptr), sizeof(*(ptr)) == 8 ? (wide) : (narrow))

/** Add value to, or subtract it from, the caller's copy of *ptr. */
#define pcpool_this_cpu_add(ptr, value)                                       \
	PCPOOL_THIS_CPU_CALL_(                                                \
		ptr, pcpool_this_cpu_add_u64((ptr), (uint64_t)(value)),       \
		pcpool_this_cpu_add_u32((ptr), (uint32_t)(value)))
#define pcpool_this_cpu_sub(ptr, value)                                       \
	PCPOOL_THIS_CPU_CALL_(                                                \
		ptr,                                                          \
		pcpool_this_cpu_add_u64((ptr),                                \
					(uint64_t)0 - (uint64_t)(value)),     \
		pcpool_this_cpu_add_u32((ptr),                                \
					(uint32_t)0 - (uint32_t)(value)))
#define pcpool_this_cpu_inc(ptr) pcpool_this_cpu_add((ptr), 1)
#define pcpool_this_cpu_dec(ptr) pcpool_this_cpu_sub((ptr), 1)

/** The caller's copy of *ptr. */
#define pcpool_this_cpu_read(ptr)                                             \
	((PCPOOL_THIS_CPU_TYPE_(ptr))PCPOOL_THIS_CPU_CALL_(                   \
		ptr, pcpool_this_cpu_read_u64((ptr)),                         \
		pcpool_this_cpu_read_u32((ptr))))

/** Store value in the caller's copy of *ptr; the old value. */
#define pcpool_this_cpu_xchg(ptr, value)                                      \
	((PCPOOL_THIS_CPU_TYPE_(ptr))PCPOOL_THIS_CPU_CALL_(                   \
		ptr, pcpool_this_cpu_xchg_u64((ptr), (uint64_t)(value)),      \
		pcpool_this_cpu_xchg_u32((ptr), (uint32_t)(value))))

/** Store desired in the caller's copy of *ptr if that is expected; the old
 *  value, which is expected if and only if desired was stored. */
#define pcpool_this_cpu_cmpxchg(ptr, expected, desired)                       \
	((PCPOOL_THIS_CPU_TYPE_(ptr))PCPOOL_THIS_CPU_CALL_(                   \
		ptr,                                                          \
		pcpool_this_cpu_cmpxchg_u64((ptr), (uint64_t)(expected),      \
					    (uint64_t)(desired)),             \
		pcpool_this_cpu_cmpxchg_u32((ptr), (uint32_t)(expected),      \
					    (uint32_t)(desired))))

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_PERCPU_H */

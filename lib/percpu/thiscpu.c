/* SPDX-License-Identifier: MIT */
/*
 * Slots, copies, and operations on the copy of the slot the caller is on.
 *
 * In rseq mode a slot's copy is changed by restartable sections only, with
 * plain instructions: two sections of one slot never overlap. The stray slot's
 * copy, which no section ever reaches, is changed atomically, by threads that
 * have no slot and by calls whose section was restarted too often; sums include
 * it. In lock mode the slot is a hint and every change is atomic.
 */
#include <config.h>

#include <errno.h>

#include <pcpool/percpu.h>

#include "cpu/init.h"
#include "cpu/rseq.h"
#include "cpu/topology.h"
#include "percpu/region.h"

PCP_API unsigned int pcpool_nr_slots(void)
{
	pcp_init();
	return pcp_nr_slots();
}

PCP_API unsigned int pcpool_nr_nodes(void)
{
	pcp_init();
	return pcp_topology.nr_nodes;
}

static inline bool is_stray(unsigned int slot)
{
	return pcp_index.rseq && slot == pcp_index.stray;
}

PCP_API unsigned int pcpool_this_slot(void)
{
	unsigned int slot;

	pcp_init();
	slot = pcp_this_slot();
	/* The caller asks in order to write there. */
	if (pcp_unlikely(is_stray(slot)))
		pcp_note_stray();
	return slot;
}

PCP_API void *pcpool_percpu_ptr(void *ptr, unsigned int slot)
{
	pcp_init();
	if (pcp_unlikely(!ptr || slot >= pcp_nr_slots())) {
		errno = EINVAL;
		return NULL;
	}
	if (pcp_unlikely(is_stray(slot)))
		pcp_note_stray();
	return pcp_percpu_copy(ptr, slot);
}

/* --- where an operation happens --------------------------------------------
 */

#define STRIDE pcp_chunk_geometry.stride

/* What the first try of a section did not do; the functions that follow are
 * apart, so that the first try saves no registers. In rseq mode the section is
 * tried again; where that does not help either, the stray slot's copy serves.
 * In lock mode the caller's own copy does. */
#define DONE_AT_LAST(section)                                                  \
	({                                                                     \
		enum pcp_section result_ =                                     \
			pcp_index.rseq ? PCP_ABORTED : PCP_REFUSED;            \
		for (int i_ = 1;                                               \
		     result_ == PCP_ABORTED && i_ < PCP_ABORTS_MAX; i_++)      \
			result_ = (section);                                   \
		result_ == PCP_DONE;                                           \
	})

/* The copy to change by an atomic instruction. */
static inline void *shared_copy(void *ptr)
{
	if (!pcp_index.rseq)
		return pcp_percpu_copy(ptr, pcp_this_slot());
	pcp_note_stray();
	return pcp_percpu_copy(ptr, pcp_index.stray);
}

PCP_NOINLINE static void add_slow_u64(void *ptr, uint64_t value)
{
	if (!DONE_AT_LAST(pcp_rseq_add_u64(ptr, STRIDE, value)))
		pcp_add((uint64_t *)shared_copy(ptr), value);
}

PCP_NOINLINE static void add_slow_u32(void *ptr, uint32_t value)
{
	if (!DONE_AT_LAST(pcp_rseq_add_u32(ptr, STRIDE, value)))
		pcp_add((uint32_t *)shared_copy(ptr), value);
}

/* What is exchanged may stand for something: acquire and release. */
PCP_NOINLINE static uint64_t xchg_slow_u64(void *ptr, uint64_t value)
{
	uint64_t old = 0;

	if (DONE_AT_LAST(pcp_rseq_xchg_u64(ptr, STRIDE, value, &old)))
		return old;
	return pcp_xchg((uint64_t *)shared_copy(ptr), value);
}

PCP_NOINLINE static uint32_t xchg_slow_u32(void *ptr, uint32_t value)
{
	uint32_t old = 0;

	if (DONE_AT_LAST(pcp_rseq_xchg_u32(ptr, STRIDE, value, &old)))
		return old;
	return pcp_xchg((uint32_t *)shared_copy(ptr), value);
}

PCP_NOINLINE static uint64_t cmpxchg_slow_u64(void *ptr, uint64_t expected,
					      uint64_t desired)
{
	uint64_t old = 0;

	if (DONE_AT_LAST(pcp_rseq_cmpxchg_u64(ptr, STRIDE, expected, desired,
					      &old)))
		return old;
	/* Either way expected is then what was there. */
	(void)pcp_cas((uint64_t *)shared_copy(ptr), &expected, desired);
	return expected;
}

PCP_NOINLINE static uint32_t cmpxchg_slow_u32(void *ptr, uint32_t expected,
					      uint32_t desired)
{
	uint32_t old = 0;

	if (DONE_AT_LAST(pcp_rseq_cmpxchg_u32(ptr, STRIDE, expected, desired,
					      &old)))
		return old;
	(void)pcp_cas((uint32_t *)shared_copy(ptr), &expected, desired);
	return expected;
}

/* --- the public calls ------------------------------------------------------
 */

#define DONE(section)                                                          \
	(pcp_likely(pcp_index.rseq) && pcp_likely((section) == PCP_DONE))

PCP_API void pcpool_this_cpu_add_u64(void *ptr, uint64_t value)
{
	if (!DONE(pcp_rseq_add_u64(ptr, STRIDE, value)))
		add_slow_u64(ptr, value);
}

PCP_API void pcpool_this_cpu_add_u32(void *ptr, uint32_t value)
{
	if (!DONE(pcp_rseq_add_u32(ptr, STRIDE, value)))
		add_slow_u32(ptr, value);
}

PCP_API uint64_t pcpool_this_cpu_xchg_u64(void *ptr, uint64_t value)
{
	uint64_t old;

	if (DONE(pcp_rseq_xchg_u64(ptr, STRIDE, value, &old)))
		return old;
	return xchg_slow_u64(ptr, value);
}

PCP_API uint32_t pcpool_this_cpu_xchg_u32(void *ptr, uint32_t value)
{
	uint32_t old;

	if (DONE(pcp_rseq_xchg_u32(ptr, STRIDE, value, &old)))
		return old;
	return xchg_slow_u32(ptr, value);
}

PCP_API uint64_t pcpool_this_cpu_cmpxchg_u64(void *ptr, uint64_t expected,
					     uint64_t desired)
{
	uint64_t old;

	if (DONE(pcp_rseq_cmpxchg_u64(ptr, STRIDE, expected, desired, &old)))
		return old;
	return cmpxchg_slow_u64(ptr, expected, desired);
}

PCP_API uint32_t pcpool_this_cpu_cmpxchg_u32(void *ptr, uint32_t expected,
					     uint32_t desired)
{
	uint32_t old;

	if (DONE(pcp_rseq_cmpxchg_u32(ptr, STRIDE, expected, desired, &old)))
		return old;
	return cmpxchg_slow_u32(ptr, expected, desired);
}

PCP_API uint64_t pcpool_this_cpu_read_u64(void *ptr)
{
	uint64_t *copy = pcp_percpu_copy(ptr, pcp_this_slot());

	return pcp_load(copy);
}

PCP_API uint32_t pcpool_this_cpu_read_u32(void *ptr)
{
	uint32_t *copy = pcp_percpu_copy(ptr, pcp_this_slot());

	return pcp_load(copy);
}

PCP_API uint64_t pcpool_percpu_sum_u64(void *ptr)
{
	return pcp_percpu_sum_u64(ptr);
}

PCP_API uint32_t pcpool_percpu_sum_u32(void *ptr)
{
	uint32_t sum = 0;

	for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++) {
		uint32_t *copy = pcp_percpu_copy(ptr, slot);

		sum += pcp_load(copy);
	}
	return sum;
}

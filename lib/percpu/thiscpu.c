/* SPDX-License-Identifier: MIT */
/*
 * Slots, copies, and operations on the copy of the slot the caller is on.
 *
 * In rseq mode a slot's copy is added to by restartable sections only, with a
 * plain add: two sections of one slot never overlap. The stray slot's copy,
 * which no section ever reaches, takes atomic adds from threads that have no
 * slot and from calls whose section was restarted too often; sums include it.
 * In lock mode the slot is a hint and every add is atomic.
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

PCP_NOINLINE static void stray_add_u64(void *ptr, uint64_t value)
{
	uint64_t *copy = pcp_percpu_copy(ptr, pcp_index.stray);

	pcp_note_stray();
	pcp_add(copy, value);
}

PCP_NOINLINE static void stray_add_u32(void *ptr, uint32_t value)
{
	uint32_t *copy = pcp_percpu_copy(ptr, pcp_index.stray);

	pcp_note_stray();
	pcp_add(copy, value);
}

PCP_API void pcpool_this_cpu_add_u64(void *ptr, uint64_t value)
{
	uint64_t *copy;

	if (pcp_likely(pcp_index.rseq)) {
		for (int i = 0; i < PCP_ABORTS_MAX; i++) {
			enum pcp_section result = pcp_rseq_add_u64(
				ptr, pcp_chunk_geometry.stride, value);

			if (pcp_likely(result == PCP_DONE))
				return;
			if (result == PCP_REFUSED)
				break;
		}
		stray_add_u64(ptr, value);
		return;
	}
	copy = pcp_percpu_copy(ptr, pcp_this_slot());
	pcp_add(copy, value);
}

PCP_API void pcpool_this_cpu_add_u32(void *ptr, uint32_t value)
{
	uint32_t *copy;

	if (pcp_likely(pcp_index.rseq)) {
		for (int i = 0; i < PCP_ABORTS_MAX; i++) {
			enum pcp_section result = pcp_rseq_add_u32(
				ptr, pcp_chunk_geometry.stride, value);

			if (pcp_likely(result == PCP_DONE))
				return;
			if (result == PCP_REFUSED)
				break;
		}
		stray_add_u32(ptr, value);
		return;
	}
	copy = pcp_percpu_copy(ptr, pcp_this_slot());
	pcp_add(copy, value);
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
	uint64_t sum = 0;

	for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++) {
		uint64_t *copy = pcp_percpu_copy(ptr, slot);

		sum += pcp_load(copy);
	}
	return sum;
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

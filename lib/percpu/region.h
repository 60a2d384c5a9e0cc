/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU regions, for the floors above: what <pcpool/percpu.h> offers, with
 * the caller's address for messages, and the figures.
 *
 * Locks: the growth mutex (PCP_RANK_PERCPU_GROW) and the leaf lock
 * (PCP_RANK_PERCPU_MAP). Freeing takes the leaf lock only. Memory is zeroed,
 * and a chunk given back, with neither held.
 */
#ifndef PCP_PERCPU_REGION_H
#define PCP_PERCPU_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/budget.h"
#include "cpu/index.h"
#include "percpu/chunk.h"

/* A slot's copy of a per-CPU pointer. */
static inline void *pcp_percpu_copy(void *p, unsigned int slot)
{
	return (char *)p + slot * pcp_chunk_geometry.stride;
}

/* Over all slots, each copy read once. */
static inline uint64_t pcp_percpu_sum_u64(void *p)
{
	uint64_t sum = 0;

	for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++) {
		const uint64_t *copy = pcp_percpu_copy(p, slot);

		sum += pcp_load(copy);
	}
	return sum;
}

/* Whether anything may ever have been written to the stray slot's copies. Set
 * before the first write, never cleared. */
extern unsigned char pcp_stray_used;

static inline void pcp_note_stray(void)
{
	if (pcp_unlikely(!pcp_load(&pcp_stray_used)))
		pcp_store(&pcp_stray_used, (unsigned char)1);
}

/* 0 with ptrs[0..n-1] set, or an errno value with all of them NULL; see
 * pcpool_percpu_alloc_bulk(). errno is kept. */
int pcp_region_alloc_bulk(size_t n, size_t size, size_t align, void **ptrs);

/* The region, or NULL with errno. */
void *pcp_region_alloc(size_t size, size_t align);

/* Zero every slot's copy of part of a live region; what is zero already is only
 * read. p and size are multiples of 8. */
void pcp_region_zero(void *p, size_t size);

/* Free n regions; NULL entries are skipped. What is no live region ends the
 * process with a message that names it and the caller. errno is kept. */
void pcp_region_free_bulk(size_t n, void *const *ptrs, const void *caller);

/*
 * Give back pages that were not needed: those of a block that was free at the
 * call before and since. A run of blocks, in each slot's unit, is one step for
 * each 16 slots. Returns whether the end was reached; if not the next call goes
 * on, with no new look at what is free. One thread at a time; no lock held;
 * errno is kept.
 */
bool pcp_region_tend(struct pcp_budget *budget);

/* Of live regions by size: 8 bytes, 16, 32, … */
#define PCP_SIZE_CLASSES 14U

struct pcp_percpu_snapshot {
	uint64_t slots;
	uint64_t unit_size;
	uint64_t chunks;
	uint64_t regions;
	uint64_t region_bytes;
	uint64_t block_bytes;
	uint64_t populated_bytes;
	/* Serialising holds of allocating calls: of the leaf lock by a single
	 * allocation, of the growth mutex by a bulk one or to make a chunk. */
	uint64_t mutex;
	uint64_t map_lock; /* all holds of the leaf lock */
	uint64_t chunk_alloc;
	uint64_t chunk_free;
	uint64_t alloc_fail;
	uint64_t discarded_bytes;
	uint64_t scans; /* blocks searched */
	uint64_t sizes[PCP_SIZE_CLASSES];
};

/* Takes both locks, and does not count that. */
void pcp_percpu_stats(struct pcp_percpu_snapshot *snapshot);

/* Around a fork: take both locks in rank order, and release them in the parent
 * or make them new in the child. Entered at PCP_FORK_PERCPU by the first use of
 * regions. */
void pcp_percpu_fork_prepare(void);
void pcp_percpu_fork_parent(void);
void pcp_percpu_fork_child(void);

#if PCP_DEBUG
/* Recount the maps of all chunks the slow way: 0, or the line of verify.c whose
 * check failed. */
int pcp_percpu_verify(void);
#endif

#endif /* PCP_PERCPU_REGION_H */

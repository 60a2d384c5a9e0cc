/* SPDX-License-Identifier: MIT */
/*
 * Event counters of one cache: a line of words per slot, summed on read.
 *
 * Only slow paths count here; how often the fast path ran is kept by the word
 * of each sheaf. The table is address space that costs memory only for slots
 * that counted something.
 */
#ifndef PCP_CPU_STAT_H
#define PCP_CPU_STAT_H

#include <stdint.h>

#include "base/atomic.h"
#include "cpu/index.h"

enum pcp_stat_id {
	PCP_STAT_CTOR_OK,
	PCP_STAT_CTOR_FAIL,
	PCP_STAT_DTOR,
	PCP_STAT_MEM_FAIL,
	PCP_STAT_FAST_ALLOC, /* folded from sheaf words when they are unhooked */
	PCP_STAT_FAST_FREE,
	PCP_STAT_SLOW_ALLOC,
	PCP_STAT_SLOW_FREE,
	PCP_STAT_BULK_HELD, /* taken by bulk calls that are not done: not live;
			     * goes down too, the sum counts */
	PCP_STAT_ALLOC_FAIL,
	PCP_STAT_ALLOC_SLAB,
	PCP_STAT_FREE_SLAB,
	PCP_STAT_ADD_PARTIAL,
	PCP_STAT_REMOVE_PARTIAL,
	PCP_STAT_CMPXCHG_FAIL,
	PCP_STAT_BARN_GET,
	PCP_STAT_BARN_GET_FAIL,
	PCP_STAT_BARN_PUT,
	PCP_STAT_BARN_PUT_FAIL,
	PCP_STAT_SHEAF_ALLOC,
	PCP_STAT_SHEAF_FREE,
	PCP_STAT_SHEAF_REFILL,
	PCP_STAT_SHEAF_FLUSH,
	PCP_STAT_RSEQ_ABORT,
	PCP_STAT_BYPASS,
	PCP_STAT_DRAIN,
	PCP_STAT_DRAIN_RETRY,
	PCP_STAT_DRAIN_FAIL,
	PCP_STAT_PREFILL_FAST,
	PCP_STAT_PREFILL_SLOW,
	PCP_STAT_PREFILL_OVERSIZE,
	PCP_STAT_RETURN_FAST,
	PCP_STAT_RETURN_SLOW,
	PCP_STAT_SLOT_MISS,
	PCP_STAT_FREE_RCU_SHEAF,
	PCP_STAT_FREE_RCU_SHEAF_FAIL,
	PCP_STAT_RCU_HURRY,
	PCP_STAT_CAPACITY_UP,
	PCP_STAT_CAPACITY_DOWN,
	PCP_STAT_BARN_LIMIT_UP,
	PCP_STAT_TENDED,
	PCP_STAT_PARK_SLAB,
	PCP_STAT_UNPARK_SLAB,
	PCP_STAT_UNPARK_EVENT,
	PCP_STAT_LIST_LOCK,
	PCP_STAT_LIST_LOCK_CONTENDED,
	PCP_STAT_SHARED_ATOMIC,
	PCP_STAT_OTHER_LOCK,
	PCP_STAT_COUNT
};

/* Words per slot, rounded up to whole pairs of lines. */
#define PCP_STAT_STRIDE ((PCP_STAT_COUNT + 15U) & ~15U)

struct pcp_stat {
	uint64_t *words; /* pcp_nr_slots() * PCP_STAT_STRIDE */
	size_t bytes;
};

/* 0 or ENOMEM. */
int pcp_stat_init(struct pcp_stat *stat);
void pcp_stat_destroy(struct pcp_stat *stat);
uint64_t pcp_stat_sum(const struct pcp_stat *stat, enum pcp_stat_id id);

/* Bytes of the slots that counted anything. */
uint64_t pcp_stat_touched(const struct pcp_stat *stat);

static inline uint64_t pcp_stat_of(const struct pcp_stat *stat,
				   unsigned int slot, enum pcp_stat_id id)
{
	return pcp_load(&stat->words[slot * PCP_STAT_STRIDE + id]);
}

/* What the caller's slot counted. */
static inline uint64_t pcp_stat_here(const struct pcp_stat *stat,
				     enum pcp_stat_id id)
{
	return pcp_stat_of(stat, pcp_this_slot(), id);
}

static inline void pcp_stat_add_to(struct pcp_stat *stat, unsigned int slot,
				   enum pcp_stat_id id, uint64_t n)
{
	pcp_add(&stat->words[slot * PCP_STAT_STRIDE + id], n);
}

static inline void pcp_stat_add(struct pcp_stat *stat, enum pcp_stat_id id,
				uint64_t n)
{
	/* Atomic, for the thread may move on between finding its slot and
	 * adding; on the slot's own line nonetheless nearly always. */
	pcp_stat_add_to(stat, pcp_this_slot(), id, n);
}

static inline void pcp_stat_inc(struct pcp_stat *stat, enum pcp_stat_id id)
{
	pcp_stat_add(stat, id, 1);
}

/* n atomic read-modify-writes of words that CPUs share were done: what a cache
 * costs beyond its own lines. Counted once for all of a call. */
static inline void pcp_stat_shared(struct pcp_stat *stat, uint64_t n)
{
	pcp_stat_add(stat, PCP_STAT_SHARED_ATOMIC, n);
}

#endif /* PCP_CPU_STAT_H */

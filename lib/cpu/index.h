/* SPDX-License-Identifier: MIT */
/*
 * Which slot am I: the mode of the process, decided once, and the index.
 *
 * rseq mode: restartable sections are available and the kernel can fence them.
 *   The index is cpu_id or mm_cid, read from glibc's registered area at a fixed
 *   offset from the thread pointer. pcpool writes nothing there but rseq_cs.
 * lock mode: everything else. A slot has a lock, the CPU number is a hint.
 *
 * A thread that is not registered (its cpu_id is negative) has no slot of its
 * own in rseq mode.
 */
#ifndef PCP_CPU_INDEX_H
#define PCP_CPU_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/* Distances from the thread pointer, for the sections: of the rseq area, and of
 * the field in it that is the index. Variables of their own, so that a section
 * loads each with one instruction. */
extern PCP_HIDDEN ptrdiff_t pcp_rseq_area, pcp_rseq_id;

struct pcp_index {
	unsigned int nr_ids; /* every valid index is below it */
	unsigned int stray;  /* slot of unregistered threads, for per-CPU data:
			      * nr_ids in rseq mode; unused in lock mode */
	bool rseq;
	bool cid;
	bool hash;	     /* lock mode, more slots than CPUs: spread threads */
	const char *reason;  /* why this mode, for a person */
};

extern PCP_HIDDEN struct pcp_index pcp_index;

/* Decide. After pcp_topology_init(); called by the library's initialisation
 * only; idempotent. */
void pcp_index_init(void);

/* The caller's index at this moment: below nr_ids, or -1 for an unregistered
 * thread in rseq mode. A hint as soon as it is returned. */
long pcp_this_index(void);

/* Slots of per-CPU data: nr_ids, and the stray one in rseq mode. */
static inline unsigned int pcp_nr_slots(void)
{
	return pcp_index.nr_ids + (pcp_index.rseq ? 1U : 0U);
}

/* As pcp_this_index(), for per-CPU data: never negative, below
 * pcp_nr_slots(). */
static inline unsigned int pcp_this_slot(void)
{
	long index = pcp_this_index();

	return index >= 0 ? (unsigned int)index : pcp_index.stray;
}

/* The memory node the caller runs on; with cid by its node_id field. */
unsigned int pcp_this_node(void);

/* The node whose barn a slot uses: a CPU's own; with cid or in lock mode with
 * hashed slots there is none, and the caller's node serves. */
unsigned int pcp_slot_node(long index);

#endif /* PCP_CPU_INDEX_H */

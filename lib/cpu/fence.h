/* SPDX-License-Identifier: MIT */
/*
 * Fences against restartable sections, by membarrier(2).
 *
 * On return every section that was running when the call was made has either
 * committed or been aborted, and its committed store is visible to the caller.
 */
#ifndef PCP_CPU_FENCE_H
#define PCP_CPU_FENCE_H

/* Register the process. 0 or an errno value; idempotent, also used in a forked
 * child. */
int pcp_fence_init(void);

/* Fence the sections that run on the slot of this index. With cid that is
 * every CPU, for a concurrency id may be in use on any. 0 or an errno value of
 * membarrier(2): then nothing may be assumed. */
int pcp_fence_slot(unsigned int index);

/* Fence every CPU's. */
int pcp_fence_all(void);

#endif /* PCP_CPU_FENCE_H */

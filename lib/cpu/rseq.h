/* SPDX-License-Identifier: MIT */
/*
 * The restartable sections: what each does, machine by machine alike.
 *
 * A section runs on the slot of the index it reads itself, and ends with one
 * committing store, its only visible effect; it contains no call. The kernel
 * restarts it at its abort label when the thread was preempted, migrated or
 * signalled before the commit, so two sections of one slot never overlap.
 * rseq-x86-64.h and rseq-aarch64.h implement the functions below; elsewhere
 * (rseq-none.h) the library is built for lock mode only.
 *
 * Every function returns
 *   PCP_DONE     committed;
 *   PCP_REFUSED  a check failed: the caller takes the slow path;
 *   PCP_ABORTED  the kernel restarted the section; nothing happened.
 * All refuse in a thread whose cpu_id is negative (it is not registered, so its
 * sections would not be restarted): with mm_cid as the index this is a check of
 * its own, for that field is 0 there.
 *
 * In the notation below `index` is the caller's, read in the section.
 *
 *   pcp_rseq_pop(slots, &obj)
 *       sheaf = slots[index].main; word = sheaf->word; size = word & 0xffff
 *       size == 0: refused
 *       obj = sheaf->objects[size - 1]
 *       commit sheaf->word = word - 1 + (1 << 16)
 *
 *   pcp_rseq_push(slots, obj)
 *       sheaf = slots[index].main; word = sheaf->word; size = word & 0xffff
 *       size == sheaf->capacity: refused
 *       sheaf->objects[size] = obj     (beyond the size: nobody's yet)
 *       commit sheaf->word = word + 1
 *
 *   pcp_rseq_push_at(slots, offset, obj, closed)
 *       slots[index].main == closed: refused        (acquire)
 *       sheaf = *(slot + offset); sheaf == NULL: refused
 *       then as pcp_rseq_push()
 *
 *   pcp_rseq_pop_many(slots, n, objs, &done)          n >= 1
 *       size == 0: refused; done = min(n, size)
 *       objs[i] = sheaf->objects[size - 1 - i] for i < done
 *       commit sheaf->word = word - done + (done << 16)
 *
 *   pcp_rseq_push_many(slots, n, objs, &done)         n >= 1
 *       room = capacity - size; room == 0: refused; done = min(n, room)
 *       sheaf->objects[size + i] = objs[i] for i < done
 *       commit sheaf->word = word + done
 *
 *   pcp_rseq_commit(slots, expected_index, offset, expect, desired, closed)
 *       index != expected_index: refused
 *       slots[index].main == closed: refused        (acquire)
 *       *(slot + offset) != expect: refused
 *       commit *(slot + offset) = desired           (release)
 *
 *   pcp_rseq_add_u64(p, stride, value)  and _u32
 *       commit *(p + index * stride) += value
 *
 *   pcp_rseq_add_within(p, stride, value, span)       span < 2^62
 *       sum = *(p + index * stride) + value
 *       signed overflow, or |sum| > span: refused
 *       commit *(p + index * stride) = sum
 *
 *   pcp_rseq_xchg_u64(p, stride, value, &old)  and _u32
 *       old = *(p + index * stride)                 (acquire)
 *       commit *(p + index * stride) = value        (release)
 *
 *   pcp_rseq_cmpxchg_u64(p, stride, expected, desired, &old)  and _u32
 *       old = *(p + index * stride)                 (acquire)
 *       old != expected: done, nothing is committed
 *       commit *(p + index * stride) = desired      (release)
 */
#ifndef PCP_CPU_RSEQ_H
#define PCP_CPU_RSEQ_H

#include "base/compiler.h"
#include "cpu/index.h"

/* The layout the sections assume; lib/slot asserts it. */
#define PCP_SLOT_SHIFT 6	/* log2 of the distance between two slots */
#define PCP_SLOT_MAIN 0		/* offsets in a slot */
#define PCP_SLOT_SPARE 8
#define PCP_SLOT_RCU 16
#define PCP_SHEAF_WORD 0	/* offsets in a sheaf */
#define PCP_SHEAF_CAPACITY 8
#define PCP_SHEAF_OBJECTS 16
#define PCP_SHEAF_SIZE_MASK 0xffffU
#define PCP_SHEAF_ALLOC_SHIFT 16

enum pcp_section { PCP_DONE, PCP_REFUSED, PCP_ABORTED };

/* After so many aborts in a row a call goes past the slots: a debugger that
 * steps through a section would otherwise restart it for ever. */
#define PCP_ABORTS_MAX 8

#if !PCP_HAVE_RSEQ
#include "cpu/rseq-none.h"
#elif defined(__x86_64__)
#include "cpu/rseq-x86-64.h"
#elif defined(__aarch64__)
#include "cpu/rseq-aarch64.h"
#else
#error "configure found rseq sections for a machine that has none"
#endif

#endif /* PCP_CPU_RSEQ_H */

/* SPDX-License-Identifier: MIT */
/*
 * Ledgers: what stands behind accounts.
 *
 * `charged` of a ledger is what is used of it and below it, and what CPUs have
 * set aside of it and below it. It changes under one lock, together with that of
 * all ledgers above it, so that a limit is never passed and never refuses what
 * would fit, however many try. The lock is taken once for a batch: each slot has
 * a word with the bytes it has set aside, changed by atomic operations, which on
 * the slot's own line cost a few ns and let anyone call them in without a fence.
 *
 * Ledgers are used again and never freed: who adds to a slot's word after the
 * ledger was closed may look at it once more when it is gone, and finds some
 * ledger.
 */
#ifndef PCP_PERCPU_LEDGER_H
#define PCP_PERCPU_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Bytes set aside at once, at most. */
#define PCP_LEDGER_BATCH (UINT64_C(64) << 10)

#define PCP_LEDGER_DEPTH 16U

struct pcpool_account {
	/* Of the ledger's slots: bytes set aside, a per-CPU pointer. */
	uint64_t *aside;
	bool closed; /* given up; sequentially consistent with `aside` */
	bool over;   /* more is charged than a limit that was lowered allows, or
		      * was lately: what comes back is not set aside; as above */
	bool idle;   /* to be used again; ledger lock, as all that follows */
	struct pcpool_account *parent;
	struct pcpool_account *first, *next; /* child, and the next sibling */
	uint64_t charged;
	uint64_t limit;
	uint64_t peak;
	uint64_t fails;
	unsigned int depth;
};

/* NULL with errno. Takes the locks of regions. */
struct pcpool_account *pcp_ledger_new(struct pcpool_account *parent,
				      uint64_t limit);
void pcp_ledger_close(struct pcpool_account *ledger);

/* 0 or EDQUOT. */
int pcp_ledger_charge(struct pcpool_account *ledger, uint64_t bytes);
void pcp_ledger_uncharge(struct pcpool_account *ledger, uint64_t bytes);

void pcp_ledger_limit(struct pcpool_account *ledger, uint64_t limit);

struct pcp_ledger_sum {
	uint64_t charged, aside, limit, peak, fails;
};
void pcp_ledger_sum(struct pcpool_account *ledger, struct pcp_ledger_sum *sum);

#endif /* PCP_PERCPU_LEDGER_H */

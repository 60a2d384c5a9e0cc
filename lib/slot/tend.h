/* SPDX-License-Identifier: MIT */
/*
 * Tending a stock: what it did not need since the last time goes back.
 *
 * A look decides, once a period; giving back may take several calls, between
 * which there is no time to use anything. Needed is what was used: a slot that
 * changed; of a barn's full sheaves and of
 * a node's waiting slabs those beyond the fewest there were in between, which
 * nobody missed. Each step is a slot emptied, a barn's sheaf emptied, or a slab
 * released, and counts against a budget.
 *
 * Reference: the working-set estimates of FreeBSD UMA and of libumem's depot.
 */
#ifndef PCP_SLOT_TEND_H
#define PCP_SLOT_TEND_H

#include "base/budget.h"
#include "slot/stock.h"

/* Tend a stock: anew, look what was not needed since the last look; and give that
 * back as far as the budget goes. May run destructors; no lock held. Returns
 * whether all was given back; if not the next call goes on, without another
 * look. *err becomes an errno value when some slot could not be fenced. */
bool pcp_stock_tend(struct pcp_stock *stock, bool anew,
		    struct pcp_budget *budget, int *err);

#endif /* PCP_SLOT_TEND_H */

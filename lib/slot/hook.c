/* SPDX-License-Identifier: MIT */
/*
 * Sheaves in and out of a slot: single commits, and what happens to a sheaf
 * that was refused or replaced.
 */
#include <config.h>

#include "base/fault.h"
#include "slot/ops.h"

struct pcp_sheaf *pcp_slot_unhook(struct pcp_stock *stock, long index,
				  enum pcp_slot_word word)
{
	struct pcp_sheaf *sheaf = pcp_slot_peek(stock, index, word);
	struct pcp_sheaf *instead = word == PCP_MAIN ? PCP_EMPTY : NULL;

	if (!sheaf || pcp_is_sentinel(sheaf) ||
	    !pcp_slot_commit(stock, index, word, sheaf, instead))
		return NULL;
	if (word == PCP_MAIN)
		pcp_sheaf_end(sheaf, &stock->kind.stat);
	return sheaf;
}

void pcp_slot_install(struct pcp_stock *stock, long index, unsigned int node,
		      struct pcp_sheaf *sheaf, enum pcp_hook_id hook,
		      struct pcp_slab_link *dead)
{
	struct pcp_sheaf *old = pcp_slot_peek(stock, index, PCP_MAIN);

	PCP_HOOK(hook);
	pcp_sheaf_begin(sheaf);
	if (pcp_slot_commit(stock, index, PCP_MAIN, old, sheaf)) {
		if (pcp_is_sentinel(old))
			return;
		sheaf = old;
	}
	/* The replaced main, or, refused, the sheaf itself, on which nothing
	 * was counted. */
	pcp_sheaf_end(sheaf, &stock->kind.stat);
	PCP_HOOK((enum pcp_hook_id)(hook + 1));
	if (!pcp_slot_commit(stock, index, PCP_SPARE, NULL, sheaf))
		pcp_stock_put_sheaf(stock, node, sheaf, dead);
}

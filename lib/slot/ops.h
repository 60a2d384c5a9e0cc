/* SPDX-License-Identifier: MIT */
/*
 * The operations on the caller's slot, the same in both modes.
 *
 * In rseq mode each is a section, tried again when the kernel restarted it, up
 * to PCP_ABORTS_MAX times; in lock mode each tries the slot's lock once. Either
 * way a refusal is no error: the caller takes the next layer.
 */
#ifndef PCP_SLOT_OPS_H
#define PCP_SLOT_OPS_H

#include "base/fault.h"
#include "slot/stock.h"

/* Take from, put into the main of the slot the caller is on. */
bool pcp_slot_pop(struct pcp_stock *stock, void **obj);
bool pcp_slot_push(struct pcp_stock *stock, void *obj);

/* Put into the rcu sheaf of the slot the caller is on. */
bool pcp_slot_push_rcu(struct pcp_stock *stock, void *obj);

/* As many of n as the main has or has room for; 0: refused. */
size_t pcp_slot_pop_many(struct pcp_stock *stock, size_t n, void **objs);
size_t pcp_slot_push_many(struct pcp_stock *stock, size_t n,
			  void *const *objs);

/* The words of a slot that can be committed to. */
enum pcp_slot_word { PCP_MAIN, PCP_SPARE, PCP_RCU };

/* A look at a word of any slot, stale as soon as it is returned. */
struct pcp_sheaf *pcp_slot_peek(struct pcp_stock *stock, long index,
				enum pcp_slot_word word);

/* If the caller is on this slot, the slot is not closed, and the word still is
 * `expect`: make it `desired`. On success the caller owns expect and has given
 * up desired. */
bool pcp_slot_commit(struct pcp_stock *stock, long index,
		     enum pcp_slot_word word, struct pcp_sheaf *expect,
		     struct pcp_sheaf *desired);

/* Unhook the main (leaving EMPTY) or another word (leaving NULL) of the caller's
 * slot. NULL: there was none, or the commit was refused. */
struct pcp_sheaf *pcp_slot_unhook(struct pcp_stock *stock, long index,
				  enum pcp_slot_word word);

/* Make a sheaf the caller owns the main of its slot; what it replaces becomes
 * the spare if there is none. Whatever finds no place there goes to the barn of
 * the node or is emptied. `hook` runs before the commit, the next one after. */
void pcp_slot_install(struct pcp_stock *stock, long index, unsigned int node,
		      struct pcp_sheaf *sheaf, enum pcp_hook_id hook,
		      struct pcp_slab_link *dead);

/* Whether a slot can be used at all: a registered thread's, and not closed. */
static inline bool pcp_slot_usable(struct pcp_stock *stock, long index)
{
	return index >= 0 && !stock->bypass &&
	       pcp_slot_peek(stock, index, PCP_MAIN) != PCP_CLOSED;
}

/* Lock mode: wait for a slot's lock. For drains only. */
void pcp_slot_lock(struct pcp_slot *slot);
void pcp_slot_unlock(struct pcp_slot *slot);

#endif /* PCP_SLOT_OPS_H */

/* SPDX-License-Identifier: MIT */
/* The books of a stock: how many objects are where. */
#ifndef PCP_SLOT_BOOK_H
#define PCP_SLOT_BOOK_H

#include "slot/stock.h"

struct pcp_book {
	uint64_t alloc_fast, free_fast; /* by sections, hooked mains included */
	uint64_t alloc_slow, free_slow;
	uint64_t live;	  /* handed out and not given back */
	uint64_t cached;  /* in sheaves that slots, barns and users hold */
	uint64_t deferred; /* waiting for a grace period, or about to */
	uint64_t deferring; /* of these, in sheaves of slots */
	uint64_t held;	  /* sheaves that users have */
	uint64_t inuse;	  /* out of their slabs */
	uint64_t out;	  /* built, and marked as out of their slabs */
	uint64_t slabs, partial, waiting;
	uint64_t sheaves, sheaf_bytes;
};

/* Exact when nobody uses the cache meanwhile. With `out`, also fills that field,
 * which looks at every object. Takes the drain lock, and under it the slabs
 * lock. */
void pcp_stock_book(struct pcp_stock *stock, struct pcp_book *book, bool out);

/* Objects that wait for a grace period, or are about to. Takes the drain lock. */
uint64_t pcp_stock_deferred(struct pcp_stock *stock);

/* Built objects that threads which do not exist in this forked child had taken
 * from slabs, and not handed out. From a book with `out`. */
static inline uint64_t pcp_book_lost(const struct pcp_book *book)
{
	uint64_t known = book->live + book->cached + book->deferred;

	return book->out > known ? book->out - known : 0;
}

#endif /* PCP_SLOT_BOOK_H */

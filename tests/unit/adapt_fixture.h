/* SPDX-License-Identifier: MIT */
/* A stock whose capacity follows its use, the caller on its first CPU, and the
 * capacities there are. */
#ifndef TESTS_UNIT_ADAPT_FIXTURE_H
#define TESTS_UNIT_ADAPT_FIXTURE_H

#include "stocks.h"

#include "slot/adapt.h"

static const uint32_t rungs[] = { 3, 11, 27, 59, 123, 251, 507, 1019 };
#define RUNGS PCP_ARRAY_SIZE(rungs)

static long here;

/* By a number of the CPU that stays what it is. */
static inline struct pcp_stock *adaptive(size_t size, struct sheet *sheet)
{
	pin_to(0);
	pcp_init();
	if (pcp_index.cid)
		decide("index:cpu");
	here = pcp_this_index();
	return stock_make_of(size, sheet, 0, 0);
}

static inline uint32_t capacity_of(struct pcp_stock *stock)
{
	return pcp_load(&stock->sheaves.capacity);
}

static inline bool on_ladder(struct pcp_stock *stock, uint32_t capacity)
{
	for (size_t i = 0; i < RUNGS; i++)
		if (rungs[i] == capacity)
			return true;
	return capacity == stock->floor || capacity == stock->ceiling;
}

static inline void bursts(struct pcp_stock *stock, unsigned int n,
			  unsigned int times)
{
	void *objs[1000];

	expect_cmp(n, <=, PCP_ARRAY_SIZE(objs));
	while (times--) {
		for (unsigned int i = 0; i < n; i++)
			objs[i] = stock_alloc(stock);
		for (unsigned int i = 0; i < n; i++)
			stock_free(stock, objs[i]);
	}
}

#endif /* TESTS_UNIT_ADAPT_FIXTURE_H */

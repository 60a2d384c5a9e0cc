/* SPDX-License-Identifier: MIT */
/* The steps that a call of pcpool_maintain() may still take, which the floors
 * it goes through take off. */
#ifndef PCP_BASE_BUDGET_H
#define PCP_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Steps that are left. */
struct pcp_budget {
	bool bounded;
	uint32_t left;
};

static inline bool pcp_budget_spent(const struct pcp_budget *budget)
{
	return budget->bounded && !budget->left;
}

/* Take up to n steps off. Returns how many. */
static inline uint32_t pcp_budget_take(struct pcp_budget *budget, uint32_t n)
{
	if (!budget->bounded)
		return n;
	if (n > budget->left)
		n = budget->left;
	budget->left -= n;
	return n;
}

#endif /* PCP_BASE_BUDGET_H */

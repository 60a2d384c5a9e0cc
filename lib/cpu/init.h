/* SPDX-License-Identifier: MIT */
/*
 * First use of the library: options, topology, mode, fork handlers.
 *
 * Every public call that can be a process's first begins with pcp_init(),
 * which costs one load afterwards. There is nothing to tear down at exit, so
 * that destructors and exit handlers may still call in.
 */
#ifndef PCP_CPU_INIT_H
#define PCP_CPU_INIT_H

#include "base/atomic.h"

extern PCP_HIDDEN int pcp_ready;

PCP_COLD void pcp_init_slow(void);

static inline void pcp_init(void)
{
	/* Pairs with the release in pcp_init_slow(). */
	if (pcp_unlikely(!pcp_load_acquire(&pcp_ready)))
		pcp_init_slow();
}

#endif /* PCP_CPU_INIT_H */

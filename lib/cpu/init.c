/* SPDX-License-Identifier: MIT */
/* First use of the library. See init.h. */
#include <config.h>

#include <pthread.h>

#include "base/fork.h"
#include "base/options.h"
#include "base/report.h"
#include "cpu/fence.h"
#include "cpu/index.h"
#include "cpu/init.h"
#include "cpu/topology.h"

int pcp_ready;

static void fence_child(void)
{
	/* The registration is inherited by the kernels we know; asking again
	 * costs little and does not depend on it. A refusal shows at the first
	 * fence. */
	if (pcp_index.rseq)
		(void)pcp_fence_init();
}

static const struct pcp_fork_ops fence_fork = { .child = fence_child };

static void init_once(void)
{
	/* Before anything that holds a lock or state, so that a fork by another
	 * thread at any later point finds its handlers. */
	if (pcp_fork_init())
		pcp_warn("no memory for fork handlers: a forked child must not "
			 "use pcpool");
	pcp_options_init();
	pcp_fork_hold();
	pcp_topology_init();
	pcp_fork_let();
	pcp_index_init();
	pcp_fork_register(PCP_FORK_FENCE, &fence_fork);
	/* Pairs with the acquire in pcp_init(). */
	pcp_store_release(&pcp_ready, 1);
}

void pcp_init_slow(void)
{
	/* The libc runs it anew in a child that was forked in the middle of it,
	 * so every step above may be repeated. */
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int cancel;

	/* Reading files is full of cancellation points. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_once(&once, init_once);
	pthread_setcancelstate(cancel, NULL);
}

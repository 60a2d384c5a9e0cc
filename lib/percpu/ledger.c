/* SPDX-License-Identifier: MIT */
/* Ledgers. See ledger.h. */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>

#include "base/fork.h"
#include "base/lock.h"
#include "base/osmem.h"
#include "base/report.h"
#include "percpu/ledger.h"
#include "percpu/region.h"

/* Rank PCP_RANK_LEDGER, a leaf. Guards the tree and all its figures, and
 * `unused`. */
static struct pcp_lock ledger_lock = PCP_LOCK_INIT(PCP_RANK_LEDGER);
static struct pcpool_account *unused; /* linked by next */

static uint64_t *aside_here(struct pcpool_account *ledger)
{
	return pcp_percpu_copy(ledger->aside, pcp_this_slot());
}

/* --- under the lock -------------------------------------------------------- */

/* CONTEXT: ledger_lock held. The first on the way up whose limit bytes would
 * pass; NULL: none. */
static struct pcpool_account *refuses(struct pcpool_account *ledger,
				      uint64_t bytes)
{
	for (; ledger; ledger = ledger->parent) {
		if (bytes > UINT64_MAX - ledger->charged)
			return ledger;
		if (ledger->limit != UINT64_MAX &&
		    ledger->charged + bytes > ledger->limit)
			return ledger;
	}
	return NULL;
}

/* CONTEXT: ledger_lock held. */
static void add(struct pcpool_account *ledger, uint64_t bytes)
{
	for (; ledger; ledger = ledger->parent) {
		ledger->charged += bytes;
		if (ledger->charged > ledger->peak)
			ledger->peak = ledger->charged;
	}
}

/* CONTEXT: ledger_lock held. */
static void subtract(struct pcpool_account *ledger, uint64_t bytes)
{
	for (; ledger; ledger = ledger->parent) {
		if (pcp_unlikely(ledger->charged < bytes))
			pcp_die(NULL, ledger, NULL,
				"account gets back more than was charged");
		ledger->charged -= bytes;
	}
}

/* CONTEXT: ledger_lock held. What the slots of one ledger have set aside. */
static void call_in(struct pcpool_account *ledger)
{
	uint64_t sum = 0;

	for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++) {
		uint64_t *aside = pcp_percpu_copy(ledger->aside, slot);

		/* Read first: memory of a CPU that never used it stays
		 * untouched. */
		if (pcp_load(aside))
			sum += __atomic_exchange_n(aside, UINT64_C(0),
						   __ATOMIC_SEQ_CST);
	}
	subtract(ledger, sum);
}

/* CONTEXT: ledger_lock held. The next of a ledger's tree after `at`, from the
 * top down; NULL: that was the last. */
static struct pcpool_account *next_below(struct pcpool_account *top,
					 struct pcpool_account *at)
{
	if (at->first)
		return at->first;
	while (at != top && !at->next)
		at = at->parent;
	return at == top ? NULL : at->next;
}

/* CONTEXT: ledger_lock held. */
static void call_in_below(struct pcpool_account *top)
{
	for (struct pcpool_account *at = top; at; at = next_below(top, at))
		call_in(at);
}

/* CONTEXT: ledger_lock held. Give up ledgers that are closed and of which
 * nothing is left, from one upwards. */
static void reap(struct pcpool_account *ledger)
{
	while (ledger && pcp_load(&ledger->closed) && !ledger->idle &&
	       !ledger->charged && !ledger->first) {
		struct pcpool_account *parent = ledger->parent;
		struct pcpool_account **link = parent ? &parent->first : NULL;

		while (link && *link != ledger)
			link = &(*link)->next;
		if (link)
			*link = ledger->next;
		ledger->parent = NULL;
		ledger->idle = true;
		ledger->next = unused;
		unused = ledger;
		ledger = parent;
	}
}

/* --- charging --------------------------------------------------------------- */

static bool take_aside(struct pcpool_account *ledger, uint64_t bytes)
{
	uint64_t *aside = aside_here(ledger);
	uint64_t have = pcp_load(aside);

	while (have >= bytes)
		if (pcp_cas(aside, &have, have - bytes))
			return true;
	return false;
}

static int charge_slow(struct pcpool_account *ledger, uint64_t bytes)
{
	/* As much again as a batch holds, unless that is what does not fit. */
	uint64_t more = bytes < PCP_LEDGER_BATCH ? PCP_LEDGER_BATCH : 0;
	struct pcpool_account *full, *last = NULL;

	pcp_lock(&ledger_lock);
	if (more && refuses(ledger, bytes + more))
		more = 0;
	/* What was set aside anywhere below a limit is not used. Then a limit
	 * further up may be the one to refuse. */
	while ((full = refuses(ledger, bytes + more)) && full != last) {
		last = full;
		if (bytes <= full->limit)
			call_in_below(full);
	}
	if (full)
		full->fails++;
	else
		add(ledger, bytes + more);
	/* Before anyone can be refused for these bytes and not find them. */
	if (!full && more)
		pcp_add(aside_here(ledger), more);
	pcp_unlock(&ledger_lock);
	return full ? EDQUOT : 0;
}

int pcp_ledger_charge(struct pcpool_account *ledger, uint64_t bytes)
{
	if (pcp_likely(take_aside(ledger, bytes)))
		return 0;
	return charge_slow(ledger, bytes);
}

/* The caller's slot has more aside than it should, or the ledger was closed or is
 * over a limit. */
static void return_aside(struct pcpool_account *ledger)
{
	uint64_t *aside = aside_here(ledger);
	uint64_t bytes;

	pcp_lock(&ledger_lock);
	bytes = __atomic_exchange_n(aside, UINT64_C(0), __ATOMIC_SEQ_CST);
	subtract(ledger, bytes);
	/* The slot may be another than the one that was added to. */
	if (pcp_load(&ledger->closed) || pcp_load(&ledger->over))
		call_in(ledger);
	if (!refuses(ledger, 0))
		pcp_store(&ledger->over, false);
	reap(ledger);
	pcp_unlock(&ledger_lock);
}

void pcp_ledger_uncharge(struct pcpool_account *ledger, uint64_t bytes)
{
	uint64_t have = __atomic_add_fetch(aside_here(ledger), bytes,
					   __ATOMIC_SEQ_CST);

	/* After the add: either this sees that the ledger was closed or is over,
	 * or whoever made it so called these bytes in. It may be gone by now. */
	if (pcp_unlikely(have > 2 * PCP_LEDGER_BATCH ||
			 __atomic_load_n(&ledger->closed, __ATOMIC_SEQ_CST) ||
			 __atomic_load_n(&ledger->over, __ATOMIC_SEQ_CST)))
		return_aside(ledger);
}

/* --- life -------------------------------------------------------------------- */

PCP_NO_TSA static void fork_prepare(void)
{
	pcp_lock_nested(&ledger_lock);
}

PCP_NO_TSA static void fork_parent(void)
{
	pcp_unlock(&ledger_lock);
}

PCP_NO_TSA static void fork_child(void)
{
	pcp_lock_reinit(&ledger_lock);
}

static void init_once(void)
{
	static const struct pcp_fork_ops ops = {
		.prepare = fork_prepare,
		.parent = fork_parent,
		.child = fork_child,
	};

	pcp_fork_register(PCP_FORK_LEDGER, &ops);
}

static struct pcpool_account *get_unused(void)
{
	struct pcpool_account *ledger;

	pcp_lock(&ledger_lock);
	ledger = unused;
	if (ledger)
		unused = ledger->next;
	pcp_unlock(&ledger_lock);
	return ledger;
}

static struct pcpool_account *make(void)
{
	struct pcpool_account *ledger =
		pcp_meta_alloc(sizeof(*ledger), PCP_CACHELINE);

	if (!ledger)
		return NULL;
	ledger->aside = pcp_region_alloc(sizeof(*ledger->aside), 0);
	if (!ledger->aside) {
		pcp_meta_free(ledger);
		return NULL;
	}
	return ledger;
}

struct pcpool_account *pcp_ledger_new(struct pcpool_account *parent,
				      uint64_t limit)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct pcpool_account *ledger;

	pthread_once(&once, init_once);
	if (parent && parent->depth + 1 >= PCP_LEDGER_DEPTH) {
		errno = EINVAL;
		return NULL;
	}
	ledger = get_unused();
	if (!ledger)
		ledger = make();
	if (!ledger)
		return NULL;
	pcp_lock(&ledger_lock);
	/* In one that was used before nothing is charged or aside. */
	ledger->idle = false;
	pcp_store(&ledger->over, false);
	ledger->limit = limit;
	ledger->peak = ledger->fails = 0;
	ledger->first = NULL;
	ledger->parent = parent;
	ledger->depth = parent ? parent->depth + 1 : 0;
	ledger->next = parent ? parent->first : NULL;
	if (parent)
		parent->first = ledger;
	pcp_store(&ledger->closed, false);
	pcp_unlock(&ledger_lock);
	return ledger;
}

void pcp_ledger_close(struct pcpool_account *ledger)
{
	pcp_lock(&ledger_lock);
	__atomic_store_n(&ledger->closed, true, __ATOMIC_SEQ_CST);
	call_in(ledger);
	reap(ledger);
	pcp_unlock(&ledger_lock);
}

void pcp_ledger_limit(struct pcpool_account *ledger, uint64_t limit)
{
	pcp_lock(&ledger_lock);
	ledger->limit = limit;
	/* Nothing is charged from what was set aside under a higher limit, nor
	 * from what comes back while more is used than the new one allows. */
	if (ledger->charged > limit) {
		for (struct pcpool_account *at = ledger; at;
		     at = next_below(ledger, at))
			__atomic_store_n(&at->over, true, __ATOMIC_SEQ_CST);
		call_in_below(ledger);
	}
	pcp_unlock(&ledger_lock);
}

void pcp_ledger_sum(struct pcpool_account *ledger, struct pcp_ledger_sum *sum)
{
	pcp_lock(&ledger_lock);
	*sum = (struct pcp_ledger_sum){
		.charged = ledger->charged,
		.limit = ledger->limit,
		.peak = ledger->peak,
		.fails = ledger->fails,
	};
	for (struct pcpool_account *at = ledger; at;
	     at = next_below(ledger, at))
		for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++) {
			uint64_t *aside = pcp_percpu_copy(at->aside, slot);

			sum->aside += pcp_load(aside);
		}
	pcp_unlock(&ledger_lock);
}

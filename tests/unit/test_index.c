/* SPDX-License-Identifier: MIT */
/* lib/cpu/index.c: which mode is decided under which options, and that an index
 * is what it should be. Each case decides anew, in a process of its own. */
#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>

#include "common.h"
#include "suite.h"

#include "base/options.h"
#include "cpu/index.h"
#include "cpu/init.h"
#include "cpu/topology.h"

#if PCP_HAVE_RSEQ
#include <sys/rseq.h>
#endif

/* Decide again with these options on top. */
static void decide(const char *options)
{
	pcp_init();
	expect_eq(pcp_options_parse(options), 0);
	pcp_topology_init();
	pcp_index_init();
	expect(pcp_index.reason && *pcp_index.reason);
	expect_cmp(pcp_index.nr_ids, >=, 1);
	expect_eq(pcp_nr_slots(), pcp_index.nr_ids + pcp_index.rseq);
}

/* What the caller's index may be, wherever it is. */
static void check_index(void)
{
	for (unsigned int nth = 0; nth < allowed_cpus(); nth++) {
		int cpu;
		long index;

		pin_to(nth);
		cpu = sched_getcpu();
		index = pcp_this_index();
		expect_cmp(index, >=, 0);
		expect_cmp(index, <, pcp_index.nr_ids);
		expect_eq(pcp_this_slot(), index);
		if (pcp_index.rseq && !pcp_index.cid)
			expect_eq(index, cpu);
		if (!pcp_index.rseq && !pcp_index.hash)
			expect_eq(index, (unsigned int)cpu % pcp_index.nr_ids);
		expect_cmp(pcp_this_node(), <, pcp_topology.nr_nodes);
		expect_cmp(pcp_slot_node(index), <, pcp_topology.nr_nodes);
		expect_cmp(pcp_slot_node(-1), <, pcp_topology.nr_nodes);
		if (!pcp_index.cid && !pcp_index.hash)
			expect_eq(pcp_slot_node(index), pcp_this_node());
	}
	unpin();
}

/* Whether the machine and libc let us have sections at all. */
static bool have_rseq(void)
{
	pcp_init();
	pcp_options.slots = 0;
	decide("mode:auto");
	return pcp_index.rseq;
}

START_TEST(test_auto)
{
	decide("mode:auto");
	expect_eq(pcp_index.nr_ids, pcp_topology.nr_cpus);
	check_index();
}
END_TEST

START_TEST(test_lock_mode)
{
	decide("mode:lock");
	expect(!pcp_index.rseq && !pcp_index.cid);
	expect_eq(pcp_index.hash, pcp_index.nr_ids > pcp_topology.possible);
	expect(strstr(pcp_index.reason, "lock mode"));
	check_index();
}
END_TEST

/* Fewer slots than CPUs: not with sections, which would run beyond them. */
START_TEST(test_fewer_slots)
{
	if (!have_rseq() || pcp_topology.possible < 2)
		return;
	decide("slots:1");
	expect(!pcp_index.rseq);
	expect(strstr(pcp_index.reason, "fewer slots"));
	expect_eq(pcp_index.nr_ids, 1);
	check_index();
}
END_TEST

/* More slots than CPUs: sections still can; lock mode spreads its threads. */
START_TEST(test_more_slots)
{
	bool rseq = have_rseq();

	decide("slots:4096");
	expect_eq(pcp_index.rseq, rseq);
	expect_eq(pcp_index.hash, !rseq);
	expect_eq(pcp_index.nr_ids, 4096);
	check_index();
	decide("mode:lock,slots:4096");
	expect(pcp_index.hash);
	check_index();
}
END_TEST

/* --- mm_cid --------------------------------------------------------------- */

START_TEST(test_cid)
{
#if PCP_HAVE_RSEQ
	unsigned long feature = getauxval(27 /* AT_RSEQ_FEATURE_SIZE */);
	unsigned int bytes = __rseq_size;

	if (!have_rseq())
		return;
	/* Old libcs say 20 or 32 whatever the kernel fills. */
	if (bytes == 20 || bytes == 32) {
		bytes = feature ? (unsigned int)feature : 20;
		if (bytes > 32)
			bytes = 32;
	}
	decide("index:cid");
	expect_eq(pcp_index.cid, bytes >= 28);
	check_index();
	decide("index:cpu");
	expect(!pcp_index.cid);
	check_index();
	/* By itself only where it pays: on machines with many CPUs. */
	decide("index:auto");
	expect_eq(pcp_index.cid, bytes >= 28 && pcp_topology.possible > 32);
#endif
}
END_TEST

/* As many ids as threads that run, from 0: one thread alone has a small one. */
static void *index_of_thread(void *p)
{
	*(long *)p = pcp_this_index();
	return NULL;
}

START_TEST(test_cid_is_dense)
{
	if (!have_rseq())
		return;
	decide("index:cid");
	if (!pcp_index.cid)
		return;
	for (unsigned int i = 0; i < 32; i++) {
		pthread_t thread;
		long index = -1;

		expect(!pthread_create(&thread, NULL, index_of_thread, &index));
		expect(!pthread_join(thread, NULL));
		expect_cmp(index, >=, 0);
		expect_cmp(index, <, pcp_topology.possible);
	}
}
END_TEST

/* Without sections nothing but the hint is left. */
START_TEST(test_cid_in_lock_mode)
{
	decide("mode:lock,index:cid");
	expect(!pcp_index.cid && !pcp_index.rseq);
	check_index();
}
END_TEST

/* --- spreading ------------------------------------------------------------ */

enum { THREADS = 64, SLOTS = 64 };

static pthread_barrier_t all_here;

static void *hash_of_thread(void *p)
{
	long *index = p;

	*index = pcp_this_index();
	/* All threads at once, so that each has a stack of its own. */
	pthread_barrier_wait(&all_here);
	expect_eq(pcp_this_index(), *index);
	return NULL;
}

/* Threads land on most slots, each always on the same. */
START_TEST(test_hash)
{
	pthread_t threads[THREADS];
	long index[THREADS];
	bool used[SLOTS] = { false };
	unsigned int different = 0;

	decide("mode:lock,slots:64");
	if (!pcp_index.hash)
		return;
	expect(!pthread_barrier_init(&all_here, NULL, THREADS));
	for (unsigned int i = 0; i < THREADS; i++)
		expect(!pthread_create(&threads[i], NULL, hash_of_thread,
				       &index[i]));
	for (unsigned int i = 0; i < THREADS; i++) {
		expect(!pthread_join(threads[i], NULL));
		expect_cmp(index[i], >=, 0);
		expect_cmp(index[i], <, SLOTS);
		different += !used[index[i]];
		used[index[i]] = true;
	}
	/* By chance alone it would be 40, give or take 3. */
	expect_cmp(different, >=, 24);
}
END_TEST

/* --- nodes ---------------------------------------------------------------- */

START_TEST(test_nodes)
{
	decide(_i ? "mode:lock,nodes:2,slots:4096" : "nodes:2");
	expect_eq(pcp_topology.nr_nodes, 2);
	check_index();
}
END_TEST

/* Deciding twice changes nothing: a child forked in the middle does. */
START_TEST(test_idempotent)
{
	struct pcp_index first;

	decide("mode:auto");
	first = pcp_index;
	pcp_index_init();
	expect_eq(pcp_index.nr_ids, first.nr_ids);
	expect_eq(pcp_index.rseq, first.rseq);
	expect_eq(pcp_index.cid, first.cid);
	expect(pcp_index.reason == first.reason);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("index", 60);

	tcase_add_test(tc, test_auto);
	tcase_add_test(tc, test_lock_mode);
	tcase_add_test(tc, test_fewer_slots);
	tcase_add_test(tc, test_more_slots);
	tcase_add_test(tc, test_cid);
	tcase_add_test(tc, test_cid_is_dense);
	tcase_add_test(tc, test_cid_in_lock_mode);
	tcase_add_test(tc, test_hash);
	tcase_add_loop_test(tc, test_nodes, 0, 2);
	tcase_add_test(tc, test_idempotent);
	return suite_run(tc);
}

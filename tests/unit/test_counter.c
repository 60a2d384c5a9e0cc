/* SPDX-License-Identifier: MIT */
/*
 * lib/percpu/counter.c: parts and their bounds, a fold caught between its two
 * steps by a sum, by adds, by a handler and by a fork, threads without a slot,
 * and what happens without memory.
 */
#include <config.h>

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <pcpool/counter.h>

#include "common.h"
#include "suite.h"

#include "base/fault.h"
#include "base/lock.h"
#include "cpu/index.h"
#include "cpu/init.h"
#include "percpu/region.h"

#if PCP_HAVE_RSEQ
#include <sys/rseq.h>
#endif

static struct pcpool_counter counter;

static int64_t part_of(const struct pcpool_counter *c, unsigned int slot)
{
	return pcp_load((int64_t *)pcp_percpu_copy(c->pcpool_parts, slot));
}

static void expect_parts_below(const struct pcpool_counter *c, int64_t batch)
{
	for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++) {
		expect_cmp(part_of(c, slot), <, batch);
		expect_cmp(part_of(c, slot), >, -batch);
	}
}

static void must_init(int64_t initial)
{
	expect_eq(pcpool_counter_init(&counter, initial), 0);
}

/* --- parts ----------------------------------------------------------------- */

/* Amounts of all magnitudes: no part ever reaches its batch, and nothing is
 * lost where numbers wrap. */
START_TEST(test_parts_stay_below)
{
	static const int64_t batches[] = { 1, 2, 32, PCPOOL_COUNTER_BATCH };
	int64_t batch = batches[_i];
	uint64_t tally = 17;
	struct rng rng;

	rng_seed(&rng, (uint64_t)_i + 1);
	must_init(17);
	for (int i = 0; i < 60000; i++) {
		uint64_t amount = rng_next(&rng) >> rng_below(&rng, 64);

		if (rng_below(&rng, 2))
			amount = -amount;
		if (i % 1000 == 0)
			pin_to((unsigned int)i / 1000);
		if (batch == PCPOOL_COUNTER_BATCH)
			pcpool_counter_add(&counter, (int64_t)amount);
		else
			pcpool_counter_add_batch(&counter, (int64_t)amount,
						 batch);
		tally += amount;
		expect_parts_below(&counter, batch);
		expect_eq(pcpool_counter_sum(&counter), (int64_t)tally);
	}
	unpin();
	pcpool_counter_destroy(&counter);
}
END_TEST

START_TEST(test_extreme_batches)
{
	static const int64_t batches[] = { 0, -5, INT64_MIN, INT64_MAX,
					   INT64_C(1) << 61 };
	int64_t tally = 0;

	must_init(0);
	pin_to(0);
	for (int i = 0; i < 3; i++) {
		/* Below 2: all of it in the shared word. */
		pcpool_counter_add_batch(&counter, 5, batches[i]);
		tally += 5;
		expect_eq(pcpool_counter_read(&counter), tally);
		expect_eq(counter.pcpool_widest, PCPOOL_COUNTER_BATCH);
	}
	for (int i = 3; i < 5; i++) {
		pcpool_counter_add_batch(&counter, INT64_C(1) << 59,
					 batches[i]);
		tally += INT64_C(1) << 59;
		expect_eq(pcpool_counter_read(&counter), 15);
		expect_eq(pcpool_counter_sum(&counter), tally);
	}
	/* A part too large for the batch of a later add is folded. */
	pcpool_counter_add_batch(&counter, 1, 32);
	expect_eq(pcpool_counter_read(&counter), tally + 1);
	unpin();
	pcpool_counter_destroy(&counter);
}
END_TEST

/* What a large batch left in the parts is known to who compares. */
START_TEST(test_wide_parts)
{
	must_init(0);
	pin_to(0);
	pcpool_counter_add_batch(&counter, 100000, 1 << 20);
	expect_eq(pcpool_counter_read(&counter), 0);
	for (int batch = 0; batch < 3; batch++) {
		expect_eq(pcpool_counter_compare(&counter, 50000, batch), 1);
		expect_eq(pcpool_counter_compare(&counter, 100000, batch), 0);
		expect_eq(pcpool_counter_compare(&counter, 100001, batch), -1);
	}
	expect(!pcpool_counter_limited_add(&counter, 100050, 51));
	expect(pcpool_counter_limited_add(&counter, 100050, 50));
	expect(!pcpool_counter_limited_add(&counter, 100000, -51));
	expect(pcpool_counter_limited_add(&counter, 100000, -50));
	expect_eq(pcpool_counter_sum(&counter), 100000);
	unpin();
	pcpool_counter_destroy(&counter);
}
END_TEST

/* --- in the middle of a fold ------------------------------------------------ */

static atomic_bool taken, let_go, at_it;

static void short_sleep(void)
{
	const struct timespec time = { 0, 30000000 };

	nanosleep(&time, NULL);
}

/* Stand between the steps until somebody says so. */
static void stand(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_COUNTER_TAKEN || atomic_exchange(&taken, true))
		return;
	while (!atomic_load(&let_go))
		short_sleep();
}

/* Stand until somebody is about to wait, and a moment longer. */
static void stand_a_while(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_COUNTER_TAKEN || atomic_exchange(&taken, true))
		return;
	while (!atomic_load(&at_it))
		short_sleep();
	short_sleep();
}

static void *folder(void *arg)
{
	pin_to(0);
	pcpool_counter_add(&counter, 1000);
	/* Folds. */
	pcpool_counter_add(&counter, 100);
	return arg;
}

static pthread_t start_folder(void (*hook)(enum pcp_hook_id))
{
	pthread_t thread;

	must_init(7);
	pcp_hook_set(hook);
	expect(!pthread_create(&thread, NULL, folder, NULL));
	while (!atomic_load(&taken))
		short_sleep();
	/* It is in neither place. */
	expect_eq(pcpool_counter_read(&counter), 7);
	expect_eq(pcp_percpu_sum_u64(counter.pcpool_parts), 0);
	return thread;
}

static void end_folder(pthread_t thread, int64_t sum)
{
	atomic_store(&let_go, true);
	expect(!pthread_join(thread, NULL));
	pcp_hook_set(NULL);
	expect_eq(pcpool_counter_sum(&counter), sum);
	expect_parts_below(&counter, PCPOOL_COUNTER_BATCH);
	pcpool_counter_destroy(&counter);
}

START_TEST(test_adds_do_not_wait)
{
	pthread_t thread = start_folder(stand);

	pin_to(1);
	for (int i = 1; i <= 100; i++) {
		pcpool_counter_add(&counter, 5000);
		expect_eq(pcpool_counter_read(&counter), 7 + i * 5000);
		pcpool_counter_add(&counter, -3);
	}
	expect_parts_below(&counter, PCPOOL_COUNTER_BATCH);
	end_folder(thread, 7 + 1100 + 100 * 4997);
}
END_TEST

/* Whoever adds the parts up waits for the fold and has all of it. */
START_TEST(test_fold_is_not_missed)
{
	pthread_t thread = start_folder(stand_a_while);

	atomic_store(&at_it, true);
	switch (_i) {
	case 0:
		expect_eq(pcpool_counter_sum(&counter), 1107);
		break;
	case 1:
		expect_eq(pcpool_counter_compare(&counter, 1107, 0), 0);
		break;
	case 2:
		expect(!pcpool_counter_limited_add(&counter, 1107, 1));
		expect(!pcpool_counter_limited_add(&counter, 1107, -1));
		break;
	default:
		pcpool_counter_set(&counter, 1107);
	}
	end_folder(thread, 1107);
}
END_TEST

static void check_in_child(void *arg)
{
	(void)arg;
	pcp_hook_set(NULL);
	/* The folding thread's amounts, once; and the lock is free. */
	expect_eq(pcpool_counter_sum(&counter), 1107);
	pcpool_counter_add(&counter, 100000);
	expect(pcpool_counter_limited_add(&counter, 101108, 1));
	expect(!pcpool_counter_limited_add(&counter, 101108, 1));
	pcpool_counter_destroy(&counter);
	must_init(1);
	pcpool_counter_destroy(&counter);
	_exit(0);
}

START_TEST(test_fork_waits_for_fold)
{
	static struct child child;
	pthread_t thread;

	if (TEST_TSAN)
		return;
	thread = start_folder(stand_a_while);
	atomic_store(&at_it, true);
	run_child(check_in_child, NULL, 20, &child);
	expect_child_exit(&child, 0);
	end_folder(thread, 1107);
}
END_TEST

/* What a signal handler may do to the thread it interrupts there. */
static void interrupt(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_COUNTER_TAKEN || atomic_exchange(&taken, true))
		return;
	for (int i = 0; i < 50; i++) {
		pcpool_counter_add(&counter, 700);
		pcpool_counter_add(&counter, -5000);
		(void)pcpool_counter_read(&counter);
	}
}

START_TEST(test_handler_in_a_fold)
{
	must_init(7);
	pcp_hook_set(interrupt);
	pin_to(0);
	pcpool_counter_add(&counter, 5000);
	pcp_hook_set(NULL);
	expect(atomic_load(&taken));
	expect_eq(pcpool_counter_sum(&counter), 7 + 5000 + 50 * (700 - 5000));
	expect_parts_below(&counter, PCPOOL_COUNTER_BATCH);
	pcpool_counter_destroy(&counter);
}
END_TEST

/* A handler may have interrupted a holder of any lock. */
START_TEST(test_under_any_lock)
{
	struct pcp_lock lock;

	must_init(0);
	for (int rank = 0; rank < PCP_RANK_COUNT; rank++) {
		pcp_lock_init(&lock, (enum pcp_rank)rank);
		pcp_lock(&lock);
		pcpool_counter_add(&counter, 100000);
		pcp_unlock(&lock);
		pcp_lock_destroy(&lock);
	}
	expect_eq(pcpool_counter_sum(&counter), PCP_RANK_COUNT * 100000);
	pcpool_counter_destroy(&counter);
}
END_TEST

/* --- threads without a slot --------------------------------------------------
 */

#if PCP_HAVE_RSEQ
static void *unregistered(void *arg)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
	unsigned int size = 20;

	/* The libc does not tell with which length it registered. */
	while (syscall(SYS_rseq, area, size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG))
		expect_cmp(++size, <=, 1024);
	for (int i = 0; i < 3000; i++) {
		pcpool_counter_add(&counter, 3);
		pcpool_counter_add_batch(&counter, -1, 1 << 20);
	}
	expect_eq(pcpool_counter_sum(&counter), 6001);
	expect(pcpool_counter_limited_add(&counter, 6002, 1));
	return arg;
}

START_TEST(test_unregistered)
{
	pthread_t thread;

	pcp_init();
	if (!pcp_index.rseq)
		return;
	must_init(0);
	pcpool_counter_add(&counter, 1);
	expect(!pthread_create(&thread, NULL, unregistered, NULL));
	expect(!pthread_join(thread, NULL));
	/* Straight to the shared word. */
	expect_eq(pcpool_counter_read(&counter), 6001);
	expect_eq(part_of(&counter, pcp_index.stray), 0);
	expect_eq(pcpool_counter_sum(&counter), 6002);
	pcpool_counter_destroy(&counter);
}
END_TEST
#endif

/* --- without memory ---------------------------------------------------------
 */

static void expect_zero(const struct pcpool_counter *c, size_t n)
{
	const unsigned char *bytes = (const unsigned char *)c;

	for (size_t i = 0; i < n * sizeof(*c); i++)
		expect_eq(bytes[i], 0);
}

START_TEST(test_no_memory)
{
	enum { N = 60000 };
	static struct pcpool_counter many[N];
	struct pcp_percpu_snapshot before, after;

	/* The first chunk is there, which has room for some groups. */
	must_init(0);
	pcp_percpu_stats(&before);
	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	memset(many, 0xff, sizeof(many));
	errno = 4711;
	expect_eq(pcpool_counter_init_many(many, N, 3), ENOMEM);
	expect_errno(4711);
	expect_zero(many, N);
	pcpool_counter_destroy_many(many, N);
	pcp_percpu_stats(&after);
	expect_eq(after.regions, before.regions);
	pcp_fault_set(PCP_FAULT_RESERVE, 0, false);
	expect_eq(pcpool_counter_init_many(many, N, 3), 0);
	pcp_percpu_stats(&after);
	/* One region for each 8192. */
	expect_eq(after.regions, before.regions + (N + 8191) / 8192);
	expect_eq(pcpool_counter_sum(&many[N - 1]), 3);
	pcpool_counter_destroy_many(many, N);
	pcpool_counter_destroy(&counter);
	expect_zero(many, N);
	pcp_percpu_stats(&after);
	expect_eq(after.regions, 0);

	pcp_fault_set(PCP_FAULT_META, 1, true);
	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	memset(&counter, 0xff, sizeof(counter));
	while (pcpool_percpu_alloc(PCPOOL_PERCPU_SIZE_MAX, 0))
		;
	while (pcpool_percpu_alloc(8, 0))
		;
	expect_eq(pcpool_counter_init(&counter, 1), ENOMEM);
	expect_zero(&counter, 1);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("counter", 120);

	tcase_add_loop_test(tc, test_parts_stay_below, 0, 4);
	tcase_add_test(tc, test_extreme_batches);
	tcase_add_test(tc, test_wide_parts);
	tcase_add_test(tc, test_adds_do_not_wait);
	tcase_add_loop_test(tc, test_fold_is_not_missed, 0, 4);
	tcase_add_test(tc, test_fork_waits_for_fold);
	tcase_add_test(tc, test_handler_in_a_fold);
	tcase_add_test(tc, test_under_any_lock);
#if PCP_HAVE_RSEQ
	tcase_add_test(tc, test_unregistered);
#endif
	tcase_add_test(tc, test_no_memory);
	return suite_run(tc);
}

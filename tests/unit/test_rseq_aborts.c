/* SPDX-License-Identifier: MIT */
/*
 * lib/cpu/rseq.h: sections that are interrupted. A section that was aborted has
 * done nothing, and sections of one slot never overlap, on one CPU and across
 * CPUs. A wrong abort label or signature kills this program.
 *
 * A timer signal every 50 us provides the interruptions; each test goes on
 * until it has seen one, however long that takes, up to a watchdog. In lock
 * mode there is nothing to test: the program is skipped.
 */
#include <config.h>

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "unit/rseq_slots.h"

#define THREADS 4
#define OBJECTS 16

static void on_signal(int sig)
{
	(void)sig;
}

static void start_timer(void)
{
	struct itimerval every = { .it_interval = { 0, 50 },
				   .it_value = { 0, 50 } };
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = SA_RESTART };

	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void stop_timer(void)
{
	struct itimerval never = { .it_interval = { 0, 0 } };

	setitimer(ITIMER_REAL, &never, NULL);
}

/* --- each section until it was aborted ------------------------------------ */

static uint64_t *words; /* for the adding sections, a line per index */

static uint64_t sum_words(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < nr; i++)
		sum += words[i * 8];
	return sum;
}

static uint64_t sum_sizes(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < nr; i++)
		sum += sheaves[i].word & PCP_SHEAF_SIZE_MASK;
	return sum;
}

static enum pcp_section try_pop(void)
{
	void *got;

	return pcp_rseq_pop(slots, &got);
}

static enum pcp_section try_push(void)
{
	return pcp_rseq_push(slots, slots);
}

/* Every slot's rcu is its main, so that the sums tell. */
static enum pcp_section try_push_at(void)
{
	return pcp_rseq_push_at(slots, PCP_SLOT_RCU, slots, NULL);
}

static enum pcp_section try_pop_many(void)
{
	void *objs[CAPACITY];
	size_t done;

	return pcp_rseq_pop_many(slots, CAPACITY / 2, objs, &done);
}

static enum pcp_section try_push_many(void)
{
	static void *objs[CAPACITY];
	size_t done;

	return pcp_rseq_push_many(slots, CAPACITY / 2, objs, &done);
}

static enum pcp_section try_commit(void)
{
	long index = pcp_this_index();

	return pcp_rseq_commit(slots, index, PCP_SLOT_SPARE, NULL, slots, NULL);
}

static enum pcp_section try_add_u64(void)
{
	return pcp_rseq_add_u64(words, 64, 1);
}

static enum pcp_section try_add_u32(void)
{
	return pcp_rseq_add_u32(words, 64, 1);
}

static enum pcp_section try_add_within(void)
{
	return pcp_rseq_add_within(words, 64, 1, 1);
}

static enum pcp_section try_xchg_u64(void)
{
	uint64_t old;

	return pcp_rseq_xchg_u64(words, 64, 1, &old);
}

static enum pcp_section try_xchg_u32(void)
{
	uint32_t old;

	return pcp_rseq_xchg_u32(words, 64, 1, &old);
}

static enum pcp_section try_cmpxchg_u64(void)
{
	uint64_t old;

	return pcp_rseq_cmpxchg_u64(words, 64, 0, 1, &old);
}

static enum pcp_section try_cmpxchg_u32(void)
{
	uint32_t old;

	return pcp_rseq_cmpxchg_u32(words, 64, 0, 1, &old);
}

static const struct trial {
	const char *name;
	enum pcp_section (*run)(void);
	uint32_t size;	/* of every sheaf, before */
	int64_t change; /* of sum_sizes(), by a section that is done */
	uint64_t added; /* to sum_words() */
} trials[] = {
	{ "pop", try_pop, CAPACITY / 2, -1, 0 },
	{ "push", try_push, CAPACITY / 2, 1, 0 },
	{ "push_at", try_push_at, CAPACITY / 2, 1, 0 },
	{ "pop_many", try_pop_many, CAPACITY / 2, -(int64_t)CAPACITY / 2, 0 },
	{ "push_many", try_push_many, CAPACITY / 2, CAPACITY / 2, 0 },
	{ "commit", try_commit, 0, 0, 0 },
	{ "add_u64", try_add_u64, 0, 0, 1 },
	{ "add_u32", try_add_u32, 0, 0, 1 },
	{ "add_within", try_add_within, 0, 0, 1 },
	{ "xchg_u64", try_xchg_u64, 0, 0, 1 },
	{ "xchg_u32", try_xchg_u32, 0, 0, 1 },
	{ "cmpxchg_u64", try_cmpxchg_u64, 0, 0, 1 },
	{ "cmpxchg_u32", try_cmpxchg_u32, 0, 0, 1 },
};

static void reset(const struct trial *trial)
{
	for (unsigned int i = 0; i < nr; i++) {
		sheaves[i].word = trial->size;
		slots[i].spare = NULL;
		slots[i].rcu = slots[i].main;
		words[i * 8] = 0;
	}
}

static bool hooked_any(void)
{
	for (unsigned int i = 0; i < nr; i++)
		if (slots[i].spare)
			return true;
	return false;
}

/* One run from a known state. True: it was aborted, and had done nothing. */
static bool aborted(const struct trial *trial)
{
	enum pcp_section result;
	int64_t before;
	bool commits = trial->run == try_commit;

	reset(trial);
	before = (int64_t)sum_sizes();
	result = trial->run();
	if (result == PCP_DONE) {
		ck_assert_int_eq((int64_t)sum_sizes(), before + trial->change);
		ck_assert_uint_eq(sum_words(), trial->added);
		ck_assert(hooked_any() == commits);
		return false;
	}
	/* Only the commit names its index beforehand, and may have moved. */
	if (!commits)
		ck_assert_int_eq(result, PCP_ABORTED);
	ck_assert_int_eq((int64_t)sum_sizes(), before);
	ck_assert_uint_eq(sum_words(), 0);
	ck_assert(!hooked_any());
	return result == PCP_ABORTED;
}

/* _i: the kind of index, and the section. */
START_TEST(test_aborts)
{
	const struct trial *trial = &trials[_i / KINDS_REAL];

	if (!set_up(_i % KINDS_REAL))
		return;
	words = calloc(nr, 64);
	ck_assert_ptr_nonnull(words);
	for (unsigned int i = 0; i < nr; i++)
		fill(&sheaves[i], CAPACITY, CAPACITY);
	start_timer();
	while (!aborted(trial))
		;
	stop_timer();
	free(words);
	tear_down();
}
END_TEST

/* --- threads -------------------------------------------------------------- */

struct worker {
	pthread_t thread;
	int cpu; /* pinned there; -1: moves about */
	unsigned long aborts;
	unsigned long failures;
};

static unsigned long owners[OBJECTS];
static unsigned long total_aborts; /* of all workers, as they go */
static unsigned long rounds;	   /* at least, for each worker */
static bool failed_early;

/* True until the rounds are done and somebody was interrupted. */
static bool more(const struct worker *worker, unsigned long round)
{
	if (worker->failures)
		__atomic_store_n(&failed_early, true, __ATOMIC_RELAXED);
	if (__atomic_load_n(&failed_early, __ATOMIC_RELAXED))
		return false;
	return round < rounds ||
	       !__atomic_load_n(&total_aborts, __ATOMIC_RELAXED);
}

static void count_abort(struct worker *worker)
{
	worker->aborts++;
	__atomic_fetch_add(&total_aborts, 1, __ATOMIC_RELAXED);
}

/* From CPU to CPU, in no order that matters. */
static void move_about(const struct worker *worker, unsigned long round)
{
	int cpu = (int)(round / 64 % CPU_SETSIZE);

	if (worker->cpu < 0 && round % 64 == 0 &&
	    CPU_ISSET((size_t)cpu, &allowed))
		pin(cpu);
	else if (round % 256 == 0)
		sched_yield();
}

static void *add_worker(void *arg)
{
	struct worker *worker = arg;
	uint64_t added = 0;

	if (worker->cpu >= 0)
		pin(worker->cpu);
	for (unsigned long round = 0; more(worker, round); round++) {
		move_about(worker, round);
		switch (pcp_rseq_add_u64(words, 64, 3)) {
		case PCP_DONE:
			added += 3;
			break;
		case PCP_ABORTED:
			count_abort(worker);
			break;
		default:
			worker->failures++;
		}
	}
	return (void *)(uintptr_t)added;
}

/* Take an object, own it, give it back, perhaps elsewhere. */
static void *own_worker(void *arg)
{
	struct worker *worker = arg;
	unsigned long *obj, free_mark;
	enum pcp_section result;
	void *got;

	if (worker->cpu >= 0)
		pin(worker->cpu);
	for (unsigned long round = 0; more(worker, round); round++) {
		move_about(worker, round);
		result = pcp_rseq_pop(slots, &got);
		if (result == PCP_ABORTED)
			count_abort(worker);
		if (result != PCP_DONE)
			continue;
		obj = got;
		free_mark = 0;
		if (!__atomic_compare_exchange_n(
			    obj, &free_mark, (uintptr_t)worker, false,
			    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			worker->failures++;
		if (round % 8 == 0)
			sched_yield();
		if (__atomic_exchange_n(obj, 0, __ATOMIC_RELEASE) !=
		    (uintptr_t)worker)
			worker->failures++;
		while ((result = pcp_rseq_push(slots, obj)) == PCP_ABORTED)
			count_abort(worker);
		worker->failures += result != PCP_DONE;
	}
	return NULL;
}

/* What the workers returned, added up. */
static uint64_t run_workers(void *(*fn)(void *), bool one_cpu)
{
	struct worker workers[THREADS];
	sigset_t alarm_set, old_set;
	uint64_t sum = 0;
	int cpu = 0;

	sigemptyset(&alarm_set);
	sigaddset(&alarm_set, SIGALRM);
	while (!CPU_ISSET((size_t)cpu, &allowed))
		cpu++;
	total_aborts = 0;
	failed_early = false;
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .cpu = one_cpu ? cpu : -1 };
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, fn,
						&workers[i]),
				 0);
	}
	/* From here on signals are for the workers. */
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &alarm_set, &old_set), 0);
	start_timer();
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(workers[i].thread, &result);
		sum += (uintptr_t)result;
		ck_assert_uint_eq(workers[i].failures, 0);
	}
	stop_timer();
	pthread_sigmask(SIG_SETMASK, &old_set, NULL);
	ck_assert_uint_gt(total_aborts, 0);
	return sum;
}

/* _i: the kind of index, and whether all share a CPU. */
START_TEST(test_add_exact)
{
	uint64_t added;

	if (!set_up(_i % KINDS_REAL))
		return;
	words = calloc(nr, 64);
	ck_assert_ptr_nonnull(words);
	rounds = 300000;
	added = run_workers(add_worker, _i >= KINDS_REAL);
	ck_assert_uint_gt(added, 0);
	ck_assert_uint_eq(sum_words(), added);
	free(words);
	tear_down();
}
END_TEST

START_TEST(test_owners)
{
	bool seen[OBJECTS] = { false };
	unsigned int found = 0;

	if (!set_up(_i % KINDS_REAL))
		return;
	memset(owners, 0, sizeof(owners));
	for (unsigned int o = 0; o < OBJECTS; o++) {
		struct sheaf *sheaf = &sheaves[o % nr];

		sheaf->objects[sheaf->word++] = &owners[o];
	}
	rounds = 100000;
	run_workers(own_worker, _i >= KINDS_REAL);
	for (unsigned int i = 0; i < nr; i++) {
		uint64_t size = sheaves[i].word & PCP_SHEAF_SIZE_MASK;

		for (uint64_t k = 0; k < size; k++) {
			unsigned long *obj = sheaves[i].objects[k];

			ck_assert(obj >= owners && obj < owners + OBJECTS);
			ck_assert(!seen[obj - owners]);
			seen[obj - owners] = true;
			found++;
		}
	}
	ck_assert_uint_eq(found, OBJECTS);
	tear_down();
}
END_TEST

int main(void)
{
	Suite *suite;
	TCase *tcase;
	SRunner *runner;
	int failed;

	pcp_init();
	if (!pcp_index.rseq) {
		printf("skipped: no sections here (%s)\n", pcp_index.reason);
		return 77;
	}
	suite = suite_create("rseq aborts");
	tcase = tcase_create("aborts");
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_aborts, 0,
			    KINDS_REAL * (int)PCP_ARRAY_SIZE(trials));
	tcase_add_loop_test(tcase, test_add_exact, 0, 2 * KINDS_REAL);
	tcase_add_loop_test(tcase, test_owners, 0, 2 * KINDS_REAL);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

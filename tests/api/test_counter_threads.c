/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU counters among threads and signal handlers: how far a reading may be
 * off meanwhile, sums that neither tear nor go back, limits that hold, sets
 * among adds.
 */
#include <config.h>

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <pcpool/counter.h>

#include "../common.h"
#include "../suite.h"

static struct pcpool_counter counter;

static void must_init(struct pcpool_counter *c, int64_t initial)
{
	int err = pcpool_counter_init(c, initial);

	if (err)
		fail_now("counter: %s", strerror(err));
}

/* --- how far off --------------------------------------------------------- */

static atomic_uint running;

struct bounds {
	int64_t batch;
	int64_t step;
	unsigned long adds;
};

/* Half of the threads up, half down, each in step with itself: the true count
 * is within what all of them may be ahead. */
static void swinger(const struct worker *worker)
{
	const struct bounds *b = worker->arg;
	const int64_t step = worker->id % 2 ? b->step : -b->step;

	for (unsigned long i = 0; i < b->adds; i++) {
		pcpool_counter_add_batch(&counter, i % 2 ? -step : step,
					 b->batch);
		if (i % 4096 == 0)
			pin_to(worker->id + (unsigned int)(i / 4096));
	}
	atomic_fetch_sub(&running, 1);
}

static void *watcher(void *arg)
{
	const struct bounds *b = arg;
	const int64_t most = (int64_t)pcpool_nr_slots() * b->batch;

	while (atomic_load(&running)) {
		int64_t read = pcpool_counter_read(&counter);
		int64_t sum = pcpool_counter_sum(&counter);

		/* Eight threads, one step ahead at most. */
		expect_cmp(read, <=, most + 8 * b->step);
		expect_cmp(read, >=, -most - 8 * b->step);
		expect_cmp(sum, <=, most + 8 * b->step);
		expect_cmp(sum, >=, -most - 8 * b->step);
	}
	return NULL;
}

/* While threads add, the error is below one batch for each slot. */
START_TEST(case_CNT_01_bound)
{
	struct bounds b = { _i ? 256 : 64, 50, scaled(400000) };
	pthread_t thread;

	must_init(&counter, 0);
	b.adds &= ~1UL;
	atomic_store(&running, 8);
	expect(!pthread_create(&thread, NULL, watcher, &b));
	run_threads(8, swinger, &b);
	expect(!pthread_join(thread, NULL));
	expect_eq(pcpool_counter_sum(&counter), 0);
	pcpool_counter_destroy(&counter);
}
END_TEST

/* --- threads and signals ------------------------------------------------------
 */

/* A sum that tore would show in the low half. */
#define HIGH ((int64_t)1 << 33)

static atomic_ullong handled;

static void on_alarm(int signal)
{
	(void)signal;
	pcpool_counter_add(&counter, HIGH);
	pcpool_counter_add_batch(&counter, HIGH, HIGH * 100);
	(void)pcpool_counter_read(&counter);
	atomic_fetch_add(&handled, 1);
}

static void stepper(const struct worker *worker)
{
	const unsigned long n = scaled(60000);

	for (unsigned long i = 0; i < n; i++) {
		/* Always to the shared word, often folding, rarely. */
		pcpool_counter_add(&counter, HIGH);
		pcpool_counter_add_batch(&counter, HIGH, HIGH * 2);
		pcpool_counter_add_batch(&counter, HIGH, HIGH * 100);
		if (i % 4096 == 0)
			pin_to(worker->id + (unsigned int)(i / 4096));
	}
	atomic_fetch_sub(&running, 1);
}

static void *summer(void *arg)
{
	int64_t last = 0;

	/* Nobody subtracts: a sum is whole, and does not go back. */
	while (atomic_load(&running)) {
		int64_t sum = pcpool_counter_sum(&counter);

		expect_eq(sum % HIGH, 0);
		expect_eq(pcpool_counter_read(&counter) % HIGH, 0);
		expect_cmp(sum, >=, last);
		last = sum;
	}
	return arg;
}

static void step_and_sum(void)
{
	enum { THREADS = 8 };
	const struct itimerval every = { { 0, 100 }, { 0, 100 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm,
				    .sa_flags = SA_RESTART };
	unsigned long long steps = (unsigned long long)scaled(60000) * 3;
	pthread_t thread;

	must_init(&counter, 0);
	atomic_store(&running, THREADS);
	expect(!pthread_create(&thread, NULL, summer, NULL));
	expect(!sigaction(SIGALRM, &action, NULL));
	expect(!setitimer(ITIMER_REAL, &every, NULL));
	run_threads(THREADS, stepper, NULL);
	expect(!setitimer(ITIMER_REAL, &never, NULL));
	expect(!pthread_join(thread, NULL));
	expect_eq(pcpool_counter_sum(&counter) / HIGH,
		  (long long)(steps * THREADS + 2 * atomic_load(&handled)));
	expect_cmp(atomic_load(&handled), >, 0);
	pcpool_counter_destroy(&counter);
}

/* Totals beyond 32 bits, from threads and from handlers that interrupt them
 * anywhere. */
START_TEST(case_PKG_04_totals)
{
	step_and_sum();
}
END_TEST

/* The same where threads on different CPUs share a slot. */
START_TEST(test_one_slot)
{
	static const char *const args[] = { "one-slot", NULL };
	static struct child child;

	run_self(args, "slots:1", 100, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* --- limits among threads ------------------------------------------------- */

enum { LIMIT = 50000 };

static atomic_llong won;

/* What it got by limited adds it gives back by plain ones. */
static void limiter(const struct worker *worker)
{
	const unsigned long n = scaled(60000);
	long long mine = 0;
	struct rng rng;

	rng_seed(&rng, worker->id + 1);
	for (unsigned long i = 0; i < n; i++) {
		int64_t amount = 1 + (int64_t)rng_below(&rng, 200);

		if (pcpool_counter_limited_add(&counter, LIMIT, amount))
			mine += amount;
		if (mine > 1000 && !rng_below(&rng, 8)) {
			int64_t back = rng_below(&rng, 1000);

			pcpool_counter_sub(&counter, back);
			mine -= back;
		}
		if (i % 64 == 0)
			expect_cmp(pcpool_counter_sum(&counter), <=, LIMIT);
		if (i % 4096 == 0)
			pin_to(worker->id + (unsigned int)(i / 4096));
	}
	atomic_fetch_add(&won, mine);
}

START_TEST(test_limit_holds)
{
	must_init(&counter, 0);
	run_threads(8, limiter, NULL);
	expect_eq(pcpool_counter_sum(&counter), atomic_load(&won));
	expect_cmp(atomic_load(&won), <=, LIMIT);
	pcpool_counter_destroy(&counter);
}
END_TEST

/* Every single one goes to somebody, none to two. */
static void taker(const struct worker *worker)
{
	long long mine = 0;

	(void)worker;
	while (pcpool_counter_limited_add(&counter, 0, -1))
		mine++;
	atomic_fetch_add(&won, mine);
}

START_TEST(test_limit_is_reached)
{
	must_init(&counter, 0);
	for (unsigned int cpu = 0; cpu < 5; cpu++) {
		pin_to(cpu);
		for (int i = 0; i < 3001; i++)
			pcpool_counter_inc(&counter);
	}
	unpin();
	run_threads(8, taker, NULL);
	expect_eq(atomic_load(&won), 5 * 3001);
	expect_eq(pcpool_counter_sum(&counter), 0);
	pcpool_counter_destroy(&counter);
}
END_TEST

/* Sets among adds: each add is wholly before or after one. */
static void setter(const struct worker *worker)
{
	const unsigned long n = scaled(100000);

	for (unsigned long i = 0; i < n; i++) {
		if (worker->id == 0 && i % 16 == 0)
			pcpool_counter_set(&counter, HIGH * 5);
		else
			pcpool_counter_add_batch(&counter, HIGH, HIGH * 3);
		if (i % 1024 == 0) {
			expect_eq(pcpool_counter_sum(&counter) % HIGH, 0);
			pin_to(worker->id + (unsigned int)(i / 1024));
		}
	}
}

START_TEST(test_set_among_adds)
{
	must_init(&counter, 0);
	run_threads(6, setter, NULL);
	expect_cmp(pcpool_counter_sum(&counter), >=, HIGH * 5);
	expect_eq(pcpool_counter_sum(&counter) % HIGH, 0);
	pcpool_counter_set(&counter, 1);
	expect_eq(pcpool_counter_sum(&counter), 1);
	pcpool_counter_destroy(&counter);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc > 1 && !strcmp(argv[1], "one-slot")) {
		step_and_sum();
		return 0;
	}
	tc = suite_case("counter threads", 200);
	tcase_add_loop_test(tc, case_CNT_01_bound, 0, 2);
	tcase_add_test(tc, case_PKG_04_totals);
	tcase_add_test(tc, test_one_slot);
	tcase_add_test(tc, test_limit_holds);
	tcase_add_test(tc, test_limit_is_reached);
	tcase_add_test(tc, test_set_among_adds);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * pcpool_maintain() and what happens in the middle of it: calls of destructors,
 * other threads, forks, caches that come and go.
 */
#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "maintain_fixture.h"

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem))
		expect_eq(errno, EINTR);
}

/* --- from destructors -------------------------------------------------------
 */

struct nosy {
	struct pcpool_cache *own, *other, *third;
	struct sheet sheet;
	unsigned int calls;
};

static void nosy_dtor(void *obj, void *arg)
{
	struct nosy *nosy = arg;

	sheet_dtor(obj, &nosy->sheet);
	if (nosy->calls++)
		return;
	expect_eq(pcpool_maintain(0), EBUSY);
	expect_eq(pcpool_maintain(1), EBUSY);
	expect_eq(pcpool_cache_destroy(nosy->own), EBUSY);
	/* The one whose turn is next, and one that was not there before. */
	expect_eq(pcpool_cache_destroy(nosy->other), 0);
	nosy->other = NULL;
	nosy->third = pcpool_cache_create("third", 64, NULL);
	expect(nosy->third);
	burst(nosy->third, 100);
	burst(nosy->own, 100);
	expect_eq(pcpool_cache_shrink(nosy->third), 0);
}

static int nosy_ctor(void *obj, void *arg)
{
	struct nosy *nosy = arg;

	return sheet_ctor(obj, &nosy->sheet);
}

START_TEST(test_calls_from_a_destructor)
{
	/* Caches are met in one order or the other. */
	for (int first = 0; first < 2; first++) {
		struct nosy nosy = { .sheet = { .fill = FILL } };
		struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

		pin_to(0);
		attr.ctor = nosy_ctor;
		attr.dtor = nosy_dtor;
		attr.arg = &nosy;
		if (first)
			nosy.other = plain_cache();
		nosy.own = pcpool_cache_create("nosy", SIZE, &attr);
		if (!first)
			nosy.other = plain_cache();
		expect(nosy.own);
		burst(nosy.own, MANY);
		burst(nosy.other, MANY);
		maintain_all(1);
		expect(nosy.calls == 0 || nosy.calls > 1);
		maintain_all(1);
		expect(nosy.calls > 1);
		expect(!nosy.other && nosy.third);
		maintain_all(3);
		nothing_left(nosy.own);
		nothing_left(nosy.third);
		destroy_balanced(nosy.own, &nosy.sheet);
		must_destroy(nosy.third);
	}
}
END_TEST

/* --- other threads meanwhile ------------------------------------------------
 */

/* The first destructor call waits for the test. */
struct gate {
	struct pcpool_cache *cache;
	struct sheet sheet;
	sem_t reached, go;
	atomic_int calls;
	atomic_bool destroyed;
	pthread_t maintainer, destroyer;
};

static int gate_ctor(void *obj, void *arg)
{
	struct gate *gate = arg;

	return sheet_ctor(obj, &gate->sheet);
}

static void gate_dtor(void *obj, void *arg)
{
	struct gate *gate = arg;

	sheet_dtor(obj, &gate->sheet);
	if (atomic_fetch_add(&gate->calls, 1))
		return;
	sem_post(&gate->reached);
	wait_for(&gate->go);
	/* Whoever does not wait for this call to end has time to show it. */
	for (int i = 0; i < 50; i++)
		sched_yield();
	expect(!atomic_load(&gate->destroyed));
}

static void *maintain_until_done(void *arg)
{
	(void)arg;
	pin_to(1);
	maintain_all(2);
	return NULL;
}

/* Another thread is in the middle of a maintenance of the cache. */
static void enter_gate(struct gate *gate)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	*gate = (struct gate){ .sheet = { .fill = FILL } };
	expect(!sem_init(&gate->reached, 0, 0));
	expect(!sem_init(&gate->go, 0, 0));
	attr.ctor = gate_ctor;
	attr.dtor = gate_dtor;
	attr.arg = gate;
	pin_to(0);
	gate->cache = pcpool_cache_create("gate", SIZE, &attr);
	expect(gate->cache);
	burst(gate->cache, MANY);
	expect(!pthread_create(&gate->maintainer, NULL, maintain_until_done,
			       NULL));
	wait_for(&gate->reached);
}

static void leave_gate(struct gate *gate)
{
	sem_post(&gate->go);
	expect(!pthread_join(gate->maintainer, NULL));
}

START_TEST(test_one_at_a_time)
{
	struct pcpool_cache *other = plain_cache();
	struct gate gate;

	enter_gate(&gate);
	for (int i = 0; i < 10; i++)
		expect_eq(pcpool_maintain(0), EBUSY);
	/* Everything else goes on, with this cache and others. */
	burst(gate.cache, MANY);
	burst(other, MANY);
	expect_eq(pcpool_cache_shrink(other), 0);
	must_destroy(other);
	other = plain_cache();
	burst(other, 100);
	must_destroy(other);
	leave_gate(&gate);
	maintain_all(2);
	nothing_left(gate.cache);
	destroy_balanced(gate.cache, &gate.sheet);
}
END_TEST

static void *destroy_it(void *arg)
{
	struct gate *gate = arg;

	pin_to(0);
	must_destroy(gate->cache);
	atomic_store(&gate->destroyed, true);
	return NULL;
}

START_TEST(test_destroy_waits)
{
	struct gate gate;

	enter_gate(&gate);
	expect(!pthread_create(&gate.destroyer, NULL, destroy_it, &gate));
	leave_gate(&gate);
	expect(!pthread_join(gate.destroyer, NULL));
	sheet_balanced(&gate.sheet);
	maintain_all(1);
}
END_TEST

/* A destroy that is refused leaves a cache that is maintained again. */
START_TEST(test_refused_destroy)
{
	struct pcpool_cache *cache = plain_cache();
	void *obj = must_alloc(cache);

	burst(cache, MANY);
	expect_eq(pcpool_cache_destroy(cache), EBUSY);
	pcpool_free(cache, obj);
	maintain_all(3);
	expect_eq(stats_of(cache).maintained, 3);
	nothing_left(cache);
	must_destroy(cache);
}
END_TEST

/* --- fork ------------------------------------------------------------------
 */

static void child_of_maintained(void *arg)
{
	struct gate *gate = arg;
	struct pcpool_cache *cache = plain_cache();

	/* The thread that was at it does not exist here. */
	burst(cache, MANY);
	maintain_all(2);
	nothing_left(cache);
	must_destroy(cache);
	burst(gate->cache, MANY);
	maintain_all(3);
	expect_eq(stats_of(gate->cache).live, 0);
	must_destroy(gate->cache);
	maintain_all(1);
}

START_TEST(test_fork_beside_it)
{
	struct child child;
	struct gate gate;

	enter_gate(&gate);
	run_child(child_of_maintained, &gate, 30, &child);
	expect_child_exit(&child, 0);
	leave_gate(&gate);
	maintain_all(2);
	nothing_left(gate.cache);
	destroy_balanced(gate.cache, &gate.sheet);
}
END_TEST

/* A destructor that forks: the call goes on in both. */
static pid_t forked = -1;

static void forking_dtor(void *obj, void *arg)
{
	sheet_dtor(obj, arg);
	if (forked < 0) {
		fflush(NULL);
		forked = fork();
		expect(forked >= 0);
		expect_eq(pcpool_maintain(0), EBUSY);
	}
}

static void fork_within(void *arg)
{
	struct sheet sheet = { .fill = FILL };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	(void)arg;
	attr.ctor = sheet_ctor;
	attr.dtor = forking_dtor;
	attr.arg = &sheet;
	pin_to(0);
	cache = pcpool_cache_create("forking", SIZE, &attr);
	expect(cache);
	burst(cache, MANY);
	maintain_all(3);
	expect(forked >= 0);
	nothing_left(cache);
	destroy_balanced(cache, &sheet);
	if (forked) {
		int status;

		expect_eq(waitpid(forked, &status, 0), forked);
		expect_eq(status, 0);
	}
}

START_TEST(test_fork_within_it)
{
	struct child child;

	run_child(fork_within, NULL, 30, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* --- caches come and go ----------------------------------------------------
 */

#define WORKERS 3U

static struct sheet churn_sheets[WORKERS];
static atomic_uint working;

static void churn(unsigned int id)
{
	static const unsigned int flags[] = { 0, PCPOOL_CHECK,
					      PCPOOL_DTOR_ON_FREE,
					      PCPOOL_TYPESAFE_BY_RCU };
	struct rng rng;

	rng_seed(&rng, 31 + id);
	for (unsigned long i = scaled(600); i; i--) {
		struct pcpool_cache *cache =
			sheet_cache_of("churn", 200, &churn_sheets[id],
				       flags[rng_below(&rng, 4)], 0);

		for (uint32_t j = rng_below(&rng, 4); j; j--) {
			void *obj = must_alloc(cache);

			burst(cache, 1 + rng_below(&rng, 500));
			if (rng_below(&rng, 2))
				pcpool_free_rcu(cache, obj);
			else
				pcpool_free(cache, obj);
		}
		must_destroy(cache);
	}
	atomic_fetch_sub(&working, 1);
}

static void churn_or_maintain(const struct worker *worker)
{
	struct rng rng;

	if (worker->id < WORKERS) {
		churn(worker->id);
		return;
	}
	rng_seed(&rng, worker->id);
	while (atomic_load(&working)) {
		int err = pcpool_maintain(rng_below(&rng, 6));

		expect(err == 0 || err == EAGAIN || err == EBUSY);
		sched_yield();
	}
}

START_TEST(test_caches_come_and_go)
{
	for (unsigned int i = 0; i < WORKERS; i++)
		churn_sheets[i].fill = 200;
	atomic_store(&working, WORKERS);
	run_threads(WORKERS + 2, churn_or_maintain, NULL);
	for (unsigned int i = 0; i < WORKERS; i++)
		sheet_balanced(&churn_sheets[i]);
	maintain_all(1);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("maintain_beside", 120);

	tcase_add_test(tc, test_calls_from_a_destructor);
	tcase_add_test(tc, test_one_at_a_time);
	tcase_add_test(tc, test_destroy_waits);
	tcase_add_test(tc, test_refused_destroy);
	tcase_add_test(tc, test_fork_beside_it);
	tcase_add_test(tc, test_fork_within_it);
	tcase_add_test(tc, test_caches_come_and_go);
	return suite_run(tc);
}

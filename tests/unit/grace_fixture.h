/* SPDX-License-Identifier: MIT */
/* Work for lib/base/grace.c that tells when and where it ran, and a thread of
 * the library held back between two steps. */
#ifndef TESTS_UNIT_GRACE_FIXTURE_H
#define TESTS_UNIT_GRACE_FIXTURE_H

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rcu.h"
#include "suite.h"

#include "base/atomic.h"
#include "base/fault.h"
#include "base/grace.h"
#include "base/lock.h"

/* A piece of work that says when it ran. */
struct job {
	struct pcp_grace grace;
	atomic_uint sealed, done;
	unsigned int order; /* of its last run */
	pid_t where;
	void (*also)(struct job *job);
};

static atomic_uint runs;

static inline struct job *job_of(struct pcp_grace *grace)
{
	return pcp_container_of(grace, struct job, grace);
}

static inline void job_seal(struct pcp_grace *grace)
{
	struct job *job = job_of(grace);

	expect_eq(atomic_load(&job->sealed), atomic_load(&job->done));
	atomic_fetch_add(&job->sealed, 1);
}

static inline pid_t thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static inline void job_fn(struct pcp_grace *grace)
{
	struct job *job = job_of(grace);

	pcp_assert_unlocked();
	if (grace->seal)
		expect_eq(atomic_load(&job->sealed),
			  atomic_load(&job->done) + 1);
	job->order = atomic_fetch_add(&runs, 1);
	job->where = thread_id();
	if (job->also)
		job->also(job);
	atomic_fetch_add(&job->done, 1);
}

static inline struct job job_for(const struct rcu_flavor_struct *flavor)
{
	return (struct job){ .grace = { .flavor = flavor,
					.seal = job_seal,
					.fn = job_fn } };
}

/* Queue it, and see to it that there is a thread. */
static inline void queue_job(struct job *job)
{
	pcp_grace_queue(&job->grace);
	pcp_grace_kick();
}

static inline void setup(void)
{
	pin_to(0);
	pcp_grace_init();
}

static inline void barrier(const struct rcu_flavor_struct *flavor)
{
	expect_eq(pcp_grace_barrier(flavor), 0);
}

/* Held back between the taking of a batch and its grace period. */
static sem_t at_hook, go_on;
static atomic_int hold_at = -1;

static inline void hold(enum pcp_hook_id id)
{
	int want = (int)id;

	if (!atomic_compare_exchange_strong(&hold_at, &want, -1))
		return;
	sem_post(&at_hook);
	wait_sem(&go_on);
}

static inline void hold_next(enum pcp_hook_id id)
{
	expect(!sem_init(&at_hook, 0, 0));
	expect(!sem_init(&go_on, 0, 0));
	atomic_store(&hold_at, (int)id);
	pcp_hook_set(hold);
}

static inline bool is_done(void *arg)
{
	return atomic_load((atomic_uint *)arg);
}

static inline bool never(void *arg)
{
	(void)arg;
	return false;
}

static inline uint64_t after_ms(unsigned int ms)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec +
	       ms * UINT64_C(1000000);
}

#endif /* TESTS_UNIT_GRACE_FIXTURE_H */

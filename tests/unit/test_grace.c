/* SPDX-License-Identifier: MIT */
/*
 * lib/base/grace.c: work runs after a grace period of its flavour and not before,
 * in batches, on a thread of the library or, where none can be had, of whoever
 * waits. test_grace_fork.c has forks.
 */
#include <config.h>

#include <dirent.h>

#include "grace_fixture.h"

/* --- order and batches ---------------------------------------------------- */

START_TEST(test_default)
{
	struct job job = job_for(pcp_grace_default());

	expect(pcp_grace_default() == &urcu_memb_flavor);
	expect_eq(pcp_grace_batches(), 0);
	/* With nothing to do a barrier is a grace period all the same. */
	barrier(job.grace.flavor);
	for (unsigned int i = 1; i <= 5; i++) {
		queue_job(&job);
		barrier(job.grace.flavor);
		expect_eq(atomic_load(&job.done), i);
		expect_eq(atomic_load(&job.sealed), i);
		expect(job.where != getpid());
		/* Counted when a batch has ended, by the next one's. */
		expect_cmp(pcp_grace_batches(), >=, i);
	}
}
END_TEST

/* Every flavour, alone and together with the others. */
START_TEST(test_flavors)
{
	struct job jobs[FLAVORS];

	for (unsigned int round = 0; round < 20; round++) {
		for (int i = 0; i < FLAVORS; i++)
			jobs[i] = job_for(flavors[i]);
		for (int i = 0; i < FLAVORS; i++) {
			queue_job(&jobs[i]);
			if (round % 2 == 0)
				barrier(flavors[i]);
		}
		/* Of whatever flavour: it covers what was queued before. */
		barrier(flavors[round % FLAVORS]);
		for (int i = 0; i < FLAVORS; i++)
			expect_eq(atomic_load(&jobs[i].done), 1);
	}
}
END_TEST

/* What is queued while a batch is under way makes the next, however much, in the
 * order it came. */
START_TEST(test_batches)
{
	enum { N = 50 };
	const struct rcu_flavor_struct *flavor = flavors[_i];
	struct job first = job_for(flavor), jobs[N];
	uint64_t before;

	barrier(flavor);
	hold_next(PCP_HOOK_GRACE_SEALED);
	queue_job(&first);
	wait_sem(&at_hook);
	before = pcp_grace_batches();
	for (int i = 0; i < N; i++) {
		jobs[i] = job_for(flavor);
		queue_job(&jobs[i]);
	}
	for (int i = 0; i < N; i++)
		expect_eq(atomic_load(&jobs[i].sealed), 0);
	sem_post(&go_on);
	barrier(flavor);
	expect_eq(atomic_load(&first.done), 1);
	for (int i = 0; i < N; i++) {
		expect_eq(atomic_load(&jobs[i].done), 1);
		expect_eq(jobs[i].order, first.order + 1 + (unsigned int)i);
	}
	/* The first, the fifty, and the barrier's own if it came late. */
	expect_cmp(pcp_grace_batches() - before, <=, 3);
}
END_TEST

static void again(struct job *job)
{
	if (atomic_load(&job->done) < 3)
		queue_job(job);
}

/* Work that queues itself anew comes before a barrier that was queued since. */
START_TEST(test_queued_by_itself)
{
	struct job job = job_for(pcp_grace_default());

	barrier(job.grace.flavor);
	job.also = again;
	hold_next(PCP_HOOK_GRACE_SEALED);
	queue_job(&job);
	wait_sem(&at_hook);
	sem_post(&go_on);
	for (unsigned int i = 1; i < 5; i++) {
		barrier(job.grace.flavor);
		expect_cmp(atomic_load(&job.done), >=, i < 4 ? i : 4);
	}
	expect_eq(atomic_load(&job.done), 4);
}
END_TEST

/* `last` work runs after all others of its batch, in order itself. */
START_TEST(test_last)
{
	struct job first = job_for(pcp_grace_default()), jobs[6];

	barrier(first.grace.flavor);
	hold_next(PCP_HOOK_GRACE_SEALED);
	queue_job(&first);
	wait_sem(&at_hook);
	for (int i = 0; i < 6; i++) {
		jobs[i] = job_for(first.grace.flavor);
		jobs[i].grace.last = i % 2 == 0;
		queue_job(&jobs[i]);
	}
	sem_post(&go_on);
	barrier(first.grace.flavor);
	/* 1, 3, 5, then 0, 2, 4. */
	for (int i = 0; i < 6; i++)
		expect_eq(jobs[i].order - first.order,
			  i % 2 ? 1 + i / 2 : 4 + i / 2);
}
END_TEST

/* --- readers -------------------------------------------------------------- */

START_TEST(test_waits_for_reader)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];
	struct reader reader = { 0 };
	struct job job = job_for(flavor);

	reader_start(&reader, flavor);
	queue_job(&job);
	expect_eq(pcp_grace_wait(flavor, is_done, &job.done, after_ms(30)),
		  ETIMEDOUT);
	expect_eq(atomic_load(&job.done), 0);
	reader_end(&reader);
	expect_eq(pcp_grace_wait(flavor, is_done, &job.done, UINT64_MAX), 0);
	expect_eq(atomic_load(&job.done), 1);
	/* A reader of another flavour is none of its business. */
	reader_start(&reader, flavors[(_i + 1) % FLAVORS]);
	queue_job(&job);
	barrier(flavor);
	expect_eq(atomic_load(&job.done), 2);
	reader_end(&reader);
}
END_TEST

START_TEST(test_wait_ends)
{
	const struct rcu_flavor_struct *flavor = pcp_grace_default();
	struct job job = job_for(flavor);

	expect_eq(pcp_grace_wait(flavor, never, NULL, 0), ETIMEDOUT);
	expect_eq(pcp_grace_wait(flavor, never, NULL, after_ms(5)), ETIMEDOUT);
	atomic_store(&job.done, 1);
	expect_eq(pcp_grace_wait(flavor, is_done, &job.done, 0), 0);
}
END_TEST

/* Inside a reader one cannot wait; QSBR knows no such thing. */
START_TEST(test_inside_reader)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];
	int err = is_qsbr(flavor) ? 0 : EDEADLK;
	struct job job = job_for(flavor);

	flavor->register_thread();
	for (unsigned int i = 1; i < 4; i++) {
		flavor->read_lock();
		flavor->read_lock();
		queue_job(&job);
		expect_eq(pcp_grace_may_wait(flavor), err);
		expect_eq(pcp_grace_barrier(flavor), err);
		expect_eq(pcp_grace_wait(flavor, never, NULL, 0),
			  err ? err : ETIMEDOUT);
		/* The reader is what it was. */
		expect(flavor->read_ongoing());
		flavor->read_unlock();
		expect_eq(pcp_grace_may_wait(flavor), err);
		flavor->read_unlock();
		expect_eq(pcp_grace_may_wait(flavor), 0);
		barrier(flavor);
		expect_eq(atomic_load(&job.done), i);
	}
	flavor->unregister_thread();
	barrier(flavor);
}
END_TEST

/* QSBR threads that are online count as quiescent while they wait, all at once,
 * and are online after. */
static void wait_online(const struct worker *w)
{
	const struct rcu_flavor_struct *flavor = &urcu_qsbr_flavor;

	(void)w;
	flavor->register_thread();
	for (int i = 0; i < 20; i++) {
		struct job job = job_for(flavor);

		queue_job(&job);
		barrier(flavor);
		expect_eq(atomic_load(&job.done), 1);
		expect(flavor->read_ongoing());
		if (i % 4 == 0) {
			flavor->thread_offline();
			barrier(flavor);
			expect(!flavor->read_ongoing());
			flavor->thread_online();
		}
		flavor->read_quiescent_state();
	}
	flavor->unregister_thread();
}

START_TEST(test_qsbr_online)
{
	run_threads(4, wait_online, NULL);
}
END_TEST

static void barriers(const struct worker *w)
{
	for (int i = 0; i < 50; i++) {
		const struct rcu_flavor_struct *flavor =
			flavors[(w->id + (unsigned int)i) % FLAVORS];
		struct job job = job_for(flavor);

		queue_job(&job);
		barrier(flavor);
		expect_eq(atomic_load(&job.done), 1);
	}
}

/* Threads no flavour knows. */
START_TEST(test_unregistered)
{
	run_threads(6, barriers, NULL);
}
END_TEST

/* --- work that calls back --------------------------------------------------- */

static int from_work[3];

static void wait_in_work(struct job *job)
{
	const struct rcu_flavor_struct *flavor = job->grace.flavor;

	from_work[0] = pcp_grace_may_wait(flavor);
	from_work[1] = pcp_grace_barrier(flavor);
	from_work[2] = pcp_grace_wait(flavor, never, NULL, UINT64_MAX);
}

START_TEST(test_waiting_in_work)
{
	struct job job = job_for(flavors[_i]);

	job.also = wait_in_work;
	memset(from_work, 0, sizeof(from_work));
	queue_job(&job);
	barrier(flavors[_i]);
	for (int i = 0; i < 3; i++)
		expect_eq(from_work[i], EDEADLK);
}
END_TEST

static void read_in_work(struct job *job)
{
	const struct rcu_flavor_struct *flavor = job->grace.flavor;

	flavor->read_lock();
	expect(flavor->read_ongoing());
	flavor->read_unlock();
}

/* Work that may call the user may be a reader. */
START_TEST(test_user_code)
{
	struct job job = job_for(flavors[_i]);

	job.also = read_in_work;
	job.grace.user_code = true;
	for (unsigned int i = 1; i < 5; i++) {
		queue_job(&job);
		barrier(flavors[_i]);
		expect_eq(atomic_load(&job.done), i);
	}
}
END_TEST

/* --- no thread to be had ---------------------------------------------------- */

static unsigned int threads_now(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;
	struct dirent *entry;

	expect(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* Who waits does the work, of all. */
START_TEST(test_no_thread)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];
	unsigned int threads = threads_now();
	struct job jobs[5];

	pcp_fault_set(PCP_FAULT_THREAD, 1, true);
	for (unsigned int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++) {
			jobs[i] = job_for(flavor);
			jobs[i].grace.user_code = i == 0;
			queue_job(&jobs[i]);
		}
		expect_eq(atomic_load(&jobs[0].done), 0);
		if (round == 1)
			expect_eq(pcp_grace_wait(flavor, is_done, &jobs[4].done,
						 UINT64_MAX),
				  0);
		else
			barrier(flavor);
		for (int i = 0; i < 5; i++) {
			expect_eq(atomic_load(&jobs[i].done), 1);
			expect_eq(jobs[i].where, thread_id());
		}
	}
	expect_eq(threads_now(), threads);
	/* As soon as there may be one, there is. */
	queue_job(&jobs[0]);
	pcp_fault_set(PCP_FAULT_THREAD, 0, false);
	barrier(flavor);
	expect_eq(atomic_load(&jobs[0].done), 2);
	/* The thread sanitizer starts one of its own with the first. */
	expect_eq(threads_now(), threads + 1 + TEST_TSAN);
	expect(jobs[0].where != thread_id());
}
END_TEST

/* Waiters in turn, each finding that there is no thread. */
START_TEST(test_no_thread_many)
{
	pcp_fault_set(PCP_FAULT_THREAD, 1, true);
	run_threads(4, barriers, NULL);
	pcp_fault_set(PCP_FAULT_THREAD, 2, true);
	run_threads(4, barriers, NULL);
	pcp_fault_set(PCP_FAULT_THREAD, 0, false);
}
END_TEST

START_TEST(test_no_thread_waiting_in_work)
{
	struct job job = job_for(flavors[_i]);

	pcp_fault_set(PCP_FAULT_THREAD, 1, true);
	job.also = wait_in_work;
	queue_job(&job);
	barrier(flavors[_i]);
	pcp_fault_set(PCP_FAULT_THREAD, 0, false);
	for (int i = 0; i < 3; i++)
		expect_eq(from_work[i], EDEADLK);
}
END_TEST

/* --- hurry ------------------------------------------------------------------ */

START_TEST(test_hurry)
{
	struct job job = job_for(pcp_grace_default());

	barrier(job.grace.flavor);
	/* News once per batch. A batch may still be ending here. */
	hold_next(PCP_HOOK_GRACE_SEALED);
	queue_job(&job);
	wait_sem(&at_hook);
	expect(pcp_grace_hurry());
	expect(!pcp_grace_hurry());
	expect(!pcp_grace_hurry());
	sem_post(&go_on);
	barrier(job.grace.flavor);
	/* Early hurries do not make the thread spin, nor hang. */
	for (int i = 0; i < 50; i++) {
		(void)pcp_grace_hurry();
		if (i % 5)
			continue;
		queue_job(&job);
		barrier(job.grace.flavor);
	}
	expect_eq(atomic_load(&job.done), 11);
}
END_TEST

static void queue_and_hurry(const struct worker *w)
{
	struct job *jobs = calloc(300, sizeof(*jobs));

	expect(jobs);
	for (int i = 0; i < 300; i++) {
		jobs[i] = job_for(flavors[w->id % FLAVORS]);
		queue_job(&jobs[i]);
		if (i % 7 == 0)
			(void)pcp_grace_hurry();
		if (i % 50 == 0)
			barrier(jobs[i].grace.flavor);
	}
	barrier(flavors[w->id % FLAVORS]);
	for (int i = 0; i < 300; i++)
		expect_eq(atomic_load(&jobs[i].done), 1);
	free(jobs);
}

START_TEST(test_together)
{
	unsigned int before = atomic_load(&runs);

	run_threads(6, queue_and_hurry, NULL);
	expect_eq(atomic_load(&runs) - before, 6 * 300);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("grace", 60);

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, test_default);
	tcase_add_test(tc, test_flavors);
	tcase_add_loop_test(tc, test_batches, 0, FLAVORS);
	tcase_add_test(tc, test_queued_by_itself);
	tcase_add_test(tc, test_last);
	tcase_add_loop_test(tc, test_waits_for_reader, 0, FLAVORS);
	tcase_add_test(tc, test_wait_ends);
	tcase_add_loop_test(tc, test_inside_reader, 0, FLAVORS);
	tcase_add_test(tc, test_qsbr_online);
	tcase_add_test(tc, test_unregistered);
	tcase_add_loop_test(tc, test_waiting_in_work, 0, FLAVORS);
	tcase_add_loop_test(tc, test_user_code, 0, FLAVORS);
	tcase_add_loop_test(tc, test_no_thread, 0, FLAVORS);
	tcase_add_test(tc, test_no_thread_many);
	tcase_add_loop_test(tc, test_no_thread_waiting_in_work, 0, FLAVORS);
	tcase_add_test(tc, test_hurry);
	tcase_add_test(tc, test_together);
	return suite_run(tc);
}

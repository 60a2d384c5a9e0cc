/* SPDX-License-Identifier: MIT */
/*
 * lib/base/grace.c: forks at each stage of a batch, and the manners of its
 * thread (case THR_03).
 */
#include <config.h>

#include <signal.h>
#include <sys/wait.h>

#include "grace_fixture.h"

static struct child child;

static void in_child(void (*fn)(void *), void *arg)
{
	run_child(fn, arg, 20, &child);
	expect_child_exit(&child, 0);
}

/* --- forks ---------------------------------------------------------------- */

/* The child has a thread of its own, for work and barriers. */
static void works_in_child(void *arg)
{
	struct job job = job_for(arg);

	pcp_hook_set(NULL);
	for (unsigned int i = 1; i < 4; i++) {
		queue_job(&job);
		barrier(arg);
		expect_eq(atomic_load(&job.done), i);
		expect(job.where != thread_id());
	}
}

static void *as_flavor(int i)
{
	return (void *)(uintptr_t)flavors[i];
}

START_TEST(test_at_rest)
{
	struct job job = job_for(flavors[_i]);

	/* Before there is a thread, and after. */
	for (unsigned int i = 1; i < 4; i++) {
		in_child(works_in_child, as_flavor(_i));
		queue_job(&job);
		barrier(flavors[_i]);
		expect_eq(atomic_load(&job.done), i);
	}
}
END_TEST

static void generations(void *arg)
{
	int *left = arg;

	works_in_child(as_flavor(*left % FLAVORS));
	if ((*left)--)
		in_child(generations, left);
	works_in_child(as_flavor(0));
}

static void *registered(void *p)
{
	struct reader *reader = p;

	reader->flavor->register_thread();
	/* Of the flavours this is a reader's that is not inside. */
	reader->flavor->thread_offline();
	sem_post(&reader->inside);
	wait_sem(&reader->go);
	reader->flavor->unregister_thread();
	return NULL;
}

/* Beside threads of the application that may be readers, and are not now. The
 * child has their stacks, with what the flavour's list has there. */
START_TEST(test_beside_readers)
{
	struct reader readers[4];

	for (int i = 0; i < 4; i++) {
		readers[i].flavor = flavors[_i];
		expect(!sem_init(&readers[i].inside, 0, 0));
		expect(!sem_init(&readers[i].go, 0, 0));
		expect(!pthread_create(&readers[i].thread, NULL, registered,
				       &readers[i]));
		wait_sem(&readers[i].inside);
	}
	for (int i = 0; i < 3; i++) {
		int left = 3;

		in_child(works_in_child, as_flavor(_i));
		in_child(generations, &left);
		barrier(flavors[_i]);
	}
	for (int i = 0; i < 4; i++)
		reader_end(&readers[i]);
}
END_TEST

START_TEST(test_generations)
{
	int left = 5;

	generations(&left);
}
END_TEST

static struct job owned;

/* What was queued is its owner's to queue again; until then nobody does it. */
static void queue_again(void *arg)
{
	works_in_child(arg);
	expect_eq(atomic_load(&owned.done), 0);
	atomic_store(&owned.sealed, 0);
	queue_job(&owned);
	barrier(arg);
	expect_eq(atomic_load(&owned.done), 1);
}

START_TEST(test_queued)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];

	/* Queued, and no thread. */
	pcp_fault_set(PCP_FAULT_THREAD, 1, true);
	owned = job_for(flavor);
	queue_job(&owned);
	pcp_fault_set(PCP_FAULT_THREAD, 0, false);
	in_child(queue_again, as_flavor(_i));
	barrier(flavor);
	expect_eq(atomic_load(&owned.done), 1);
	/* In the thread's hands, sealed, no grace period begun. */
	owned = job_for(flavor);
	hold_next(PCP_HOOK_GRACE_SEALED);
	queue_job(&owned);
	wait_sem(&at_hook);
	in_child(queue_again, as_flavor(_i));
	sem_post(&go_on);
	barrier(flavor);
	expect_eq(atomic_load(&owned.done), 1);
}
END_TEST

static void stand(struct job *job)
{
	(void)job;
	sem_post(&at_hook);
	wait_sem(&go_on);
}

/* As above, or the child is told that it is lost: liburcu may have a thread
 * registered there that does not exist. */
static void queue_again_or_lost(void *arg)
{
	if (pcp_grace_may_wait(arg) != ENOTRECOVERABLE)
		queue_again(arg);
}

/* _i: the flavour, and whether the thread is registered with it then, in work
 * that may call the user. */
START_TEST(test_in_work)
{
	const struct rcu_flavor_struct *flavor = flavors[_i / 2];

	owned = job_for(flavor);
	owned.also = stand;
	owned.grace.user_code = _i % 2;
	hold_next(PCP_HOOK_COUNT);
	queue_job(&owned);
	wait_sem(&at_hook);
	owned.also = NULL;
	/* Each starts a thread, on the stack of the one that is not there. */
	for (int i = 0; i < (_i % 2 ? 1 : 3); i++)
		in_child(_i % 2 ? queue_again_or_lost : queue_again,
			 as_flavor(_i / 2));
	sem_post(&go_on);
	barrier(flavor);
	expect_eq(atomic_load(&owned.done), 1);
}
END_TEST

static atomic_int forked = -1;

static void fork_in_work(struct job *job)
{
	pid_t pid = fork();
	int status;

	(void)job;
	expect(pid >= 0);
	if (!pid) {
		/* This thread is the child's only one. It may not wait. */
		kill_after(20);
		expect_eq(pcp_grace_barrier(&urcu_memb_flavor), 0);
		_exit(0);
	}
	expect_eq(waitpid(pid, &status, 0), pid);
	atomic_store(&forked, status);
}

/* The thread itself forks; its child is nobody's runner. */
START_TEST(test_fork_in_work)
{
	struct job job = job_for(flavors[_i]);

	job.also = fork_in_work;
	queue_job(&job);
	barrier(flavors[_i]);
	expect_eq(atomic_load(&forked), 0);
}
END_TEST

/* --- a grace period under way --------------------------------------------- */

static void is_lost(void *arg)
{
	const struct rcu_flavor_struct *flavor = arg;
	struct job job = job_for(flavor);

	expect_eq(pcp_grace_may_wait(flavor), ENOTRECOVERABLE);
	expect_eq(pcp_grace_barrier(flavor), ENOTRECOVERABLE);
	/* Queued it may be, and nothing happens. */
	queue_job(&job);
	(void)pcp_grace_hurry();
	pcp_grace_kick();
	expect_eq(pcp_grace_wait(flavor, is_done, &job.done, UINT64_MAX),
		  ENOTRECOVERABLE);
	expect_eq(atomic_load(&job.done), 0);
	/* What is so already needs no waiting. */
	atomic_store(&job.done, 1);
	expect_eq(pcp_grace_wait(flavor, is_done, &job.done, 0), 0);
	/* Nor do its own children do better. */
	if (!getenv("PCP_TEST_LOST")) {
		setenv("PCP_TEST_LOST", "1", 1);
		in_child(is_lost, arg);
	}
}

/* Its grace period is under way. */
static void begin(struct job *job)
{
	hold_next(PCP_HOOK_GRACE_BEGUN);
	queue_job(job);
	wait_sem(&at_hook);
	sem_post(&go_on);
}

/* The fork waits for it, not for ever, and the child is told. */
START_TEST(test_lost)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];
	struct reader reader = { 0 };
	struct job job = job_for(flavor);

	reader_start(&reader, flavor);
	begin(&job);
	in_child(is_lost, as_flavor(_i));
	/* Here nothing is. */
	expect_eq(atomic_load(&job.done), 0);
	reader_end(&reader);
	barrier(flavor);
	expect_eq(atomic_load(&job.done), 1);
	in_child(works_in_child, as_flavor(_i));
}
END_TEST

static void leave_and_is_lost(void *arg)
{
	const struct rcu_flavor_struct *flavor = arg;
	struct job job = job_for(flavor);

	expect_eq(pcp_grace_may_wait(flavor), ENOTRECOVERABLE);
	expect_eq(pcp_grace_wait(flavor, is_done, &job.done, UINT64_MAX),
		  EDEADLK);
	flavor->read_unlock();
	is_lost(arg);
}

/* Forked by the very reader that keeps it open: waiting would be in vain. QSBR
 * threads do not count as readers while they wait. */
START_TEST(test_fork_inside_reader)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];
	struct job job = job_for(flavor);

	flavor->register_thread();
	flavor->read_lock();
	begin(&job);
	if (is_qsbr(flavor)) {
		in_child(works_in_child, as_flavor(0));
		expect(flavor->read_ongoing());
	} else {
		in_child(leave_and_is_lost, as_flavor(_i));
		expect_eq(atomic_load(&job.done), 0);
	}
	flavor->read_unlock();
	flavor->unregister_thread();
	barrier(flavor);
	expect_eq(atomic_load(&job.done), 1);
}
END_TEST

struct leaver {
	const struct rcu_flavor_struct *flavor;
	sem_t inside, leave, end;
};

static void *leave_soon(void *arg)
{
	const struct timespec pause = { 0, 30000000 };
	struct leaver *leaver = arg;

	leaver->flavor->register_thread();
	leaver->flavor->read_lock();
	sem_post(&leaver->inside);
	wait_sem(&leaver->leave);
	/* By now the fork waits, or is about to. */
	nanosleep(&pause, NULL);
	leaver->flavor->read_unlock();
	leaver->flavor->unregister_thread();
	/* Threads that start or end allocate and free: not while the test
	 * forks, or the address sanitizer's allocator is locked in the
	 * child. */
	wait_sem(&leaver->end);
	return NULL;
}

static void maybe_lost(void *arg)
{
	if (pcp_grace_may_wait(arg) == ENOTRECOVERABLE)
		_exit(1);
	works_in_child(arg);
}

/* The reader leaves while the fork waits, and the child has lost nothing. On a
 * busy machine that may take more than the fork's patience: once is enough. */
START_TEST(test_fork_waits)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];
	bool saved = false;

	for (int i = 0; i < 5 && !saved; i++) {
		struct leaver leaver = { .flavor = flavor };
		struct job job = job_for(flavor);
		pthread_t thread;

		expect(!sem_init(&leaver.inside, 0, 0));
		expect(!sem_init(&leaver.leave, 0, 0));
		expect(!sem_init(&leaver.end, 0, 0));
		expect(!pthread_create(&thread, NULL, leave_soon, &leaver));
		wait_sem(&leaver.inside);
		begin(&job);
		sem_post(&leaver.leave);
		run_child(maybe_lost, as_flavor(_i), 20, &child);
		saved = child.status == 0;
		if (!saved)
			expect_child_exit(&child, 1);
		sem_post(&leaver.end);
		expect(!pthread_join(thread, NULL));
		barrier(flavor);
		expect_eq(atomic_load(&job.done), 1);
	}
	expect(saved);
}
END_TEST

/* Before the forks, for the same reason. */
static pid_t start_worker(void)
{
	static struct job job;

	job = job_for(flavors[0]);
	queue_job(&job);
	barrier(flavors[0]);
	expect(job.where != thread_id());
	return job.where;
}

static atomic_bool stop;

/* liburcu-bp wants handlers of its own around a fork; it registers threads by
 * itself, and one may be at it. */
extern void urcu_bp_before_fork(void);
extern void urcu_bp_after_fork_parent(void);
extern void urcu_bp_after_fork_child(void);

static void keep_queuing(const struct worker *w)
{
	const struct rcu_flavor_struct *only = w->arg;
	const struct rcu_flavor_struct *flavor =
		only ? only : flavors[w->id % FLAVORS];
	const struct timespec pause = { 0, 1000000 };

	/* Pinned beside each other, threads of a process that forks were seen
	 * to stand still for seconds on Linux 6.18, inside the kernel. */
	unpin();
	if (!w->id) {
		unsigned int saved = 0;

		for (unsigned long i = scaled(20); i; i--) {
			run_child(maybe_lost,
				  only ? w->arg : as_flavor((int)(i % FLAVORS)),
				  20, &child);
			saved += child.status == 0;
			/* A busy machine may exhaust a fork's patience. */
			if (child.status)
				expect_child_exit(&child, 1);
		}
		atomic_store(&stop, true);
		expect(saved > 0);
		return;
	}
	while (!atomic_load(&stop)) {
		struct job job = job_for(flavor);

		job.grace.user_code = w->id % 2;
		queue_job(&job);
		barrier(flavor);
		expect_eq(atomic_load(&job.done), 1);
		/* Others want the CPU too. */
		nanosleep(&pause, NULL);
	}
}

/* Where there is no reader that stays, a fork loses nothing, given time. */
START_TEST(test_fork_beside)
{
	expect(!pthread_atfork(urcu_bp_before_fork, urcu_bp_after_fork_parent,
			       urcu_bp_after_fork_child));
	start_worker();
	run_threads(4, keep_queuing, NULL);
}
END_TEST

/* The same with one flavour. _i: which. */
START_TEST(test_fork_beside_one)
{
	if (flavors[_i] == &urcu_bp_flavor)
		expect(!pthread_atfork(urcu_bp_before_fork,
				       urcu_bp_after_fork_parent,
				       urcu_bp_after_fork_child));
	start_worker();
	run_threads(3, keep_queuing, as_flavor(_i));
}
END_TEST

/* With liburcu-bp's handlers, which take its locks before the library's own
 * handler runs, and a thread that liburcu-bp has not seen before. */
START_TEST(test_fork_bp_handlers)
{
	struct job job = job_for(&urcu_bp_flavor);
	pid_t pid;
	int status;

	expect(!pthread_atfork(urcu_bp_before_fork, urcu_bp_after_fork_parent,
			       urcu_bp_after_fork_child));
	hold_next(PCP_HOOK_GRACE_BEGUN);
	queue_job(&job);
	wait_sem(&at_hook);
	/* A grace period is about to begin. */
	pid = fork();
	expect(pid >= 0);
	if (!pid)
		_exit(pcp_grace_may_wait(&urcu_memb_flavor) != ENOTRECOVERABLE);
	expect_eq(waitpid(pid, &status, 0), pid);
	expect_eq(status, 0);
	sem_post(&go_on);
	barrier(&urcu_bp_flavor);
	expect_eq(atomic_load(&job.done), 1);
}
END_TEST

/* --- the thread's manners ------------------------------------------------- */

static atomic_uint handled;
static _Atomic(pid_t) handled_by;

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&handled, 1);
	atomic_store(&handled_by, thread_id());
}

/* Signals to the process run nothing on the library's thread: with all other
 * threads blocking them they stay pending, in work too. */
START_TEST(case_THR_03_signals)
{
	static const int signals[] = { SIGUSR1, SIGTERM, SIGHUP, SIGALRM,
				       SIGCHLD, SIGUSR2 };
	enum { N = sizeof(signals) / sizeof(signals[0]) };
	struct sigaction action = { .sa_handler = on_signal };
	struct job job = job_for(flavors[0]);
	sigset_t set, old, pending;

	sigemptyset(&set);
	/* The thread starts while nothing is blocked. */
	barrier(flavors[0]);
	for (int i = 0; i < N; i++) {
		sigaddset(&set, signals[i]);
		expect(!sigaction(signals[i], &action, NULL));
	}
	expect(!pthread_sigmask(SIG_BLOCK, &set, &old));
	for (unsigned long round = scaled(2000); round; round--) {
		expect(!kill(getpid(), signals[round % N]));
		if (round % 100)
			continue;
		queue_job(&job);
		barrier(flavors[0]);
	}
	expect(!sigpending(&pending));
	expect_eq(sigismember(&pending, SIGUSR1), 1);
	expect_eq(atomic_load(&handled), 0);
	expect(!pthread_sigmask(SIG_SETMASK, &old, NULL));
	expect_cmp(atomic_load(&handled), >, 0);
	expect_eq(atomic_load(&handled_by), thread_id());
}
END_TEST

static unsigned long long status_field(pid_t tid, const char *name, int base)
{
	char path[64], line[256];
	unsigned long long value = 0;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	file = fopen(path, "r");
	expect(file);
	while (!found && fgets(line, sizeof(line), file)) {
		found = !strncmp(line, name, strlen(name));
		if (found)
			value = strtoull(line + strlen(name) + 1, NULL, base);
	}
	fclose(file);
	expect(found);
	return value;
}

START_TEST(test_all_signals_blocked)
{
	/* The libc keeps two to itself. */
	const uint64_t free_to_block =
		~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1) |
		  UINT64_C(3) << 31);
	pid_t tid = start_worker();

	/* A wrapper such as valgrind keeps masks of its own in the kernel. */
	if (getenv("PCP_TEST_WRAPPER"))
		return;
	expect(!(~status_field(tid, "SigBlk:", 16) & free_to_block));
	/* The one that started it has its own mask as before. */
	expect_eq(status_field(thread_id(), "SigBlk:", 16), 0);
}
END_TEST

/* (d): with nothing to do it does not wake up, not once. After a batch it needs
 * a moment to settle, however long. */
START_TEST(case_THR_03_idle)
{
	const struct timespec moment = { 0, 30000000 };
	pid_t tid = start_worker();
	unsigned long long before = 0, now;
	int quiet = 0;

	for (int i = 0; i < 200 && quiet < 8; i++) {
		nanosleep(&moment, NULL);
		now = status_field(tid, "voluntary_ctxt_switches:", 10);
		quiet = now == before ? quiet + 1 : 0;
		before = now;
	}
	expect_eq(quiet, 8);
	/* And is there when it is needed. */
	expect_eq(start_worker(), tid);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("grace-fork", 60);

	/* Threads of an emulated process that forks were seen to stand
	 * still. */
	if (TEST_EMULATED)
		skip_test("forks beside threads take too long in an emulator");
	if (TEST_TSAN)
		skip_test("the thread sanitizer has no threads after a fork");
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_loop_test(tc, test_at_rest, 0, FLAVORS);
	tcase_add_test(tc, test_generations);
	tcase_add_loop_test(tc, test_beside_readers, 0, FLAVORS);
	tcase_add_loop_test(tc, test_queued, 0, FLAVORS);
	tcase_add_loop_test(tc, test_in_work, 0, 2 * FLAVORS);
	tcase_add_loop_test(tc, test_fork_in_work, 0, FLAVORS);
	tcase_add_loop_test(tc, test_lost, 0, FLAVORS);
	tcase_add_loop_test(tc, test_fork_inside_reader, 0, FLAVORS);
	tcase_add_loop_test(tc, test_fork_waits, 0, FLAVORS);
	tcase_add_test(tc, test_fork_beside);
	tcase_add_loop_test(tc, test_fork_beside_one, 0, FLAVORS);
	tcase_add_test(tc, test_fork_bp_handlers);
	tcase_add_test(tc, case_THR_03_signals);
	tcase_add_test(tc, test_all_signals_blocked);
	tcase_add_test(tc, case_THR_03_idle);
	return suite_run(tc);
}

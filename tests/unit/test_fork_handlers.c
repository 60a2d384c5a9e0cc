/* SPDX-License-Identifier: MIT */
/* lib/base/fork.c: the handlers of all floors, from the top down before a fork
 * and back up after it. */
#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "suite.h"

#include "base/fork.h"

static char trace[64];
static size_t traced;

static void note(char what, enum pcp_fork_level level)
{
	if (traced + 2 < sizeof(trace)) {
		trace[traced++] = what;
		trace[traced++] = (char)('0' + (int)level);
		trace[traced] = '\0';
	}
}

#define HANDLERS(level)                                                       \
	static void prepare_##level(void)                                     \
	{                                                                     \
		note('p', level);                                             \
	}                                                                     \
	static void parent_##level(void)                                      \
	{                                                                     \
		note('f', level);                                             \
	}                                                                     \
	static void child_##level(void)                                       \
	{                                                                     \
		note('c', level);                                             \
	}                                                                     \
	static const struct pcp_fork_ops ops_##level = {                      \
		prepare_##level, parent_##level, child_##level                \
	}

HANDLERS(PCP_FORK_GRACE);
HANDLERS(PCP_FORK_CACHE);
HANDLERS(PCP_FORK_COUNTER);
HANDLERS(PCP_FORK_PERCPU);
HANDLERS(PCP_FORK_LEDGER);
HANDLERS(PCP_FORK_ARENA);
HANDLERS(PCP_FORK_FENCE);

_Static_assert(PCP_FORK_COUNT == 7, "a new floor wants a test");

static void register_all(void)
{
	/* In any order: the levels say which is higher. */
	pcp_fork_register(PCP_FORK_ARENA, &ops_PCP_FORK_ARENA);
	pcp_fork_register(PCP_FORK_CACHE, &ops_PCP_FORK_CACHE);
	pcp_fork_register(PCP_FORK_GRACE, &ops_PCP_FORK_GRACE);
	pcp_fork_register(PCP_FORK_LEDGER, &ops_PCP_FORK_LEDGER);
	pcp_fork_register(PCP_FORK_FENCE, &ops_PCP_FORK_FENCE);
	pcp_fork_register(PCP_FORK_PERCPU, &ops_PCP_FORK_PERCPU);
	pcp_fork_register(PCP_FORK_COUNTER, &ops_PCP_FORK_COUNTER);
	expect_eq(pcp_fork_init(), 0);
}

/* The child's trace and the parent's, of a plain fork. */
static void expect_traces(const char *in_parent, const char *in_child)
{
	int status;
	pid_t pid;

	traced = 0;
	trace[0] = '\0';
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		if (strcmp(trace, in_child))
			fail_now("child: %s, expected %s", trace, in_child);
		_exit(0);
	}
	if (strcmp(trace, in_parent))
		fail_now("parent: %s, expected %s", trace, in_parent);
	expect_eq(waitpid(pid, &status, 0), pid);
	expect_eq(status, 0);
}

#define PARENT "p0p1p2p3p4p5p6f6f5f4f3f2f1f0"
#define CHILD "p0p1p2p3p4p5p6c6c5c4c3c2c1c0"

START_TEST(test_order)
{
	register_all();
	for (unsigned int i = 0; i < 3; i++)
		expect_traces(PARENT, CHILD);
}
END_TEST

/* Entered at the libc once, however often it is asked. */
START_TEST(test_entered_once)
{
	register_all();
	expect_eq(pcp_fork_init(), 0);
	expect_eq(pcp_fork_init(), 0);
	expect_traces(PARENT, CHILD);
}
END_TEST

START_TEST(test_gaps)
{
	static const struct pcp_fork_ops only_child = {
		.child = child_PCP_FORK_ARENA,
	};
	static const struct pcp_fork_ops only_prepare = {
		.prepare = prepare_PCP_FORK_CACHE,
	};

	expect_eq(pcp_fork_init(), 0);
	expect_traces("", "");
	pcp_fork_register(PCP_FORK_PERCPU, &ops_PCP_FORK_PERCPU);
	expect_traces("p3f3", "p3c3");
	pcp_fork_register(PCP_FORK_ARENA, &only_child);
	expect_traces("p3f3", "p3c5c3");
	pcp_fork_register(PCP_FORK_CACHE, &only_prepare);
	expect_traces("p1p3f3", "p1p3c5c3");
	/* The same level again replaces. */
	pcp_fork_register(PCP_FORK_ARENA, &ops_PCP_FORK_ARENA);
	expect_traces("p1p3p5f5f3", "p1p3p5c5c3");
}
END_TEST

/* A child of a child, and a child that enters a level. */
START_TEST(test_generations)
{
	int status;
	pid_t pid;

	register_all();
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		expect_traces(PARENT, CHILD);
		pcp_fork_register(PCP_FORK_ARENA, &ops_PCP_FORK_CACHE);
		expect_eq(pcp_fork_init(), 0);
		expect_traces("p0p1p2p3p4p1p6f6f1f4f3f2f1f0",
			      "p0p1p2p3p4p1p6c6c1c4c3c2c1c0");
		_exit(0);
	}
	expect_eq(waitpid(pid, &status, 0), pid);
	expect_eq(status, 0);
	expect_traces(PARENT, CHILD);
}
END_TEST

#ifdef __GLIBC__
/* Entered at the libc a second time, as in a child that was forked in the middle
 * of the first: the outer pair counts. */
static void (*entered[3])(void);

int pthread_atfork(void (*prepare)(void), void (*parent)(void),
		   void (*child)(void));

extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void),
			     void *);

/* Stands before the libc's. */
int pthread_atfork(void (*prepare)(void), void (*parent)(void),
		   void (*child)(void))
{
	entered[0] = prepare;
	entered[1] = parent;
	entered[2] = child;
	return __register_atfork(prepare, parent, child, NULL);
}

START_TEST(test_entered_twice)
{
	register_all();
	expect(entered[0] && entered[1] && entered[2]);
	expect_eq(__register_atfork(entered[0], entered[1], entered[2], NULL),
		  0);
	for (unsigned int i = 0; i < 3; i++)
		expect_traces(PARENT, CHILD);
}
END_TEST
#endif /* __GLIBC__ */

/* --- several threads fork: one at a time walks the handlers --------------- */

static atomic_int walking;
static atomic_uint walks;

static void enter(void)
{
	expect_eq(atomic_fetch_add(&walking, 1), 0);
	atomic_fetch_add(&walks, 1);
	sched_yield();
}

static void leave(void)
{
	expect_eq(atomic_fetch_sub(&walking, 1), 1);
}

static const struct pcp_fork_ops serial = { enter, leave, leave };

static void fork_many(const struct worker *worker)
{
	(void)worker;
	for (unsigned int i = 0; i < 40; i++) {
		int status;
		pid_t pid = fork();

		expect(pid >= 0);
		if (!pid) {
			pid_t below = fork();

			if (!below)
				_exit(atomic_load(&walking));
			expect_eq(waitpid(below, &status, 0), below);
			_exit(status || atomic_load(&walking));
		}
		expect_eq(waitpid(pid, &status, 0), pid);
		expect_eq(status, 0);
	}
}

START_TEST(test_one_at_a_time)
{
	pcp_fork_register(PCP_FORK_CACHE, &serial);
	expect_eq(pcp_fork_init(), 0);
	run_threads(4, fork_many, NULL);
	expect_eq(atomic_load(&walks), 160);
	expect_eq(atomic_load(&walking), 0);
}
END_TEST

/* A level entered while others fork is called in pairs. */
static atomic_bool stop;
static atomic_int pairs;

static void one_more(void)
{
	atomic_fetch_add(&pairs, 1);
}

static void one_less(void)
{
	expect_cmp(atomic_fetch_sub(&pairs, 1), >, 0);
}

static void fork_or_register(const struct worker *worker)
{
	static const struct pcp_fork_ops paired = { one_more, one_less,
						    one_less };

	if (worker->id) {
		fork_many(worker);
		atomic_store(&stop, true);
		return;
	}
	while (!atomic_load(&stop)) {
		pcp_fork_register(PCP_FORK_PERCPU, &paired);
		sched_yield();
		pcp_fork_register(PCP_FORK_PERCPU, NULL);
	}
}

START_TEST(test_register_beside)
{
	expect_eq(pcp_fork_init(), 0);
	run_threads(2, fork_or_register, NULL);
	expect_eq(atomic_load(&pairs), 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fork_handlers", 60);

	tcase_add_test(tc, test_order);
	tcase_add_test(tc, test_entered_once);
	tcase_add_test(tc, test_gaps);
	tcase_add_test(tc, test_generations);
#ifdef __GLIBC__
	tcase_add_test(tc, test_entered_twice);
#endif
	tcase_add_test(tc, test_one_at_a_time);
	tcase_add_test(tc, test_register_beside);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * Under a debugger that steps through every instruction no section ever gets to
 * its end: after a few tries each call goes past the slots, and succeeds.
 */
#include <config.h>

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpool/fast.h>

#include "../caches.h"

/* Far more steps than the calls below take, yet an end to a loop. */
enum { STEPS_MAX = 2000000 };

static struct sheet sheet = { .fill = 40 };
static struct pcpool_cache *cache;
static uint64_t *counter, *word;
static struct pcpool_counter wide;

static void stepped(void)
{
	void *objs[6];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++)
			objs[i] = must_alloc(cache);
		expect_eq(pcpool_alloc_bulk(cache, 3, objs + 3), 0);
		for (int i = 0; i < 3; i++)
			pcpool_free(cache, objs[i]);
		objs[0] = pcpool_fast_alloc(cache);
		expect(objs[0]);
		pcpool_fast_free(cache, objs[0]);
		expect_eq(pcpool_free_bulk(cache, 3, objs + 3), 0);
		pcpool_this_cpu_add(counter, 5);
		pcpool_counter_add(&wide, 3000);
		pcpool_counter_add(&wide, 7);
		/* All on one copy: pinned, and all past the slots or none. */
		expect_cmp(pcpool_this_cpu_xchg(word, 1), <=, 1);
		expect_eq(pcpool_this_cpu_cmpxchg(word, 2, 3), 1);
	}
	expect_eq(pcpool_counter_sum(&wide), 9021);
	expect_eq(pcpool_percpu_sum_u64(counter), 15);
	expect_eq(stats_of(cache).live, 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
}

static void child_main(void)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(TEST_SKIP);
	raise(SIGSTOP);
	stepped();
	_exit(0);
}

int main(void)
{
	unsigned long steps = 0;
	void *objs[20];
	int status;
	pid_t pid;

	if (TEST_ASAN || TEST_TSAN)
		skip_test("a sanitizer's runtime takes too many steps");
	cache = sheet_cache_of("step", 40, &sheet, 0, 8);
	counter = pcpool_percpu_alloc(sizeof(*counter), 8);
	word = pcpool_percpu_alloc(sizeof(*word), 8);
	expect(counter && word);
	expect_eq(pcpool_counter_init(&wide, 0), 0);
	/* So that the slot has a stock, and construction is not stepped. */
	pin_to(0);
	expect_eq(pcpool_alloc_bulk(cache, 20, objs), 0);
	expect_eq(pcpool_free_bulk(cache, 20, objs), 0);
	pid = fork();
	expect(pid >= 0);
	if (!pid)
		child_main();
	for (;;) {
		expect_eq(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status) || WIFSIGNALED(status))
			break;
		if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP)
			fail_now("stopped by signal %d", WSTOPSIG(status));
		if (++steps > STEPS_MAX) {
			kill(pid, SIGKILL);
			fail_now("no end after %lu steps", steps);
		}
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL))
			skip_test("cannot step here");
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP)
		skip_test("cannot trace here");
	printf("%s mode: %lu steps\n", pcpool_mode(), steps);
	expect_eq(status, 0);
	expect_eq(pcpool_percpu_sum_u64(counter), 0);
	expect_eq(pcpool_counter_sum(&wide), 0);
	pcpool_counter_destroy(&wide);
	pcpool_percpu_free(word);
	pcpool_percpu_free(counter);
	destroy_balanced(cache, &sheet);
	return 0;
}

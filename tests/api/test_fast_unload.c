/* SPDX-License-Identifier: MIT */
/*
 * A plug-in uses pcpool inline, and is unloaded; the thread that used it goes on,
 * is interrupted by signals, gives the CPU away and is moved. It lives. With the
 * plug-in that defines PCPOOL_FAST_RESIDENT, and should not, the kernel kills
 * it: that is how we know that the test sees what it is for.
 */
#include <config.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../caches.h"
#include "fast_area.h"
#include "fast_plugin.h"

enum { ROUNDS = 30, TRIES = 10 };

static struct pcpool_cache *cache;
static char path[4096];
static volatile sig_atomic_t signalled;

static void on_signal(int sig)
{
	(void)sig;
	signalled = signalled + 1;
}

/* What makes the kernel look where the thread's last section was. */
static void be_interrupted(void)
{
	for (unsigned int i = 0; i < 4; i++) {
		expect(!raise(SIGUSR1));
		sched_yield();
		pin_to(i);
		usleep(100);
	}
}

static void *use_and_unload(void *arg)
{
	const void *(*use)(struct pcpool_cache *);
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const void *inside;
	Dl_info info;

	(void)arg;
	if (!plugin)
		fail_now("dlopen: %s", dlerror());
	*(void **)&use = dlsym(plugin, "fast_plugin_use");
	expect(use);
	inside = use(cache);
	expect(inside);
	expect(!dlclose(plugin));
	be_interrupted();
	/* Gone indeed. */
	expect(!dladdr(inside, &info));
	return NULL;
}

static void rounds(void *arg)
{
	const unsigned int *n = arg;
	pthread_t thread;

	for (unsigned int i = 0; i < *n; i++) {
		use_and_unload(NULL);
		expect(!pthread_create(&thread, NULL, use_and_unload, NULL));
		expect(!pthread_join(thread, NULL));
	}
	expect(signalled);
	_exit(0);
}

/* Whether the plug-in's code is inline, and so where it can be unloaded. */
static bool inline_here(void)
{
	return PCPOOL_FAST_INLINE && rseq_mode();
}

static void find(const char *name)
{
	const char *top = getenv("top_builddir");
	struct stat st;

	snprintf(path, sizeof(path), "%s/tests/api/.libs/%s.so",
		 top ? top : ".", name);
	if (stat(path, &st))
		skip_test("no plug-in was built");
}

static void expect_killed(void)
{
	static struct child child;
	unsigned int n = 1, killed = 0;

	for (int i = 0; i < TRIES; i++) {
		run_child(rounds, &n, 60, &child);
		if (WIFSIGNALED(child.status)) {
			expect_eq(WTERMSIG(child.status), SIGSEGV);
			killed++;
		} else {
			expect_child_exit(&child, 0);
		}
	}
	/* A thread that was interrupted by chance between its last section and
	 * the unloading survives. */
	printf("resident: %u of %d killed\n", killed, TRIES);
	expect_cmp(killed, >, 0);
}

int main(void)
{
	static struct child child;
	unsigned int n = ROUNDS;

	if (TEST_ASAN || TEST_TSAN)
		skip_test("a sanitizer keeps or tracks what is unloaded");
	cache = pcpool_cache_create("unload", 64, NULL);
	expect(cache);
	expect(signal(SIGUSR1, on_signal) != SIG_ERR);
	find("fast_plugin");
	run_child(rounds, &n, 100, &child);
	expect_child_exit(&child, 0);
	printf("%s mode: plug-in unloaded %u times\n", pcpool_mode(), 2 * n);
	find("fast_plugin_wrong");
	if (inline_here())
		expect_killed();
	must_destroy(cache);
	return 0;
}

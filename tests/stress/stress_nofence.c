/* SPDX-License-Identifier: MIT */
/*
 * Shows that the fence of a drain is needed and that its absence would be
 * noticed: the same load, on two CPUs that never leave their stocks, runs
 * clean with it and must come to grief without it.
 */
#include <config.h>

#include <sys/wait.h>
#include <time.h>

#include "base/fault.h"

#include "../caches.h"

/* What a run does at the most; without the fence a hundredth is enough. */
enum { PAIRS = 3000000, SECONDS = 120 };

struct race {
	struct pcpool_cache *cache;
	atomic_uint working;
};

/* Stays within the slot's main sheaf: every call is one section. */
static void pairs(const struct race *race, uint64_t id)
{
	for (int i = 0; i < PAIRS; i++) {
		void *a = must_alloc(race->cache);
		void *b;

		owner_take(a, id);
		b = must_alloc(race->cache);
		owner_take(b, id);
		owner_leave(a, id);
		pcpool_free(race->cache, a);
		owner_leave(b, id);
		pcpool_free(race->cache, b);
	}
}

static void race_thread(const struct worker *w)
{
	struct race *race = w->arg;

	/* Worker i is on CPU i: one works, the other drains. */
	if (w->id % 2) {
		while (atomic_load(&race->working))
			pcpool_cache_shrink(race->cache);
		return;
	}
	pairs(race, w->id + 1);
	atomic_fetch_sub(&race->working, 1);
}

static int run(void)
{
	struct sheet sheet = { .clear = 8 };
	struct race race = { .working = 1 };

	race.cache = sheet_cache_of("race", 64, &sheet, 0, 8);
	run_threads(2, race_thread, &race);
	expect_eq(stats_of(race.cache).live, 0);
	destroy_balanced(race.cache, &sheet);
	return 0;
}

static bool came_to_grief(const struct child *child)
{
	/* Crashed, aborted, reported by a sanitizer, or going in circles. */
	return !WIFEXITED(child->status) || WEXITSTATUS(child->status);
}

int main(int argc, char **argv)
{
	static const char *const args[] = { "--run", NULL };
	static struct child child;
	time_t begin = time(NULL);
	unsigned int patience;

	if (argc > 1 && !strcmp(argv[1], "--run"))
		return run();
	if (!rseq_mode())
		skip_test("only rseq mode has fences");
	if (allowed_cpus() < 2)
		skip_test("takes two CPUs that run at the same time");
	run_self(args, NULL, SECONDS, &child);
	expect_child_exit(&child, 0);
	/* Whatever takes so much longer than this did is not going to end. */
	patience = 10 + 10 * (unsigned int)(time(NULL) - begin);
	for (int tries = 0; tries < 5; tries++) {
		run_self(args, "fault:no-fence%1", patience, &child);
		if (came_to_grief(&child)) {
			printf("without the fence: status 0x%x, %.200s\n",
			       (unsigned int)child.status, child.err);
			return 0;
		}
	}
	fail_now("drains without their fence were not noticed");
}

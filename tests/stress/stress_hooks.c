/* SPDX-License-Identifier: MIT */
/*
 * The same load with the races widened: at every hook between the steps of a
 * protocol a thread now and then yields or sleeps, so that another one passes
 * it there. Each hook has to be reached, or its race was not tried.
 */
#include <config.h>

#include <sched.h>
#include <time.h>

#include "base/fault.h"
#include "load.h"

static atomic_ullong reached[PCP_HOOK_COUNT];
static atomic_uint step;
static unsigned int sleep_us = 60;

static const char *const names[PCP_HOOK_COUNT] = {
	[PCP_HOOK_ALLOC_UNHOOKED_SPARE] = "alloc-unhooked-spare",
	[PCP_HOOK_ALLOC_HOOK_MAIN] = "alloc-hook-main",
	[PCP_HOOK_ALLOC_PUT_OLD] = "alloc-put-old",
	[PCP_HOOK_FREE_UNHOOKED_SPARE] = "free-unhooked-spare",
	[PCP_HOOK_FREE_HOOK_MAIN] = "free-hook-main",
	[PCP_HOOK_FREE_PUT_OLD] = "free-put-old",
	[PCP_HOOK_DRAIN_CLOSED] = "drain-closed",
	[PCP_HOOK_DRAIN_FENCED] = "drain-fenced",
	[PCP_HOOK_DRAIN_TAKEN] = "drain-taken",
	[PCP_HOOK_BARN_RESERVED] = "barn-reserved",
	[PCP_HOOK_SLAB_TAKE] = "slab-take",
	[PCP_HOOK_SLAB_GIVE] = "slab-give",
	[PCP_HOOK_LIST_LOCKED] = "list-locked",
	[PCP_HOOK_GROW_UNPUBLISHED] = "grow-unpublished",
	[PCP_HOOK_PARK] = "park",
	[PCP_HOOK_UNPARKED] = "unparked",
	[PCP_HOOK_BARN_JOIN] = "barn-join",
	[PCP_HOOK_BARN_THIRD] = "barn-third",
	[PCP_HOOK_DEFER_RAISED] = "defer-raised",
	[PCP_HOOK_DEFER_UNHOOKED] = "defer-unhooked",
	[PCP_HOOK_DEFER_CHAINED] = "defer-chained",
	[PCP_HOOK_DEFER_FREED] = "defer-freed",
	[PCP_HOOK_GRACE_SEALED] = "grace-sealed",
	[PCP_HOOK_GRACE_BEGUN] = "grace-begun",
	[PCP_HOOK_BARRIER_FLIPPED] = "barrier-flipped",
};

/* Steps that only rseq mode has. */
static bool needs_rseq(int id)
{
	return id == PCP_HOOK_DRAIN_CLOSED || id == PCP_HOOK_DRAIN_FENCED ||
	       id == PCP_HOOK_DRAIN_TAKEN ||
	       (id >= PCP_HOOK_ALLOC_UNHOOKED_SPARE &&
		id <= PCP_HOOK_FREE_PUT_OLD);
}

static void widen(enum pcp_hook_id id)
{
	/* Few come by the join of partial sheaves, and another has to put one
	 * meanwhile: often and long enough for it, also in an emulator. */
	bool join = id == PCP_HOOK_BARN_JOIN;
	struct timespec ts = { 0, sleep_us * (join ? 50000L : 1000L) };
	unsigned int n = atomic_fetch_add_explicit(&step, 0x9e3779b9U,
						   memory_order_relaxed);
	int saved = errno;

	atomic_fetch_add_explicit(&reached[id], 1, memory_order_relaxed);
	n = (n ^ (n >> 15)) * 0x2c1b3c6dU;
	n ^= n >> 12;
	if (n % (join ? 4 : 64) == 0)
		nanosleep(&ts, NULL);
	else if (n % 4 == 0)
		sched_yield();
	errno = saved;
}

/* Counters have a stress program of their own. */
static bool elsewhere(int id)
{
	return id == PCP_HOOK_COUNTER_TAKEN;
}

static bool all_reached(void)
{
	bool all = true;

	for (int id = 0; id < PCP_HOOK_COUNT; id++)
		all &= atomic_load(&reached[id]) || elsewhere(id) ||
		       (needs_rseq(id) && !rseq_mode());
	return all;
}

/* The load seldom has two threads that put part-filled sheaves at the same
 * moment: these do little else. More than half full, so that of two sheaves a
 * rest is left. */
static void put_rests(const struct worker *w)
{
	enum { SHEAVES = 4, CAPACITY = 400 };
	struct pcpool_cache *cache = w->arg;
	struct rng rng;

	rng_seed(&rng, w->id);
	for (unsigned long i = scaled(2000); i; i--) {
		struct pcpool_sheaf *sheaf[SHEAVES];

		for (int s = 0; s < SHEAVES; s++) {
			sheaf[s] = pcpool_sheaf_prefill(
				cache, CAPACITY / 2 +
					       rng_below(&rng, CAPACITY / 2));
			expect(sheaf[s]);
			for (uint32_t n = rng_below(&rng, 8); n; n--)
				pcpool_free(cache, pcpool_sheaf_alloc(
							   cache, sheaf[s]));
		}
		for (int s = 0; s < SHEAVES; s++)
			pcpool_sheaf_return(cache, sheaf[s]);
	}
}

static void run_rests(void)
{
	struct sheet sheet = { .clear = 8 };
	struct pcpool_cache *cache = sheet_cache_of("rests", 16, &sheet, 0, 400);

	run_threads(6, put_rests, cache);
	destroy_balanced(cache, &sheet);
}

static void run(struct load *load, unsigned int rounds)
{
	for (unsigned int i = 0; i < rounds; i++) {
		load_round(load);
		load->seed++;
	}
	load_print(load);
	expect(load->drains > 0);
	expect(load->deferred > 0);
}

int main(int argc, char **argv)
{
	struct load load = LOAD_INIT;
	unsigned int seconds = 0;

	load.threads = 12;
	load.ops = scaled(1500);
	load.signal_threads = 2;
	load_options(&load, &seconds, argc, argv);
	pcp_hook_set(widen);
	if (seconds) {
		time_t end = time(NULL) + seconds;

		while (time(NULL) < end)
			run(&load, 1);
	} else {
		run(&load, 4);
		load.fail_every = 5;
		run(&load, 2);
		load.fail_every = 0;
		load.pin_one = true;
		run(&load, 2);
		load.pin_one = false;
		load.migrate = true;
		run(&load, 2);
		for (int more = 0; more < 20 && !all_reached(); more++) {
			run(&load, 1);
			run_rests();
		}
	}
	for (int id = 0; id < PCP_HOOK_COUNT; id++)
		if (!elsewhere(id))
			printf("%-22s %llu\n", names[id], atomic_load(&reached[id]));
	fflush(stdout);
	expect(all_reached());
	return 0;
}

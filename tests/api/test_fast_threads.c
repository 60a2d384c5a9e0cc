/* SPDX-License-Identifier: MIT */
/*
 * Owner stamps on objects that threads take and give back inline and by calls,
 * while signals and moves interrupt them, and others empty the stocks: none is
 * handed out twice, none is lost, and no add to a counter. With either index, and with threads that are
 * not registered.
 */
#include <config.h>

#include <signal.h>
#include <sys/time.h>

#include "../caches.h"
#include "fast_area.h"
#include "fast_way.h"

enum { THREADS = 6, HELD = 40, STEPS = 400000, CAPACITY = 16 };

static struct sheet sheet = { .clear = 64 };
static struct pcpool_cache *cache;
static struct pcpool_counter total;
static atomic_uint running, strays, drains;
static atomic_ullong taken, signals;

static const struct fast_way calls = { pcpool_alloc, pcpool_free,
				       pcpool_counter_add };
/* Inline more often than not. */
static const struct fast_way *const ways[] = {
	&fast_way_inline, &fast_way_resident, &fast_way_inline,
	&fast_way_resident, &calls,
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Enough to have the kernel restart the section it comes into. */
static void on_alarm(int sig)
{
	(void)sig;
	atomic_fetch_add(&signals, 1);
}

static void take_and_give(const struct worker *w)
{
	const uint64_t id = w->id + 1;
	void *held[HELD];
	unsigned int n = 0;
	struct rng rng;

	if (w->arg && w->id == 0 && fast_unregister())
		atomic_fetch_add(&strays, 1);
	rng_seed(&rng, id);
	for (unsigned long step = 0; step < scaled(STEPS); step++) {
		const struct fast_way *way = ways[rng_below(&rng, WAYS)];

		if (n < HELD && (!n || rng_below(&rng, 2))) {
			way->add(&total, 300);
			held[n] = way->alloc(cache);
			expect(held[n]);
			owner_take(held[n++], id);
			atomic_fetch_add_explicit(&taken, 1,
						  memory_order_relaxed);
		} else {
			owner_leave(held[--n], id);
			way->free(cache, held[n]);
		}
		if (step % 4096 == 0)
			pin_to(rng_below(&rng, 64));
	}
	while (n) {
		owner_leave(held[--n], id);
		pcpool_fast_free(cache, held[n]);
	}
	atomic_fetch_sub(&running, 1);
}

static void one(const struct worker *w)
{
	if (w->id < THREADS) {
		take_and_give(w);
		return;
	}
	do {
		expect_eq(pcpool_cache_shrink(cache), 0);
		atomic_fetch_add(&drains, 1);
		/* So that there is something in the stocks again. */
		usleep(100);
	} while (atomic_load(&running));
}

static void alarms(suseconds_t us)
{
	struct itimerval every = { { 0, us }, { 0, us } };

	expect(signal(SIGALRM, on_alarm) != SIG_ERR);
	expect(!setitimer(ITIMER_REAL, &every, NULL));
}

static int in_this_process(bool stray)
{
	struct pcpool_cache_stats stats;

	cache = sheet_cache_of("threads", 64, &sheet, 0, CAPACITY);
	expect_eq(pcpool_counter_init(&total, 0), 0);
	atomic_store(&running, THREADS);
	alarms(150);
	run_threads(THREADS + 1, one, stray ? &sheet : NULL);
	alarms(0);
	stats = stats_of(cache);
	fprintf(stderr,
		"%s mode by %s: %llu taken, %llu from slots, %llu signals, "
		"%u drains, %u threads without registration\n",
		pcpool_mode(), pcpool_index(), atomic_load(&taken),
		(unsigned long long)stats.alloc_fastpath,
		atomic_load(&signals), atomic_load(&drains),
		atomic_load(&strays));
	expect_eq(pcpool_counter_sum(&total), 300 * taken);
	pcpool_counter_destroy(&total);
	expect_eq(stats.live, 0);
	expect_eq(stats.alloc_fastpath + stats.alloc_slowpath, taken);
	expect_eq(stats.free_fastpath + stats.free_slowpath, taken);
	expect_cmp(signals, >, 0);
	expect_cmp(stats.alloc_fastpath, >, taken / 10);
	if (stray && rseq_mode())
		expect_eq(strays, 1);
	destroy_balanced(cache, &sheet);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const options[] = { "index:cpu", "index:cid" };
	static const char *const args[] = { "--plain", "--stray" };
	static struct child child;

	if (argc > 1)
		return in_this_process(!strcmp(argv[1], args[1]));
	for (int o = 0; o < 2; o++)
		for (int a = 0; a < 2; a++) {
			const char *const arg[] = { args[a], NULL };

			run_self(arg, options[o], 100, &child);
			printf("%s %s: %s", options[o], args[a], child.err);
			expect_child_exit(&child, 0);
		}
	return 0;
}

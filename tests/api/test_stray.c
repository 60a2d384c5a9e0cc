/* SPDX-License-Identifier: MIT */
/*
 * A thread that took its registration for restartable sequences away can use
 * everything: it goes past the slots. With either index, and beside others.
 */
#include <config.h>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<sys/rseq.h>) && defined(SYS_rseq)
#include <sys/rseq.h>
#define HAVE_AREA 1
#endif
#endif
#ifndef HAVE_AREA
#define HAVE_AREA 0
#endif

#include "../caches.h"

static struct sheet sheet = { .fill = 48 };
static struct pcpool_cache *cache;
static uint64_t *counter;
static struct pcpool_counter total;
static atomic_ullong added;

#if HAVE_AREA
static bool unregister(void)
{
	/* glibc says 20 for an area it registered with 32 bytes. */
	const unsigned int length = __rseq_size <= 32 ? 32 : __rseq_size;
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	return !syscall(SYS_rseq, area, length, 1 /* unregister */, RSEQ_SIG);
}
#else
static bool unregister(void)
{
	return false;
}
#endif

static void use_everything(uint64_t id)
{
	struct sheet own = { .fill = 33 };
	struct pcpool_cache *mine = sheet_cache("mine", 33, &own);
	void *objs[100], *region;
	uint64_t old;

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 50; i++)
			sheet_pattern_check(objs[i] = must_alloc(cache), 48);
		expect_eq(pcpool_alloc_bulk(cache, 50, objs + 50), 0);
		for (int i = 0; i < 50; i++)
			pcpool_free(cache, objs[i]);
		expect_eq(pcpool_free_bulk(cache, 50, objs + 50), 0);
		expect_eq(pcpool_discard(cache, must_alloc(cache)), 0);
		expect(objs[0] = pcpool_alloc_node(cache, 0));
		pcpool_free(cache, objs[0]);
		objs[0] = must_alloc(mine);
		sheet_pattern_check(objs[0], 33);
		pcpool_free(mine, objs[0]);
		if (round % 10 == 0)
			expect_eq(pcpool_cache_shrink(cache), 0);
		expect(pcpool_this_slot() < pcpool_nr_slots());
		region = pcpool_percpu_alloc(8, 8);
		expect(region);
		pcpool_this_cpu_add_u64(region, id);
		pcpool_this_cpu_add_u32((char *)region, 1);
		expect_eq(pcpool_percpu_sum_u64(region), id + 1);
		expect(pcpool_this_cpu_xchg_u64(region, 7) <= id + 1);
		old = pcpool_this_cpu_cmpxchg_u64(region, 7, 8);
		expect(old == 7 || old <= id + 1);
		pcpool_percpu_free(region);
		pcpool_counter_add(&total, 2000);
		pcpool_counter_add(&total, -1000);
		for (int i = 0; i < 100; i++)
			pcpool_this_cpu_add(counter, 1);
		atomic_fetch_add(&added, 100);
	}
	stats_of(cache);
	destroy_balanced(mine, &own);
}

static atomic_uint strays;

static void stray(const struct worker *w)
{
	/* Every other thread, so that both kinds meet. */
	if (w->id % 2 == 0 && unregister())
		atomic_fetch_add(&strays, 1);
	use_everything(w->id + 1);
}

static int in_this_process(void)
{
	struct pcpool_cache_stats stats;

	cache = sheet_cache("shared", 48, &sheet);
	counter = pcpool_percpu_alloc(sizeof(*counter), 8);
	expect(counter);
	expect_eq(pcpool_counter_init(&total, 0), 0);
	run_threads(1, stray, NULL);
	run_threads(8, stray, NULL);
	/* The area is theirs who registered it: nobody else wrote there, and
	 * a thread that took its own away did not get it back. */
	fprintf(stderr, "%s mode by %s: %u threads without registration\n",
		pcpool_mode(), pcpool_index(), atomic_load(&strays));
	stats = stats_of(cache);
	expect_eq(stats.live, 0);
	if (rseq_mode()) {
		expect(atomic_load(&strays) >= 1);
		expect(stats.bypass > 0);
	}
	expect_eq(pcpool_percpu_sum_u64(counter), atomic_load(&added));
	expect_eq(pcpool_counter_sum(&total), atomic_load(&added) * 10);
	pcpool_counter_destroy(&total);
	pcpool_percpu_free(counter);
	expect_eq(pcpool_cache_shrink(cache), 0);
	sheet_balanced(&sheet);
	destroy_balanced(cache, &sheet);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const options[] = { "index:auto", "index:cpu",
					       "index:cid", "slots:64",
					       "debug:on" };
	static const char *const args[] = { "--here", NULL };
	static struct child child;

	if (argc > 1 && !strcmp(argv[1], "--here"))
		return in_this_process();
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		run_self(args, options[i], 100, &child);
		printf("%s: %s", options[i], child.err);
		expect_child_exit(&child, 0);
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Statistics: refusals, sums that hold at rest, the printed text. */
#include <config.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "../caches.h"
#include "../suite.h"

START_TEST(test_refusals)
{
	struct pcpool_cache *cache = pcpool_cache_create("s", 64, NULL);
	struct pcpool_cache_stats stats = { .stats_size = 0 };
	struct pcpool_percpu_stats percpu = { .stats_size = 0 };
	static const size_t bad[] = { 0, 1, 7, 8 + 1, 1 << 20, SIZE_MAX };

	expect_eq(pcpool_cache_get_stats(NULL, &stats), EINVAL);
	expect_eq(pcpool_cache_get_stats(cache, NULL), EINVAL);
	expect_eq(pcpool_percpu_get_stats(NULL), EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		stats.stats_size = bad[i];
		expect_eq(pcpool_cache_get_stats(cache, &stats), EINVAL);
		percpu.stats_size = bad[i];
		expect_eq(pcpool_percpu_get_stats(&percpu), EINVAL);
	}
	must_destroy(cache);
}
END_TEST

static struct pcpool_memory_stats memory(void)
{
	struct pcpool_memory_stats stats = { .stats_size = sizeof(stats) };

	expect_eq(pcpool_memory_get_stats(&stats), 0);
	return stats;
}

static uint64_t slab_bytes(struct pcpool_cache *cache)
{
	struct pcpool_cache_stats stats = stats_of(cache);

	return stats.slabs * stats.slab_size;
}

/* What the caches say and what the memory below them says are one. */
START_TEST(test_memory)
{
	struct pcpool_memory_stats stats = { .stats_size = 3 };
	struct pcpool_cache *a = pcpool_cache_create("a", 64, NULL);
	struct pcpool_cache *b = pcpool_cache_create("b", 9000, NULL);
	static void *x[5000], *y[500];

	expect_eq(pcpool_memory_get_stats(NULL), EINVAL);
	expect_eq(pcpool_memory_get_stats(&stats), EINVAL);
	expect_eq(memory().slab_bytes, 0);
	for (int round = 0; round < 3; round++) {
		expect_eq(pcpool_alloc_bulk(a, 5000, x), 0);
		expect_eq(pcpool_alloc_bulk(b, 500, y), 0);
		expect(memory().arenas > 0);
		expect_eq(memory().slab_bytes, slab_bytes(a) + slab_bytes(b));
		expect_eq(pcpool_free_bulk(a, 5000, x), 0);
		expect_eq(memory().slab_bytes, slab_bytes(a) + slab_bytes(b));
		expect_eq(pcpool_cache_shrink(a), 0);
		expect_eq(memory().slab_bytes, slab_bytes(b));
		expect_eq(memory().idle_bytes, 0);
		expect_eq(pcpool_free_bulk(b, 500, y), 0);
		expect_eq(pcpool_cache_shrink(b), 0);
		expect_eq(memory().slab_bytes, 0);
		expect_eq(memory().idle_bytes, 0);
	}
	must_destroy(a);
	must_destroy(b);
}
END_TEST

START_TEST(test_process_queries)
{
	const char *mode = pcpool_mode(), *index = pcpool_index();
	unsigned int major, minor, patch;
	char rest;

	if (!strcmp(mode, "rseq")) {
		expect(!strcmp(index, "cpu") || !strcmp(index, "cid"));
	} else {
		expect(!strcmp(mode, "lock"));
		expect(!strcmp(index, "hint"));
	}
	expect(*pcpool_mode_reason());
	expect_eq(sscanf(pcpool_version(), "%u.%u.%u%c", &major, &minor, &patch,
			 &rest),
		  3);
	expect(pcpool_nr_nodes() >= 1);
	expect(pcpool_nr_slots() >= 1);
	expect(pcpool_this_slot() < pcpool_nr_slots());
}
END_TEST

static void sums_hold(const struct pcpool_cache_stats *s)
{
	expect_eq(s->total_objects, s->slabs * s->objects_per_slab);
	expect_eq(s->objects, s->live + s->cached);
	expect_eq(s->built, s->ctor_ok - s->dtor);
	expect_eq(s->slabs, s->alloc_slab - s->free_slab);
	expect_eq(s->sheaves, s->sheaf_alloc - s->sheaf_free);
	expect_cmp(s->objects, <=, s->total_objects);
	expect_cmp(s->built, <=, s->total_objects);
	expect_cmp(s->partial + s->waiting, <=, s->slabs);
	expect_cmp(s->list_lock_contended, <=, s->list_lock);
	expect_cmp(s->free_remove_partial, <=, s->free_add_partial);
	expect(s->slab_overhead < s->slab_size);
	expect(s->metadata_bytes > 0);
}

/* A known history on one CPU, so that each figure is known. */
START_TEST(test_known_history)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = sheet_cache("known", 64, &sheet);
	struct pcpool_cache_stats s;
	static void *objs[5000];

	pin_to(0);
	s = stats_of(cache);
	sums_hold(&s);
	expect_eq(s.object_size, 64);
	expect_eq(s.slabs + s.live + s.cached + s.built + s.sheaves, 0);
	for (int i = 0; i < 5000; i++)
		objs[i] = must_alloc(cache);
	s = stats_of(cache);
	sums_hold(&s);
	expect_eq(s.live, 5000);
	expect_eq(s.alloc_fastpath + s.alloc_slowpath, 5000);
	expect_eq(s.free_fastpath + s.free_slowpath, 0);
	expect_eq(s.ctor_ok, sheet.ok);
	for (int i = 0; i < 4000; i++)
		pcpool_free(cache, objs[i]);
	s = stats_of(cache);
	sums_hold(&s);
	expect_eq(s.live, 1000);
	expect_eq(s.free_fastpath + s.free_slowpath, 4000);
	expect_eq(pcpool_alloc_bulk(cache, 500, objs), 0);
	s = stats_of(cache);
	sums_hold(&s);
	expect_eq(s.live, 1500);
	expect_eq(s.alloc_fastpath + s.alloc_slowpath, 5500);
	expect_eq(pcpool_free_bulk(cache, 500, objs), 0);
	expect_eq(pcpool_free_bulk(cache, 1000, objs + 4000), 0);
	s = stats_of(cache);
	sums_hold(&s);
	expect_eq(s.live, 0);
	expect_eq(s.free_fastpath + s.free_slowpath, 5500);
	expect_eq(pcpool_cache_shrink(cache), 0);
	s = stats_of(cache);
	sums_hold(&s);
	expect_eq(s.slabs + s.cached + s.built, 0);
	expect(s.drain >= 1);
	expect_eq(s.drain_fail, 0);
	expect_eq(s.alloc_fail, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* The fast path is the rule in a plain loop, and counted as that. */
START_TEST(test_fast_path_is_counted)
{
	struct pcpool_cache *cache = pcpool_cache_create("fast", 64, NULL);
	struct pcpool_cache_stats a, b;

	pin_to(0);
	pcpool_free(cache, must_alloc(cache));
	a = stats_of(cache);
	for (int i = 0; i < 100000; i++)
		pcpool_free(cache, must_alloc(cache));
	b = stats_of(cache);
	expect_eq(b.alloc_fastpath + b.alloc_slowpath,
		  a.alloc_fastpath + a.alloc_slowpath + 100000);
	expect_eq(b.free_fastpath + b.free_slowpath,
		  a.free_fastpath + a.free_slowpath + 100000);
	/* Reading the statistics and a preemption here and there may each
	 * send a call the slow way. */
	expect_cmp(b.alloc_slowpath - a.alloc_slowpath, <, 5000);
	expect_cmp(b.free_slowpath - a.free_slowpath, <, 5000);
	must_destroy(cache);
}
END_TEST

struct counted {
	struct pcpool_cache *cache;
	atomic_ullong allocs, frees;
};

static void count(const struct worker *w)
{
	struct counted *c = w->arg;
	unsigned long long allocs = 0, frees = 0;
	void *objs[100];
	struct rng rng;

	rng_seed(&rng, w->id);
	for (int round = 0; round < 2000; round++) {
		uint32_t n = rng_below(&rng, 100);

		if (rng_below(&rng, 2)) {
			expect_eq(pcpool_alloc_bulk(c->cache, n, objs), 0);
		} else {
			for (uint32_t i = 0; i < n; i++)
				objs[i] = must_alloc(c->cache);
		}
		allocs += n;
		if (rng_below(&rng, 2))
			expect_eq(pcpool_free_bulk(c->cache, n, objs), 0);
		else
			for (uint32_t i = 0; i < n; i++)
				pcpool_free(c->cache, objs[i]);
		frees += n;
		if (w->id == 0 && round % 50 == 0)
			stats_of(c->cache);
		if (w->id == 1 && round % 100 == 0)
			expect_eq(pcpool_cache_shrink(c->cache), 0);
	}
	atomic_fetch_add(&c->allocs, allocs);
	atomic_fetch_add(&c->frees, frees);
}

/* Every hand-out is counted once, whoever drains meanwhile. */
/* Nothing that CPUs share is changed by the fast path; slabs cannot be had or
 * emptied without. */
START_TEST(test_shared_work_is_counted)
{
	enum { N = 10000 };
	struct pcpool_cache *cache = pcpool_cache_create("s", 64, NULL);
	struct pcpool_cache_stats before, after;
	static void *objs[N];

	pcpool_free(cache, must_alloc(cache));
	before = stats_of(cache);
	for (int i = 0; i < 1000; i++)
		pcpool_free(cache, must_alloc(cache));
	after = stats_of(cache);
	/* A test that is moved to another CPU in between refills there. */
	if (after.slot_miss == before.slot_miss && after.bypass == before.bypass) {
		expect_eq(after.shared_atomic, before.shared_atomic);
		expect_eq(after.other_lock, before.other_lock);
	}
	for (int i = 0; i < N; i++)
		objs[i] = must_alloc(cache);
	before = after;
	after = stats_of(cache);
	/* A new slab: two locks; its objects are taken by a swap at least. */
	expect_cmp(after.alloc_slab, >, before.alloc_slab);
	expect_cmp(after.other_lock - before.other_lock, >=,
		   2 * (after.alloc_slab - before.alloc_slab));
	expect_cmp(after.shared_atomic - before.shared_atomic, >=,
		   after.alloc_slab - before.alloc_slab);
	for (int i = 0; i < N; i++)
		pcpool_free(cache, objs[i]);
	before = after;
	after = stats_of(cache);
	/* A full sheaf that went to a barn took three. */
	expect_cmp(after.shared_atomic - before.shared_atomic, >=,
		   3 * (after.barn_put - before.barn_put));
	expect_eq(pcpool_cache_shrink(cache), 0);
	before = after;
	after = stats_of(cache);
	expect_cmp(after.other_lock - before.other_lock, >=,
		   2 * (after.free_slab - before.free_slab));
	expect_cmp(after.free_slab, >, before.free_slab);
	must_destroy(cache);
}
END_TEST

START_TEST(test_counts_are_exact_at_rest)
{
	struct sheet sheet = { 0 };
	struct counted c = { .cache = sheet_cache("exact", 56, &sheet) };
	struct pcpool_cache_stats s;

	run_threads(8, count, &c);
	s = stats_of(c.cache);
	sums_hold(&s);
	expect_eq(s.live, 0);
	expect_eq(s.alloc_fastpath + s.alloc_slowpath, c.allocs);
	expect_eq(s.free_fastpath + s.free_slowpath, c.frees);
	destroy_balanced(c.cache, &sheet);
}
END_TEST

/* More than the 16 bits a sheaf's word has for its size, and then some. */
START_TEST(test_counts_do_not_wrap)
{
	struct pcpool_cache *cache = pcpool_cache_create("wrap", 16, NULL);
	struct pcpool_cache_stats s;

	pin_to(0);
	for (int i = 0; i < 300000; i++)
		pcpool_free(cache, must_alloc(cache));
	s = stats_of(cache);
	expect_eq(s.alloc_fastpath + s.alloc_slowpath, 300000);
	expect_eq(s.free_fastpath + s.free_slowpath, 300000);
	expect_eq(s.live, 0);
	must_destroy(cache);
}
END_TEST

START_TEST(test_print)
{
	struct pcpool_cache *cache =
		pcpool_cache_create("printed-1", 640, NULL);
	void *obj = must_alloc(cache);
	int full, pipes[2];
	char *text = printed();

	expect(strstr(text, "printed-1"));
	expect(strstr(text, pcpool_mode()));
	expect(text[strlen(text) - 1] == '\n');
	free(text);
	expect_eq(pcpool_print(-1), EBADF);
	full = open("/dev/full", O_WRONLY);
	if (full >= 0) {
		expect_eq(pcpool_print(full), ENOSPC);
		close(full);
	}
	signal(SIGPIPE, SIG_IGN);
	expect(!pipe(pipes));
	close(pipes[0]);
	expect_eq(pcpool_print(pipes[1]), EPIPE);
	close(pipes[1]);
	pcpool_free(cache, obj);
	must_destroy(cache);
}
END_TEST

/* So many caches that no buffer of a fixed size holds them. */
START_TEST(test_print_many)
{
	struct pcpool_cache *caches[500];
	char name[80], *text;

	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "cache-number-%03d-%040d", i, i);
		caches[i] = pcpool_cache_create(name, 64, NULL);
		expect(caches[i]);
	}
	text = printed();
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "cache-number-%03d-", i);
		expect_eq(occurrences(text, name), 1);
	}
	free(text);
	for (int i = 0; i < 500; i++)
		must_destroy(caches[i]);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("stats", 60);

	tcase_add_test(tc, test_refusals);
	tcase_add_test(tc, test_memory);
	tcase_add_test(tc, test_process_queries);
	tcase_add_test(tc, test_known_history);
	tcase_add_test(tc, test_fast_path_is_counted);
	tcase_add_test(tc, test_shared_work_is_counted);
	tcase_add_test(tc, test_counts_are_exact_at_rest);
	tcase_add_test(tc, test_counts_do_not_wrap);
	tcase_add_test(tc, test_print);
	tcase_add_test(tc, test_print_many);
	return suite_run(tc);
}

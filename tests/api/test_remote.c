/* SPDX-License-Identifier: MIT */
/*
 * One CPU allocates, another frees: memory stays bounded while the number of
 * live objects does, and comes back when the load goes.
 */
#include <config.h>

#include <pthread.h>
#include <sched.h>

#include "../caches.h"
#include "../suite.h"

enum { RING = 512, PER_PAIR = 60000 };

struct ring {
	_Alignas(64) atomic_size_t head;
	_Alignas(64) atomic_size_t tail;
	void *slot[RING];
};

struct flow {
	struct pcpool_cache *cache;
	struct ring *rings;
	unsigned int pairs;
	bool bulk;
	atomic_ullong half_slabs; /* the most slabs in the first half */
	atomic_ullong full_slabs; /* in the second */
};

static void note_slabs(struct flow *flow, bool second)
{
	unsigned long long slabs = stats_of(flow->cache).slabs;
	atomic_ullong *most = second ? &flow->full_slabs : &flow->half_slabs;
	unsigned long long seen = atomic_load(most);

	while (seen < slabs &&
	       !atomic_compare_exchange_weak(most, &seen, slabs))
		;
}

static void produce(struct flow *flow, struct ring *ring)
{
	void *batch[32];
	size_t n;

	for (size_t i = 0; i < PER_PAIR; i += n) {
		n = flow->bulk ? 32 : 1;
		while (atomic_load(&ring->head) - atomic_load(&ring->tail) + n >
		       RING)
			sched_yield();
		if (flow->bulk)
			expect_eq(pcpool_alloc_bulk(flow->cache, n, batch), 0);
		else
			batch[0] = must_alloc(flow->cache);
		for (size_t j = 0; j < n; j++) {
			owner_take(batch[j], 1);
			ring->slot[(atomic_load(&ring->head) + j) % RING] =
				batch[j];
		}
		atomic_fetch_add(&ring->head, n);
		if (i % 4096 < n)
			note_slabs(flow, i > PER_PAIR / 2);
	}
}

static void consume(struct flow *flow, struct ring *ring)
{
	for (size_t i = 0; i < PER_PAIR;) {
		size_t tail = atomic_load(&ring->tail);
		size_t n = atomic_load(&ring->head) - tail;

		if (!n) {
			sched_yield();
			continue;
		}
		for (size_t j = 0; j < n; j++) {
			void *obj = ring->slot[(tail + j) % RING];

			owner_leave(obj, 1);
			pcpool_free(flow->cache, obj);
		}
		atomic_store(&ring->tail, tail + n);
		i += n;
	}
}

static void flow_thread(const struct worker *w)
{
	struct flow *flow = w->arg;
	struct ring *ring = &flow->rings[w->id / 2];

	/* Worker i is on CPU i: a producer never shares its consumer's. */
	if (w->id % 2)
		consume(flow, ring);
	else
		produce(flow, ring);
}

static void run_flow(unsigned int pairs, bool bulk, unsigned int flags)
{
	struct sheet sheet = { .clear = 8 };
	struct flow flow = { .pairs = pairs, .bulk = bulk };
	struct pcpool_cache_stats stats;
	unsigned long long most;

	flow.rings = aligned_alloc(64, pairs * sizeof(struct ring));
	expect(flow.rings);
	memset(flow.rings, 0, pairs * sizeof(struct ring));
	flow.cache = sheet_cache_of("flow", 128, &sheet, flags, 0);
	run_threads(2 * pairs, flow_thread, &flow);
	stats = stats_of(flow.cache);
	expect_eq(stats.live, 0);
	/* Live objects plus all the stocks there can be, and a slab each for
	 * the rest that batches leave behind. */
	most = pairs * RING + stats.sheaves * stats.sheaf_capacity +
	       32ULL * pairs;
	most = 2 * most / stats.objects_per_slab + 8 + 2ULL * pairs;
	expect_cmp(flow.full_slabs, <=, most);
	/* And it does not climb. */
	expect_cmp(flow.full_slabs, <=, 2 * flow.half_slabs + 8);
	expect_cmp(stats.sheaves, <=, 6 * pcpool_nr_slots() + 64);
	expect_eq(pcpool_cache_shrink(flow.cache), 0);
	expect_eq(stats_of(flow.cache).slabs, 0);
	sheet_balanced(&sheet);
	destroy_balanced(flow.cache, &sheet);
	free(flow.rings);
}

START_TEST(case_SHF_07_one_to_one)
{
	run_flow(1, false, 0);
	run_flow(1, true, 0);
	run_flow(1, false, PCPOOL_DTOR_ON_FREE);
}
END_TEST

START_TEST(case_SHF_07_four_to_four)
{
	run_flow(4, false, 0);
	run_flow(4, true, 0);
}
END_TEST

/* Memory that one CPU's load made is used by the other's, and released. */
START_TEST(case_SHF_07_load_moves)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = sheet_cache("moves", 128, &sheet);
	static void *objs[20000];
	uint64_t peak = 0;

	for (unsigned int round = 0; round < 12; round++) {
		pin_to(round);
		for (int i = 0; i < 20000; i++)
			objs[i] = must_alloc(cache);
		pin_to(round + 1);
		for (int i = 0; i < 20000; i++)
			pcpool_free(cache, objs[i]);
		if (round == 3)
			peak = stats_of(cache).slabs;
	}
	expect_cmp(stats_of(cache).slabs, <=, peak + peak / 8 + 4);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).slabs, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("remote", 120);

	tcase_add_test(tc, case_SHF_07_one_to_one);
	tcase_add_test(tc, case_SHF_07_four_to_four);
	tcase_add_test(tc, case_SHF_07_load_moves);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* A cache's counters as metrics. bench/validate compares the list with the
 * header. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "counters.h"

/* What the cache is like, what it held at the end, what happened on the way. */
enum kind { SHAPE, HELD, EVENT };

/* X(counter, kind, heading in the table or NULL) */
#define COUNTERS(X) \
	X(object_size, SHAPE, NULL) \
	X(stride, SHAPE, NULL) \
	X(slab_size, SHAPE, NULL) \
	X(objects_per_slab, SHAPE, NULL) \
	X(slab_overhead, SHAPE, NULL) \
	X(sheaf_capacity, SHAPE, NULL) \
	X(sheaf_capacity_max, SHAPE, NULL) \
	X(barn_limit, SHAPE, NULL) \
	X(slabs, HELD, NULL) \
	X(partial, HELD, NULL) \
	X(waiting, HELD, NULL) \
	X(total_objects, HELD, NULL) \
	X(objects, HELD, NULL) \
	X(live, HELD, NULL) \
	X(cached, HELD, NULL) \
	X(rcu_backlog, HELD, NULL) \
	X(rcu_backlog_peak, HELD, "RCU peak") \
	X(built, HELD, NULL) \
	X(sheaves, HELD, NULL) \
	X(metadata_bytes, HELD, NULL) \
	X(ctor_ok, EVENT, NULL) \
	X(ctor_fail, EVENT, NULL) \
	X(dtor, EVENT, NULL) \
	X(mem_fail, EVENT, NULL) \
	X(lost_in_fork, EVENT, NULL) \
	X(alloc_fastpath, EVENT, NULL) \
	X(alloc_slowpath, EVENT, NULL) \
	X(free_fastpath, EVENT, NULL) \
	X(free_slowpath, EVENT, NULL) \
	X(alloc_fail, EVENT, NULL) \
	X(alloc_slab, EVENT, NULL) \
	X(free_slab, EVENT, NULL) \
	X(free_add_partial, EVENT, NULL) \
	X(free_remove_partial, EVENT, NULL) \
	X(cmpxchg_fail, EVENT, NULL) \
	X(barn_get, EVENT, NULL) \
	X(barn_get_fail, EVENT, NULL) \
	X(barn_put, EVENT, NULL) \
	X(barn_put_fail, EVENT, NULL) \
	X(sheaf_alloc, EVENT, NULL) \
	X(sheaf_free, EVENT, NULL) \
	X(sheaf_refill, EVENT, NULL) \
	X(sheaf_flush, EVENT, "flushes/Mop") \
	X(rseq_abort, EVENT, NULL) \
	X(bypass, EVENT, NULL) \
	X(drain, EVENT, NULL) \
	X(drain_retry, EVENT, NULL) \
	X(drain_fail, EVENT, NULL) \
	X(sheaf_prefill_fast, EVENT, NULL) \
	X(sheaf_prefill_slow, EVENT, NULL) \
	X(sheaf_prefill_oversize, EVENT, NULL) \
	X(sheaf_return_fast, EVENT, NULL) \
	X(sheaf_return_slow, EVENT, NULL) \
	X(slot_miss, EVENT, NULL) \
	X(free_rcu_sheaf, EVENT, NULL) \
	X(free_rcu_sheaf_fail, EVENT, NULL) \
	X(rcu_hurry, EVENT, NULL) \
	X(capacity_up, EVENT, NULL) \
	X(capacity_down, EVENT, NULL) \
	X(barn_limit_up, EVENT, NULL) \
	X(maintained, EVENT, NULL) \
	X(park_slab, EVENT, "parks/Mop") \
	X(unpark_slab, EVENT, NULL) \
	X(unpark_event, EVENT, NULL) \
	X(list_lock, EVENT, "locks/Mop") \
	X(list_lock_contended, EVENT, "contended/Mop") \
	X(shared_atomic, EVENT, NULL) \
	X(other_lock, EVENT, NULL)

#define KIND_SHAPE "shape"
#define KIND_HELD "held"
#define KIND_EVENT "per_Mop"

const struct bench_metric bench_counters[] = {
#define X(counter, kind, heading) { #counter, heading, KIND_##kind },
	COUNTERS(X)
#undef X
};
const unsigned int bench_nr_counters =
	sizeof(bench_counters) / sizeof(bench_counters[0]);

_Static_assert(sizeof(bench_counters) / sizeof(bench_counters[0]) <=
		       BENCH_COUNTERS_MAX,
	       "a message has room for all counters");

static const struct {
	size_t offset;
	enum kind kind;
} counters[] = {
#define X(counter, kind, heading) \
	{ offsetof(struct pcpool_cache_stats, counter), kind },
	COUNTERS(X)
#undef X
};

static uint64_t get(const struct pcpool_cache_stats *stats, unsigned int i)
{
	uint64_t value;

	memcpy(&value, (const char *)stats + counters[i].offset, sizeof(value));
	return value;
}

void bench_counters_measure(const struct bench_variant *variant,
			    const struct bench_window *w, double *value)
{
	for (unsigned int i = 0; i < bench_nr_counters; i++) {
		uint64_t after = get(&w->after, i);

		if (!variant->cache)
			value[i] = NAN;
		else if (counters[i].kind == EVENT)
			value[i] = (double)(after - get(&w->before, i)) * 1e6 /
				   (double)w->ops;
		else
			value[i] = (double)after;
	}
}

/* SPDX-License-Identifier: MIT */
/* Snapshots of counters. */
#include <config.h>

#include <errno.h>
#include <string.h>

#include <pcpool/stats.h>

#include "cache/cache.h"
#include "cpu/index.h"
#include "cpu/init.h"
#include "percpu/region.h"
#include "service/stats.h"
#include "slab/arena.h"

/* Where each event counter of a cache goes. */
static const struct {
	enum pcp_stat_id id;
	size_t offset;
} events[] = {
#define EVENT(id, field)                                                      \
	{ PCP_STAT_##id, offsetof(struct pcpool_cache_stats, field) }
	EVENT(CTOR_OK, ctor_ok),
	EVENT(CTOR_FAIL, ctor_fail),
	EVENT(DTOR, dtor),
	EVENT(MEM_FAIL, mem_fail),
	EVENT(ALLOC_FAIL, alloc_fail),
	EVENT(ALLOC_SLAB, alloc_slab),
	EVENT(FREE_SLAB, free_slab),
	EVENT(ADD_PARTIAL, free_add_partial),
	EVENT(REMOVE_PARTIAL, free_remove_partial),
	EVENT(CMPXCHG_FAIL, cmpxchg_fail),
	EVENT(BARN_GET, barn_get),
	EVENT(BARN_GET_FAIL, barn_get_fail),
	EVENT(BARN_PUT, barn_put),
	EVENT(BARN_PUT_FAIL, barn_put_fail),
	EVENT(SHEAF_ALLOC, sheaf_alloc),
	EVENT(SHEAF_FREE, sheaf_free),
	EVENT(SHEAF_REFILL, sheaf_refill),
	EVENT(SHEAF_FLUSH, sheaf_flush),
	EVENT(RSEQ_ABORT, rseq_abort),
	EVENT(BYPASS, bypass),
	EVENT(DRAIN, drain),
	EVENT(DRAIN_RETRY, drain_retry),
	EVENT(DRAIN_FAIL, drain_fail),
	EVENT(PREFILL_FAST, sheaf_prefill_fast),
	EVENT(PREFILL_SLOW, sheaf_prefill_slow),
	EVENT(PREFILL_OVERSIZE, sheaf_prefill_oversize),
	EVENT(RETURN_FAST, sheaf_return_fast),
	EVENT(RETURN_SLOW, sheaf_return_slow),
	EVENT(SLOT_MISS, slot_miss),
	EVENT(FREE_RCU_SHEAF, free_rcu_sheaf),
	EVENT(FREE_RCU_SHEAF_FAIL, free_rcu_sheaf_fail),
	EVENT(RCU_HURRY, rcu_hurry),
	EVENT(CAPACITY_UP, capacity_up),
	EVENT(CAPACITY_DOWN, capacity_down),
	EVENT(BARN_LIMIT_UP, barn_limit_up),
	EVENT(TENDED, maintained),
	EVENT(PARK_SLAB, park_slab),
	EVENT(UNPARK_SLAB, unpark_slab),
	EVENT(UNPARK_EVENT, unpark_event),
	EVENT(LIST_LOCK, list_lock),
	EVENT(LIST_LOCK_CONTENDED, list_lock_contended),
	EVENT(SHARED_ATOMIC, shared_atomic),
	EVENT(OTHER_LOCK, other_lock),
#undef EVENT
};

static void fill_shape(const struct pcp_stock *stock,
		       struct pcpool_cache_stats *s)
{
	const struct pcp_layout *layout = &stock->kind.layout;

	s->object_size = layout->size;
	s->stride = layout->stride;
	s->slab_size = layout->slab_size;
	s->objects_per_slab = layout->objects;
	s->slab_overhead =
		layout->slab_size - layout->objects * layout->stride;
	s->sheaf_capacity = pcp_load(&stock->sheaves.capacity);
	s->sheaf_capacity_max = stock->ceiling;
	s->barn_limit = pcp_load(&stock->barns[0].limit);
}

static void fill_book(const struct pcp_book *book, bool forked,
		      struct pcpool_cache_stats *s)
{
	s->slabs = book->slabs;
	s->partial = book->partial;
	s->waiting = book->waiting;
	s->total_objects = book->slabs * s->objects_per_slab;
	s->objects = book->inuse;
	s->live = book->live;
	s->cached = book->cached;
	s->rcu_backlog = book->deferred;
	s->sheaves = book->sheaves;
	s->alloc_fastpath = book->alloc_fast;
	s->alloc_slowpath = book->alloc_slow;
	s->free_fastpath = book->free_fast;
	s->free_slowpath = book->free_slow;
	s->lost_in_fork = forked ? pcp_book_lost(book) : 0;
}

/* Bytes that are the cache's own, without slabs. The counters' table counts as
 * what slots that were used at least once have touched of it at most. */
static uint64_t metadata(const struct pcp_stock *stock,
			 const struct pcp_book *book)
{
	size_t barns = 0;

	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		barns += pcp_barn_bytes(&stock->barns[i]);
	return sizeof(struct pcpool_cache) +
	       pcp_index.nr_ids * sizeof(struct pcp_slot) +
	       stock->nr_nodes * sizeof(struct pcp_node) + barns +
	       (pcp_load(&stock->kind.order)
			? stock->kind.layout.objects * sizeof(uint16_t)
			: 0) +
	       pcp_stat_touched(&stock->kind.stat) + book->sheaf_bytes;
}

void pcp_cache_stats(struct pcpool_cache *cache, struct pcpool_cache_stats *s)
{
	struct pcp_stock *stock = &cache->stock;
	bool forked = pcp_cache_forked(cache);
	struct pcp_book book;

	fill_shape(stock, s);
	pcp_stock_book(stock, &book, forked);
	fill_book(&book, forked, s);
	for (size_t i = 0; i < PCP_ARRAY_SIZE(events); i++)
		*(uint64_t *)(void *)((char *)s + events[i].offset) =
			pcp_stat_sum(&stock->kind.stat, events[i].id);
	/* Those in CPUs' part-filled sheaves are counted on their hand-over. */
	s->free_rcu_sheaf += book.deferring;
	s->rcu_backlog_peak = pcp_load(&stock->defer.peak);
	/* Read one after the other while threads run: never below nothing. */
	s->built = s->ctor_ok > s->dtor ? s->ctor_ok - s->dtor : 0;
	s->metadata_bytes = metadata(stock, &book);
}

PCP_API int pcpool_cache_get_stats(struct pcpool_cache *cache,
			       struct pcpool_cache_stats *stats)
{
	struct pcpool_cache_stats filled = { .stats_size = sizeof(filled) };

	if (!cache || !stats || stats->stats_size != sizeof(*stats))
		return EINVAL;
	pcp_cache_stats(cache, &filled);
	*stats = filled;
	return 0;
}

_Static_assert(PCPOOL_PERCPU_SIZES == PCP_SIZE_CLASSES, "as many sizes");

PCP_API int pcpool_percpu_get_stats(struct pcpool_percpu_stats *stats)
{
	struct pcp_percpu_snapshot now;

	if (!stats || stats->stats_size != sizeof(*stats))
		return EINVAL;
	pcp_init();
	pcp_percpu_stats(&now);
	*stats = (struct pcpool_percpu_stats){
		.stats_size = sizeof(*stats),
		.slots = pcp_nr_slots(),
		.unit_size = now.unit_size,
		.chunks = now.chunks,
		.regions = now.regions,
		.region_bytes = now.region_bytes,
		.block_bytes = now.block_bytes,
		.populated_bytes = now.populated_bytes,
		.mutex = now.mutex,
		.map_lock = now.map_lock,
		.chunk_alloc = now.chunk_alloc,
		.chunk_free = now.chunk_free,
		.alloc_fail = now.alloc_fail,
		.discarded_bytes = now.discarded_bytes,
	};
	memcpy(stats->sizes, now.sizes, sizeof(stats->sizes));
	return 0;
}

PCP_API int pcpool_memory_get_stats(struct pcpool_memory_stats *stats)
{
	struct pcp_block_sum sum;

	if (!stats || stats->stats_size != sizeof(*stats))
		return EINVAL;
	pcp_registry_init();
	pcp_block_sum(&sum);
	stats->arenas = sum.arenas;
	stats->slab_bytes = sum.bytes;
	stats->idle_bytes = sum.idle;
	return 0;
}

PCP_API const char *pcpool_mode(void)
{
	pcp_init();
	return pcp_index.rseq ? "rseq" : "lock";
}

PCP_API const char *pcpool_index(void)
{
	pcp_init();
	if (!pcp_index.rseq)
		return "hint";
	return pcp_index.cid ? "cid" : "cpu";
}

PCP_API const char *pcpool_mode_reason(void)
{
	pcp_init();
	return pcp_index.reason;
}

PCP_API const char *pcpool_version(void)
{
	return PACKAGE_VERSION;
}

/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU regions: the locks around the maps, growing, zeroing, and the public
 * calls that allocate and free.
 *
 * The search is short (map.h), so that a single allocation makes it under the
 * leaf lock alone and pays for one lock. The growth mutex is taken where an
 * allocation may hold others up for longer: to make a chunk, so that two
 * threads that find no room make one and not two, and for a bulk allocation,
 * which keeps the leaf lock for so many regions at a time only and lets frees
 * in between.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <pcpool/percpu.h>

#include "base/fork.h"
#include "base/lock.h"
#include "base/report.h"
#include "cpu/init.h"
#include "percpu/find.h"
#include "percpu/state.h"
#include "percpu/zero.h"

/* Regions taken or given under one hold of the leaf lock. */
#define BATCH 256U

/* Rank PCP_RANK_PERCPU_GROW: making chunks. Guards its count. */
static struct pcp_lock grow_lock = PCP_LOCK_INIT(PCP_RANK_PERCPU_GROW);
static uint64_t grow_count;

struct pcp_percpu_state pcp_regions PCP_ALIGNED(2 * PCP_CACHELINE) = {
	.lock = PCP_LOCK_INIT(PCP_RANK_PERCPU_MAP),
};

static uint64_t alloc_fail;
int pcp_percpu_ready;

unsigned char pcp_stray_used;

/* --- first use -------------------------------------------------------------
 */

static void init_once(void)
{
	static const struct pcp_fork_ops ops = {
		.prepare = pcp_percpu_fork_prepare,
		.parent = pcp_percpu_fork_parent,
		.child = pcp_percpu_fork_child,
	};

	pcp_chunk_init();
	pcp_regions.map.shift = pcp_chunk_geometry.shift;
	/* Before either lock is ever taken. */
	pcp_fork_register(PCP_FORK_PERCPU, &ops);
	/* Pairs with the acquire in init(). */
	pcp_store_release(&pcp_percpu_ready, 1);
}

PCP_COLD static void init_slow(void)
{
	/* The libc runs it anew in a child forked in the middle of it. */
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pcp_init();
	pthread_once(&once, init_once);
}

static inline void init(void)
{
	/* Pairs with the release in init_once(). */
	if (pcp_unlikely(!pcp_load_acquire(&pcp_percpu_ready)))
		init_slow();
}

/* --- allocating ------------------------------------------------------------
 */

/* A request in the maps' terms. */
struct request {
	unsigned int granules;
	unsigned int align; /* in granules */
	bool thorough;
};

/* The lowest bit of a pointer taken from the map: it must be zeroed. */
#define RECYCLED ((uintptr_t)1)

static int make_request(struct request *request, size_t size, size_t align)
{
	const size_t granule = (size_t)1 << PCP_GRANULE_SHIFT;

	if (!size || size > PCPOOL_PERCPU_SIZE_MAX ||
	    align > PCPOOL_PERCPU_ALIGN_MAX || align & (align - 1))
		return EINVAL;
	request->granules =
		(unsigned int)((size + granule - 1) >> PCP_GRANULE_SHIFT);
	request->align = align > granule
				 ? (unsigned int)(align >> PCP_GRANULE_SHIFT)
				 : 1;
	request->thorough = false;
	return 0;
}

/* 0 for a granule, one more for each doubling. */
static inline unsigned int size_class(unsigned int granules)
{
	return granules > 1 ? 32U - (unsigned int)__builtin_clz(granules - 1)
			    : 0;
}

/* What the quick lists hold must not be why a chunk is made. */
static uintptr_t take_from_map(const struct request *request, bool *recycled)
	PCP_REQUIRES(pcp_regions.lock)
{
	uintptr_t p = pcp_map_take(&pcp_regions.map, request->granules,
				   request->align, request->thorough, recycled);

	if (p || !pcp_regions.quick.used)
		return p;
	pcp_quick_flush(&pcp_regions.quick, &pcp_regions.map);
	return pcp_map_take(&pcp_regions.map, request->granules, request->align,
			    request->thorough, recycled);
}

static inline void *take_locked(const struct request *request)
	PCP_REQUIRES(pcp_regions.lock)
{
	bool recycled = true;
	uintptr_t p = pcp_quick_take(&pcp_regions.quick, &pcp_regions.map,
				     request->granules, request->align);

	if (!p)
		p = take_from_map(request, &recycled);
	if (pcp_likely(p))
		pcp_regions.sizes[size_class(request->granules)]++;
	return (void *)(p && recycled ? p | RECYCLED : p);
}

static inline void lock_map(void) PCP_ACQUIRES(pcp_regions.lock)
{
	pcp_lock(&pcp_regions.lock);
	pcp_regions.holds++;
}

/* Up to n regions under one hold of the leaf lock. How many there was room
 * for. */
static size_t take_many(const struct request *request, size_t n, void **ptrs)
{
	size_t got = 0;

	lock_map();
	while (got < n) {
		ptrs[got] = take_locked(request);
		if (!ptrs[got])
			break;
		got++;
	}
	pcp_unlock(&pcp_regions.lock);
	return got;
}

static bool grow(void) PCP_REQUIRES(grow_lock)
{
	struct pcp_chunk *chunk = pcp_chunk_create();

	if (!chunk)
		return false;
	lock_map();
	pcp_map_add(&pcp_regions.map, chunk);
	pcp_regions.chunk_alloc++;
	pcp_unlock(&pcp_regions.lock);
	return true;
}

/* Under the growth mutex: n regions, or as many as memory allows. */
static size_t take_growing(struct request *request, size_t n, void **ptrs)
{
	size_t got = 0;

	pcp_lock(&grow_lock);
	grow_count++;
	while (got < n) {
		size_t want = n - got < BATCH ? n - got : BATCH;
		size_t some = take_many(request, want, ptrs + got);

		got += some;
		if (some == want)
			continue;
		/* Without memory for a chunk, look into every corner before
		 * giving up. */
		if (request->thorough)
			break;
		if (!grow())
			request->thorough = true;
	}
	pcp_unlock(&grow_lock);
	return got;
}

void pcp_region_zero(void *p, size_t size)
{
	pcp_zero_copies(p, (unsigned int)(size >> PCP_GRANULE_SHIFT));
}

/* No lock held: strip the mark and do what it says. */
static inline void *finish(void *p, const struct request *request)
{
	if (!((uintptr_t)p & RECYCLED))
		return p;
	p = (char *)p - RECYCLED;
	/* A granule is a word. */
	pcp_zero_copies(p, request->granules);
	return p;
}

PCP_COLD static void *alloc_slow(struct request *request)
{
	int saved = errno;
	void *p;

	if (!take_growing(request, 1, &p)) {
		pcp_add(&alloc_fail, 1);
		errno = ENOMEM;
		return NULL;
	}
	errno = saved;
	return p;
}

void *pcp_region_alloc(size_t size, size_t align)
{
	struct request request;
	int err = make_request(&request, size, align);
	void *p;

	if (pcp_unlikely(err)) {
		errno = err;
		return NULL;
	}
	init();
	lock_map();
	pcp_regions.alloc_holds++;
	p = take_locked(&request);
	pcp_unlock(&pcp_regions.lock);
	if (pcp_unlikely(!p)) {
		p = alloc_slow(&request);
		if (!p)
			return NULL;
	}
	return finish(p, &request);
}

/* --- freeing ---------------------------------------------------------------
 */

PCP_COLD static _Noreturn void die(enum pcp_map_fault fault, const void *p,
				   const void *caller)
{
	static const char *const what[] = {
		[PCP_MAP_STRAY] = "free of what is no per-CPU region",
		[PCP_MAP_INTERIOR] = "free of an address inside a per-CPU "
				     "region",
		[PCP_MAP_FREE] = "free of a per-CPU region that is not in use "
				 "(freed twice?)",
	};

	pcp_die(NULL, p, caller, "%s", what[fault]);
}

/*
 * Give empty chunks back, all but one. That one saves a process that allocates
 * and frees its last region over and over from as many system calls. A chunk
 * that the system does not take is kept for use, and offered again when next a
 * chunk becomes empty.
 */
PCP_COLD void pcp_region_give_back(struct pcp_chunk *chunk)
{
	int saved = errno;

	while (chunk) {
		bool done = pcp_chunk_destroy(chunk);

		lock_map();
		if (done) {
			pcp_regions.chunk_free++;
			chunk = pcp_map_surplus(&pcp_regions.map,
						PCP_KEEP_EMPTY);
		} else {
			pcp_map_add(&pcp_regions.map, chunk);
			chunk = NULL;
		}
		pcp_unlock(&pcp_regions.lock);
	}
	errno = saved;
}

static inline enum pcp_map_fault give_locked(uintptr_t p)
	PCP_REQUIRES(pcp_regions.lock)
{
	struct pcp_place place;
	enum pcp_map_fault fault = pcp_map_find(&pcp_regions.map, p, &place);

	if (pcp_unlikely(fault != PCP_MAP_OK))
		return fault;
	pcp_regions.sizes[size_class(place.end - place.pos)]--;
	if (!pcp_quick_keep(&pcp_regions.quick, &pcp_regions.map, &place))
		pcp_map_give(&pcp_regions.map, &place);
	/* Nor may they be why one stays. */
	if (pcp_unlikely(place.chunk->taken_granules ==
				 place.chunk->held_granules &&
			 pcp_regions.map.chunks > PCP_KEEP_EMPTY))
		pcp_quick_flush(&pcp_regions.quick, &pcp_regions.map);
	return fault;
}

/* Up to BATCH regions under one hold of the leaf lock. */
static void free_some(size_t n, void *const *ptrs, const void *caller)
{
	enum pcp_map_fault fault = PCP_MAP_OK;
	struct pcp_chunk *chunk = NULL;
	size_t i;

	lock_map();
	for (i = 0; i < n && fault == PCP_MAP_OK; i++)
		if (ptrs[i])
			fault = give_locked((uintptr_t)ptrs[i]);
	if (pcp_unlikely(pcp_regions.map.empty > PCP_KEEP_EMPTY))
		chunk = pcp_map_surplus(&pcp_regions.map, PCP_KEEP_EMPTY);
	pcp_unlock(&pcp_regions.lock);
	if (pcp_unlikely(fault != PCP_MAP_OK))
		die(fault, ptrs[i - 1], caller);
	if (pcp_unlikely(chunk))
		pcp_region_give_back(chunk);
}

void pcp_region_free_bulk(size_t n, void *const *ptrs, const void *caller)
{
	init();
	while (n) {
		size_t some = n < BATCH ? n : BATCH;

		free_some(some, ptrs, caller);
		ptrs += some;
		n -= some;
	}
}

int pcp_region_alloc_bulk(size_t n, size_t size, size_t align, void **ptrs)
{
	struct request request;
	int err = make_request(&request, size, align), saved = errno;
	size_t got;

	if (!err && !ptrs && n)
		err = EINVAL;
	if (n > PTRDIFF_MAX / sizeof(*ptrs))
		return err ? err : ENOMEM;
	if (err) {
		if (ptrs)
			memset(ptrs, 0, n * sizeof(*ptrs));
		return err;
	}
	if (!n)
		return 0;
	init();
	got = take_growing(&request, n, ptrs);
	if (got < n) {
		for (size_t i = 0; i < got; i++)
			ptrs[i] = (void *)((uintptr_t)ptrs[i] & ~RECYCLED);
		pcp_region_free_bulk(got, ptrs, NULL);
		memset(ptrs, 0, n * sizeof(*ptrs));
		pcp_add(&alloc_fail, 1);
		errno = saved;
		return ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		ptrs[i] = finish(ptrs[i], &request);
	errno = saved;
	return 0;
}

/* --- figures, fork ---------------------------------------------------------
 */

void pcp_percpu_stats(struct pcp_percpu_snapshot *snapshot)
{
	const struct pcp_map *map = &pcp_regions.map;

	init();
	pcp_lock(&grow_lock);
	pcp_lock(&pcp_regions.lock);
	*snapshot = (struct pcp_percpu_snapshot){
		.slots = pcp_chunk_geometry.slots,
		.unit_size = pcp_chunk_geometry.stride,
		.chunks = map->chunks,
		.regions = map->regions - map->held_regions,
		.region_bytes = (map->granules - map->held_granules)
				<< PCP_GRANULE_SHIFT,
		.block_bytes = map->busy << PCP_BLOCK_SHIFT,
		.populated_bytes = map->touched << PCP_BLOCK_SHIFT,
		.mutex = grow_count + pcp_regions.alloc_holds,
		.map_lock = pcp_regions.holds,
		.chunk_alloc = pcp_regions.chunk_alloc,
		.chunk_free = pcp_regions.chunk_free,
		.alloc_fail = pcp_load(&alloc_fail),
		.discarded_bytes = pcp_regions.discarded << PCP_BLOCK_SHIFT,
		.scans = map->scans,
	};
	memcpy(snapshot->sizes, pcp_regions.sizes, sizeof(snapshot->sizes));
	pcp_unlock(&pcp_regions.lock);
	pcp_unlock(&grow_lock);
}

PCP_NO_TSA void pcp_percpu_fork_prepare(void)
{
	pcp_lock_nested(&grow_lock);
	pcp_lock_nested(&pcp_regions.lock);
}

PCP_NO_TSA void pcp_percpu_fork_parent(void)
{
	pcp_unlock(&pcp_regions.lock);
	pcp_unlock(&grow_lock);
}

PCP_NO_TSA void pcp_percpu_fork_child(void)
{
	pcp_region_tend_forked();
	pcp_lock_reinit(&pcp_regions.lock);
	pcp_lock_reinit(&grow_lock);
}

#if PCP_DEBUG
int pcp_percpu_verify(void)
{
	int line;

	init();
	pcp_lock(&pcp_regions.lock);
	line = pcp_map_verify(&pcp_regions.map);
	pcp_unlock(&pcp_regions.lock);
	return line;
}
#endif

/* --- the public calls ------------------------------------------------------
 */

PCP_API void *pcpool_percpu_alloc(size_t size, size_t align)
{
	return pcp_region_alloc(size, align);
}

PCP_API int pcpool_percpu_alloc_bulk(size_t n, size_t size, size_t align,
				     void **ptrs)
{
	return pcp_region_alloc_bulk(n, size, align, ptrs);
}

PCP_API void pcpool_percpu_free(void *ptr)
{
	if (!ptr)
		return;
	init();
	free_some(1, &ptr, __builtin_return_address(0));
}

PCP_API int pcpool_percpu_free_bulk(size_t n, void **ptrs)
{
	if ((!ptrs && n) || n > PTRDIFF_MAX / sizeof(*ptrs))
		return EINVAL;
	pcp_region_free_bulk(n, ptrs, __builtin_return_address(0));
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU counters. The count is the shared word plus every slot's part.
 *
 * A part is changed by its own slot only: by restartable sections, or in lock
 * mode atomically. No call ever takes a part beyond the batch it was given, so
 * |part| < widest, the largest batch the counter saw; which bounds how far the
 * shared word is off. An add that does not fit folds: it takes the slot's part
 * away, leaving zero, and adds it to the shared word together with its own
 * amount. Between the two steps the part is in neither place. That is why a
 * fold holds the counter's lock, and whoever adds up the parts does.
 *
 * An add never waits for the lock. Where it is taken, the amount goes to the
 * shared word by itself: one atomic step, which no sum can see half of. So adds
 * are safe in signal handlers, a part stays below its batch whatever happens,
 * and a thread that has no slot needs no part.
 *
 * The locks are shared by all counters and picked by a counter's address. One
 * inside each counter could be left taken in a forked child, or worse: memory
 * is copied to the child page by page while other threads run, so that a fold
 * beside it may be seen half, its part in both places or in none. No fold may
 * run during a fork, and only locks that can be found can be taken there.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <pcpool/counter.h>
#include <pcpool/fast.h>

#include "base/fault.h"
#include "base/fork.h"
#include "base/lock.h"
#include "cpu/init.h"
#include "cpu/rseq.h"
#include "percpu/region.h"

_Static_assert(sizeof(struct pcpool_counter) == 32, "32 bytes on any machine");
_Static_assert(offsetof(struct pcpool_counter, pcpool_count) % 8 == 0, "tears");

/* A fork takes all of them, and the thread sanitizer follows 64 locks of a
 * thread at most. */
#define LOCKS 16U

/* Counters whose parts share a region. */
#define GROUP (PCPOOL_PERCPU_SIZE_MAX / sizeof(int64_t))

/* A part plus or minus twice this does not overflow. */
#define BATCH_MAX ((int64_t)1 << 61)

/* Values of pcpool_owner. */
enum { OWNER_NOT, OWNER_REGION };

/* Rank PCP_RANK_COUNTER, each guards its counters' folds: while it is held no
 * part of theirs is under way to the shared word. */
static struct {
	struct pcp_lock lock PCP_ALIGNED(PCP_CACHELINE);
} locks[LOCKS];

static int ready;

/* --- first use, fork --------------------------------------------------------
 */

PCP_NO_TSA static void fork_prepare(void)
{
	for (unsigned int i = 0; i < LOCKS; i++)
		pcp_lock_nested(&locks[i].lock);
}

PCP_NO_TSA static void fork_parent(void)
{
	for (unsigned int i = LOCKS; i-- > 0;)
		pcp_unlock(&locks[i].lock);
}

PCP_NO_TSA static void fork_child(void)
{
	for (unsigned int i = LOCKS; i-- > 0;)
		pcp_lock_reinit(&locks[i].lock);
}

static void init_once(void)
{
	static const struct pcp_fork_ops ops = {
		.prepare = fork_prepare,
		.parent = fork_parent,
		.child = fork_child,
	};

	for (unsigned int i = 0; i < LOCKS; i++)
		pcp_lock_init(&locks[i].lock, PCP_RANK_COUNTER);
	/* Before any of them is ever taken. */
	pcp_fork_register(PCP_FORK_COUNTER, &ops);
	/* Pairs with the acquire in init(). */
	pcp_store_release(&ready, 1);
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
	if (pcp_unlikely(!pcp_load_acquire(&ready)))
		init_slow();
}

static inline struct pcp_lock *lock_of(const struct pcpool_counter *c)
{
	uint64_t hash = (uint64_t)(uintptr_t)c * UINT64_C(0x9e3779b97f4a7c15);

	return &locks[(hash >> 32) % LOCKS].lock;
}

/* --- counters come and go --------------------------------------------------
 */

/* For inline adds, which read it as pcpool/fast.h says. Fixed for the process,
 * once there is a region. */
_Static_assert(PCPOOL_FAST_LAYOUT == 1, "the layout in fast.h is the one here");
_Static_assert(PCPOOL_FAST_COUNTER_SPAN_ == PCPOOL_COUNTER_BATCH - 1, "batch");

static uint32_t fast_word(void)
{
	size_t stride = pcp_chunk_geometry.stride;

	if (!pcp_index.rseq || stride > UINT32_MAX ||
	    (stride & PCPOOL_FAST_COUNTER_STRIDE_MASK_) != stride)
		return 0;
	return (uint32_t)stride | PCPOOL_FAST_LAYOUT |
	       (pcp_index.cid ? (uint32_t)PCPOOL_FAST_COUNTER_CID_ : 0);
}

static void start(struct pcpool_counter *c, void *parts, int64_t initial,
		  uint32_t owner)
{
	*c = (struct pcpool_counter){
		.pcpool_count = initial,
		.pcpool_widest = PCPOOL_COUNTER_BATCH,
		.pcpool_parts = parts,
		.pcpool_owner = owner,
		.pcpool_fast = fast_word(),
	};
}

/* The region of a group of counters. */
static int start_group(struct pcpool_counter *c, size_t n, int64_t initial)
{
	int saved = errno;
	int64_t *parts = pcp_region_alloc(n * sizeof(*parts), 0);

	if (!parts) {
		errno = saved;
		return ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		start(&c[i], &parts[i], initial, i ? OWNER_NOT : OWNER_REGION);
	return 0;
}

PCP_API int pcpool_counter_init_many(struct pcpool_counter *counters, size_t n,
				     int64_t initial)
{
	if (!counters && n)
		return EINVAL;
	if (n > PTRDIFF_MAX / sizeof(*counters))
		return ENOMEM;
	init();
	for (size_t done = 0; done < n; done += GROUP) {
		size_t some = n - done < GROUP ? n - done : GROUP;
		int err = start_group(counters + done, some, initial);

		if (err) {
			pcpool_counter_destroy_many(counters, done);
			memset(counters, 0, n * sizeof(*counters));
			return err;
		}
	}
	return 0;
}

PCP_API int pcpool_counter_init(struct pcpool_counter *c, int64_t initial)
{
	return pcpool_counter_init_many(c, 1, initial);
}

PCP_API int pcpool_counter_init_at(struct pcpool_counter *c, void *parts,
				   int64_t initial)
{
	if (!c || !parts || (uintptr_t)parts % sizeof(int64_t))
		return EINVAL;
	init();
	start(c, parts, initial, OWNER_NOT);
	return 0;
}

PCP_API void pcpool_counter_destroy(struct pcpool_counter *c)
{
	void *parts;

	if (!c)
		return;
	parts = c->pcpool_parts;
	if (c->pcpool_owner == OWNER_REGION)
		pcp_region_free_bulk(1, &parts, __builtin_return_address(0));
	memset(c, 0, sizeof(*c));
}

PCP_API void pcpool_counter_destroy_many(struct pcpool_counter *counters,
					 size_t n)
{
	const void *caller = __builtin_return_address(0);

	for (size_t i = 0; i < n; i++) {
		void *parts = counters[i].pcpool_parts;

		if (counters[i].pcpool_owner == OWNER_REGION)
			pcp_region_free_bulk(1, &parts, caller);
		memset(&counters[i], 0, sizeof(counters[i]));
	}
}

/* --- adding ----------------------------------------------------------------
 */

static inline void add_shared(struct pcpool_counter *c, int64_t amount)
{
	/* Atomic also under the lock, for adds come here without it. */
	pcp_add(&c->pcpool_count, amount);
}

/* With the counter's lock: the part of the caller's slot, which is zero now. 0
 * for a thread without a slot, or after too many restarts. */
static int64_t take_part(struct pcpool_counter *c)
{
	void *parts = c->pcpool_parts;
	int64_t *part;

	if (pcp_likely(pcp_index.rseq)) {
		enum pcp_section result = PCP_ABORTED;
		uint64_t old = 0;

		for (int i = 0; result == PCP_ABORTED && i < PCP_ABORTS_MAX;
		     i++)
			result = pcp_rseq_xchg_u64(parts,
						   pcp_chunk_geometry.stride, 0,
						   &old);
		return result == PCP_DONE ? (int64_t)old : 0;
	}
	part = pcp_percpu_copy(parts, pcp_this_slot());
	return pcp_xchg(part, 0);
}

/* An add for which the part has no room, or that has no slot. */
static void fold(struct pcpool_counter *c, int64_t amount)
{
	struct pcp_lock *lock = lock_of(c);
	int64_t part;

	if (!pcp_trylock_leaf(lock)) {
		add_shared(c, amount);
		return;
	}
	part = take_part(c);
	PCP_HOOK(PCP_HOOK_COUNTER_TAKEN);
	add_shared(c, (int64_t)((uint64_t)part + (uint64_t)amount));
	pcp_unlock(lock);
}

/* Lock mode: add to the part if its magnitude is at most span then. */
static bool add_atomic(struct pcpool_counter *c, int64_t amount,
				    uint64_t span)
{
	int64_t *part = pcp_percpu_copy(c->pcpool_parts, pcp_this_slot());
	int64_t old = pcp_load(part), sum;

	do {
		if (__builtin_add_overflow(old, amount, &sum) ||
		    (uint64_t)sum + span > 2 * span)
			return false;
	} while (!pcp_cas(part, &old, sum));
	return true;
}

static inline enum pcp_section add_part(struct pcpool_counter *c,
					int64_t amount, uint64_t span)
{
	return pcp_rseq_add_within(c->pcpool_parts, pcp_chunk_geometry.stride,
				   amount, span);
}

/* What the first try did not do; apart, so that it saves no registers. */
PCP_NOINLINE static void add_slow(struct pcpool_counter *c, int64_t amount,
				  uint64_t span)
{
	if (pcp_likely(pcp_index.rseq)) {
		enum pcp_section result = PCP_ABORTED;

		for (int i = 1; result == PCP_ABORTED && i < PCP_ABORTS_MAX;
		     i++)
			result = add_part(c, amount, span);
		if (result == PCP_DONE)
			return;
	} else if (pcp_likely(add_atomic(c, amount, span))) {
		return;
	}
	fold(c, amount);
}

PCP_INLINE void add(struct pcpool_counter *c, int64_t amount, uint64_t span)
{
	if (pcp_likely(pcp_index.rseq) &&
	    pcp_likely(add_part(c, amount, span) == PCP_DONE))
		return;
	add_slow(c, amount, span);
}

PCP_API void pcpool_counter_add(struct pcpool_counter *c, int64_t amount)
{
	add(c, amount, (uint64_t)PCPOOL_COUNTER_BATCH - 1);
}

/* Before a part may be so large. It never shrinks: what was added then may lie
 * in a part for ever. */
static void widen(struct pcpool_counter *c, int64_t batch)
{
	int64_t widest = pcp_load(&c->pcpool_widest);

	while (batch > widest)
		if (pcp_cas(&c->pcpool_widest, &widest, batch))
			return;
}

PCP_COLD static void add_odd_batch(struct pcpool_counter *c, int64_t amount,
				   int64_t batch)
{
	if (batch < 1)
		batch = 1;
	if (batch > BATCH_MAX)
		batch = BATCH_MAX;
	widen(c, batch);
	add_slow(c, amount, (uint64_t)batch - 1);
}

PCP_API void pcpool_counter_add_batch(struct pcpool_counter *c, int64_t amount,
				      int64_t batch)
{
	uint64_t span = (uint64_t)batch - 1;

	/* Also batches below 1, by their sign. */
	if (pcp_unlikely(span >= (uint64_t)pcp_load(&c->pcpool_widest)))
		add_odd_batch(c, amount, batch);
	else
		add(c, amount, span);
}

/* --- reading ---------------------------------------------------------------
 */

PCP_API int64_t pcpool_counter_read(const struct pcpool_counter *c)
{
	return pcp_load(&c->pcpool_count);
}

PCP_API int64_t pcpool_counter_read_positive(const struct pcpool_counter *c)
{
	int64_t count = pcpool_counter_read(c);

	return count > 0 ? count : 0;
}

/* With the counter's lock. The shared word first: of one thread's adds, one
 * that went there is not in the sum without those before it that went to its
 * part. */
static int64_t sum_locked(struct pcpool_counter *c)
{
	uint64_t sum = (uint64_t)pcp_load(&c->pcpool_count);

	return (int64_t)(sum + pcp_percpu_sum_u64(c->pcpool_parts));
}

PCP_API int64_t pcpool_counter_sum(struct pcpool_counter *c)
{
	struct pcp_lock *lock = lock_of(c);
	int64_t sum;

	pcp_lock(lock);
	sum = sum_locked(c);
	pcp_unlock(lock);
	return sum;
}

/* How far the shared word may be off, either way; the largest number where that
 * is more. */
static int64_t error_of(const struct pcpool_counter *c, int64_t batch)
{
	int64_t widest = pcp_load(&c->pcpool_widest), error;

	if (batch < widest)
		batch = widest;
	if (__builtin_mul_overflow(batch, (int64_t)pcp_nr_slots(), &error))
		return INT64_MAX;
	return error;
}

static inline int order(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

PCP_API int pcpool_counter_compare(struct pcpool_counter *c, int64_t value,
				   int64_t batch)
{
	int64_t error = error_of(c, batch), rough = pcpool_counter_read(c);
	int64_t most, least;

	/* A count that may have wrapped is near nothing. */
	if (!__builtin_add_overflow(rough, error, &most) &&
	    !__builtin_sub_overflow(rough, error, &least)) {
		if (most < value)
			return -1;
		if (least > value)
			return 1;
	}
	return order(pcpool_counter_sum(c), value);
}

/* --- limits ----------------------------------------------------------------
 */

/* Whether count plus amount is within the limit. */
static bool fits(int64_t count, int64_t amount, int64_t limit)
{
	int64_t sum;

	if (__builtin_add_overflow(count, amount, &sum))
		return false;
	return amount > 0 ? sum <= limit : sum >= limit;
}

/* With the counter's lock, so that no other limited add is under way. The parts
 * may change meanwhile: what is added beside this call is either in the sum or
 * counts as later. */
static bool fits_locked(struct pcpool_counter *c, int64_t amount, int64_t limit)
{
	int64_t rough = pcpool_counter_read(c), error = error_of(c, 0);
	int64_t worst, best;

	if (amount < 0)
		error = -error;
	if (!__builtin_add_overflow(rough, error, &worst) &&
	    !__builtin_sub_overflow(rough, error, &best)) {
		if (fits(worst, amount, limit))
			return true;
		if (!fits(best, amount, limit))
			return false;
	}
	return fits(sum_locked(c), amount, limit);
}

PCP_API bool pcpool_counter_limited_add(struct pcpool_counter *c, int64_t limit,
					int64_t amount)
{
	struct pcp_lock *lock = lock_of(c);
	bool ok;

	if (!amount)
		return true;
	pcp_lock(lock);
	ok = fits_locked(c, amount, limit);
	if (ok)
		add_shared(c, amount);
	pcp_unlock(lock);
	return ok;
}

PCP_API void pcpool_counter_set(struct pcpool_counter *c, int64_t value)
{
	struct pcp_lock *lock = lock_of(c);

	pcp_lock(lock);
	/* The parts of other slots cannot be written without stopping their
	 * sections, so they stay. Added, not stored: what goes to the shared
	 * word after it was read for the sum comes after this call. */
	add_shared(c, (int64_t)((uint64_t)value - (uint64_t)sum_locked(c)));
	pcp_unlock(lock);
}

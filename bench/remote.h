/* SPDX-License-Identifier: MIT */
/*
 * The two ends all remote variants share. Threads are pairs: the first of a
 * pair takes objects, touches them and puts them into a ring, 64 at a time; the
 * second takes them out and gives them back to the allocator. See pair.h for
 * how take, give and ctx come to cost nothing.
 *
 * Neither end waits for long: when the ring is full or empty it says that it
 * did nothing, and the window looks at its stop flag. A window ends when both
 * have passed a batch: the second finds one, for the first has put one or will;
 * and the first finds room when the second has made some.
 */
#ifndef BENCH_REMOTE_H
#define BENCH_REMOTE_H

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "core.h"
#include "touch.h"

/** Objects that change hands together, and how many such batches are under way
 *  at most. */
#define BENCH_REMOTE_BATCH 64U
#define BENCH_REMOTE_SLOTS 16U

/* Looks at the other end before a thread yields its CPU, which the other may
 * need, and lets the window look at its stop flag. */
#define BENCH_REMOTE_LOOKS 2000U

struct bench_batch_slot {
	_Alignas(BENCH_CACHE_LINE) void *obj[BENCH_REMOTE_BATCH];
};

/* Each end has lines of its own: its count, and what it knows of the other's. */
struct bench_ring {
	_Alignas(2 * BENCH_CACHE_LINE) atomic_size_t put;
	size_t seen_got;
	_Alignas(2 * BENCH_CACHE_LINE) atomic_size_t got;
	size_t seen_put;
	_Alignas(2 * BENCH_CACHE_LINE)
	struct bench_batch_slot slot[BENCH_REMOTE_SLOTS];
};

/* What two threads share, and what some variants need beside it: a way back. */
struct bench_remote_pair {
	struct bench_ring ring;
	struct bench_ring back;
	_Alignas(2 * BENCH_CACHE_LINE) _Atomic(void *) chain;
	unsigned int users; /* guarded by the lock of job_remote.c */
};

/** The enter() of all remote variants: t->own is the pair. */
int bench_remote_enter(struct bench_thread *t);
/** Leave it. True for the last one of a pair, which takes what it holds and
 *  ends it. */
bool bench_remote_last(struct bench_thread *t);
void bench_remote_end(struct bench_thread *t);

BENCH_INLINE bool bench_remote_producer(const struct bench_thread *t)
{
	return t->index % 2 == 0;
}

BENCH_INLINE void bench_remote_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" : : : "memory");
#endif
}

/* The slot to fill next, or NULL: all are full, and stayed so. */
BENCH_INLINE void **bench_ring_room(struct bench_ring *ring, unsigned int looks)
{
	size_t put = atomic_load_explicit(&ring->put, memory_order_relaxed);

	while (put - ring->seen_got == BENCH_REMOTE_SLOTS) {
		/* Pairs with the release in bench_ring_got(). */
		ring->seen_got = atomic_load_explicit(&ring->got,
						      memory_order_acquire);
		if (put - ring->seen_got < BENCH_REMOTE_SLOTS)
			break;
		if (!looks--)
			return NULL;
		bench_remote_relax();
	}
	return ring->slot[put % BENCH_REMOTE_SLOTS].obj;
}

BENCH_INLINE void bench_ring_put(struct bench_ring *ring)
{
	size_t put = atomic_load_explicit(&ring->put, memory_order_relaxed);

	atomic_store_explicit(&ring->put, put + 1, memory_order_release);
}

/* The slot to empty next, or NULL: there is none, and came none. */
BENCH_INLINE void **bench_ring_next(struct bench_ring *ring, unsigned int looks)
{
	size_t got = atomic_load_explicit(&ring->got, memory_order_relaxed);

	while (got == ring->seen_put) {
		/* Pairs with the release in bench_ring_put(). */
		ring->seen_put = atomic_load_explicit(&ring->put,
						      memory_order_acquire);
		if (got != ring->seen_put)
			break;
		if (!looks--)
			return NULL;
		bench_remote_relax();
	}
	return ring->slot[got % BENCH_REMOTE_SLOTS].obj;
}

BENCH_INLINE void bench_ring_got(struct bench_ring *ring)
{
	size_t got = atomic_load_explicit(&ring->got, memory_order_relaxed);

	atomic_store_explicit(&ring->got, got + 1, memory_order_release);
}

/* Done nothing: count that, and let the other end run. */
BENCH_INLINE int bench_remote_idle(struct bench_thread *t)
{
	t->undone += BENCH_REMOTE_BATCH;
	sched_yield();
	return 0;
}

BENCH_INLINE int bench_remote_produce(struct bench_thread *t, const void *ctx,
				      void *(*take)(const void *ctx,
						    size_t size))
{
	struct bench_remote_pair *pair = t->own;
	void **slot = bench_ring_room(&pair->ring, BENCH_REMOTE_LOOKS);
	size_t size = t->params->size;

	if (!slot)
		return bench_remote_idle(t);
	for (unsigned int i = 0; i < BENCH_REMOTE_BATCH; i++) {
		void *obj = take(ctx, size);

		/* Those it has are the ring's to free: NULL ends a slot. */
		slot[i] = obj;
		if (__builtin_expect(!obj, 0)) {
			int err = errno ? errno : ENOMEM;

			bench_ring_put(&pair->ring);
			return err;
		}
		bench_touch(obj, size);
		bench_forget();
	}
	bench_ring_put(&pair->ring);
	t->busy = true;
	/* An object counts when it is freed. */
	t->undone += BENCH_REMOTE_BATCH;
	return 0;
}

BENCH_INLINE bool bench_remote_consume(struct bench_thread *t, const void *ctx,
				       void (*give)(const void *ctx, void *obj),
				       unsigned int looks)
{
	struct bench_remote_pair *pair = t->own;
	void **slot = bench_ring_next(&pair->ring, looks);
	const bool reads = t->params->work;
	size_t size = t->params->size;

	if (!slot)
		return false;
	for (unsigned int i = 0; i < BENCH_REMOTE_BATCH && slot[i]; i++) {
		if (reads)
			bench_touch(slot[i], size);
		give(ctx, slot[i]);
		bench_forget();
	}
	bench_ring_got(&pair->ring);
	t->busy = true;
	return true;
}

/* The run() of all variants: one batch, whatever n is (job_remote.c). */
BENCH_INLINE int bench_remote_loop(struct bench_thread *t, const void *ctx,
				   void *(*take)(const void *ctx, size_t size),
				   void (*give)(const void *ctx, void *obj))
{
	if (bench_remote_producer(t))
		return bench_remote_produce(t, ctx, take);
	if (!bench_remote_consume(t, ctx, give, BENCH_REMOTE_LOOKS))
		return bench_remote_idle(t);
	return 0;
}

/* The leave(): what is still under way is given back by the last one. */
BENCH_INLINE void bench_remote_leave(struct bench_thread *t, const void *ctx,
				     void (*give)(const void *ctx, void *obj))
{
	if (!bench_remote_last(t))
		return;
	while (bench_remote_consume(t, ctx, give, 0))
		;
	bench_remote_end(t);
}

#endif /* BENCH_REMOTE_H */

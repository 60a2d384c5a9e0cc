/* SPDX-License-Identifier: MIT */
/*
 * Remote variants on home-made free lists, and the cost of the ring alone.
 *
 * A list for each thread needs a way back, or the one thread would always make
 * objects and the other always keep them:
 *
 *   tls-list  what was freed is linked, and each 64 are pushed as one chain
 *             where the first thread takes all there are when its list is empty
 *   limit     a second ring, that carries the pointers back: the least that any
 *             cache can do
 *   ring      the first ring and nothing else: the same objects again and again
 */
#include <config.h>

#include <stdlib.h>

#include "job.h"
#include "plain.h"
#include "remote.h"

/* --- one list behind a mutex ---------------------------------- */

static int run_mutex_list(struct bench_thread *t, unsigned int n)
{
	struct bench_mutex_list *list = t->shared;

	(void)n;
	return bench_remote_loop(t, &list, bench_take_mutex_list,
				 bench_give_mutex_list);
}

static void leave_mutex_list(struct bench_thread *t)
{
	struct bench_mutex_list *list = t->shared;

	bench_remote_leave(t, &list, bench_give_mutex_list);
}

const struct bench_variant bench_remote_mutex_list = {
	.name = "mutex-list",
	.open = bench_open_mutex_list,
	.enter = bench_remote_enter,
	.run = run_mutex_list,
	.leave = leave_mutex_list,
	.close = bench_close_mutex_list,
};

/* --- a list for each thread ---------------------------------- */

static _Thread_local struct {
	struct bench_list list;
	struct bench_node *last; /* of the list, while it is to be pushed */
	unsigned int n;		 /* nodes in it, the same */
} tls;

/* ctx: struct bench_remote_pair ** */
BENCH_INLINE void *take_tls_list(const void *ctx, size_t size)
{
	struct bench_remote_pair *const *pair = ctx;
	void *obj = bench_list_pop(&tls.list);

	if (__builtin_expect(!obj, 0)) {
		if (atomic_load_explicit(&(*pair)->chain,
					 memory_order_relaxed))
			/* Pairs with the release in give_tls_list(). */
			tls.list.head = atomic_exchange_explicit(
				&(*pair)->chain, NULL, memory_order_acquire);
		obj = bench_list_pop(&tls.list);
	}
	return __builtin_expect(!obj, 0) ? bench_new_object(size) : obj;
}

BENCH_INLINE void give_tls_list(const void *ctx, void *obj)
{
	struct bench_remote_pair *const *pair = ctx;
	void *chain;

	bench_list_push(&tls.list, obj);
	if (!tls.n++)
		tls.last = tls.list.head;
	if (tls.n < BENCH_REMOTE_BATCH)
		return;
	chain = atomic_load_explicit(&(*pair)->chain, memory_order_relaxed);
	do {
		tls.last->next = chain;
	} while (!atomic_compare_exchange_weak_explicit(
		&(*pair)->chain, &chain, tls.list.head, memory_order_release,
		memory_order_relaxed));
	tls.list.head = NULL;
	tls.n = 0;
}

static int run_tls_list(struct bench_thread *t, unsigned int n)
{
	struct bench_remote_pair *pair = t->own;

	(void)n;
	return bench_remote_loop(t, &pair, take_tls_list, give_tls_list);
}

BENCH_INLINE void keep(const void *ctx, void *obj)
{
	(void)ctx;
	bench_list_push(&tls.list, obj);
}

static void leave_tls_list(struct bench_thread *t)
{
	struct bench_remote_pair *pair = t->own;
	struct bench_list chain = { NULL };

	if (bench_remote_last(t)) {
		while (bench_remote_consume(t, NULL, keep, 0))
			;
		chain.head = atomic_load(&pair->chain);
		bench_free_list(&chain);
		bench_remote_end(t);
	}
	bench_free_list(&tls.list);
}

const struct bench_variant bench_remote_tls_list = {
	.name = "tls-list",
	.enter = bench_remote_enter,
	.run = run_tls_list,
	.leave = leave_tls_list,
};

/* --- the limit ---------------------------------- */

/* A batch that is being emptied or filled: of the way back's ring. */
static _Thread_local struct {
	void **slot;
	unsigned int n;
} tls_back;

BENCH_INLINE void *take_limit(const void *ctx, size_t size)
{
	struct bench_remote_pair *const *pair = ctx;
	void *obj;

	if (!tls_back.slot) {
		tls_back.slot = bench_ring_next(&(*pair)->back, 0);
		tls_back.n = 0;
		if (__builtin_expect(!tls_back.slot, 0))
			return bench_new_object(size);
	}
	obj = tls_back.slot[tls_back.n++];
	if (tls_back.n == BENCH_REMOTE_BATCH) {
		bench_ring_got(&(*pair)->back);
		tls_back.slot = NULL;
	}
	return obj;
}

static __attribute__((noinline)) void drop(void *obj)
{
	struct bench_list list = { NULL };

	bench_list_push(&list, obj);
	bench_free_list(&list);
}

/* The way back is full only while the first thread is about to empty it: it
 * makes an object only when it finds nothing there. */
BENCH_INLINE void give_limit(const void *ctx, void *obj)
{
	struct bench_remote_pair *const *pair = ctx;

	if (!tls_back.slot) {
		tls_back.slot = bench_ring_room(&(*pair)->back, 0);
		tls_back.n = 0;
		if (__builtin_expect(!tls_back.slot, 0)) {
			drop(obj);
			return;
		}
	}
	tls_back.slot[tls_back.n++] = obj;
	if (tls_back.n == BENCH_REMOTE_BATCH) {
		bench_ring_put(&(*pair)->back);
		tls_back.slot = NULL;
	}
}

static int run_limit(struct bench_thread *t, unsigned int n)
{
	struct bench_remote_pair *pair = t->own;

	(void)n;
	return bench_remote_loop(t, &pair, take_limit, give_limit);
}

BENCH_INLINE void throw_away(const void *ctx, void *obj)
{
	(void)ctx;
	drop(obj);
}

/* What this thread holds in a batch of the way back. */
static void drop_own(struct bench_thread *t)
{
	struct bench_remote_pair *pair = t->own;
	bool first = bench_remote_producer(t);
	unsigned int i = first ? tls_back.n : 0;
	unsigned int end = first ? BENCH_REMOTE_BATCH : tls_back.n;

	if (!tls_back.slot)
		return;
	for (; i < end; i++)
		drop(tls_back.slot[i]);
	if (first)
		bench_ring_got(&pair->back);
}

static void leave_limit(struct bench_thread *t)
{
	struct bench_remote_pair *pair = t->own;
	void **slot;

	drop_own(t);
	if (!bench_remote_last(t))
		return;
	while (bench_remote_consume(t, NULL, throw_away, 0))
		;
	while ((slot = bench_ring_next(&pair->back, 0))) {
		for (unsigned int i = 0; i < BENCH_REMOTE_BATCH; i++)
			drop(slot[i]);
		bench_ring_got(&pair->back);
	}
	bench_remote_end(t);
}

const struct bench_variant bench_remote_limit = {
	.name = "limit",
	.enter = bench_remote_enter,
	.run = run_limit,
	.leave = leave_limit,
};

/* --- the ring alone ---------------------------------- */

/* As many as can be under way, and a batch more. */
#define OBJECTS ((BENCH_REMOTE_SLOTS + 1) * BENCH_REMOTE_BATCH)

static _Thread_local struct {
	void *obj[OBJECTS];
	unsigned int next;
} tls_objects;

static int enter_ring(struct bench_thread *t)
{
	unsigned int n = bench_remote_producer(t) ? OBJECTS : 0;

	for (unsigned int i = 0; i < n; i++) {
		tls_objects.obj[i] = bench_new_object(t->params->size);
		if (!tls_objects.obj[i])
			return ENOMEM;
	}
	return bench_remote_enter(t);
}

BENCH_INLINE void *take_ring(const void *ctx, size_t size)
{
	void *obj = tls_objects.obj[tls_objects.next];

	(void)ctx;
	(void)size;
	if (++tls_objects.next == OBJECTS)
		tls_objects.next = 0;
	return obj;
}

BENCH_INLINE void give_ring(const void *ctx, void *obj)
{
	(void)ctx;
	/* It has arrived: read from the ring at least. */
	__asm__ volatile("" : : "r"(obj));
}

static int run_ring(struct bench_thread *t, unsigned int n)
{
	(void)n;
	return bench_remote_loop(t, NULL, take_ring, give_ring);
}

static void leave_ring(struct bench_thread *t)
{
	bench_remote_leave(t, NULL, give_ring);
	for (unsigned int i = 0; i < OBJECTS; i++)
		if (tls_objects.obj[i])
			drop(tls_objects.obj[i]);
}

const struct bench_variant bench_remote_ring = {
	.name = "ring",
	.enter = enter_ring,
	.run = run_ring,
	.leave = leave_ring,
};

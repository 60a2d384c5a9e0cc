/* SPDX-License-Identifier: MIT */
/*
 * Job rcu's variants on malloc and call_rcu(): what a program of liburcu does.
 * The head that call_rcu() wants lies in the object; a callback frees it on
 * liburcu's thread.
 */
#include <config.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "plain.h"
#include "rcu.h"

#define THREADS_MAX 4096U

struct count {
	_Alignas(2 * BENCH_CACHE_LINE) _Atomic size_t n;
};

/* One to a process. Each count has one writer: the threads of a window have one
 * each, and all callbacks run on one thread. */
static struct {
	const struct bench_malloc *peer;
	struct count *given; /* [THREADS_MAX], since open() */
	atomic_uint nr_given;
	struct count freed;
} calls;

static void add(struct count *count, size_t n)
{
	n += atomic_load_explicit(&count->n, memory_order_relaxed);
	atomic_store_explicit(&count->n, n, memory_order_release);
}

/* A little more or less while others work. */
static size_t backlog(void)
{
	/* First, or more would be freed than given. */
	size_t freed =
		atomic_load_explicit(&calls.freed.n, memory_order_acquire);
	size_t given = 0;

	for (unsigned int i = 0; i < atomic_load(&calls.nr_given); i++)
		given += atomic_load_explicit(&calls.given[i].n,
					      memory_order_relaxed);
	return given - freed;
}

static int open_call(const struct bench_params *params,
		     const struct bench_malloc *peer, void **shared)
{
	size_t size = THREADS_MAX * sizeof(struct count);

	(void)params;
	calls.peer = peer;
	atomic_store(&calls.nr_given, 0);
	atomic_store(&calls.freed.n, 0);
	calls.given = aligned_alloc(_Alignof(struct count), size);
	if (!calls.given)
		return ENOMEM;
	memset(calls.given, 0, size);
	/* Its thread is made here, where it may run on any CPU, and not in a
	 * window by a pinned thread. */
	if (!get_default_call_rcu_data())
		return ENOMEM;
	*shared = &calls;
	return 0;
}

static int close_call(void *shared)
{
	int err;

	(void)shared;
	rcu_barrier();
	err = backlog() ? EPROTO : 0;
	free(calls.given);
	return err;
}

static int enter(struct bench_thread *t)
{
	unsigned int n = atomic_load(&calls.nr_given);

	if (t->index >= THREADS_MAX)
		return EINVAL;
	while (n <= t->index &&
	       !atomic_compare_exchange_weak(&calls.nr_given, &n, t->index + 1))
		;
	rcu_register_thread();
	return 0;
}

static void leave(struct bench_thread *t)
{
	(void)t;
	rcu_unregister_thread();
}

static void callback(struct rcu_head *head)
{
	calls.peer->free(head);
	add(&calls.freed, 1);
}

BENCH_INLINE void give(const void *ctx, void *obj)
{
	(void)ctx;
	call_rcu(obj, callback);
}

static int run(struct bench_thread *t, unsigned int n)
{
	const struct bench_malloc peer = *calls.peer;
	size_t waiting;
	int err;

	/* Before, or more would be freed than given. */
	add(&calls.given[t->index], n);
	err = bench_rcu_loop(t->params->size, n, &peer, bench_take_malloc,
			     give);
	waiting = backlog();
	bench_rcu_note(t, waiting);
	if (waiting > BENCH_RCU_BOUND)
		rcu_barrier();
	return err;
}

const struct bench_variant bench_rcu_call_malloc = {
	.name = "call_rcu-malloc",
	.peer = "glibc",
	.open = open_call,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = close_call,
};

const struct bench_variant bench_rcu_call_jemalloc = {
	.name = "call_rcu-jemalloc",
	.peer = "jemalloc",
	.open = open_call,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = close_call,
};

const struct bench_variant bench_rcu_call_mimalloc = {
	.name = "call_rcu-mimalloc",
	.peer = "mimalloc",
	.open = open_call,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = close_call,
};

const struct bench_variant bench_rcu_call_tcmalloc = {
	.name = "call_rcu-tcmalloc",
	.peer = "tcmalloc",
	.open = open_call,
	.enter = enter,
	.run = run,
	.leave = leave,
	.close = close_call,
};

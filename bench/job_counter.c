/* SPDX-License-Identifier: MIT */
/*
 * Job counter: add 1 to a count that all threads share.
 *
 * Each variant's add is a call through a pointer in memory, as one into a
 * shared library is, but for pcpool-inline and tls-inline. The latter shows what a bare thread-local word costs
 * without: next to nothing on processors that keep a word in a register when
 * its address is written the same way each time. Variants that are to be exact
 * are checked when they are closed.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include <pcpool/fast.h>

#include "job.h"

/* As the linkage table of a shared library does it. */
#define BENCH_CALL(name)                                                      \
	static void (*volatile name##_entry)(struct shared *, int64_t) = name; \
	BENCH_INLINE void call_##name(struct shared *s, int64_t amount)       \
	{                                                                     \
		name##_entry(s, amount);                                      \
	}

/* What all threads use, in lines of its own. */
struct shared {
	_Alignas(2 * BENCH_CACHE_LINE) struct pcpool_counter counter;
	_Alignas(2 * BENCH_CACHE_LINE) int64_t word;
	/* By threads that left. */
	_Alignas(2 * BENCH_CACHE_LINE) int64_t added;
};

static _Thread_local int64_t tls_word, tls_added;

static int open_shared(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	struct shared *s = aligned_alloc(_Alignof(struct shared), sizeof(*s));
	int err;

	(void)params;
	(void)peer;
	if (!s)
		return ENOMEM;
	*s = (struct shared){ .word = 0 };
	err = pcpool_counter_init(&s->counter, 0);
	if (err) {
		free(s);
		return err;
	}
	*shared = s;
	return 0;
}

static int close_unchecked(void *shared)
{
	struct shared *s = shared;

	pcpool_counter_destroy(&s->counter);
	free(s);
	return 0;
}

static int close_counter(void *shared)
{
	struct shared *s = shared;
	int err = pcpool_counter_sum(&s->counter) == s->added ? 0 : EILSEQ;

	close_unchecked(shared);
	return err;
}

static int close_word(void *shared)
{
	struct shared *s = shared;
	int err = s->word == s->added ? 0 : EILSEQ;

	close_unchecked(shared);
	return err;
}

static void leave(struct bench_thread *t)
{
	struct shared *s = t->shared;

	__atomic_fetch_add(&s->added, tls_added, __ATOMIC_RELAXED);
	tls_added = 0;
}

/* A thread-local count is found by adding up what each thread has. */
static void leave_tls(struct bench_thread *t)
{
	struct shared *s = t->shared;

	__atomic_fetch_add(&s->word, tls_word, __ATOMIC_RELAXED);
	tls_word = 0;
	leave(t);
}

/* --- one add ---------------------------------- */

static void add_atomic(struct shared *s, int64_t amount)
{
	__atomic_fetch_add(&s->word, amount, __ATOMIC_RELAXED);
}
BENCH_CALL(add_atomic)

static void add_tls(struct shared *s, int64_t amount)
{
	(void)s;
	tls_word += amount;
}
BENCH_CALL(add_tls)

/* Loses where threads meet. */
static void add_plain(struct shared *s, int64_t amount)
{
	int64_t old = __atomic_load_n(&s->word, __ATOMIC_RELAXED);

	__atomic_store_n(&s->word, old + amount, __ATOMIC_RELAXED);
}
BENCH_CALL(add_plain)

BENCH_INLINE void call_tls_inline(struct shared *s, int64_t amount)
{
	(void)s;
	tls_word += amount;
	__asm__ volatile("" : : : "memory");
}

BENCH_INLINE void call_counter(struct shared *s, int64_t amount)
{
	pcpool_counter_add(&s->counter, amount);
}

BENCH_INLINE void call_counter_inline(struct shared *s, int64_t amount)
{
	pcpool_fast_counter_add(&s->counter, amount);
}

/* --- variants ---------------------------------- */

BENCH_INLINE int loop(struct bench_thread *t, unsigned int n,
		      void (*add)(struct shared *s, int64_t amount))
{
	for (unsigned int i = 0; i < n; i++)
		add(t->shared, 1);
	tls_added += n;
	return 0;
}

#define RUN(way)                                                              \
	static int run_##way(struct bench_thread *t, unsigned int n)          \
	{                                                                     \
		return loop(t, n, call_##way);                                \
	}
RUN(add_atomic)
RUN(add_tls)
RUN(tls_inline)
RUN(add_plain)
RUN(counter)
RUN(counter_inline)

static const struct bench_variant shared_atomic = {
	.name = "shared-atomic",
	.open = open_shared,
	.run = run_add_atomic,
	.leave = leave,
	.close = close_word,
};

static const struct bench_variant tls = {
	.name = "tls",
	.open = open_shared,
	.run = run_add_tls,
	.leave = leave_tls,
	.close = close_word,
};

static const struct bench_variant tls_inline = {
	.name = "tls-inline",
	.open = open_shared,
	.run = run_tls_inline,
	.leave = leave_tls,
	.close = close_word,
};

static const struct bench_variant plain = {
	.name = "plain",
	.open = open_shared,
	.run = run_add_plain,
	.close = close_unchecked,
};

static const struct bench_variant pcpool = {
	.name = "pcpool",
	.open = open_shared,
	.run = run_counter,
	.leave = leave,
	.close = close_counter,
};

static const struct bench_variant pcpool_inline = {
	.name = "pcpool-inline",
	.open = open_shared,
	.run = run_counter_inline,
	.leave = leave,
	.close = close_counter,
};

static const struct bench_variant pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_shared,
	.run = run_counter,
	.leave = leave,
	.close = close_counter,
};

static const struct bench_variant *const variants[] = {
	&tls, &tls_inline, &plain, &shared_atomic, &pcpool, &pcpool_lock,
	&pcpool_inline,
};

/* Nothing has a size here but the count. */
static const uint64_t sizes[] = { sizeof(int64_t), 0 };

static const struct bench_metric metrics[] = {
	{ "ns_per_add", "ns/add", NULL },
	{ "cpu_ns_per_add", "cpu ns/add", NULL },
};

static unsigned int batch(const struct bench_params *params)
{
	(void)params;
	return 1024;
}

static void measure(const struct bench_window *w, double *value)
{
	value[0] = bench_ns_per_op(w);
	/* Tells more on a machine that has other things to do. */
	value[1] = (double)w->cpu_ns / (double)w->ops;
}

const struct bench_job bench_job_counter = {
	.name = "counter",
	.title = "add to a count",
	.default_sizes = sizes,
	.min_size = sizeof(int64_t),
	.batch = batch,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.measure = measure,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

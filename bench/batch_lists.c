/* SPDX-License-Identifier: MIT */
/* Batch variants on home-made free lists. */
#include <config.h>

#include <stdlib.h>

#include "batch.h"
#include "job.h"
#include "plain.h"

/* --- one list behind a mutex ---------------------------------- */

static int run_mutex_list(struct bench_thread *t, unsigned int n)
{
	struct bench_mutex_list *list = t->shared;

	return bench_batch_loop(t, n, &list, bench_take_mutex_list,
				bench_give_mutex_list);
}

const struct bench_variant bench_batch_mutex_list = {
	.name = "mutex-list",
	.open = bench_open_mutex_list,
	.enter = bench_batch_enter,
	.run = run_mutex_list,
	.leave = bench_batch_leave,
	.close = bench_close_mutex_list,
};

/* --- a list for each thread ---------------------------------- */

static _Thread_local struct bench_list tls_list;

BENCH_INLINE void *take_tls_list(const void *ctx, size_t size)
{
	void *obj = bench_list_pop(&tls_list);

	(void)ctx;
	return __builtin_expect(!obj, 0) ? bench_new_object(size) : obj;
}

BENCH_INLINE void give_tls_list(const void *ctx, void *obj)
{
	(void)ctx;
	bench_list_push(&tls_list, obj);
}

static int run_tls_list(struct bench_thread *t, unsigned int n)
{
	return bench_batch_loop(t, n, NULL, take_tls_list, give_tls_list);
}

static void leave_tls_list(struct bench_thread *t)
{
	bench_free_list(&tls_list);
	bench_batch_leave(t);
}

const struct bench_variant bench_batch_tls_list = {
	.name = "tls-list",
	.enter = bench_batch_enter,
	.run = run_tls_list,
	.leave = leave_tls_list,
};

/* --- the limit ---------------------------------- */

/* As struct bench_lifo, with room for a whole batch: what it holds are the
 * objects that are not out. */
static _Thread_local struct {
	size_t n;
	void **objects;
} tls_lifo;

static int enter_limit(struct bench_thread *t)
{
	tls_lifo.n = 0;
	tls_lifo.objects = calloc(t->params->batch, sizeof(void *));
	if (!tls_lifo.objects)
		return ENOMEM;
	if (bench_batch_enter(t)) {
		free(tls_lifo.objects);
		return ENOMEM;
	}
	return 0;
}

BENCH_INLINE void *take_limit(const void *ctx, size_t size)
{
	(void)ctx;
	if (__builtin_expect(!tls_lifo.n, 0))
		return bench_new_object(size);
	return tls_lifo.objects[--tls_lifo.n];
}

BENCH_INLINE void give_limit(const void *ctx, void *obj)
{
	(void)ctx;
	tls_lifo.objects[tls_lifo.n++] = obj;
}

static int run_limit(struct bench_thread *t, unsigned int n)
{
	return bench_batch_loop(t, n, NULL, take_limit, give_limit);
}

static void leave_limit(struct bench_thread *t)
{
	struct bench_list list = { NULL };

	while (tls_lifo.n)
		bench_list_push(&list, tls_lifo.objects[--tls_lifo.n]);
	bench_free_list(&list);
	free(tls_lifo.objects);
	bench_batch_leave(t);
}

const struct bench_variant bench_batch_limit = {
	.name = "limit",
	.enter = enter_limit,
	.run = run_limit,
	.leave = leave_limit,
};

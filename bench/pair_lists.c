/* SPDX-License-Identifier: MIT */
/* Pair variants on home-made free lists. */
#include <config.h>

#include "job.h"
#include "pair.h"
#include "plain.h"

/* --- one list behind a mutex ---------------------------------- */

static int run_mutex_list(struct bench_thread *t, unsigned int n)
{
	struct bench_mutex_list *list = t->shared;

	return bench_pair_loop(t->params->size, n, &list, bench_take_mutex_list,
			       bench_give_mutex_list);
}

const struct bench_variant bench_pair_mutex_list = {
	.name = "mutex-list",
	.open = bench_open_mutex_list,
	.run = run_mutex_list,
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
	return bench_pair_loop(t->params->size, n, NULL, take_tls_list,
			       give_tls_list);
}

static void leave_tls_list(struct bench_thread *t)
{
	(void)t;
	bench_free_list(&tls_list);
}

const struct bench_variant bench_pair_tls_list = {
	.name = "tls-list",
	.run = run_tls_list,
	.leave = leave_tls_list,
};

/* --- the limit ---------------------------------- */

static _Thread_local struct bench_lifo tls_lifo;

BENCH_INLINE void *take_limit(const void *ctx, size_t size)
{
	void *obj = bench_lifo_pop(&tls_lifo);

	(void)ctx;
	return __builtin_expect(!obj, 0) ? bench_new_object(size) : obj;
}

BENCH_INLINE void give_limit(const void *ctx, void *obj)
{
	(void)ctx;
	bench_lifo_push(&tls_lifo, obj);
}

static int run_limit(struct bench_thread *t, unsigned int n)
{
	return bench_pair_loop(t->params->size, n, NULL, take_limit,
			       give_limit);
}

static void leave_limit(struct bench_thread *t)
{
	struct bench_list list = { NULL };
	void *obj;

	(void)t;
	while ((obj = bench_lifo_pop(&tls_lifo)))
		bench_list_push(&list, obj);
	bench_free_list(&list);
}

const struct bench_variant bench_pair_limit = {
	.name = "limit",
	.run = run_limit,
	.leave = leave_limit,
};

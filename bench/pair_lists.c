/* SPDX-License-Identifier: MIT */
/* Pair variants on home-made free lists. */
#include <config.h>

#include <stdlib.h>

#include "freelist.h"
#include "job.h"
#include "pair.h"

/* An object with a list header; only the first operations get here. */
static __attribute__((noinline)) void *new_node(size_t size)
{
	struct bench_node *node = malloc(sizeof(*node) + size);

	return node ? bench_object(node) : NULL;
}

static void free_list(struct bench_list *list)
{
	struct bench_node *node;

	while (list->head) {
		node = list->head;
		list->head = node->next;
		free(node);
	}
}

/* --- one list behind a mutex ---------------------------------- */

static int open_mutex_list(const struct bench_params *params,
			   const struct bench_malloc *peer, void **shared)
{
	struct bench_mutex_list *list;
	int err;

	(void)params;
	(void)peer;
	list = aligned_alloc(_Alignof(struct bench_mutex_list), sizeof(*list));
	if (!list)
		return ENOMEM;
	list->list.head = NULL;
	err = pthread_mutex_init(&list->lock, NULL);
	if (err) {
		free(list);
		return err;
	}
	*shared = list;
	return 0;
}

static int close_mutex_list(void *shared)
{
	struct bench_mutex_list *list = shared;

	free_list(&list->list);
	pthread_mutex_destroy(&list->lock);
	free(list);
	return 0;
}

BENCH_INLINE void *take_mutex_list(const void *ctx, size_t size)
{
	struct bench_mutex_list *const *list = ctx;
	void *obj = bench_mutex_list_pop(*list);

	return __builtin_expect(!obj, 0) ? new_node(size) : obj;
}

BENCH_INLINE void give_mutex_list(const void *ctx, void *obj)
{
	struct bench_mutex_list *const *list = ctx;

	bench_mutex_list_push(*list, obj);
}

static int run_mutex_list(struct bench_thread *t, unsigned int n)
{
	struct bench_mutex_list *list = t->shared;

	return bench_pair_loop(t->params->size, n, &list, take_mutex_list,
			       give_mutex_list);
}

const struct bench_variant bench_pair_mutex_list = {
	.name = "mutex-list",
	.open = open_mutex_list,
	.run = run_mutex_list,
	.close = close_mutex_list,
};

/* --- a list for each thread ---------------------------------- */

static _Thread_local struct bench_list tls_list;

BENCH_INLINE void *take_tls_list(const void *ctx, size_t size)
{
	void *obj = bench_list_pop(&tls_list);

	(void)ctx;
	return __builtin_expect(!obj, 0) ? new_node(size) : obj;
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
	free_list(&tls_list);
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
	return __builtin_expect(!obj, 0) ? new_node(size) : obj;
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
	free_list(&list);
}

const struct bench_variant bench_pair_limit = {
	.name = "limit",
	.run = run_limit,
	.leave = leave_limit,
};

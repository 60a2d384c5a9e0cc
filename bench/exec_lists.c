/* SPDX-License-Identifier: MIT */
/* Exec variants on home-made free lists of constructed objects. */
#include <config.h>

#include <stdlib.h>

#include "exec.h"
#include "freelist.h"
#include "job.h"

/* What the threads of one variant share. */
struct lists {
	struct bench_mutex_list mutex_list;
	size_t size;
	struct mm_env env;
};

static int open_lists(const struct bench_params *params,
		      const struct bench_malloc *peer, void **shared)
{
	struct lists *l;
	int err;

	(void)peer;
	l = aligned_alloc(_Alignof(struct lists), sizeof(*l));
	if (!l)
		return ENOMEM;
	*l = (struct lists){ .size = params->size };
	err = pthread_mutex_init(&l->mutex_list.lock, NULL);
	if (err) {
		free(l);
		return err;
	}
	*shared = l;
	return 0;
}

/* A constructed object with a list header; only the first cycles get here. */
static __attribute__((noinline)) struct mm_struct *new_node(struct lists *l)
{
	struct bench_node *node = malloc(sizeof(*node) + l->size);
	int err;

	if (!node)
		return NULL;
	err = mm_ctor(node->object, &l->env);
	if (err) {
		free(node);
		errno = err;
		return NULL;
	}
	return bench_object(node);
}

static void free_list(struct bench_list *list, struct mm_env *env)
{
	struct bench_node *node;

	while (list->head) {
		node = list->head;
		list->head = node->next;
		mm_dtor(node->object, env);
		free(node);
	}
}

static int close_lists(void *shared)
{
	struct lists *l = shared;
	int err;

	free_list(&l->mutex_list.list, &l->env);
	pthread_mutex_destroy(&l->mutex_list.lock);
	err = bench_exec_balance(&l->env);
	free(l);
	return err;
}

/* --- one list behind a mutex ---------------------------------- */

BENCH_INLINE struct mm_struct *take_mutex_list(const void *ctx)
{
	struct lists *const *l = ctx;
	void *obj = bench_mutex_list_pop(&(*l)->mutex_list);

	return __builtin_expect(!obj, 0) ? new_node(*l) : obj;
}

BENCH_INLINE void give_mutex_list(const void *ctx, struct mm_struct *mm)
{
	struct lists *const *l = ctx;

	bench_mutex_list_push(&(*l)->mutex_list, mm);
}

static int run_mutex_list(struct bench_thread *t, unsigned int n)
{
	struct lists *l = t->shared;

	return bench_exec_loop(t, n, &l, take_mutex_list, give_mutex_list);
}

const struct bench_variant bench_exec_mutex_list = {
	.name = "mutex-list",
	.open = open_lists,
	.enter = bench_exec_enter,
	.run = run_mutex_list,
	.leave = bench_exec_leave,
	.close = close_lists,
};

/* --- a list for each thread ---------------------------------- */

static _Thread_local struct bench_list tls_list;

BENCH_INLINE struct mm_struct *take_tls_list(const void *ctx)
{
	struct lists *const *l = ctx;
	void *obj = bench_list_pop(&tls_list);

	return __builtin_expect(!obj, 0) ? new_node(*l) : obj;
}

BENCH_INLINE void give_tls_list(const void *ctx, struct mm_struct *mm)
{
	(void)ctx;
	bench_list_push(&tls_list, mm);
}

static int run_tls_list(struct bench_thread *t, unsigned int n)
{
	struct lists *l = t->shared;

	return bench_exec_loop(t, n, &l, take_tls_list, give_tls_list);
}

static void leave_tls_list(struct bench_thread *t)
{
	struct lists *l = t->shared;

	free_list(&tls_list, &l->env);
	bench_exec_leave(t);
}

const struct bench_variant bench_exec_tls_list = {
	.name = "tls-list",
	.open = open_lists,
	.enter = bench_exec_enter,
	.run = run_tls_list,
	.leave = leave_tls_list,
	.close = close_lists,
};

/* --- the limit ---------------------------------- */

static _Thread_local struct bench_lifo tls_lifo;

BENCH_INLINE struct mm_struct *take_limit(const void *ctx)
{
	struct lists *const *l = ctx;
	void *obj = bench_lifo_pop(&tls_lifo);

	return __builtin_expect(!obj, 0) ? new_node(*l) : obj;
}

BENCH_INLINE void give_limit(const void *ctx, struct mm_struct *mm)
{
	(void)ctx;
	bench_lifo_push(&tls_lifo, mm);
}

static int run_limit(struct bench_thread *t, unsigned int n)
{
	struct lists *l = t->shared;

	return bench_exec_loop(t, n, &l, take_limit, give_limit);
}

static void leave_limit(struct bench_thread *t)
{
	struct lists *l = t->shared;
	struct bench_list list = { NULL };
	void *obj;

	while ((obj = bench_lifo_pop(&tls_lifo)))
		bench_list_push(&list, obj);
	free_list(&list, &l->env);
	bench_exec_leave(t);
}

const struct bench_variant bench_exec_limit = {
	.name = "limit",
	.open = open_lists,
	.enter = bench_exec_enter,
	.run = run_limit,
	.leave = leave_limit,
	.close = close_lists,
};

/* SPDX-License-Identifier: MIT */
/*
 * The home-made caches that pcpool is compared with, as one would write them in
 * an hour: last in, first out, objects linked through a header in front of
 * them, so that constructed contents survive.
 *
 *   bench_list   a linked list; behind a mutex, or one for each thread
 *   bench_lifo   a bare array of pointers, for each thread: the least that a
 *                cache can do, and so the limit of all of them
 *
 * Neither gives memory to another thread or back to the system, which is what
 * makes them simple.
 */
#ifndef BENCH_FREELIST_H
#define BENCH_FREELIST_H

#include <pthread.h>
#include <stddef.h>

#include "core.h"

struct bench_node {
	struct bench_node *next;
	/* Keeps the object behind it aligned as malloc would. */
	_Alignas(max_align_t) unsigned char object[];
};

BENCH_INLINE void *bench_object(struct bench_node *node)
{
	return node->object;
}

struct bench_list {
	struct bench_node *head;
};

BENCH_INLINE void *bench_list_pop(struct bench_list *list)
{
	struct bench_node *node = list->head;

	if (!node)
		return NULL;
	list->head = node->next;
	return bench_object(node);
}

BENCH_INLINE void bench_list_push(struct bench_list *list, void *obj)
{
	struct bench_node *node =
		(struct bench_node *)(void *)((char *)obj -
					      offsetof(struct bench_node,
						       object));

	node->next = list->head;
	list->head = node;
}

/* The global list of the mutex-list variants. Lock and head on one line, other
 * data away from it. */
struct bench_mutex_list {
	/* Guards list. */
	_Alignas(2 * BENCH_CACHE_LINE) pthread_mutex_t lock;
	struct bench_list list;
};

BENCH_INLINE void *bench_mutex_list_pop(struct bench_mutex_list *list)
{
	void *obj;

	pthread_mutex_lock(&list->lock);
	obj = bench_list_pop(&list->list);
	pthread_mutex_unlock(&list->lock);
	return obj;
}

BENCH_INLINE void bench_mutex_list_push(struct bench_mutex_list *list,
					void *obj)
{
	pthread_mutex_lock(&list->lock);
	bench_list_push(&list->list, obj);
	pthread_mutex_unlock(&list->lock);
}

#define BENCH_LIFO_MAX 64U

struct bench_lifo {
	size_t n;
	void *objects[BENCH_LIFO_MAX];
};

BENCH_INLINE void *bench_lifo_pop(struct bench_lifo *lifo)
{
	return lifo->n ? lifo->objects[--lifo->n] : NULL;
}

/* The caller has taken what it pushes, so there is room. */
BENCH_INLINE void bench_lifo_push(struct bench_lifo *lifo, void *obj)
{
	lifo->objects[lifo->n++] = obj;
}

#endif /* BENCH_FREELIST_H */

/* SPDX-License-Identifier: MIT */
/* Opening and closing what variants with plain objects share. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "plain.h"

__attribute__((noinline)) void *bench_new_object(size_t size)
{
	struct bench_node *node = malloc(sizeof(*node) + size);

	return node ? bench_object(node) : NULL;
}

void bench_free_list(struct bench_list *list)
{
	struct bench_node *node;

	while (list->head) {
		node = list->head;
		list->head = node->next;
		free(node);
	}
}

int bench_open_mutex_list(const struct bench_params *params,
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

int bench_close_mutex_list(void *shared)
{
	struct bench_mutex_list *list = shared;

	bench_free_list(&list->list);
	pthread_mutex_destroy(&list->lock);
	free(list);
	return 0;
}

int bench_open_malloc(const struct bench_params *params,
		      const struct bench_malloc *peer, void **shared)
{
	(void)params;
	*shared = (void *)(uintptr_t)peer;
	return 0;
}

int bench_open_pcpool(const struct bench_params *params,
		      const struct bench_malloc *peer, void **shared)
{
	(void)peer;
	*shared = pcpool_cache_create("bench", params->size, NULL);
	return *shared ? 0 : errno;
}

/* The thread is made by whoever needs it first, and runs where that one may:
 * here on any CPU, in a window on that of a pinned thread. */
static int start_thread(struct pcpool_cache *cache)
{
	void *obj = pcpool_alloc(cache);

	if (!obj)
		return errno;
	pcpool_free_rcu(cache, obj);
	return pcpool_rcu_barrier(cache);
}

int bench_open_deferred(const struct bench_params *params,
			const struct pcpool_cache_attr *attr, void **shared)
{
	struct pcpool_cache *cache =
		pcpool_cache_create("bench-rcu", params->size, attr);
	int err;

	if (!cache)
		return errno;
	err = start_thread(cache);
	if (err) {
		pcpool_cache_destroy(cache);
		return err;
	}
	*shared = cache;
	return 0;
}

int bench_close_pcpool(void *shared)
{
	return pcpool_cache_destroy(shared);
}

struct pcpool_cache *bench_cache_pcpool(void *shared)
{
	return shared;
}

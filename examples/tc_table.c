/* SPDX-License-Identifier: MIT */
/*
 * The table: lists of liburcu, one for each bucket. Writers lock the bucket,
 * readers nothing. What is removed goes to pcpool_free_rcu(), so that it is not
 * handed out again under a reader.
 */
#include "tc_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <urcu.h>
#include <urcu/rcuhlist.h>

struct tc_bucket {
	/* Held to change the list. */
	pthread_mutex_t lock;
	struct cds_hlist_head head;
};

struct tc_table {
	struct pcpool_cache *actions;
	struct tc_bucket bucket[TC_BUCKETS];
};

struct tc_table *tc_table_create(struct pcpool_cache *actions)
{
	struct tc_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->actions = actions;
	for (unsigned int i = 0; i < TC_BUCKETS; i++) {
		pthread_mutex_init(&table->bucket[i].lock, NULL);
		CDS_INIT_HLIST_HEAD(&table->bucket[i].head);
	}
	return table;
}

static struct tc_bucket *tc_bucket(struct tc_table *table, uint32_t key)
{
	return &table->bucket[key * UINT32_C(2654435761) % TC_BUCKETS];
}

static struct tc_action *tc_find(struct tc_bucket *bucket, uint32_t key)
{
	struct tc_action *action;

	cds_hlist_for_each_entry_rcu_2(action, &bucket->head, node)
		if (action->key == key)
			return action;
	return NULL;
}

struct tc_action *tc_table_find(struct tc_table *table, uint32_t key)
{
	return tc_find(tc_bucket(table, key), key);
}

int tc_table_insert(struct tc_table *table, uint32_t key,
		    enum tc_verdict verdict, bool hardware)
{
	struct tc_bucket *bucket = tc_bucket(table, key);
	struct tc_action *action = pcpool_alloc(table->actions);
	bool exists;

	if (!action)
		return errno;
	/* Checking it each time is for an example. */
	if (!tc_action_is_zero(action)) {
		pcpool_free(table->actions, action);
		return EPROTO;
	}
	tc_action_begin(action, key, verdict, hardware);
	pthread_mutex_lock(&bucket->lock);
	exists = tc_find(bucket, key);
	if (!exists)
		cds_hlist_add_head_rcu(&action->node, &bucket->head);
	pthread_mutex_unlock(&bucket->lock);
	if (!exists)
		return 0;
	/* No reader ever saw it: it needs no grace period. */
	pcpool_free(table->actions, action);
	return EEXIST;
}

int tc_table_remove(struct tc_table *table, uint32_t key)
{
	struct tc_bucket *bucket = tc_bucket(table, key);
	struct tc_action *action;

	pthread_mutex_lock(&bucket->lock);
	action = tc_find(bucket, key);
	if (action)
		cds_hlist_del_rcu(&action->node);
	pthread_mutex_unlock(&bucket->lock);
	if (!action)
		return ENOENT;
	pcpool_free_rcu(table->actions, action);
	return 0;
}

unsigned long tc_table_destroy(struct tc_table *table)
{
	unsigned long removed = 0;

	for (unsigned int i = 0; i < TC_BUCKETS; i++) {
		struct tc_bucket *bucket = &table->bucket[i];

		while (bucket->head.next) {
			struct tc_action *action =
				cds_hlist_entry(bucket->head.next,
						struct tc_action, node);

			cds_hlist_del_rcu(&action->node);
			pcpool_free_rcu(table->actions, action);
			removed++;
		}
		pthread_mutex_destroy(&bucket->lock);
	}
	free(table);
	return removed;
}

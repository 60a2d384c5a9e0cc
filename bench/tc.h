/* SPDX-License-Identifier: MIT */
/*
 * The loop all tc variants share: take a built action, insert it into a table
 * of filters, find it there by its key and remove it, give it back. See pair.h
 * for how take, give and ctx come to cost nothing.
 */
#ifndef BENCH_TC_H
#define BENCH_TC_H

#include <errno.h>
#include <stddef.h>

#include "../examples/tc_action.h"
#include "core.h"
#include "touch.h"

/* The touch writes the first and last byte of the object: they have to belong
 * to a use, not to the constructed state. */
_Static_assert(offsetof(struct tc_action, key) == 0, "first line is touched");
_Static_assert(offsetof(struct tc_action, node) +
			       sizeof(struct cds_hlist_node) ==
		       sizeof(struct tc_action),
	       "last line is touched");

#define BENCH_TC_BUCKETS 64U

/* A thread's own table, as t->own, see job_tc.c. */
struct bench_tc_table {
	uint32_t next_key;
	struct cds_hlist_head bucket[BENCH_TC_BUCKETS];
};

BENCH_INLINE struct cds_hlist_head *
bench_tc_bucket(struct bench_tc_table *table, uint32_t key)
{
	return &table->bucket[key * UINT32_C(2654435761) % BENCH_TC_BUCKETS];
}

BENCH_INLINE struct tc_action *bench_tc_find(struct bench_tc_table *table,
					     uint32_t key)
{
	struct tc_action *action;

	cds_hlist_for_each_entry_2(action, bench_tc_bucket(table, key), node)
		if (action->key == key)
			break;
	return action;
}

BENCH_INLINE int bench_tc_loop(const struct bench_thread *t, unsigned int n,
			       const void *ctx,
			       struct tc_action *(*take)(const void *ctx),
			       void (*give)(const void *ctx,
					    struct tc_action *action))
{
	struct bench_tc_table *table = t->own;
	const uint32_t work = t->params->work;
	const size_t size = t->params->size;

	for (unsigned int i = 0; i < n; i++) {
		uint32_t key = table->next_key++;
		struct tc_action *action = take(ctx);

		if (__builtin_expect(!action, 0))
			return errno ? errno : ENOMEM;
		bench_touch(action, size);
		tc_action_begin(action, key, TC_DROP, true);
		cds_hlist_add_head(&action->node, bench_tc_bucket(table, key));
		/* Other code would run now, and the table lie in memory. */
		bench_forget();
		for (uint32_t w = 0; w < work; w++)
			tc_action_count(bench_tc_find(table, key), 64);
		action = bench_tc_find(table, key);
		cds_hlist_del(&action->node);
		give(ctx, action);
		bench_forget();
	}
	return 0;
}

/* The enter() and leave() of all tc variants, see job_tc.c. */
int bench_tc_enter(struct bench_thread *t);
void bench_tc_leave(struct bench_thread *t);

#endif /* BENCH_TC_H */

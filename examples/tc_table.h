/* SPDX-License-Identifier: MIT */
/*
 * A table of actions by key: filters that are inserted and removed by any
 * thread, while others look them up under RCU, with no lock.
 */
#ifndef TC_TABLE_H
#define TC_TABLE_H

#include "tc_action.h"

#define TC_BUCKETS 256U

struct tc_table;

/** A table that takes its actions from this cache, of liburcu-memb's flavour.
 *  Returns NULL with errno. */
struct tc_table *tc_table_create(struct pcpool_cache *actions);

/** Remove what is left, and free the table. Returns how many that was. */
unsigned long tc_table_destroy(struct tc_table *table);

/** Returns 0, EEXIST, EPROTO when the statistics do not begin at zero, or an
 *  errno value of pcpool_alloc(). */
int tc_table_insert(struct tc_table *table, uint32_t key,
		    enum tc_verdict verdict, bool hardware);

/** Remove it; readers that have it keep it. Returns 0 or ENOENT. */
int tc_table_remove(struct tc_table *table, uint32_t key);

/** Inside a reader, whose end is the end of what is returned. */
struct tc_action *tc_table_find(struct tc_table *table, uint32_t key);

#endif /* TC_TABLE_H */

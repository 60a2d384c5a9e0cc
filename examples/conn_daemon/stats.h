/* SPDX-License-Identifier: MIT */
/*
 * What the daemon counts, in one per-CPU region: each loop adds to the copy of
 * its CPU, with no lock, no atomic instruction and no cache line that another
 * loop writes. A page sums the copies.
 */
#ifndef CONN_STATS_H
#define CONN_STATS_H

#include <stdint.h>

#include <pcpool/percpu.h>

/** One CPU's copy. Only the sum over all copies means something. */
struct counters {
	uint64_t accepted;
	uint64_t closed; /**< of the accepted ones */
	uint64_t refused;
	uint64_t timed_out;
	uint64_t accept_failed;
	uint64_t built; /**< connections constructed */
	uint64_t build_failed;
	uint64_t torn_down;
	uint64_t requests;
	uint64_t ok;	 /**< responses 2xx */
	uint64_t bad;	 /**< responses 4xx */
	uint64_t failed; /**< responses 5xx */
	uint64_t bytes_in;
	uint64_t bytes_out;
	uint64_t maintain; /**< calls of pcpool_maintain() */
	uint64_t maintain_failed;
};

/** A per-CPU pointer: not to be dereferenced. */
extern struct counters *counters;

/** Returns 0 or an errno value. */
int counters_init(void);
void counters_exit(void);

#define count_add(field, n) pcpool_this_cpu_add(&counters->field, (n))
#define count(field) count_add(field, 1)

/** The sums, each copy read once. */
void counters_sum(struct counters *sum);

#endif /* CONN_STATS_H */

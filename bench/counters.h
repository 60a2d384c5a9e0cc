/* SPDX-License-Identifier: MIT */
/*
 * The counters of a variant's cache as metrics, each under the name it has in
 * struct pcpool_cache_stats: what the library counts, per million operations
 * of the window; what it holds and is like, as it is at the window's end.
 */
#ifndef BENCH_COUNTERS_H
#define BENCH_COUNTERS_H

#include "core.h"

extern const struct bench_metric bench_counters[];
extern const unsigned int bench_nr_counters;

/** Fill value[0..bench_nr_counters-1]; NAN for a variant without a cache. */
void bench_counters_measure(const struct bench_variant *variant,
			    const struct bench_window *w, double *value);

#endif /* BENCH_COUNTERS_H */

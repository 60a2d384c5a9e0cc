/* SPDX-License-Identifier: MIT */
/* One timed window: threads, pinned, that repeat a variant's operation. */
#ifndef BENCH_WINDOW_H
#define BENCH_WINDOW_H

#include "core.h"

/** Learn which CPUs may be used. Returns 0 or an errno value. */
int bench_cpus_init(void);

/** Pin the caller to one, round robin. Returns 0 or an errno value. */
int bench_pin(unsigned int index);

/** How many those are. */
unsigned int bench_nr_cpus(void);

/**
 * Run one window of an opened variant. shared: what its open() made. Returns 0
 * with *w filled, or the errno value of the first thing that failed.
 */
int bench_run_window(const struct bench_job *job,
		     const struct bench_variant *variant, void *shared,
		     const struct bench_params *params, struct bench_window *w);

#endif /* BENCH_WINDOW_H */

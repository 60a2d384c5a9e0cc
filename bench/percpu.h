/* SPDX-License-Identifier: MIT */
/* What job percpu and its variants agree on. */
#ifndef BENCH_PERCPU_H
#define BENCH_PERCPU_H

/* Regions the bulk variant takes with one call; it divides what is done between
 * two looks at the stop flag. */
#define BENCH_PERCPU_BULK 64U
#define BENCH_PERCPU_BATCH (4 * BENCH_PERCPU_BULK)

#endif /* BENCH_PERCPU_H */

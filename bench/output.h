/* SPDX-License-Identifier: MIT */
/* What pcpool-bench prints: JSON lines, tables for people, progress. */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <stdio.h>

#include "options.h"
#include "summary.h"
#include "worker.h"

struct bench_output {
	FILE *json; /**< NULL: none wanted */
	FILE *table;
	bool progress; /**< someone looks at stderr */
};

/** One line of the table, and as many JSON lines as there are metrics. */
struct bench_row {
	const char *label; /**< the variant */
	const char *order; /**< NULL: the job has one only */
	const char *error; /**< NULL when it ran */
	unsigned int reps; /**< windows that gave a result */
	struct bench_summary metric[BENCH_METRICS_MAX];
};

/** Returns 0, or an errno value when o->json cannot be written. */
int bench_output_open(struct bench_output *out, const struct bench_options *o);

/** Returns 0, or an errno value when not all could be written. */
int bench_output_close(struct bench_output *out);

/** The machine: first line of both outputs. */
void bench_output_machine(struct bench_output *out,
			  const struct bench_probe *probe);

/** The results for one number of threads and one size. */
void bench_output_rows(struct bench_output *out, const struct bench_options *o,
		       const struct bench_params *params,
		       const struct bench_probe *probe,
		       const struct bench_row *rows, unsigned int n);

/** A variant that failed after its last window. */
void bench_output_late_error(struct bench_output *out,
			     const struct bench_options *o, const char *label,
			     const char *error);

/** Say on a terminal which variant is running; NULL wipes it. */
void bench_output_progress(struct bench_output *out,
			   const struct bench_options *o,
			   const struct bench_params *params, unsigned int rep,
			   const char *label);

#endif /* BENCH_OUTPUT_H */

/* SPDX-License-Identifier: MIT */
/* The command line of pcpool-bench. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "core.h"

#define BENCH_LIST_MAX 64U

struct bench_options {
	const struct bench_job *job; /**< NULL only with list */
	bool list;
	unsigned int nr_threads;
	uint32_t threads[BENCH_LIST_MAX];
	unsigned int nr_sizes;
	uint64_t sizes[BENCH_LIST_MAX];
	/** Indexes into job->variants, in the order to run them. */
	unsigned int nr_variants;
	unsigned int variants[BENCH_LIST_MAX];
	bool variants_named; /**< by --variants */
	unsigned int reps;
	uint64_t window_ns;
	uint32_t work;
	unsigned int slots; /**< 0: real */
	const char *json;   /**< file name, "-", or NULL */
};

enum bench_parsed { BENCH_RUN, BENCH_DONE, BENCH_BAD };

/** Parse. BENCH_DONE: help or version was printed. BENCH_BAD: what is wrong was
 *  said on stderr. */
enum bench_parsed bench_parse(int argc, char **argv, struct bench_options *o);

#endif /* BENCH_OPTIONS_H */

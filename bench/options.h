/* SPDX-License-Identifier: MIT */
/* The command line of pcpool-bench. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "core.h"

#define BENCH_LIST_MAX 64U
#define BENCH_LABEL_MAX 128U

/** A variant to run, as --variants names it: "pcpool+mode:lock+parking:off" is
 *  the variant pcpool with these entries at the end of its PCPOOL_OPTIONS. */
struct bench_choice {
	unsigned int index; /**< into job->variants */
	char label[BENCH_LABEL_MAX];
	char options[BENCH_LABEL_MAX]; /**< "mode:lock,parking:off", or "" */
};

struct bench_options {
	const struct bench_job *job; /**< NULL only with list */
	bool list;
	unsigned int nr_threads;
	uint32_t threads[BENCH_LIST_MAX];
	unsigned int nr_sizes;
	uint64_t sizes[BENCH_LIST_MAX];
	/** In the order to run them. */
	unsigned int nr_variants;
	struct bench_choice variants[BENCH_LIST_MAX];
	bool variants_named; /**< by --variants */
	unsigned int reps;
	uint64_t window_ns;
	uint32_t work;
	/** One 0 where the job has no --live. */
	unsigned int nr_lives;
	uint64_t lives[BENCH_LIST_MAX];
	uint32_t batch;
	bool counters;	    /**< show a cache's counters */
	unsigned int slots; /**< 0: real */
	const char *json;   /**< file name, "-", or NULL */
};

enum bench_parsed { BENCH_RUN, BENCH_DONE, BENCH_BAD };

/** How many metrics are wanted. */
unsigned int bench_nr_metrics(const struct bench_options *o);

/** Parse. BENCH_DONE: help or version was printed. BENCH_BAD: what is wrong was
 *  said on stderr. */
enum bench_parsed bench_parse(int argc, char **argv, struct bench_options *o);

#endif /* BENCH_OPTIONS_H */

/* SPDX-License-Identifier: MIT */
/*
 * What the parts of pcpool-bench agree on.
 *
 * One run is: the driver (drive.c) starts one worker process for each variant,
 * and asks them in turn, a b c, a b c, for one timed window each; a window
 * (window.c) is some pinned threads that repeat the variant's operation until
 * told to stop. A job (job_*.c) names its variants and says which metrics come
 * out of a window; a variant says how one batch of operations is done.
 *
 * To add a job: a job_x.c with a struct bench_job, files with its variants, and
 * a line in jobs.c. Nothing else has to know.
 */
#ifndef BENCH_CORE_H
#define BENCH_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_METRICS_MAX 8U
#define BENCH_CACHE_LINE 64U

/** Inlined whatever the compiler thinks: calls in a timed loop that the
 *  variant does not ask for would be counted as its cost. */
#define BENCH_INLINE static inline __attribute__((always_inline))

/** What one window is to do; sent to the worker as it is. */
struct bench_params {
	uint32_t threads;
	uint32_t work; /**< exec-like bodies per cycle; 0: the bare cycle */
	uint64_t size; /**< object size in bytes */
	uint64_t window_ns;
};

/** What a window did, over all threads. */
struct bench_window {
	unsigned int threads;
	unsigned int cpus; /**< CPUs they ran on: allowed ones */
	uint64_t ops;
	uint64_t elapsed_ns; /**< first thread's start to last thread's end */
	uint64_t cpu_ns;
	uint64_t region_locks; /**< region allocator's locks taken meanwhile */
};

/** One of the malloc implementations, loaded. */
struct bench_malloc {
	void *(*malloc)(size_t size);
	void (*free)(void *obj);
};

/**
 * One thread of a window. Lines of its own: the counts are written while other
 * threads run.
 */
struct bench_thread {
	_Alignas(2 * BENCH_CACHE_LINE) const struct bench_params *params;
	void *shared;	    /**< what the variant's open() made */
	void *own;	    /**< the variant's, for enter() and leave() */
	unsigned int index; /**< 0 to params->threads - 1 */
	unsigned int cpu;   /**< pinned to it */
	uint64_t ops;
	uint64_t cpu_ns;
	uint64_t start_ns;
	uint64_t end_ns;
	int error;
};

/**
 * One way of doing a job's operation. Functions return 0 or an errno value;
 * all but run may be NULL.
 */
struct bench_variant {
	const char *name;
	/** The malloc it needs ("jemalloc", …), or NULL. */
	const char *peer;
	/** Added to PCPOOL_OPTIONS for its process, or NULL. */
	const char *options;
	/** Before the first window with these sizes. */
	int (*open)(const struct bench_params *params,
		    const struct bench_malloc *peer, void **shared);
	/** In each thread, before the window. */
	int (*enter)(struct bench_thread *t);
	/** n operations, timed. */
	int (*run)(struct bench_thread *t, unsigned int n);
	/** In each thread, after the window. */
	void (*leave)(struct bench_thread *t);
	/** Undo open(), and check what can be checked then. */
	int (*close)(void *shared);
};

struct bench_metric {
	const char *name;    /**< in JSON */
	const char *heading; /**< in the table */
};

struct bench_job {
	const char *name;
	const char *title;
	/** Used where --size is not given, and the smallest allowed. */
	size_t default_size;
	size_t min_size;
	/** Whether --work means something. */
	bool has_work;
	/** Operations between two looks at the stop flag. */
	unsigned int (*batch)(const struct bench_params *params);
	const struct bench_metric *metrics;
	unsigned int nr_metrics;
	/** Fill value[0..nr_metrics-1]. */
	void (*measure)(const struct bench_window *w, double *value);
	const struct bench_variant *const *variants;
	unsigned int nr_variants;
};

/** All jobs of this build. */
extern const struct bench_job *const bench_jobs[];
extern const unsigned int bench_nr_jobs;

/** NULL when there is none of that name. */
const struct bench_job *bench_find_job(const char *name);
const struct bench_variant *bench_find_variant(const struct bench_job *job,
					       const char *name);

/**
 * Nanoseconds of one operation as one CPU sees it: the time of the window,
 * times the CPUs that worked in it (no more than there are threads), over the
 * operations of all threads. Two threads that each do as much as one alone give
 * the same number; 16 threads on 2 CPUs count 2.
 */
double bench_ns_per_op(const struct bench_window *w);

#endif /* BENCH_CORE_H */

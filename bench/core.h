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

#include <pcpool/stats.h>

/** A job's own metrics, and with them the counters of a cache (counters.h). */
#define BENCH_JOB_METRICS_MAX 8U
#define BENCH_COUNTERS_MAX 80U
#define BENCH_METRICS_MAX (BENCH_JOB_METRICS_MAX + BENCH_COUNTERS_MAX)
/** Parts of an operation that are timed apart. */
#define BENCH_PHASES 2U
#define BENCH_ORDERS_MAX 4U
#define BENCH_CACHE_LINE 64U

/** Inlined whatever the compiler thinks: calls in a timed loop that the
 *  variant does not ask for would be counted as its cost. */
#define BENCH_INLINE static inline __attribute__((always_inline))

/** What one window is to do; sent to the worker as it is. */
struct bench_params {
	uint32_t threads;
	uint32_t work;	/**< what is done per cycle; 0: the bare cycle */
	uint32_t batch; /**< objects taken together; 0 where none are */
	uint32_t order; /**< index into the job's orders */
	uint64_t size;	/**< object size in bytes */
	uint64_t live;	/**< objects alive meanwhile; 0 where none are */
	uint64_t window_ns;
};

/** A point in time, or a sum of spans (clock.h). */
struct bench_clock {
	uint64_t ns;
	uint64_t cycles; /**< 0 where there is no such counter to read */
};

/** What a window did, over all threads. */
struct bench_window {
	unsigned int threads;
	unsigned int cpus; /**< CPUs they ran on: allowed ones */
	uint64_t ops;
	uint64_t elapsed_ns; /**< first thread's start to last thread's end */
	uint64_t cpu_ns;     /**< of these threads */
	uint64_t process_ns; /**< CPU time of all threads, libraries' too */
	struct bench_clock phase[BENCH_PHASES];
	uint64_t peak;	       /**< the greatest of the threads' */
	uint64_t region_locks; /**< region allocator's locks taken meanwhile */
	/** The variant's cache at both ends; clear if it has none. */
	struct pcpool_cache_stats before, after;
};

/** One of the malloc implementations, loaded. */
struct bench_malloc {
	void *(*malloc)(size_t size);
	void (*free)(void *obj);
	/** Give back what the calling thread keeps, and then what the library
	 *  does. NULL: it has no such call. */
	void (*idle)(void);
	void (*trim)(void);
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
	/** What run() adds up and finds, if the job wants it; cleared between
	 *  warm-up and window. undone: operations it was asked for and that
	 *  do not count. */
	uint64_t undone;
	bool busy; /**< it has found something to do */
	struct bench_clock phase[BENCH_PHASES];
	uint64_t peak;
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
	/** What open() makes is for so many threads only. */
	bool sized_by_threads;
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
	/** The cache whose counters tell about it. */
	struct pcpool_cache *(*cache)(void *shared);
};

struct bench_metric {
	const char *name;    /**< in JSON */
	const char *heading; /**< in the table; NULL: not there */
	const char *kind;    /**< in JSON, of a counter; else NULL */
};

struct bench_job {
	const char *name;
	const char *title;
	/** Used where --size is not given, a 0 at the end; and what is
	 *  allowed. max_size 0: as for objects of a cache. */
	const uint64_t *default_sizes;
	size_t min_size;
	size_t max_size;
	/** The same for --threads; NULL: 1 and 2. threads_step: they come in
	 *  groups of so many, where that is not 0. */
	const uint32_t *default_threads;
	uint32_t threads_step;
	/** With --slots the default is a thread for each, up to so many. */
	uint32_t threads_by_slots;
	/** A run() may find nothing to do: a window lasts until each thread has
	 *  been busy. Must be so in the end, whoever stops first. */
	bool waits;
	/** Whether a new thread will do; if not, it is set aside and another
	 *  one made. Called in that thread, pinned, for one at a time and in
	 *  the order of their index. NULL: all do. */
	bool (*admit)(const struct bench_thread *t);
	/** Whether --work means something, and what is meant without it. */
	bool has_work;
	uint32_t default_work;
	/** The same of --live. */
	bool has_live;
	uint64_t default_live;
	uint64_t min_live;
	/** Whether a cache's counters are shown without --counters. */
	bool has_counters;
	/** Used where --batch is not given; 0: the job has none. */
	uint32_t default_batch;
	/** Names of the orders every variant runs in, a NULL at the end; NULL:
	 *  there is only one. */
	const char *const *orders;
	/** Operations between two looks at the stop flag. */
	unsigned int (*batch)(const struct bench_params *params);
	const struct bench_metric *metrics;
	unsigned int nr_metrics;
	/** Fill value[0..nr_metrics-1]; NAN for what cannot be had here. */
	void (*measure)(const struct bench_window *w, double *value);
	/** Instead of measure(), and of threads that call run(): do a window in
	 *  a way of its own. shared: what the variant's open() made. Returns 0
	 *  or an errno value. */
	int (*window)(void *shared, const struct bench_params *params,
		      double *value);
	/** The name of what the job needs and is not here, or NULL. */
	const char *(*missing)(void);
	const struct bench_variant *const *variants;
	unsigned int nr_variants;
};

/** All jobs of this build. */
extern const struct bench_job *const bench_jobs[];
extern const unsigned int bench_nr_jobs;

/** A job's own metrics come first, then the counters. */
const struct bench_metric *bench_metric(const struct bench_job *job,
					unsigned int i);

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

/** The same of a part of the operation, by a sum over all threads. */
double bench_per_op(const struct bench_window *w, uint64_t sum);

#endif /* BENCH_CORE_H */

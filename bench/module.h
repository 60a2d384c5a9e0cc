/* SPDX-License-Identifier: MIT */
/*
 * Peers in modules of their own: those that need headers of theirs to be
 * compiled, or more libraries than should be in the processes of others. A
 * module is built when configure finds what it needs, lies beside this program,
 * and is loaded by the processes that measure it. It uses functions of this
 * program for what its variants share with others.
 */
#ifndef BENCH_MODULE_H
#define BENCH_MODULE_H

#include "core.h"

#define BENCH_MODULE_JOBS 3U

/** What a module exports, as "bench_module". */
struct bench_module {
	const char *(*version)(void);
	struct {
		const char *job;
		const struct bench_variant *variant;
	} jobs[BENCH_MODULE_JOBS];
};

/** Stand in the jobs' lists for what the modules have. */
extern const struct bench_variant bench_apr;
extern const struct bench_variant bench_rte_mempool;

/** The module of that name, or NULL: it was not built or cannot be loaded. */
const struct bench_module *bench_load_module(const char *name);

/** Its variant for a job, or NULL. */
const struct bench_variant *bench_module_variant(const struct bench_module *m,
						 const char *job);

#endif /* BENCH_MODULE_H */

/* SPDX-License-Identifier: MIT */
/* The driver's side of the worker processes: start them, ask them, end them. */
#ifndef BENCH_DRIVE_H
#define BENCH_DRIVE_H

#include <sys/types.h>

#include "worker.h"

struct bench_worker {
	pid_t pid; /**< 0: not running */
	int fd;
	/** Why it is of no use any more; "" while it is. */
	char error[160];
};

/**
 * Find out what the workers will have; slots as for bench_start(). Asks
 * processes of their own, so that this one stays free of the libraries that are
 * measured. Returns 0, or an errno value with w->error filled.
 */
int bench_probe_all(struct bench_worker *w, struct bench_probe *probe,
		    unsigned int slots);

/**
 * Start the worker of one variant. options: added to PCPOOL_OPTIONS after all
 * others, or "". slots: virtual slots, or 0. Returns 0, or an errno value with
 * error filled.
 */
int bench_start(struct bench_worker *w, const struct bench_job *job,
		const struct bench_variant *variant, const char *options,
		unsigned int slots);

/** Ask for one window, and wait for it. Returns 0, or an errno value with
 *  error filled: the worker is ended then. */
int bench_ask_window(struct bench_worker *w, const struct bench_params *params,
		     double *value);

/** Close the variant and end the worker. Returns 0, or an errno value with
 *  error filled when its last check failed. */
int bench_end(struct bench_worker *w);

#endif /* BENCH_DRIVE_H */

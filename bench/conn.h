/* SPDX-License-Identifier: MIT */
/* Job conn's child processes: the daemon of examples/conn_daemon, and wrk. */
#ifndef BENCH_CONN_H
#define BENCH_CONN_H

#include <stdbool.h>
#include <sys/types.h>

#include "core.h"

/** A daemon that runs, or none. */
struct conn_daemon {
	const char *program; /**< its file's name */
	pid_t pid;	     /**< 0: none runs */
	unsigned int port;
	int out;		    /**< what it prints */
	struct bench_params params; /**< it was started for */
};

/** What one load came to. */
struct conn_load {
	double requests;
	double seconds;
	double p99_us;
	double daemon_cpu_ns;
};

/** What this job needs that is not here, or NULL. */
const char *conn_missing(void);

/** Have a daemon for these params running. Returns 0 or an errno value. */
int conn_daemon_start(struct conn_daemon *d, const struct bench_params *params);

/** End it. Returns 0 if its balance was even, else an errno value. */
int conn_daemon_stop(struct conn_daemon *d);

/** Bytes of memory it has now; 0 if that cannot be told. */
double conn_daemon_rss(const struct conn_daemon *d);

/** Let wrk ask it for the window, at least a second. close: a connection for
 *  each request. Returns 0 or an errno value. */
int conn_run(const struct conn_daemon *d, bool close, struct conn_load *load);

#endif /* BENCH_CONN_H */

/* SPDX-License-Identifier: MIT */
/* What the command line decides. Set before the threads start, read by all. */
#ifndef CONN_SETTINGS_H
#define CONN_SETTINGS_H

#include <stddef.h>

struct settings {
	const char *address; /**< numeric, IPv4 or IPv6 */
	unsigned int port;   /**< 0: the system chooses */
	unsigned int threads;
	unsigned int max_connections;
	/** A connection without a complete request for so long is closed. */
	unsigned int idle_ms;
	/** How long requests under way may take once the daemon is to end. */
	unsigned int drain_ms;
	unsigned int maintain_ms;
	/** Bytes of each of the two I/O buffers of a connection; the input one
	 *  bounds a request's head. */
	size_t buffer;
	/** Bytes of a request's body. */
	size_t max_body;
	/** When not 0, every fail_every-th construction fails, to try that. */
	unsigned int fail_every;
};

/** The smallest buffer: room for one response's head and fixed body. */
#define SETTINGS_BUFFER_MIN 1024U
#define SETTINGS_BUFFER_MAX 524288U

#endif /* CONN_SETTINGS_H */

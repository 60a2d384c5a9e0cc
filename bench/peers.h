/* SPDX-License-Identifier: MIT */
/* The allocators that the variants are compared with: malloc implementations,
 * and others in modules. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "core.h"

#define BENCH_PEERS_MAX 8U

/** Names of the peers, NULL-terminated; "glibc" stands for the malloc of
 *  this process's own C library and is always there. */
extern const char *const bench_peers[];

/**
 * Load one, privately: its malloc replaces nobody's in this process. Of a
 * module *peer stays clear. version:
 * of vlen bytes, filled with what the library says of itself.
 *
 * Returns 0, or ENOENT when it is not installed or lacks what is needed.
 */
int bench_load_peer(const char *name, struct bench_malloc *peer, char *version,
		    size_t vlen);

#endif /* BENCH_PEERS_H */

/* SPDX-License-Identifier: MIT */
/*
 * Where connections come from: the one place where the two programs differ.
 * conn_daemon keeps them in a cache of pcpool; conn_daemon_malloc, compiled
 * with CONN_MALLOC, builds each one anew, as programs do without such a cache.
 */
#ifndef CONN_ALLOC_H
#define CONN_ALLOC_H

#include <stddef.h>

struct conn;
struct conn_env;
struct pcpool_cache;

/** "pcpool" or "malloc" */
extern const char *const conn_alloc_name;

/** env must live until conn_alloc_exit(). Returns 0 or an errno value. */
int conn_alloc_init(struct conn_env *env);

/**
 * Every connection was given back: tear them down. live: how many were not.
 * Returns 0 or an errno value.
 */
int conn_alloc_exit(unsigned long long *live);

/** A connection, built and reset; NULL with errno if there is none. */
struct conn *conn_get(void);
void conn_put(struct conn *c);

/** A connection's buffer, for its constructor and destructor. */
char *conn_buffer_get(void);
void conn_buffer_put(char *buffer);

/** Let go what lately was not needed: to be called every second or so. Returns
 *  0, EAGAIN to be called again soon, or another errno value. */
int conn_alloc_maintain(void);

/** The i-th cache, for the pages; NULL behind the last one. */
struct pcpool_cache *conn_alloc_cache(unsigned int i);

#endif /* CONN_ALLOC_H */

/* SPDX-License-Identifier: MIT */
/*
 * A connection: the object this daemon keeps constructed.
 *
 * Dear to make, and the same for each client: the two I/O buffers. They belong
 * to the constructor, conn_ctor(), so that accepting a client costs no
 * allocation once the cache is warm. What differs from client to client is set
 * by conn_reset(), which the cache runs on every hand-out. conn_end() leaves
 * nothing behind that conn_reset() would not put right.
 */
#ifndef CONN_CONN_H
#define CONN_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http.h"
#include "settings.h"

struct loop;

/** A circular, doubly linked list; an empty one points at itself. */
struct link {
	struct link *next;
	struct link *prev;
};

/** When a connection is to be closed. All wait equally long, so a loop's list
 *  of them is in order if each goes to its end when set anew. */
struct timer {
	struct link link; /**< first; built: in no list */
	uint64_t due_ms;
};

enum conn_page {
	PAGE_ROOT,
	PAGE_STATS_TEXT,
	PAGE_STATS_JSON,
	PAGE_METRICS,
	PAGE_NOT_FOUND,
	PAGE_NO_METHOD,
};

struct conn {
	/** First, so that a list's link leads to the connection. */
	struct timer timer;
	int fd;
	uint32_t watched; /**< what epoll watches for */
	struct loop *loop;

	/** Built by the constructor: settings.buffer bytes each. */
	char *in;
	char *out;
	size_t size;
	struct http_parser parser;

	size_t in_at;  /**< what is before was dealt with */
	size_t in_end; /**< what is behind did not come yet */
	size_t out_at; /**< what is before was sent */
	size_t out_end;

	/** A body too large for out, to be sent after it: from malloc, for the
	 *  rare pages that need one. Built: NULL, 0, 0. */
	char *page;
	size_t page_at;
	size_t page_len;

	enum conn_page wanted; /**< by the request whose body is read */
	bool in_body;	       /**< its head is complete */
	bool closing;	       /**< close when all is sent */
	bool linger;	       /**< and it is our wish alone */
	bool peer_done;	       /**< and the peer sends nothing more */
};

/** What the constructor is told. It counts into the daemon's counters: after
 *  the cache's end as many connections were torn down as were built. */
struct conn_env {
	const struct settings *settings;
	atomic_uint tried; /**< constructions, for settings->fail_every */
};

/** arg is a struct conn_env. */
int conn_ctor(void *obj, void *arg);
void conn_dtor(void *obj, void *arg);
void conn_reset(void *obj, void *arg);

/** Serve a new client with a connection fresh from conn_get(). */
void conn_begin(struct conn *c, struct loop *loop, int fd);

/** epoll says something about it. */
void conn_event(struct conn *c, uint32_t events);

/** Close it, and give it back. */
void conn_end(struct conn *c);

/** The loop is to end: close it now unless a request is under way. */
void conn_drain(struct conn *c);

/** Its time is over. */
void conn_time_out(struct conn *c);

#endif /* CONN_CONN_H */

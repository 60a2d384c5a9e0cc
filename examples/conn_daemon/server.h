/* SPDX-License-Identifier: MIT */
/*
 * One loop per thread: a listening socket of its own (SO_REUSEPORT, so that the
 * kernel deals the clients out), its clients, their timers. Loops share nothing
 * but the count of connections and what pcpool shares for them.
 */
#ifndef CONN_SERVER_H
#define CONN_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "conn.h"
#include "settings.h"

/** Sockets that are closed a little later, see loop_linger(). */
#define LINGER_MAX 64U

struct loop {
	const struct settings *settings;
	unsigned int index;
	unsigned int cpu;
	pthread_t thread;
	int epoll_fd;
	int listen_fd; /**< -1 once the daemon is to end */
	int wake_fd;
	bool deaf; /**< does not watch listen_fd for a while */
	bool draining;
	uint64_t now_ms;
	uint64_t drain_end_ms;
	uint64_t listen_again_ms;
	uint64_t maintain_ms; /**< when to do it next; loop 0 only */
	/** Connections by when they time out, the next one first. */
	struct link timers;
	struct {
		int fd;
		uint64_t due_ms;
	} linger[LINGER_MAX];
	unsigned int linger_first;
	unsigned int nr_linger;
	/** The Date field for this second. */
	int64_t date_s;
	char date[40];
};

struct server {
	const struct settings *settings;
	unsigned int port;
	unsigned int nr_loops; /**< started */
	struct loop *loops;
};

/** Bind and start the threads. Returns 0, or an errno value with *what set. */
int server_start(struct server *s, const struct settings *settings,
		 const char **what);

/** Begin to end: no new clients, requests under way are finished. A second call
 *  does not wait for these. Returns at once. */
void server_stop(struct server *s);

/** Whether all loops have ended. */
bool server_ended(void);

/** Wait for the threads, and undo server_start(). */
void server_join(struct server *s);

/** Connections open now, and seconds since the start. */
unsigned int server_active(void);
uint64_t server_uptime(void);

/* --- for the connections of a loop ---------------------------------------- */

/** Set what to watch a connection for. Returns 0 or an errno value. */
int loop_watch(struct loop *loop, struct conn *c, uint32_t events);

/** Set its timer anew: it has idle_ms from now. */
void loop_touch(struct loop *loop, struct conn *c);

/** It is gone: stop its timer, count it out. */
void loop_forget(struct loop *loop, struct conn *c);

/**
 * Close a socket in a way that the last response arrives. close() while there
 * is input nobody read makes the kernel reset the connection, and the client
 * may lose what it was sent. So only the sending side is shut now, and the rest
 * follows in a second.
 */
void loop_linger(struct loop *loop, int fd);

/** "Date: …" of now. */
const char *loop_date(struct loop *loop);

#endif /* CONN_SERVER_H */

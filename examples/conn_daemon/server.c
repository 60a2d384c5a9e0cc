/* SPDX-License-Identifier: MIT */
/* The threads' loops: events, timers, the daemon's end. The sockets that are
 * listened on are made in listen.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "server.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "conn_alloc.h"
#include "listen.h"
#include "respond.h"
#include "stats.h"

#define EVENTS_MAX 64
/* Clients taken in before others are served again. */
#define ACCEPT_MAX 64U
#define LINGER_MS 1000U
/* After accept() failed for want of descriptors or memory. */
#define DEAF_MS 100U
/* When maintenance had more to do than one call's share. */
#define MAINTAIN_AGAIN_MS 10U

/* 0: run. 1: end when the requests under way are done. 2: end now. */
static atomic_int stopping;
/* All loops' connections, for the limit. Once per connection is rare enough for
 * a shared word. */
static atomic_uint active;
/* Loops that run. */
static atomic_uint running;
static uint64_t started_ms;

static uint64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

unsigned int server_active(void)
{
	return atomic_load_explicit(&active, memory_order_relaxed);
}

uint64_t server_uptime(void)
{
	return (clock_ms() - started_ms) / 1000;
}

/* --- what connections ask of their loop ---------------------------------- */

int loop_watch(struct loop *loop, struct conn *c, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = c };
	int op = EPOLL_CTL_MOD;

	if (c->watched == events)
		return 0;
	if (!c->watched)
		op = EPOLL_CTL_ADD;
	else if (!events)
		op = EPOLL_CTL_DEL;
	if (epoll_ctl(loop->epoll_fd, op, c->fd, &event))
		return errno;
	c->watched = events;
	return 0;
}

static void link_del(struct link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->next = link->prev = link;
}

void loop_touch(struct loop *loop, struct conn *c)
{
	struct link *link = &c->timer.link;
	struct link *head = &loop->timers;

	link_del(link);
	c->timer.due_ms = loop->now_ms + loop->settings->idle_ms;
	link->next = head;
	link->prev = head->prev;
	head->prev->next = link;
	head->prev = link;
}

void loop_forget(struct loop *loop, struct conn *c)
{
	(void)loop;
	link_del(&c->timer.link);
	atomic_fetch_sub_explicit(&active, 1, memory_order_relaxed);
}

static void linger_pop(struct loop *loop)
{
	close(loop->linger[loop->linger_first].fd);
	loop->linger_first = (loop->linger_first + 1) % LINGER_MAX;
	loop->nr_linger--;
}

void loop_linger(struct loop *loop, int fd)
{
	unsigned int i;

	shutdown(fd, SHUT_WR);
	/* Best effort: with this many, the eldest has had its time. */
	if (loop->nr_linger == LINGER_MAX)
		linger_pop(loop);
	i = (loop->linger_first + loop->nr_linger++) % LINGER_MAX;
	loop->linger[i].fd = fd;
	loop->linger[i].due_ms = loop->now_ms + LINGER_MS;
}

const char *loop_date(struct loop *loop)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now != (time_t)loop->date_s) {
		loop->date_s = now;
		gmtime_r(&now, &tm);
		/* No setlocale() here, so the names are English. */
		strftime(loop->date, sizeof(loop->date),
			 "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
	}
	return loop->date;
}

/* --- accepting ----------------------------------------------------------- */

static bool admit(const struct loop *loop)
{
	if (atomic_fetch_add_explicit(&active, 1, memory_order_relaxed) <
	    loop->settings->max_connections)
		return true;
	atomic_fetch_sub_explicit(&active, 1, memory_order_relaxed);
	return false;
}

/* A client there is no room for gets to know it, at the price of one send. */
static void refuse(struct loop *loop, int fd)
{
	ssize_t n = send(fd, respond_refusal, respond_refusal_len,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	count(refused);
	count(failed);
	if (n > 0)
		count_add(bytes_out, n);
	loop_linger(loop, fd);
}

static void take_in(struct loop *loop, int fd)
{
	struct conn *c;

	if (!admit(loop)) {
		refuse(loop, fd);
		return;
	}
	c = conn_get();
	if (!c) {
		atomic_fetch_sub_explicit(&active, 1, memory_order_relaxed);
		refuse(loop, fd);
		return;
	}
	conn_begin(c, loop, fd);
}

static void listen_to(struct loop *loop, bool listening)
{
	struct epoll_event event = {
		.events = listening ? EPOLLIN : 0,
		.data.ptr = &loop->listen_fd,
	};

	if (!epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, loop->listen_fd, &event))
		loop->deaf = !listening;
}

static void accept_some(struct loop *loop)
{
	for (unsigned int i = 0; i < ACCEPT_MAX; i++) {
		int fd = accept_client(loop->listen_fd);

		if (fd >= 0) {
			take_in(loop, fd);
			continue;
		}
		if (errno == EAGAIN)
			return;
		/* A client that is gone again is no reason to stop. */
		if (errno == ECONNABORTED || errno == EINTR)
			continue;
		count(accept_failed);
		/* The client stays in the queue, and epoll would report it
		 * again and again. */
		loop->listen_again_ms = loop->now_ms + DEAF_MS;
		listen_to(loop, false);
		return;
	}
}

/* --- time ---------------------------------------------------------------- */

static struct conn *first_conn(struct loop *loop)
{
	struct link *link = loop->timers.next;

	return link == &loop->timers ? NULL : (struct conn *)(void *)link;
}

static void maintain(struct loop *loop)
{
	int err = conn_alloc_maintain();

	count(maintain);
	if (err && err != EAGAIN && err != EBUSY)
		count(maintain_failed);
	loop->maintain_ms =
		loop->now_ms + (err == EAGAIN ? MAINTAIN_AGAIN_MS
					      : loop->settings->maintain_ms);
}

static void run_timers(struct loop *loop)
{
	struct conn *c;

	while ((c = first_conn(loop)) && c->timer.due_ms <= loop->now_ms)
		conn_time_out(c);
	while (loop->nr_linger &&
	       loop->linger[loop->linger_first].due_ms <= loop->now_ms)
		linger_pop(loop);
	if (loop->deaf && !loop->draining &&
	    loop->listen_again_ms <= loop->now_ms)
		listen_to(loop, true);
	if (!loop->index && loop->maintain_ms <= loop->now_ms)
		maintain(loop);
}

/* Milliseconds epoll may wait; -1 for ever. */
static int patience(struct loop *loop)
{
	struct conn *c = first_conn(loop);
	uint64_t next = UINT64_MAX;

	if (c)
		next = c->timer.due_ms;
	if (loop->nr_linger && loop->linger[loop->linger_first].due_ms < next)
		next = loop->linger[loop->linger_first].due_ms;
	if (loop->deaf && loop->listen_again_ms < next)
		next = loop->listen_again_ms;
	if (!loop->index && loop->maintain_ms < next)
		next = loop->maintain_ms;
	if (loop->draining && loop->drain_end_ms < next)
		next = loop->drain_end_ms;
	if (next == UINT64_MAX)
		return -1;
	/* One more, since the clock is a coarse one. */
	return next > loop->now_ms ? (int)(next - loop->now_ms) + 1 : 0;
}

/* --- the end ------------------------------------------------------------- */

/* Clients the kernel already took for us are served; new ones are turned away
 * by the kernel. */
static void begin_drain(struct loop *loop)
{
	struct link *link, *next;

	loop->draining = true;
	loop->drain_end_ms = loop->now_ms + loop->settings->drain_ms;
	accept_some(loop);
	close(loop->listen_fd);
	loop->listen_fd = -1;
	loop->deaf = false;
	for (link = loop->timers.next; link != &loop->timers; link = next) {
		next = link->next;
		conn_drain((struct conn *)(void *)link);
	}
}

/* Whether the loop is to go on. */
static bool go_on(struct loop *loop)
{
	int stop = atomic_load(&stopping);

	if (!stop)
		return true;
	if (!loop->draining)
		begin_drain(loop);
	return stop < 2 && first_conn(loop) &&
	       loop->now_ms < loop->drain_end_ms;
}

static void finish(struct loop *loop)
{
	struct conn *c;

	while ((c = first_conn(loop)))
		conn_end(c);
	while (loop->nr_linger)
		linger_pop(loop);
}

/* --- a thread ------------------------------------------------------------ */

static void pin(const struct loop *loop)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(loop->cpu, &set);
	/* Worth having; where it is not allowed, all works without it. */
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void one_event(struct loop *loop, const struct epoll_event *event)
{
	uint64_t n;

	if (event->data.ptr == &loop->wake_fd) {
		/* go_on() sees to what it means. */
		if (read(loop->wake_fd, &n, sizeof(n)) < 0)
			return;
	} else if (event->data.ptr == &loop->listen_fd) {
		accept_some(loop);
	} else {
		conn_event(event->data.ptr, event->events);
	}
}

static void *loop_run(void *arg)
{
	struct epoll_event events[EVENTS_MAX];
	struct loop *loop = arg;

	pin(loop);
	loop->now_ms = clock_ms();
	loop->maintain_ms = loop->now_ms + loop->settings->maintain_ms;
	while (go_on(loop)) {
		int n = epoll_wait(loop->epoll_fd, events, EVENTS_MAX,
				   patience(loop));

		loop->now_ms = clock_ms();
		/* A connection's descriptor is in there once at most, and only
		 * its own event ends a connection here. So no event can meet
		 * one that is gone, or given to another client. */
		for (int i = 0; i < n; i++)
			one_event(loop, &events[i]);
		run_timers(loop);
	}
	finish(loop);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

/* --- start and end of all ------------------------------------------------ */

static int add(struct loop *loop, int *fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = fd };

	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, *fd, &event) ? errno
								     : 0;
}

static void loop_exit(struct loop *loop)
{
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	if (loop->listen_fd >= 0)
		close(loop->listen_fd);
}

static int loop_init(struct loop *loop, const struct settings *settings,
		     unsigned int index, unsigned int *port, const char **what)
{
	int err;

	*loop = (struct loop){ .settings = settings, .index = index };
	loop->cpu = nth_cpu(index);
	loop->timers.next = loop->timers.prev = &loop->timers;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->listen_fd = -1;
	if (loop->epoll_fd < 0 || loop->wake_fd < 0) {
		err = errno;
		*what = "epoll";
	} else {
		err = listen_on(settings->address, port, &loop->listen_fd,
				what);
	}
	if (!err)
		err = add(loop, &loop->wake_fd);
	if (!err)
		err = add(loop, &loop->listen_fd);
	if (err)
		loop_exit(loop);
	return err;
}

int server_start(struct server *s, const struct settings *settings,
		 const char **what)
{
	unsigned int n = 0;
	int err = 0;

	*s = (struct server){ .settings = settings, .port = settings->port };
	started_ms = clock_ms();
	s->loops = calloc(settings->threads, sizeof(*s->loops));
	if (!s->loops) {
		*what = "loops";
		return ENOMEM;
	}
	/* All sockets first: no client is served if one cannot be had. */
	while (!err && n < settings->threads) {
		err = loop_init(&s->loops[n], settings, n, &s->port, what);
		n += !err;
	}
	while (!err && s->nr_loops < n) {
		struct loop *loop = &s->loops[s->nr_loops];

		*what = "thread";
		atomic_fetch_add(&running, 1);
		err = pthread_create(&loop->thread, NULL, loop_run, loop);
		if (err)
			atomic_fetch_sub(&running, 1);
		s->nr_loops += !err;
	}
	if (!err)
		return 0;
	server_stop(s);
	for (unsigned int i = s->nr_loops; i < n; i++)
		loop_exit(&s->loops[i]);
	server_join(s);
	return err;
}

void server_stop(struct server *s)
{
	uint64_t one = 1;

	if (atomic_load(&stopping) < 2)
		atomic_fetch_add(&stopping, 1);
	for (unsigned int i = 0; i < s->nr_loops; i++)
		if (write(s->loops[i].wake_fd, &one, sizeof(one)) < 0)
			abort(); /* only if the count were near its end */
}

bool server_ended(void)
{
	return !atomic_load(&running);
}

void server_join(struct server *s)
{
	for (unsigned int i = 0; i < s->nr_loops; i++) {
		pthread_join(s->loops[i].thread, NULL);
		loop_exit(&s->loops[i]);
	}
	free(s->loops);
	s->loops = NULL;
	s->nr_loops = 0;
}

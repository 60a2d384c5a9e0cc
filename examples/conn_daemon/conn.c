/* SPDX-License-Identifier: MIT */
/*
 * A connection's life: built, reset, fed by epoll, ended.
 *
 * epoll is level-triggered. Each event leads to one read, the requests in it
 * are answered into the output buffer, and that is sent. If the socket takes no
 * more, nothing is read until it does: a client that does not read its
 * responses holds two buffers, not more.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_alloc.h"
#include "respond.h"
#include "server.h"
#include "stats.h"

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

static bool must_fail(struct conn_env *env)
{
	unsigned int every = env->settings->fail_every;

	return every && (atomic_fetch_add(&env->tried, 1) + 1) % every == 0;
}

int conn_ctor(void *obj, void *arg)
{
	struct conn_env *env = arg;
	struct conn *c = obj;
	int err;

	c->size = env->settings->buffer;
	c->in = conn_buffer_get();
	if (!c->in) {
		err = errno;
		goto fail;
	}
	c->out = conn_buffer_get();
	if (!c->out) {
		err = errno;
		goto fail_in;
	}
	if (must_fail(env)) {
		err = EAGAIN;
		goto fail_out;
	}
	http_init(&c->parser, env->settings->max_body);
	c->timer.link.next = c->timer.link.prev = &c->timer.link;
	c->page = NULL;
	c->page_at = c->page_len = 0;
	count(built);
	return 0;

fail_out:
	conn_buffer_put(c->out);
fail_in:
	conn_buffer_put(c->in);
fail:
	count(build_failed);
	return err;
}

void conn_dtor(void *obj, void *arg)
{
	struct conn *c = obj;

	(void)arg;
	conn_buffer_put(c->out);
	conn_buffer_put(c->in);
	count(torn_down);
}

/* Whatever the last client left half done. The buffers keep their bytes: what
 * lies outside their marks is never looked at. */
void conn_reset(void *obj, void *arg)
{
	struct conn *c = obj;

	(void)arg;
	http_reset(&c->parser);
	c->in_at = c->in_end = 0;
	c->out_at = c->out_end = 0;
	c->in_body = false;
	c->closing = false;
	c->linger = false;
	c->peer_done = false;
}

static void drop_page(struct conn *c)
{
	free(c->page);
	c->page = NULL;
	c->page_at = c->page_len = 0;
}

void conn_begin(struct conn *c, struct loop *loop, int fd)
{
	c->loop = loop;
	c->fd = fd;
	c->watched = 0;
	count(accepted);
	loop_touch(loop, c);
	if (loop_watch(loop, c, EPOLLIN))
		conn_end(c);
}

static void end(struct conn *c, bool linger)
{
	loop_forget(c->loop, c);
	/* close() alone takes it out of epoll; a lingering one must not wake
	 * the loop for a connection that is someone else's by then. */
	if (linger) {
		loop_watch(c->loop, c, 0);
		loop_linger(c->loop, c->fd);
	} else {
		close(c->fd);
	}
	drop_page(c);
	count(closed);
	conn_put(c);
}

void conn_end(struct conn *c)
{
	end(c, false);
}

void conn_time_out(struct conn *c)
{
	count(timed_out);
	conn_end(c);
}

static bool is_idle(const struct conn *c)
{
	return c->in_at == c->in_end && c->out_at == c->out_end && !c->page &&
	       !c->in_body && http_at_start(&c->parser);
}

/* One read. Returns false when the connection is of no use any more. */
static bool fill(struct conn *c)
{
	ssize_t n;

	if (c->in_at) {
		memmove(c->in, c->in + c->in_at, c->in_end - c->in_at);
		c->in_end -= c->in_at;
		c->in_at = 0;
	}
	n = recv(c->fd, c->in + c->in_end, c->size - c->in_end, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (!n) {
		/* What came before was answered; a part of a request is
		 * nothing to answer. */
		c->peer_done = c->closing = true;
		return true;
	}
	c->in_end += (size_t)n;
	count_add(bytes_in, n);
	return true;
}

/* Send what there is. Returns 0, EAGAIN when some is left, or what is wrong. */
static int flush(struct conn *c)
{
	while (c->out_at < c->out_end || c->page_at < c->page_len) {
		struct iovec part[2] = {
			{ c->out + c->out_at, c->out_end - c->out_at },
			{ c->page + c->page_at, c->page_len - c->page_at },
		};
		struct msghdr msg = {
			.msg_iov = part,
			.msg_iovlen = c->page ? 2 : 1,
		};
		ssize_t n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
		size_t head;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		count_add(bytes_out, n);
		head = (size_t)n < part[0].iov_len ? (size_t)n
						   : part[0].iov_len;
		c->out_at += head;
		c->page_at += (size_t)n - head;
	}
	c->out_at = c->out_end = 0;
	drop_page(c);
	return 0;
}

static bool has_room(const struct conn *c)
{
	return !c->page && c->size - c->out_end >= RESPOND_MAX;
}

static void refuse_request(struct conn *c, int status)
{
	count(requests);
	c->closing = c->linger = true;
	respond_error(c, status);
}

/* The head. Returns whether it is complete, or was refused. */
static bool head(struct conn *c)
{
	const char *data = c->in + c->in_at;
	size_t len = c->in_end - c->in_at;
	size_t used;

	switch (http_head(&c->parser, data, len, &used)) {
	case HTTP_DONE:
		c->wanted = respond_route(&c->parser, data);
		c->in_at += used;
		c->in_body = true;
		/* Unless the client did not wait for it. */
		if (c->parser.expects_continue && c->in_at == c->in_end) {
			memcpy(c->out + c->out_end, continue_line,
			       sizeof(continue_line) - 1);
			c->out_end += sizeof(continue_line) - 1;
		}
		return true;
	case HTTP_BAD:
		refuse_request(c, c->parser.status);
		return true;
	case HTTP_MORE:
		break;
	}
	if (len < c->size)
		return false;
	refuse_request(c, c->parser.phase == HTTP_PHASE_LINE ? 414 : 431);
	return true;
}

/* The rest of a request, and its answer. Returns as head(). */
static bool body(struct conn *c)
{
	size_t used;

	switch (http_body(&c->parser, c->in + c->in_at, c->in_end - c->in_at,
			  &used)) {
	case HTTP_DONE:
		c->in_at += used;
		c->in_body = false;
		count(requests);
		if (!http_keeps_alive(&c->parser))
			c->closing = true;
		else if (c->loop->draining)
			c->closing = c->linger = true;
		respond(c);
		http_reset(&c->parser);
		loop_touch(c->loop, c);
		return true;
	case HTTP_BAD:
		refuse_request(c, c->parser.status);
		return true;
	case HTTP_MORE:
		c->in_at += used;
		break;
	}
	return false;
}

/* Answer what came. Returns true if it stopped for want of room, not input. */
static bool answer(struct conn *c)
{
	while (!c->closing) {
		if (!has_room(c))
			return true;
		if (!(c->in_body ? body(c) : head(c)))
			return false;
	}
	return false;
}

static void advance(struct conn *c)
{
	bool more;

	do {
		int err;

		more = answer(c);
		err = flush(c);
		if (err == EAGAIN) {
			if (loop_watch(c->loop, c, EPOLLOUT))
				conn_end(c);
			return;
		}
		if (err) {
			conn_end(c);
			return;
		}
	} while (more);
	if (c->closing) {
		/* Of a client that is through, no input can be left. */
		end(c, !c->peer_done && (c->linger || c->in_at < c->in_end));
		return;
	}
	if (loop_watch(c->loop, c, EPOLLIN))
		conn_end(c);
}

/* A request may have come that nobody read yet. */
void conn_drain(struct conn *c)
{
	if (!is_idle(c))
		return;
	if (fill(c) && c->in_at < c->in_end)
		advance(c);
	else
		conn_end(c);
}

void conn_event(struct conn *c, uint32_t events)
{
	if (events & (EPOLLERR | EPOLLHUP)) {
		conn_end(c);
		return;
	}
	if ((events & EPOLLIN) && !fill(c)) {
		conn_end(c);
		return;
	}
	advance(c);
}

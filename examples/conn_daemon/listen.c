/* SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t parse(const char *text, unsigned int port, union address *a)
{
	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htons((uint16_t)port);
		return sizeof(a->v4);
	}
	if (inet_pton(AF_INET6, text, &a->v6.sin6_addr) == 1) {
		a->v6.sin6_family = AF_INET6;
		a->v6.sin6_port = htons((uint16_t)port);
		return sizeof(a->v6);
	}
	return 0;
}

/* Bind a new socket. Returns it, or -1 with errno. */
static int bound(const union address *a, socklen_t len, bool shared)
{
	int on = 1;
	int fd = socket(a->any.sa_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -1;
	/* REUSEADDR: connections of the last run may still be ending. */
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    (!shared ||
	     !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))) &&
	    !bind(fd, &a->any, len))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/*
 * With SO_REUSEPORT a second daemon of the same user would share the port of
 * the first, unasked and unseen. A socket without it can only be bound where
 * nobody listens; so that is tried once, before the first one.
 */
static bool is_free(const union address *a, socklen_t len)
{
	static bool tried;
	int fd;

	if (tried)
		return true;
	tried = true;
	fd = bound(a, len, false);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

int listen_on(const char *address, unsigned int *port, int *fd,
	      const char **what)
{
	union address a;
	socklen_t len = parse(address, *port, &a);
	int err;

	*what = "address";
	if (!len)
		return EINVAL;
	*what = "bind";
	if (!is_free(&a, len))
		return errno;
	*fd = bound(&a, len, true);
	if (*fd < 0)
		return errno;
	*what = "listen";
	if (!listen(*fd, BACKLOG) && !getsockname(*fd, &a.any, &len)) {
		*port = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port
							 : a.v6.sin6_port);
		return 0;
	}
	err = errno;
	close(*fd);
	*fd = -1;
	return err;
}

int accept_client(int fd)
{
	int on = 1;
	int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	/* Responses are sent whole; holding back their ends only costs time. */
	if (client >= 0)
		(void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on,
				 sizeof(on));
	return client;
}

unsigned int nr_cpus(void)
{
	cpu_set_t set;
	int n = 0;

	if (!sched_getaffinity(0, sizeof(set), &set))
		n = CPU_COUNT(&set);
	return n > 0 ? (unsigned int)n : 1;
}

unsigned int nth_cpu(unsigned int n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	n %= nr_cpus();
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && !n--)
			return cpu;
	return 0;
}

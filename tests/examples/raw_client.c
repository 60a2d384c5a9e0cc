/* SPDX-License-Identifier: MIT */
/*
 * A client for the tests of conn_daemon that sends exactly what it is given:
 *
 *     raw_client PORT [PIECE] <requests >responses
 *
 * Standard input goes to 127.0.0.1:PORT as it comes, in pieces of PIECE bytes
 * if that is given, each in a packet of its own; what comes back goes to
 * standard output. It ends when the server closes the connection. The end of
 * the input closes nothing: that is the server's business.
 *
 * Exit status: 0; 3 when nothing came or went for TIMEOUT_MS, or when the
 * server reset the connection; 1 for other errors, 2 for bad arguments.
 */
#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_MS 120000
#define PIECE_MAX 4096

enum { EXIT_FINE, EXIT_ERROR, EXIT_ARGUMENTS, EXIT_HUNG };

static int fail(const char *what)
{
	fprintf(stderr, "raw_client: %s: %s\n", what, strerror(errno));
	return errno == ECONNRESET || errno == EPIPE ? EXIT_HUNG : EXIT_ERROR;
}

static int connected(unsigned long port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	a.sin_port = htons((uint16_t)port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		return -1;
	return connect(fd, (struct sockaddr *)&a, sizeof(a)) ? -1 : fd;
}

/* Standard input to the server. Returns 1 at its end, 0, or -1. */
static int give(int fd, size_t piece)
{
	char buffer[PIECE_MAX];
	ssize_t n = read(STDIN_FILENO, buffer, piece);

	if (n <= 0)
		return n ? -1 : 1;
	if (send(fd, buffer, (size_t)n, MSG_NOSIGNAL) == n)
		return 0;
	/* A server that has enough may hang up; what it said is still to be
	 * read. */
	return errno == EPIPE || errno == ECONNRESET ? 1 : -1;
}

/* The server's words to standard output. Returns as give(). */
static int take(int fd)
{
	char buffer[PIECE_MAX];
	ssize_t n = recv(fd, buffer, sizeof(buffer), 0);

	if (n <= 0)
		return n ? -1 : 1;
	return fwrite(buffer, 1, (size_t)n, stdout) == (size_t)n &&
			       !fflush(stdout)
		       ? 0
		       : -1;
}

static int talk(int fd, size_t piece)
{
	struct pollfd pfd[2] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};

	for (;;) {
		int n = poll(pfd, 2, TIMEOUT_MS);
		int done;

		if (n <= 0) {
			errno = n ? errno : ECONNRESET;
			return fail("nothing comes");
		}
		if (pfd[0].revents) {
			done = take(fd);
			if (done < 0)
				return fail("receive");
			if (done)
				return EXIT_FINE;
		}
		if (pfd[1].revents) {
			done = give(fd, piece);
			if (done < 0)
				return fail("send");
			if (done)
				pfd[1].fd = -1;
		}
	}
}

int main(int argc, char **argv)
{
	unsigned long port, piece = PIECE_MAX;
	int fd;

	if (argc != 2 && argc != 3)
		return EXIT_ARGUMENTS;
	port = strtoul(argv[1], NULL, 10);
	if (argc == 3)
		piece = strtoul(argv[2], NULL, 10);
	if (!port || port > 65535 || !piece || piece > PIECE_MAX)
		return EXIT_ARGUMENTS;
	fd = connected(port);
	return fd < 0 ? fail("connect") : talk(fd, piece);
}

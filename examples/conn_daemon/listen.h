/* SPDX-License-Identifier: MIT */
/* Listening sockets, and the CPUs to spread loops over. */
#ifndef CONN_LISTEN_H
#define CONN_LISTEN_H

/**
 * A socket that listens, shared among loops by SO_REUSEPORT. *port: 0 for the
 * first one lets the system choose, and is set then. Returns 0 with *fd, or an
 * errno value with *what.
 */
int listen_on(const char *address, unsigned int *port, int *fd,
	      const char **what);

/** A client of such a socket, made non-blocking; -1 with errno. */
int accept_client(int fd);

/** CPUs this process may use, and the n-th of them, round robin. */
unsigned int nr_cpus(void);
unsigned int nth_cpu(unsigned int n);

#endif /* CONN_LISTEN_H */

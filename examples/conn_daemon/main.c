/* SPDX-License-Identifier: MIT */
/*
 * conn_daemon: a small HTTP server whose connections live in a cache of pcpool.
 *
 *     conn_daemon --port 8080 &
 *     curl http://127.0.0.1:8080/stats
 *
 * It ends by SIGINT or SIGTERM, finishing what is under way (a second signal
 * ends it at once), and says then whether each connection object that was built
 * was torn down. Exit status: 0; 1 when that is not so, or when it could not
 * start; 2 for bad arguments. README.md in this folder has the rest.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <pcpool/pcpool.h>

#include "conn_alloc.h"
#include "listen.h"
#include "server.h"
#include "stats.h"

enum { EXIT_BALANCED = 0, EXIT_FAILED = 1, EXIT_ARGUMENTS = 2 };

/* Descriptors besides the connections: a few for each loop, and lingering
 * ones. */
#define FDS_PER_LOOP (3U + LINGER_MAX)
#define FDS_OTHER 16U
#define THREADS_MAX 1024U

static const char usage[] =
	"usage: conn_daemon [options]\n"
	"\n"
	"  --port N             TCP port, 0 lets the system choose (8080)\n"
	"  --address ADDRESS    numeric address to listen on (127.0.0.1)\n"
	"  --threads N          event loops (one for each CPU)\n"
	"  --max-connections N  more clients than these get a 503 (1024)\n"
	"  --idle-ms N          a connection without a request for so long is "
	"closed (30000)\n"
	"  --drain-ms N         how long the end may take (5000)\n"
	"  --maintain-ms N      between two calls of pcpool_maintain() (1000)\n"
	"  --buffer N           bytes of each I/O buffer; bounds a request's "
	"head (16384)\n"
	"  --max-body N         bytes of a request's body (1048576)\n"
	"  --fail-every N       let each N-th construction fail\n"
	"  --help\n";

enum {
	OPT_PORT = 1,
	OPT_ADDRESS,
	OPT_THREADS,
	OPT_MAX_CONNECTIONS,
	OPT_IDLE,
	OPT_DRAIN,
	OPT_MAINTAIN,
	OPT_BUFFER,
	OPT_MAX_BODY,
	OPT_FAIL_EVERY,
	OPT_HELP,
};

static const struct option options[] = {
	{ "port", required_argument, NULL, OPT_PORT },
	{ "address", required_argument, NULL, OPT_ADDRESS },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "max-connections", required_argument, NULL, OPT_MAX_CONNECTIONS },
	{ "idle-ms", required_argument, NULL, OPT_IDLE },
	{ "drain-ms", required_argument, NULL, OPT_DRAIN },
	{ "maintain-ms", required_argument, NULL, OPT_MAINTAIN },
	{ "buffer", required_argument, NULL, OPT_BUFFER },
	{ "max-body", required_argument, NULL, OPT_MAX_BODY },
	{ "fail-every", required_argument, NULL, OPT_FAIL_EVERY },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* Exits with 2 for what is not a number from min to max. */
static unsigned int number(const char *text, unsigned long min,
			   unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || value < min ||
	    value > max) {
		fprintf(stderr,
			"conn_daemon: not a number from %lu to %lu: "
			"%s\n",
			min, max, text);
		exit(EXIT_ARGUMENTS);
	}
	return (unsigned int)value;
}

static void take(int opt, const char *arg, struct settings *s)
{
	switch (opt) {
	case OPT_PORT:
		s->port = number(arg, 0, 65535);
		break;
	case OPT_ADDRESS:
		s->address = arg;
		break;
	case OPT_THREADS:
		s->threads = number(arg, 1, THREADS_MAX);
		break;
	case OPT_MAX_CONNECTIONS:
		s->max_connections = number(arg, 1, 1000000);
		break;
	case OPT_IDLE:
		s->idle_ms = number(arg, 1, INT_MAX / 2);
		break;
	case OPT_DRAIN:
		s->drain_ms = number(arg, 0, INT_MAX / 2);
		break;
	case OPT_MAINTAIN:
		s->maintain_ms = number(arg, 1, INT_MAX / 2);
		break;
	case OPT_BUFFER:
		s->buffer =
			number(arg, SETTINGS_BUFFER_MIN, SETTINGS_BUFFER_MAX);
		break;
	case OPT_MAX_BODY:
		s->max_body = number(arg, 0, INT_MAX);
		break;
	case OPT_FAIL_EVERY:
		s->fail_every = number(arg, 1, INT_MAX);
		break;
	case OPT_HELP:
		fputs(usage, stdout);
		exit(EXIT_BALANCED);
	default:
		fputs(usage, stderr);
		exit(EXIT_ARGUMENTS);
	}
}

static void parse(int argc, char **argv, struct settings *s)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		take(opt, optarg, s);
	if (optind != argc)
		take(-1, "", s);
}

/* As many connections as descriptors allow. */
static void fit_limit(struct settings *s)
{
	rlim_t other = FDS_OTHER + (rlim_t)s->threads * FDS_PER_LOOP;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) ||
	    limit.rlim_cur >= other + s->max_connections)
		return;
	s->max_connections = limit.rlim_cur > other
				     ? (unsigned int)(limit.rlim_cur - other)
				     : 1;
	fprintf(stderr,
		"conn_daemon: for want of descriptors, at most %u "
		"connections\n",
		s->max_connections);
}

/* What is left at the end. Returns the exit status. */
static int balance(int err, unsigned long long live)
{
	struct counters sum;
	bool even;

	counters_sum(&sum);
	even = !err && !live && sum.built == sum.torn_down;
	printf("served %" PRIu64 " requests on %" PRIu64 " connections, "
	       "refused %" PRIu64 ", timed out %" PRIu64 "\n"
	       "balance: ctor_ok %" PRIu64 ", dtor %" PRIu64 ", live %llu%s\n",
	       sum.requests, sum.accepted, sum.refused, sum.timed_out,
	       sum.built, sum.torn_down, live, even ? "" : ": OFF");
	if (err)
		fprintf(stderr, "conn_daemon: at the end: %s\n", strerror(err));
	return even ? EXIT_BALANCED : EXIT_FAILED;
}

/* Serve until told to end, and then until the loops have. */
static void serve(struct server *server, const struct settings *s,
		  const sigset_t *signals)
{
	const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
	int sig;

	printf("conn_daemon (%s, %s mode, %u loop%s) listens on %s port %u\n",
	       conn_alloc_name, pcpool_mode(), s->threads,
	       s->threads == 1 ? "" : "s", s->address, server->port);
	fflush(stdout);
	sigwait(signals, &sig);
	server_stop(server);
	while (!server_ended())
		if (sigtimedwait(signals, NULL, &moment) > 0)
			server_stop(server);
	server_join(server);
}

static int run(const struct settings *s, const sigset_t *signals)
{
	struct conn_env env = { .settings = s };
	unsigned long long live = 0;
	struct server server;
	const char *what = "counters";
	int status;
	int err = counters_init();

	if (err)
		goto fail;
	what = "cache";
	err = conn_alloc_init(&env);
	if (err)
		goto fail_counters;
	err = server_start(&server, s, &what);
	if (!err)
		serve(&server, s, signals);
	else
		fprintf(stderr, "conn_daemon: %s: %s\n", what, strerror(err));
	status = balance(conn_alloc_exit(&live), live);
	counters_exit();
	return err ? EXIT_FAILED : status;

fail_counters:
	counters_exit();
fail:
	fprintf(stderr, "conn_daemon: %s: %s\n", what, strerror(err));
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct settings s = {
		.address = "127.0.0.1",
		.port = 8080,
		.threads = nr_cpus(),
		.max_connections = 1024,
		.idle_ms = 30000,
		.drain_ms = 5000,
		.maintain_ms = 1000,
		.buffer = 16384,
		.max_body = 1048576,
	};
	sigset_t signals;

	parse(argc, argv, &s);
	fit_limit(&s);
	/* Blocked in all threads, which inherit it; serve() waits for them. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	return run(&s, &signals);
}

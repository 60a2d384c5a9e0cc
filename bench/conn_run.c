/* SPDX-License-Identifier: MIT */
/* Job conn's child processes. Both end with the worker that started them, and
 * wrk by itself after its time. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conn.h"

#define NS_PER_S 1000000000ULL
/* How long they may take beyond their time, on a machine with other things to
 * do; the driver waits for 60 s. */
#define START_MS 40000
#define END_MS 15000
#define FOLDER "examples/conn_daemon/"

/* wrk prints for people, with three digits and a unit. This prints the numbers
 * themselves. */
static const char script[] =
	"done = function(summary, latency, requests)\n"
	"  local e = summary.errors\n"
	"  io.write(string.format('\\nnumbers %d %d %d %d %d %d %d\\n',\n"
	"    summary.requests, summary.duration, latency:percentile(99),\n"
	"    e.connect, e.read, e.write, e.status))\n"
	"end\n";

/* The daemon beside this program, in its build folder. */
static bool find_daemon(const char *program, char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	int len;

	if (n < 0)
		return false;
	self[n] = '\0';
	/* FOLDER/../bench/.libs/pcpool-bench, or without .libs */
	slash = strstr(self, "/.libs/");
	if (!slash)
		slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	len = snprintf(path, size, "%s/../" FOLDER "%s", self, program);
	return len > 0 && (size_t)len < size && !access(path, X_OK);
}

static bool is_in_path(const char *program)
{
	const char *dir = getenv("PATH");
	char file[PATH_MAX];

	while (dir && *dir) {
		size_t len = strcspn(dir, ":");

		snprintf(file, sizeof(file), "%.*s/%s", (int)len, dir, program);
		if (!access(file, X_OK))
			return true;
		dir += len + (dir[len] == ':');
	}
	return false;
}

const char *conn_missing(void)
{
	char path[PATH_MAX];

	if (!is_in_path("wrk"))
		return "wrk";
	if (!find_daemon("conn_daemon", path, sizeof(path)) ||
	    !find_daemon("conn_daemon_malloc", path, sizeof(path)))
		return FOLDER "conn_daemon";
	return NULL;
}

/* Start argv with its output to *out. keep: a descriptor it inherits, or -1. */
static int spawn(const char *const *argv, int keep, pid_t *pid, int *out)
{
	pid_t parent = getpid();
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return errno;
	*pid = fork();
	if (*pid < 0) {
		int err = errno;

		close(fds[0]);
		close(fds[1]);
		return err;
	}
	if (!*pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent || dup2(fds[1], STDOUT_FILENO) < 0 ||
		    (keep >= 0 && fcntl(keep, F_SETFD, 0)))
			_exit(127);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(fds[1]);
	*out = fds[0];
	return 0;
}

/* What it prints up to a line with a word in it, or to the end. Returns whether
 * that came in time; text is terminated. */
static bool hear(int fd, const char *word, char *text, size_t size, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	size_t len = 0;

	text[0] = '\0';
	while (len + 1 < size) {
		char *found = strstr(text, word);
		ssize_t n;

		if (found && strchr(found, '\n'))
			return true;
		if (poll(&pfd, 1, ms) <= 0)
			return false;
		n = read(fd, text + len, size - 1 - len);
		if (n <= 0)
			return false;
		len += (size_t)n;
		text[len] = '\0';
	}
	return false;
}

/* Wait for a child, not for ever. Returns its status as waitpid() tells it. */
static int reap(pid_t pid, int ms)
{
	const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
	int status = 0;

	for (; ms > 0; ms -= 10) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			return status;
		if (got < 0 && errno != EINTR)
			return -1;
		nanosleep(&moment, NULL);
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static bool same(const struct bench_params *a, const struct bench_params *b)
{
	return a->threads == b->threads && a->batch == b->batch &&
	       a->size == b->size;
}

int conn_daemon_start(struct conn_daemon *d, const struct bench_params *params)
{
	char path[PATH_MAX], threads[24], size[24], limit[24], text[512];
	/* clang-format off */
	const char *argv[] = { path, "--port", "0", "--threads", threads,
			       "--buffer", size, "--max-connections", limit,
			       "--idle-ms", "600000",
			       NULL };
	/* clang-format on */
	const char *port;
	int err;

	if (d->pid && same(&d->params, params)) {
		d->params = *params;
		return 0;
	}
	err = conn_daemon_stop(d);
	if (err)
		return err;
	if (!find_daemon(d->program, path, sizeof(path)))
		return ENOENT;
	snprintf(threads, sizeof(threads), "%u", params->threads);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)params->size);
	/* A client is back before its last connection has ended. */
	snprintf(limit, sizeof(limit), "%u", 2 * params->batch + 1000);
	err = spawn(argv, -1, &d->pid, &d->out);
	if (err)
		return err;
	port = hear(d->out, " port ", text, sizeof(text), START_MS)
		       ? strstr(text, " port ")
		       : NULL;
	d->port = port ? (unsigned int)strtoul(port + 6, NULL, 10) : 0;
	d->params = *params;
	if (d->port)
		return 0;
	conn_daemon_stop(d);
	return ECHILD;
}

int conn_daemon_stop(struct conn_daemon *d)
{
	int status;

	if (!d->pid)
		return 0;
	kill(d->pid, SIGTERM);
	/* Its last words fit the pipe; nobody reads them. */
	status = reap(d->pid, END_MS);
	close(d->out);
	d->pid = 0;
	return status ? EPROTO : 0;
}

double conn_daemon_rss(const struct conn_daemon *d)
{
	unsigned long size = 0, resident = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)d->pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	fclose(f);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* CPU time of the daemon, all its threads. */
static double cpu_ns(const struct conn_daemon *d)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(d->pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (double)t.tv_sec * NS_PER_S + (double)t.tv_nsec;
}

/* wrk's script, as a file it can open by name. */
static int script_fd(void)
{
	int fd = memfd_create("wrk-script", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	if (write(fd, script, sizeof(script) - 1) != sizeof(script) - 1) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The load itself. Fills text with what wrk says. */
static int run_wrk(const struct conn_daemon *d, bool close_each, int fd,
		   char *text, size_t size)
{
	const struct bench_params *p = &d->params;
	unsigned int seconds =
		(unsigned int)((p->window_ns + NS_PER_S - 1) / NS_PER_S);
	char threads[24], connections[24], duration[24], file[40], url[64];
	/* clang-format off */
	const char *argv[] = {
		"wrk", "-t", threads, "-c", connections, "-d", duration, "-s",
		file, url, close_each ? "-H" : NULL, "Connection: close", NULL,
	};
	/* clang-format on */
	pid_t pid;
	bool heard;
	int out, status, err;

	/* It refuses to have a thread without a connection. */
	snprintf(threads, sizeof(threads), "%u",
		 p->threads < p->batch ? p->threads : p->batch);
	snprintf(connections, sizeof(connections), "%u", p->batch);
	snprintf(duration, sizeof(duration), "%us", seconds);
	snprintf(file, sizeof(file), "/proc/self/fd/%d", fd);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", d->port);
	err = spawn(argv, fd, &pid, &out);
	if (err)
		return err;
	heard = hear(out, "numbers ", text, size,
		     START_MS + (int)seconds * 1000);
	status = reap(pid, heard ? END_MS : 0);
	close(out);
	if (heard && !status)
		return 0;
	fprintf(stderr, "pcpool-bench: wrk: %s, status %#x\n%s",
		heard ? "ended badly" : "no figures", (unsigned int)status,
		text);
	return EPIPE;
}

int conn_run(const struct conn_daemon *d, bool close_each,
	     struct conn_load *load)
{
	unsigned long long requests, us, p99, error[4];
	char text[4096];
	double before;
	int fd = script_fd();
	int err;

	if (fd < 0)
		return errno;
	before = cpu_ns(d);
	err = run_wrk(d, close_each, fd, text, sizeof(text));
	close(fd);
	if (err)
		return err;
	load->daemon_cpu_ns = cpu_ns(d) - before;
	if (sscanf(strstr(text, "numbers "),
		   "numbers %llu %llu %llu %llu %llu %llu %llu", &requests, &us,
		   &p99, &error[0], &error[1], &error[2], &error[3]) != 7)
		return EBADMSG;
	/* Figures of a run in which something failed say nothing. */
	if (error[0] || error[1] || error[2] || error[3] || !requests || !us) {
		fprintf(stderr,
			"pcpool-bench: wrk: %llu requests; errors: connect "
			"%llu, read %llu, write %llu, status %llu\n",
			requests, error[0], error[1], error[2], error[3]);
		return EIO;
	}
	load->requests = (double)requests;
	load->seconds = (double)us / 1e6;
	load->p99_us = (double)p99;
	return 0;
}

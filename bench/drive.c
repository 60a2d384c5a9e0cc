/* SPDX-License-Identifier: MIT */
/*
 * The driver's side of the worker processes.
 *
 * Each variant gets a process of its own, since the library's mode and topology
 * and the malloc under test are fixed for the life of a process. All of them
 * live for the whole run, and only one has work at a time: so the windows of
 * different variants can follow each other closely, and whatever else happens
 * on the machine hits all of them alike.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drive.h"

/* How long a worker may take beyond its window before it counts as hung: it
 * first makes its threads and objects. */
#define PATIENCE_MS 60000
#define ENVIRONMENT_MAX 512
#define NS_PER_MS 1000000U

/* Room for the thread-local data of a malloc that is loaded late; the same in
 * every worker, so that none has an advantage by it. */
static const char tls_tunable[] = "glibc.rtld.optional_static_tls=16384";

static __attribute__((format(printf, 3, 4))) int fail(struct bench_worker *w,
						      int err,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(w->error, sizeof(w->error), format, args);
	va_end(args);
	return err;
}

/* Add to what the user has set: name = old SEPARATOR text. */
static int add_to_environment(const char *name, char separator,
			      const char *text)
{
	char value[ENVIRONMENT_MAX];
	const char *old = getenv(name);
	int n;

	if (old && *old)
		n = snprintf(value, sizeof(value), "%s%c%s", old, separator,
			     text);
	else
		n = snprintf(value, sizeof(value), "%s", text);
	if (n < 0 || (size_t)n >= sizeof(value))
		return E2BIG;
	return setenv(name, value, 1) ? errno : 0;
}

/* In the child: become the worker. Returns an errno value if it cannot. */
static int become_worker(int fd, const struct bench_job *job,
			 const struct bench_variant *variant,
			 const char *options, unsigned int slots)
{
	char fd_text[16], slots_text[32];
	const char *argv[6] = { "pcpool-bench", BENCH_WORKER_ARG, fd_text };
	int err;

	err = add_to_environment("GLIBC_TUNABLES", ':', tls_tunable);
	/* Later entries win, so the user's are kept where nothing is fixed. */
	if (!err && slots) {
		snprintf(slots_text, sizeof(slots_text), "slots:%u", slots);
		err = add_to_environment("PCPOOL_OPTIONS", ',', slots_text);
	}
	if (!err && variant && variant->options)
		err = add_to_environment("PCPOOL_OPTIONS", ',',
					 variant->options);
	if (!err && options[0])
		err = add_to_environment("PCPOOL_OPTIONS", ',', options);
	if (err)
		return err;
	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	if (variant) {
		argv[3] = job->name;
		argv[4] = variant->name;
	}
	if (fcntl(fd, F_SETFD, 0))
		return errno;
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	return errno;
}

int bench_start(struct bench_worker *w, const struct bench_job *job,
		const struct bench_variant *variant, const char *options,
		unsigned int slots)
{
	int fds[2];

	*w = (struct bench_worker){ .fd = -1 };
	/* Close-on-exec, or a worker would hold its siblings' sockets open. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return fail(w, errno, "socketpair: %s", strerror(errno));
	fflush(NULL);
	w->pid = fork();
	if (w->pid < 0) {
		int err = errno;

		w->pid = 0;
		close(fds[0]);
		close(fds[1]);
		return fail(w, err, "fork: %s", strerror(err));
	}
	if (!w->pid) {
		int err = become_worker(fds[1], job, variant, options, slots);

		fprintf(stderr, "pcpool-bench: worker: %s\n", strerror(err));
		_exit(127);
	}
	close(fds[1]);
	w->fd = fds[0];
	return 0;
}

/* Collect the process, by force if it does not go by itself. */
static int reap(struct bench_worker *w, bool force)
{
	int status = 0;

	close(w->fd);
	w->fd = -1;
	if (force)
		kill(w->pid, SIGKILL);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	return status;
}

/* The worker did not answer: say why, and end it. */
static int lost(struct bench_worker *w, bool hung)
{
	int status = reap(w, hung);

	if (hung)
		return fail(w, ETIMEDOUT, "hung, ended");
	if (WIFSIGNALED(status))
		return fail(w, EIO, "killed by signal %d", WTERMSIG(status));
	return fail(w, EIO, "exited with status %d", WEXITSTATUS(status));
}

static int ask(struct bench_worker *w, const struct bench_request *request,
	       void *reply, size_t size)
{
	uint64_t window_ms = request->params.window_ns / NS_PER_MS;
	struct pollfd pfd = { .fd = w->fd, .events = POLLIN };
	int n;

	if (!w->pid)
		return fail(w, EIO, "is not running");
	if (send(w->fd, request, sizeof(*request), MSG_NOSIGNAL) < 0)
		return lost(w, false);
	do {
		n = poll(&pfd, 1, (int)window_ms + PATIENCE_MS);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return lost(w, true);
	if (recv(w->fd, reply, size, 0) != (ssize_t)size)
		return lost(w, false);
	return 0;
}

static int ask_result(struct bench_worker *w,
		      const struct bench_request *request,
		      struct bench_result *result)
{
	int err;

	memset(result, 0, sizeof(*result));
	err = ask(w, request, result, sizeof(*result));
	if (err || !result->error)
		return err;
	fail(w, result->error, "%s: %s", result->step, strerror(result->error));
	reap(w, false);
	return result->error;
}

int bench_probe_all(struct bench_worker *w, struct bench_probe *probe,
		    unsigned int slots)
{
	struct bench_request request;
	struct bench_probe one;
	int err = 0;

	memset(&request, 0, sizeof(request));
	request.command = BENCH_PROBE;
	for (unsigned int i = 0; bench_peers[i] && !err; i++) {
		request.peer = i;
		err = bench_start(w, NULL, NULL, "", slots);
		if (!err)
			err = ask(w, &request, &one, sizeof(one));
		if (w->pid)
			reap(w, false);
		/* The last one's word on the process: they all say the same. */
		memcpy(one.peer, probe->peer, i * sizeof(one.peer[0]));
		if (!err)
			*probe = one;
	}
	return err;
}

int bench_ask_window(struct bench_worker *w, const struct bench_params *params,
		     double *value)
{
	struct bench_request request;
	struct bench_result result;
	int err;

	memset(&request, 0, sizeof(request));
	request.command = BENCH_WINDOW;
	request.params = *params;
	err = ask_result(w, &request, &result);
	if (!err)
		memcpy(value, result.value, sizeof(result.value));
	return err;
}

int bench_end(struct bench_worker *w)
{
	struct bench_request request;
	struct bench_result result;
	int err;

	if (!w->pid)
		return 0;
	memset(&request, 0, sizeof(request));
	request.command = BENCH_CLOSE;
	err = ask_result(w, &request, &result);
	if (w->pid)
		reap(w, false);
	return err;
}

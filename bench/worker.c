/* SPDX-License-Identifier: MIT */
/* A worker process: one variant, kept ready for the whole run. It sleeps in
 * recv() while others have their windows. */
#include <config.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <pcpool/pcpool.h>

#include "counters.h"
#include "module.h"
#include "window.h"
#include "worker.h"

struct worker {
	int fd;
	const struct bench_job *job;
	const struct bench_variant *variant;
	struct bench_malloc peer;
	/* The variant is open for objects of this size, with so many others. */
	bool open;
	uint64_t size;
	uint64_t live;
	uint32_t threads;
	void *shared;
};

static int fail(struct bench_result *result, int err, const char *step)
{
	result->error = err;
	snprintf(result->step, sizeof(result->step), "%s", step);
	return err;
}

static int close_variant(struct worker *w, struct bench_result *result)
{
	int err = 0;

	if (!w->open)
		return 0;
	if (w->variant->close)
		err = w->variant->close(w->shared);
	w->open = false;
	w->shared = NULL;
	return err ? fail(result, err, "close") : 0;
}

static int open_variant(struct worker *w, const struct bench_params *params,
			struct bench_result *result)
{
	int err = 0;

	if (w->open && w->size == params->size && w->live == params->live &&
	    (w->threads == params->threads || !w->variant->sized_by_threads))
		return 0;
	if (close_variant(w, result))
		return result->error;
	if (w->variant->open)
		err = w->variant->open(params, &w->peer, &w->shared);
	if (err)
		return fail(result, err, "open");
	w->open = true;
	w->size = params->size;
	w->live = params->live;
	w->threads = params->threads;
	return 0;
}

static void window(struct worker *w, const struct bench_params *params,
		   struct bench_result *result)
{
	struct bench_window win;
	int err;

	if (open_variant(w, params, result))
		return;
	if (w->job->window) {
		err = w->job->window(w->shared, params, result->value);
		if (err)
			fail(result, err, "window");
		memset(&win, 0, sizeof(win));
		bench_counters_measure(w->variant, &win,
				       result->value + w->job->nr_metrics);
		return;
	}
	err = bench_run_window(w->job, w->variant, w->shared, params, &win);
	if (err) {
		fail(result, err, "window");
		return;
	}
	w->job->measure(&win, result->value);
	bench_counters_measure(w->variant, &win,
			       result->value + w->job->nr_metrics);
}

/* Whether calls to pcpool leave this program for a shared library. */
static bool is_shared(void)
{
	void *alloc = dlsym(RTLD_DEFAULT, "pcpool_alloc");
	Dl_info lib, self;

	return alloc && dladdr(alloc, &lib) && dladdr(&bench_jobs, &self) &&
	       lib.dli_fbase != self.dli_fbase;
}

static void probe(struct bench_probe *p, uint32_t i)
{
	struct bench_malloc peer;

	p->cpus = bench_nr_cpus();
	p->slots = pcpool_nr_slots();
	p->nodes = pcpool_nr_nodes();
	p->shared = is_shared();
	snprintf(p->mode, sizeof(p->mode), "%s", pcpool_mode());
	snprintf(p->index, sizeof(p->index), "%s", pcpool_index());
	snprintf(p->version, sizeof(p->version), "%s", pcpool_version());
	p->peer[i].present =
		!bench_load_peer(bench_peers[i], &peer, p->peer[i].version,
				 sizeof(p->peer[i].version));
}

static void answer(const struct worker *w, const void *reply, size_t size)
{
	/* A driver that is gone needs no answer. */
	if (send(w->fd, reply, size, MSG_NOSIGNAL) != (ssize_t)size)
		exit(1);
}

static void serve(struct worker *w, const struct bench_request *request)
{
	struct bench_result result;
	struct bench_probe p;

	memset(&result, 0, sizeof(result));
	switch ((enum bench_command)request->command) {
	case BENCH_PROBE:
		memset(&p, 0, sizeof(p));
		probe(&p, request->peer);
		answer(w, &p, sizeof(p));
		return;
	case BENCH_WINDOW:
		if (!w->variant)
			fail(&result, EINVAL, "start");
		else
			window(w, &request->params, &result);
		break;
	case BENCH_CLOSE:
		if (w->variant)
			close_variant(w, &result);
		break;
	}
	answer(w, &result, sizeof(result));
}

/* Job and variant by name. Returns 0, or an exit status. */
static int find(struct worker *w, const char *job, const char *variant)
{
	const struct bench_module *module;
	char version[BENCH_TEXT_MAX];

	w->job = bench_find_job(job);
	w->variant = w->job ? bench_find_variant(w->job, variant) : NULL;
	if (!w->variant)
		return 2;
	if (!w->variant->peer)
		return 0;
	if (bench_load_peer(w->variant->peer, &w->peer, version,
			    sizeof(version)))
		return 1;
	/* Of a peer in a module, all else is there too. */
	if (!w->variant->run && !w->job->window) {
		module = bench_load_module(w->variant->peer);
		w->variant = bench_module_variant(module, job);
		if (!w->variant)
			return 2;
	}
	return 0;
}

int bench_worker_main(int argc, char **argv)
{
	struct worker w = { .fd = -1 };
	struct bench_request request;
	int status;

	if (argc != 3 && argc != 5)
		return 2;
	w.fd = atoi(argv[2]);
	if (argc == 5) {
		status = find(&w, argv[3], argv[4]);
		if (status)
			return status;
	}
	if (bench_cpus_init())
		return 1;
	while (recv(w.fd, &request, sizeof(request), 0) == sizeof(request))
		serve(&w, &request);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Job conn: a real daemon under a real load generator. examples/conn_daemon is
 * run once with a cache for its connections and once without, and wrk asks it
 * for a small page over 127.0.0.1, on connections that stay or on one for each
 * request.
 */
#include <config.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "conn.h"
#include "job.h"

#define NS_PER_S 1000000000U
/* How long the daemon is left alone before its memory is read: two or three
 * rounds of its maintenance, which comes every second. */
#define REST_NS (2500ULL * 1000 * 1000)
/* In a run with tiny windows, to try things, that would be most of the time. */
#define REST_WINDOWS 10U

static const char *const orders[] = { "keep-alive", "close", NULL };
enum { ORDER_KEEP_ALIVE, ORDER_CLOSE };

static int open_daemon(const char *program, void **shared)
{
	struct conn_daemon *d = calloc(1, sizeof(*d));

	if (!d)
		return ENOMEM;
	d->program = program;
	*shared = d;
	return 0;
}

static int open_pcpool(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	(void)params, (void)peer;
	return open_daemon("conn_daemon", shared);
}

static int open_malloc(const struct bench_params *params,
		       const struct bench_malloc *peer, void **shared)
{
	(void)params, (void)peer;
	return open_daemon("conn_daemon_malloc", shared);
}

static int close_daemon(void *shared)
{
	int err = conn_daemon_stop(shared);

	free(shared);
	return err;
}

static const struct bench_variant malloc_variant = {
	.name = "malloc",
	.open = open_malloc,
	.close = close_daemon,
};

static const struct bench_variant pcpool = {
	.name = "pcpool",
	.open = open_pcpool,
	.close = close_daemon,
};

static const struct bench_variant pcpool_lock = {
	.name = "pcpool-lock",
	.options = "mode:lock",
	.open = open_pcpool,
	.close = close_daemon,
};

static const struct bench_variant *const variants[] = {
	&malloc_variant,
	&pcpool,
	&pcpool_lock,
};

static const uint64_t sizes[] = { 16384, 0 };

static const struct bench_metric metrics[] = {
	{ "req_per_s", "requests/s", NULL },
	{ "p99_us", "p99 us", NULL },
	{ "cpu_ns_per_req", "CPU ns/req", NULL },
	{ "rss_after", "RSS after", NULL },
};

static void rest(uint64_t window_ns)
{
	uint64_t ns = window_ns * REST_WINDOWS;
	struct timespec t;

	if (ns > REST_NS)
		ns = REST_NS;
	t.tv_sec = (time_t)(ns / NS_PER_S);
	t.tv_nsec = (long)(ns % NS_PER_S);
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static int window(void *shared, const struct bench_params *params,
		  double *value)
{
	struct conn_daemon *d = shared;
	struct conn_load load;
	int err = conn_daemon_start(d, params);

	if (!err)
		err = conn_run(d, params->order == ORDER_CLOSE, &load);
	if (err)
		return err;
	rest(params->window_ns);
	value[0] = load.requests / load.seconds;
	value[1] = load.p99_us;
	value[2] = load.daemon_cpu_ns / load.requests;
	value[3] = conn_daemon_rss(d);
	if (value[3] <= 0)
		value[3] = NAN;
	return 0;
}

const struct bench_job bench_job_conn = {
	.name = "conn",
	.title = "a daemon's connections under wrk (--size: of a buffer)",
	.default_sizes = sizes,
	.min_size = 1024,
	.default_batch = 64,
	.orders = orders,
	.metrics = metrics,
	.nr_metrics = sizeof(metrics) / sizeof(metrics[0]),
	.window = window,
	.missing = conn_missing,
	.variants = variants,
	.nr_variants = sizeof(variants) / sizeof(variants[0]),
};

/* SPDX-License-Identifier: MIT */
/*
 * pcpool-bench: compares object caches with what programs do without them.
 *
 * This file is the run itself: start a worker for each variant, ask them for
 * their windows in turn, and hand medians to the output. core.h has the map.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"
#include "options.h"
#include "output.h"

enum { EXIT_RAN = 0, EXIT_FAILED = 1, EXIT_ARGUMENTS = 2 };

struct run {
	const struct bench_options *options;
	struct bench_output out;
	struct bench_probe probe;
	/* Those that take part, in order. */
	unsigned int n;
	const struct bench_variant *variant[BENCH_LIST_MAX];
	struct bench_worker worker[BENCH_LIST_MAX];
	/* [variant][metric][rep] of the configuration that runs now. */
	double *samples;
	bool failed;
};

static bool is_here(const struct bench_probe *probe, const char *peer)
{
	if (!peer)
		return true;
	for (unsigned int i = 0; bench_peers[i]; i++)
		if (!strcmp(bench_peers[i], peer))
			return probe->peer[i].present;
	return false;
}

static bool probe(struct bench_probe *p, unsigned int slots)
{
	struct bench_worker w;
	int err = bench_probe_all(&w, p, slots);

	if (err)
		fprintf(stderr, "pcpool-bench: probe: %s\n", w.error);
	return !err;
}

static int list(void)
{
	struct bench_probe p;

	if (!probe(&p, 0))
		return EXIT_FAILED;
	for (unsigned int j = 0; j < bench_nr_jobs; j++) {
		const struct bench_job *job = bench_jobs[j];

		for (unsigned int v = 0; v < job->nr_variants; v++)
			if (is_here(&p, job->variants[v]->peer))
				printf("%s\t%s\n", job->name,
				       job->variants[v]->name);
	}
	return fflush(stdout) ? EXIT_FAILED : EXIT_RAN;
}

/* Which variants take part: those asked for whose library is here. */
static void select_variants(struct run *r)
{
	const struct bench_options *o = r->options;

	for (unsigned int i = 0; i < o->nr_variants; i++) {
		const struct bench_variant *v =
			o->job->variants[o->variants[i]];

		if (is_here(&r->probe, v->peer))
			r->variant[r->n++] = v;
		else if (o->variants_named)
			fprintf(stderr,
				"pcpool-bench: %s left out: %s is not "
				"installed\n",
				v->name, v->peer);
	}
}

static double *sample(const struct run *r, unsigned int variant,
		      unsigned int metric)
{
	return r->samples + (variant * BENCH_METRICS_MAX + metric) *
				    (size_t)r->options->reps;
}

static void one_window(struct run *r, const struct bench_params *params,
		       unsigned int i, unsigned int rep)
{
	double value[BENCH_METRICS_MAX];

	/* Once failed, a variant gives no numbers any more. */
	if (r->worker[i].error[0])
		return;
	bench_output_progress(&r->out, r->options, params, rep, r->variant[i]);
	if (bench_ask_window(&r->worker[i], params, value)) {
		r->failed = true;
		return;
	}
	for (unsigned int m = 0; m < r->options->job->nr_metrics; m++)
		sample(r, i, m)[rep] = value[m];
}

/* One number of threads and one size: all repetitions of all variants. */
static void configuration(struct run *r, const struct bench_params *params)
{
	const struct bench_options *o = r->options;
	struct bench_row rows[BENCH_LIST_MAX];

	for (unsigned int rep = 0; rep < o->reps; rep++)
		for (unsigned int i = 0; i < r->n; i++)
			one_window(r, params, i, rep);
	bench_output_progress(&r->out, o, params, 0, NULL);
	memset(rows, 0, sizeof(rows));
	for (unsigned int i = 0; i < r->n; i++) {
		rows[i].variant = r->variant[i];
		if (r->worker[i].error[0]) {
			rows[i].error = r->worker[i].error;
			continue;
		}
		rows[i].reps = o->reps;
		for (unsigned int m = 0; m < o->job->nr_metrics; m++)
			rows[i].metric[m] =
				bench_summarise(sample(r, i, m), o->reps);
	}
	bench_output_rows(&r->out, o, params, &r->probe, rows, r->n);
}

static void all_configurations(struct run *r)
{
	const struct bench_options *o = r->options;
	struct bench_params params = {
		.work = o->job->has_work ? o->work : 0,
		.window_ns = o->window_ns,
	};

	for (unsigned int i = 0; i < r->n; i++)
		if (bench_start(&r->worker[i], o->job, r->variant[i], o->slots))
			r->failed = true;
	for (unsigned int s = 0; s < o->nr_sizes; s++) {
		for (unsigned int t = 0; t < o->nr_threads; t++) {
			params.size = o->sizes[s];
			params.threads = o->threads[t];
			configuration(r, &params);
		}
	}
	for (unsigned int i = 0; i < r->n; i++) {
		if (bench_end(&r->worker[i])) {
			r->failed = true;
			bench_output_late_error(&r->out, o, r->variant[i],
						r->worker[i].error);
		}
	}
}

static int run(const struct bench_options *o)
{
	static struct run r;
	int err;

	r.options = o;
	if (!probe(&r.probe, o->slots))
		return EXIT_FAILED;
	select_variants(&r);
	if (!r.n) {
		fprintf(stderr, "pcpool-bench: nothing left to run\n");
		return EXIT_ARGUMENTS;
	}
	r.samples = calloc((size_t)r.n * BENCH_METRICS_MAX * o->reps,
			   sizeof(*r.samples));
	if (!r.samples) {
		fprintf(stderr, "pcpool-bench: %s\n", strerror(ENOMEM));
		return EXIT_FAILED;
	}
	err = bench_output_open(&r.out, o);
	if (err) {
		fprintf(stderr, "pcpool-bench: %s: %s\n", o->json,
			strerror(err));
		free(r.samples);
		return EXIT_ARGUMENTS;
	}
	bench_output_machine(&r.out, &r.probe);
	all_configurations(&r);
	free(r.samples);
	err = bench_output_close(&r.out);
	if (err) {
		fprintf(stderr, "pcpool-bench: output: %s\n", strerror(err));
		return EXIT_FAILED;
	}
	return r.failed ? EXIT_FAILED : EXIT_RAN;
}

int main(int argc, char **argv)
{
	struct bench_options options;

	if (argc > 1 && !strcmp(argv[1], BENCH_WORKER_ARG))
		return bench_worker_main(argc, argv);
	switch (bench_parse(argc, argv, &options)) {
	case BENCH_DONE:
		return EXIT_RAN;
	case BENCH_BAD:
		return EXIT_ARGUMENTS;
	case BENCH_RUN:
		break;
	}
	return options.list ? list() : run(&options);
}

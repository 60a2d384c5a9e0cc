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
	const struct bench_choice *choice[BENCH_LIST_MAX];
	struct bench_worker worker[BENCH_LIST_MAX];
	unsigned int nr_orders;
	unsigned int nr_metrics;
	/* [variant][order][metric][rep] of the configuration that runs now. */
	double *samples;
	struct bench_row rows[BENCH_LIST_MAX * BENCH_ORDERS_MAX];
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

/* Nor is a variant of a job here whose program is not. */
static const char *missing(const struct bench_job *job)
{
	return job->missing ? job->missing() : NULL;
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

		if (missing(job))
			continue;
		for (unsigned int v = 0; v < job->nr_variants; v++)
			if (is_here(&p, job->variants[v]->peer))
				printf("%s\t%s\n", job->name,
				       job->variants[v]->name);
	}
	return fflush(stdout) ? EXIT_FAILED : EXIT_RAN;
}

static const struct bench_variant *variant(const struct run *r,
					   const struct bench_choice *choice)
{
	return r->options->job->variants[choice->index];
}

/* Which variants take part: those asked for whose library is here. */
static void select_variants(struct run *r)
{
	const struct bench_options *o = r->options;
	const char *what = missing(o->job);

	if (what) {
		fprintf(stderr, "pcpool-bench: %s: %s is not installed\n",
			o->job->name, what);
		return;
	}
	for (unsigned int i = 0; i < o->nr_variants; i++) {
		const struct bench_variant *v = variant(r, &o->variants[i]);

		if (is_here(&r->probe, v->peer))
			r->choice[r->n++] = &o->variants[i];
		else if (o->variants_named)
			fprintf(stderr,
				"pcpool-bench: %s left out: %s is not "
				"installed\n",
				v->name, v->peer);
	}
}

static double *sample(const struct run *r, unsigned int i, unsigned int order,
		      unsigned int metric)
{
	size_t row = i * r->nr_orders + order;

	return r->samples + (row * r->nr_metrics + metric) * r->options->reps;
}

static void one_window(struct run *r, const struct bench_params *params,
		       unsigned int i, unsigned int rep)
{
	double value[BENCH_METRICS_MAX];

	/* Once failed, a variant gives no numbers any more. */
	if (r->worker[i].error[0])
		return;
	bench_output_progress(&r->out, r->options, params, rep,
			      r->choice[i]->label);
	if (bench_ask_window(&r->worker[i], params, value)) {
		r->failed = true;
		return;
	}
	for (unsigned int m = 0; m < r->nr_metrics; m++)
		sample(r, i, params->order, m)[rep] = value[m];
}

static void summarise(struct run *r, unsigned int i, unsigned int order,
		      struct bench_row *row)
{
	const struct bench_options *o = r->options;

	memset(row, 0, sizeof(*row));
	row->label = r->choice[i]->label;
	row->order = o->job->orders ? o->job->orders[order] : NULL;
	if (r->worker[i].error[0]) {
		row->error = r->worker[i].error;
		return;
	}
	row->reps = o->reps;
	for (unsigned int m = 0; m < r->nr_metrics; m++)
		row->metric[m] =
			bench_summarise(sample(r, i, order, m), o->reps);
}

/* One number of threads and one size: all repetitions of all variants. */
static void configuration(struct run *r, struct bench_params *params)
{
	const struct bench_options *o = r->options;
	unsigned int nr_rows = 0;

	for (unsigned int rep = 0; rep < o->reps; rep++)
		for (params->order = 0; params->order < r->nr_orders;
		     params->order++)
			for (unsigned int i = 0; i < r->n; i++)
				one_window(r, params, i, rep);
	bench_output_progress(&r->out, o, params, 0, NULL);
	for (unsigned int i = 0; i < r->n; i++)
		for (unsigned int order = 0; order < r->nr_orders; order++)
			summarise(r, i, order, &r->rows[nr_rows++]);
	bench_output_rows(&r->out, o, params, &r->probe, r->rows, nr_rows);
}

static void all_configurations(struct run *r)
{
	const struct bench_options *o = r->options;
	struct bench_params params = {
		.work = o->work,
		.batch = o->batch,
		.window_ns = o->window_ns,
	};

	for (unsigned int i = 0; i < r->n; i++)
		if (bench_start(&r->worker[i], o->job, variant(r, r->choice[i]),
				r->choice[i]->options, o->slots))
			r->failed = true;
	for (unsigned int s = 0; s < o->nr_sizes; s++) {
		params.size = o->sizes[s];
		for (unsigned int l = 0; l < o->nr_lives; l++) {
			params.live = o->lives[l];
			for (unsigned int t = 0; t < o->nr_threads; t++) {
				params.threads = o->threads[t];
				configuration(r, &params);
			}
		}
	}
	for (unsigned int i = 0; i < r->n; i++) {
		if (bench_end(&r->worker[i])) {
			r->failed = true;
			bench_output_late_error(&r->out, o, r->choice[i]->label,
						r->worker[i].error);
		}
	}
}

static unsigned int nr_orders(const struct bench_job *job)
{
	unsigned int n = 0;

	while (job->orders && job->orders[n])
		n++;
	return n ? n : 1;
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
	r.nr_orders = nr_orders(o->job);
	r.nr_metrics = bench_nr_metrics(o);
	r.samples = calloc((size_t)r.n * r.nr_orders * r.nr_metrics * o->reps,
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

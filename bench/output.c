/* SPDX-License-Identifier: MIT */
/* JSON lines, tables, progress. */
#include <config.h>

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "output.h"

#define NS_PER_S 1e9

int bench_output_open(struct bench_output *out, const struct bench_options *o)
{
	*out = (struct bench_output){ .table = stdout };
	out->progress = isatty(STDERR_FILENO);
	if (!o->json)
		return 0;
	if (!strcmp(o->json, "-")) {
		out->json = stdout;
		out->table = stderr;
		return 0;
	}
	out->json = fopen(o->json, "we");
	return out->json ? 0 : errno;
}

int bench_output_close(struct bench_output *out)
{
	int err = 0;

	errno = 0;
	if (fflush(out->table) || ferror(out->table))
		err = errno ? errno : EIO;
	if (!out->json)
		return err;
	if (fflush(out->json) || ferror(out->json))
		err = errno ? errno : EIO;
	if (out->json != stdout && fclose(out->json))
		err = errno ? errno : EIO;
	out->json = NULL;
	return err;
}

/* A JSON string. */
static void put_string(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

/* As many digits as mean something, and never an exponent. */
static void put_number(FILE *f, double value)
{
	fprintf(f, "%.*f", value < 1e4 ? 3 : value < 1e6 ? 1 : 0, value);
}

static void machine_json(FILE *f, const struct bench_machine *m,
			 const struct bench_probe *p)
{
	const char *comma = "";

	fprintf(f, "{\"machine\":{\"cpu\":");
	put_string(f, m->cpu);
	fprintf(f, ",\"cpus\":%u,\"kernel\":", p->cpus);
	put_string(f, m->kernel);
	fprintf(f, ",\"libc\":");
	put_string(f, m->libc);
	fprintf(f, ",\"mode\":");
	put_string(f, p->mode);
	fprintf(f, ",\"index\":");
	put_string(f, p->index);
	fprintf(f, ",\"slots\":%u,\"nodes\":%u,\"pcpool\":", p->slots,
		p->nodes);
	put_string(f, p->version);
	fprintf(f, ",\"linkage\":\"%s\",\"peers\":{",
		p->shared ? "shared" : "static");
	for (unsigned int i = 0; bench_peers[i]; i++) {
		if (!p->peer[i].present)
			continue;
		fputs(comma, f);
		put_string(f, bench_peers[i]);
		fputc(':', f);
		put_string(f, p->peer[i].version);
		comma = ",";
	}
	fprintf(f, "}}}\n");
}

void bench_output_machine(struct bench_output *out,
			  const struct bench_probe *probe)
{
	struct bench_machine m;

	bench_machine_read(&m);
	if (out->json) {
		machine_json(out->json, &m, probe);
		fflush(out->json);
	}
	fprintf(out->table, "%s, %u CPUs, Linux %s, %s\n", m.cpu, probe->cpus,
		m.kernel, m.libc);
	fprintf(out->table,
		"pcpool %s (%s library), %s mode, index %s, "
		"%u slots, %u node%s\npeers:",
		probe->version, probe->shared ? "shared" : "static",
		probe->mode, probe->index, probe->slots, probe->nodes,
		probe->nodes == 1 ? "" : "s");
	for (unsigned int i = 0; bench_peers[i]; i++)
		if (probe->peer[i].present)
			fprintf(out->table, " %s %s", bench_peers[i],
				probe->peer[i].version);
	fputc('\n', out->table);
}

/* What is the same in all lines of a row. */
static void row_head(FILE *f, const struct bench_options *o,
		     const struct bench_params *params, unsigned int slots,
		     const struct bench_row *row)
{
	fprintf(f,
		"{\"job\":\"%s\",\"variant\":\"%s\",\"threads\":%u,"
		"\"size\":%llu,",
		o->job->name, row->label, params->threads,
		(unsigned long long)params->size);
	if (o->job->has_work)
		fprintf(f, "\"work\":%u,", params->work);
	if (o->job->default_batch)
		fprintf(f, "\"batch\":%u,", params->batch);
	if (o->job->has_live)
		fprintf(f, "\"live\":%llu,", (unsigned long long)params->live);
	if (row->order)
		fprintf(f, "\"order\":\"%s\",", row->order);
	/* As it was asked for: not the copy of a region that is nobody's. */
	fprintf(f, "\"slots\":%u,", o->slots ? o->slots : slots);
}

/* A metric that cannot be had is left out; that a variant failed is said once
 * for each of the job's own. */
static void row_json(FILE *f, const struct bench_options *o,
		     const struct bench_params *params, unsigned int slots,
		     const struct bench_row *row)
{
	unsigned int n = row->error ? o->job->nr_metrics : bench_nr_metrics(o);

	for (unsigned int m = 0; m < n; m++) {
		const struct bench_metric *metric = bench_metric(o->job, m);
		const struct bench_summary *s = &row->metric[m];

		if (isnan(s->median))
			continue;
		row_head(f, o, params, slots, row);
		fprintf(f, "\"metric\":\"%s\",", metric->name);
		if (metric->kind)
			fprintf(f, "\"kind\":\"%s\",", metric->kind);
		if (row->error) {
			fprintf(f, "\"error\":");
			put_string(f, row->error);
		} else {
			fprintf(f, "\"median\":");
			put_number(f, s->median);
			fprintf(f, ",\"min\":");
			put_number(f, s->min);
			fprintf(f, ",\"max\":");
			put_number(f, s->max);
		}
		fprintf(f, ",\"reps\":%u}\n", row->reps);
	}
}

/* A number in a column; large ones without decimals. */
static void cell(FILE *f, double value)
{
	if (isnan(value))
		fprintf(f, " %13s", "-");
	else
		fprintf(f, " %13.*f", value < 1e4 ? 2 : 0, value);
}

static void table_head(FILE *f, const struct bench_options *o,
		       const struct bench_params *params, unsigned int slots,
		       int width)
{
	const struct bench_job *job = o->job;

	fprintf(f, "\n%s: %s; %u thread%s, %llu bytes, %u slots", job->name,
		job->title, params->threads, params->threads == 1 ? "" : "s",
		(unsigned long long)params->size, slots);
	if (job->has_work)
		fprintf(f, params->work ? ", work %u" : ", bare cycle",
			params->work);
	if (job->default_batch)
		fprintf(f, ", batch %u", params->batch);
	if (job->has_live)
		fprintf(f, ", %llu alive", (unsigned long long)params->live);
	fprintf(f, "\nmedians of %u windows of %.3g s\n\n%-*s", o->reps,
		(double)params->window_ns / NS_PER_S, width, "variant");
	if (job->orders)
		fprintf(f, " %10s", "order");
	fprintf(f, " %13s %13s %13s", job->metrics[0].heading, "min", "max");
	for (unsigned int m = 1; m < bench_nr_metrics(o); m++)
		if (bench_metric(job, m)->heading)
			fprintf(f, " %13s", bench_metric(job, m)->heading);
	fputc('\n', f);
}

static void table(FILE *f, const struct bench_options *o,
		  const struct bench_params *params, unsigned int slots,
		  const struct bench_row *rows, unsigned int n)
{
	int width = 20;

	for (unsigned int i = 0; i < n; i++)
		if ((int)strlen(rows[i].label) > width)
			width = (int)strlen(rows[i].label);
	table_head(f, o, params, slots, width);
	for (unsigned int i = 0; i < n; i++) {
		const struct bench_row *row = &rows[i];

		fprintf(f, "%-*s", width, row->label);
		if (row->order)
			fprintf(f, " %10s", row->order);
		if (row->error) {
			fprintf(f, " failed: %s\n", row->error);
			continue;
		}
		cell(f, row->metric[0].median);
		cell(f, row->metric[0].min);
		cell(f, row->metric[0].max);
		for (unsigned int m = 1; m < bench_nr_metrics(o); m++)
			if (bench_metric(o->job, m)->heading)
				cell(f, row->metric[m].median);
		fputc('\n', f);
	}
}

void bench_output_rows(struct bench_output *out, const struct bench_options *o,
		       const struct bench_params *params,
		       const struct bench_probe *probe,
		       const struct bench_row *rows, unsigned int n)
{
	for (unsigned int i = 0; out->json && i < n; i++)
		row_json(out->json, o, params, probe->slots, &rows[i]);
	if (out->json)
		fflush(out->json);
	table(out->table, o, params, probe->slots, rows, n);
	fflush(out->table);
}

void bench_output_late_error(struct bench_output *out,
			     const struct bench_options *o, const char *label,
			     const char *error)
{
	if (out->json) {
		fprintf(out->json,
			"{\"job\":\"%s\",\"variant\":\"%s\",\"error\":",
			o->job->name, label);
		put_string(out->json, error);
		fprintf(out->json, "}\n");
	}
	fprintf(out->table, "%-20s failed: %s\n", label, error);
}

void bench_output_progress(struct bench_output *out,
			   const struct bench_options *o,
			   const struct bench_params *params, unsigned int rep,
			   const char *label)
{
	if (!out->progress)
		return;
	fputs("\r\033[K", stderr);
	if (label)
		fprintf(stderr,
			"%s, %u thread%s, %llu bytes: window %u of %u, "
			"%s",
			o->job->name, params->threads,
			params->threads == 1 ? "" : "s",
			(unsigned long long)params->size, rep + 1, o->reps,
			label);
	fflush(stderr);
}

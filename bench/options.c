/* SPDX-License-Identifier: MIT */
/* The command line of pcpool-bench. Strict: a number is digits and in range, a
 * name is one that exists; nothing is guessed or cut short. */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcpool/pcpool.h>

#include "counters.h"
#include "options.h"

#define THREADS_MAX 4096U
#define REPS_MAX 10000U
#define WORK_MAX 1000000U
#define BATCH_MAX 10000000U
#define LIVE_MAX 10000000U
#define SLOTS_MAX 4096U
#define WINDOW_MAX_S 3600.0
#define NS_PER_S 1e9

static const char usage[] =
	"usage: pcpool-bench JOB [options]\n"
	"       pcpool-bench --list\n"
	"\n"
	"  --threads N[,N...]   worker threads, pinned round robin to the "
	"allowed CPUs (the\n"
	"                       job's, mostly 1,2)\n"
	"  --size N[,N...]      object size in bytes (the job's)\n"
	"  --variants a,b,...   run only these (all that exist here); a+k:v "
	"is variant a with\n"
	"                       k:v at the end of its PCPOOL_OPTIONS\n"
	"  --reps N             windows of each variant, interleaved (7)\n"
	"  --window SECONDS     length of one timed window (0.3)\n"
	"  --slots N            virtual slots, as on a machine with N CPUs "
	"(real)\n"
	"  --work N             exec: exec-like bodies per cycle; 0 leaves the "
	"bare cycle (1);\n"
	"                       tc: packets counted (0); remote: 1 has the "
	"second thread\n"
	"                       touch objects too (0)\n"
	"  --batch N            objects taken together: batch, scale (10000), mmap "
	"(10); conn:\n"
	"                       connections (64)\n"
	"  --live N[,N...]      percpu: other regions alive; oversub: objects "
	"of each thread\n"
	"                       (1000)\n"
	"  --counters           the cache's counters too, as job mmap shows "
	"them\n"
	"  --json FILE          JSON lines; - is stdout, the table then goes "
	"to "
	"stderr\n"
	"  --list               jobs and variants of this build\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 when every variant ran, 1 when one failed, 2 for bad "
	"arguments.\n"
	"\n"
	"Jobs:\n";

enum {
	OPT_THREADS = 1,
	OPT_SIZE,
	OPT_VARIANTS,
	OPT_REPS,
	OPT_WINDOW,
	OPT_SLOTS,
	OPT_WORK,
	OPT_BATCH,
	OPT_LIVE,
	OPT_COUNTERS,
	OPT_JSON,
	OPT_LIST,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = {
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "variants", required_argument, NULL, OPT_VARIANTS },
	{ "reps", required_argument, NULL, OPT_REPS },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "slots", required_argument, NULL, OPT_SLOTS },
	{ "work", required_argument, NULL, OPT_WORK },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "live", required_argument, NULL, OPT_LIVE },
	{ "counters", no_argument, NULL, OPT_COUNTERS },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* What the options said, before the job is known. */
struct raw {
	const char *sizes;
	const char *variants;
	const char *lives;
	bool work_given;
	bool batch_given;
};

static __attribute__((format(printf, 1, 2))) bool complain(const char *format,
							   ...)
{
	va_list args;

	fputs("pcpool-bench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return false;
}

/* One number; *end is where it stopped. */
static bool parse_number(const char *text, const char **end, uint64_t min,
			 uint64_t max, uint64_t *value)
{
	char *stop;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &stop, 10);
	*end = stop;
	return !errno && *value >= min && *value <= max;
}

static bool number(const char *option, const char *text, uint64_t min,
		   uint64_t max, uint64_t *value)
{
	const char *end;

	if (parse_number(text, &end, min, max, value) && !*end)
		return true;
	return complain("--%s takes a number from %llu to %llu, not \"%s\"",
			option, (unsigned long long)min,
			(unsigned long long)max, text);
}

static bool numbers(const char *option, const char *text, uint64_t min,
		    uint64_t max, uint64_t *values, unsigned int *n)
{
	const char *end = text;

	*n = 0;
	do {
		if (*n == BENCH_LIST_MAX)
			return complain("--%s: more than %u numbers", option,
					BENCH_LIST_MAX);
		if (*n)
			end++;
		if (!parse_number(end, &end, min, max, &values[*n]))
			break;
		(*n)++;
		if (!*end)
			return true;
	} while (*end == ',');
	return complain("--%s takes numbers from %llu to %llu, separated by "
			"commas, not \"%s\"",
			option, (unsigned long long)min,
			(unsigned long long)max, text);
}

static bool threads(const char *text, struct bench_options *o)
{
	uint64_t values[BENCH_LIST_MAX];

	if (!numbers("threads", text, 1, THREADS_MAX, values, &o->nr_threads))
		return false;
	for (unsigned int i = 0; i < o->nr_threads; i++)
		o->threads[i] = (uint32_t)values[i];
	return true;
}

static bool window(const char *text, struct bench_options *o)
{
	double seconds;
	char *end;

	seconds = strtod(text, &end);
	/* The first test also refuses "nan", "inf" and hexadecimal. */
	if (strspn(text, "0123456789.") != strlen(text) || end == text ||
	    *end || seconds < 1e-3 || seconds > WINDOW_MAX_S)
		return complain("--window takes seconds from 0.001 to %.0f, "
				"not \"%s\"",
				WINDOW_MAX_S, text);
	o->window_ns = (uint64_t)(seconds * NS_PER_S);
	return true;
}

/* The entries behind a variant's name: "+key:value+key:value". */
static bool parse_extra(const char *text, size_t len, char *options)
{
	bool colon = true;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c == '+') {
			if (!colon)
				return false;
			colon = false;
		} else if (c == ':') {
			if (colon || text[i - 1] == '+' || i + 1 == len ||
			    text[i + 1] == '+')
				return false;
			colon = true;
		} else if (c != '_' && (c < 'a' || c > 'z') &&
			   (c < '0' || c > '9')) {
			return false;
		}
		if (i)
			options[i - 1] = c == '+' ? ',' : c;
	}
	options[len ? len - 1 : 0] = '\0';
	return colon;
}

/* One entry of --variants. */
static bool choose(const char *text, size_t len, struct bench_options *o)
{
	const struct bench_job *job = o->job;
	struct bench_choice *choice = &o->variants[o->nr_variants];
	size_t name = strcspn(text, ",+");
	unsigned int i = 0;

	while (i < job->nr_variants &&
	       (strlen(job->variants[i]->name) != name ||
		strncmp(job->variants[i]->name, text, name)))
		i++;
	if (i == job->nr_variants)
		return complain("job %s has no variant \"%.*s\"", job->name,
				(int)name, text);
	if (o->nr_variants == BENCH_LIST_MAX || len >= BENCH_LABEL_MAX)
		return complain("--variants: more than there is room for");
	if (!parse_extra(text + name, len - name, choice->options))
		return complain("variant %s is followed by +key:value, not "
				"\"%.*s\"",
				job->variants[i]->name, (int)(len - name),
				text + name);
	choice->index = i;
	memcpy(choice->label, text, len);
	choice->label[len] = '\0';
	for (unsigned int k = 0; k < o->nr_variants; k++)
		if (!strcmp(o->variants[k].label, choice->label))
			return complain("variant %s is named twice",
					choice->label);
	o->nr_variants++;
	return true;
}

static bool parse_variants(const char *text, struct bench_options *o)
{
	o->nr_variants = 0;
	o->variants_named = true;
	for (;;) {
		size_t len = strcspn(text, ",");

		if (!choose(text, len, o))
			return false;
		if (!text[len])
			return true;
		text += len + 1;
	}
}

static void all_variants(struct bench_options *o)
{
	o->nr_variants = o->job->nr_variants;
	for (unsigned int i = 0; i < o->nr_variants; i++) {
		o->variants[i].index = i;
		snprintf(o->variants[i].label, BENCH_LABEL_MAX, "%s",
			 o->job->variants[i]->name);
	}
}

static void default_sizes(struct bench_options *o)
{
	const uint64_t *size = o->job->default_sizes;

	for (o->nr_sizes = 0; size[o->nr_sizes]; o->nr_sizes++)
		o->sizes[o->nr_sizes] = size[o->nr_sizes];
}

static void default_threads(struct bench_options *o)
{
	static const uint32_t usual[] = { 1, 2, 0 };
	const uint32_t *n = o->job->default_threads;

	if (o->slots && o->job->threads_by_slots) {
		o->threads[0] = o->slots < o->job->threads_by_slots
					? (o->slots > 1 ? o->slots & ~1U : 2)
					: o->job->threads_by_slots;
		o->nr_threads = 1;
		return;
	}
	if (!n)
		n = usual;
	for (o->nr_threads = 0; n[o->nr_threads]; o->nr_threads++)
		o->threads[o->nr_threads] = n[o->nr_threads];
}

/* --size and --live, or what the job has instead. */
static bool settle_lists(const struct raw *raw, struct bench_options *o)
{
	const struct bench_job *job = o->job;
	uint64_t max = job->max_size ? job->max_size : PCPOOL_SIZE_MAX;

	o->nr_lives = 1;
	o->lives[0] = job->default_live;
	if (raw->lives &&
	    !numbers("live", raw->lives, job->min_live, LIVE_MAX, o->lives,
		     &o->nr_lives))
		return false;
	if (raw->sizes)
		return numbers("size", raw->sizes, job->min_size, max, o->sizes,
			       &o->nr_sizes);
	default_sizes(o);
	return true;
}

/* --threads, or what the job has instead. */
static bool settle_threads(struct bench_options *o)
{
	uint32_t step = o->job->threads_step;

	if (!o->nr_threads)
		default_threads(o);
	for (unsigned int i = 0; step && i < o->nr_threads; i++)
		if (o->threads[i] % step)
			return complain("job %s takes threads in groups of "
					"%u, not %u",
					o->job->name, step, o->threads[i]);
	return true;
}

/* What depends on the job. */
static bool settle(const struct raw *raw, struct bench_options *o)
{
	if (raw->work_given && !o->job->has_work)
		return complain("job %s has no --work", o->job->name);
	if (raw->batch_given && !o->job->default_batch)
		return complain("job %s has no --batch", o->job->name);
	if (raw->lives && !o->job->has_live)
		return complain("job %s has no --live", o->job->name);
	if (!raw->work_given)
		o->work = o->job->default_work;
	if (!raw->batch_given)
		o->batch = o->job->default_batch;
	if (o->job->has_counters)
		o->counters = true;
	if (!settle_threads(o) || !settle_lists(raw, o))
		return false;
	if (raw->variants)
		return parse_variants(raw->variants, o);
	all_variants(o);
	return true;
}

/* One option. Returns false when it is bad. */
static bool take(int opt, const char *arg, struct raw *raw,
		 struct bench_options *o)
{
	uint64_t value = 0;

	switch (opt) {
	case OPT_THREADS:
		return threads(arg, o);
	case OPT_SIZE:
		raw->sizes = arg;
		return true;
	case OPT_VARIANTS:
		raw->variants = arg;
		return true;
	case OPT_REPS:
		if (!number("reps", arg, 1, REPS_MAX, &value))
			return false;
		o->reps = (unsigned int)value;
		return true;
	case OPT_WINDOW:
		return window(arg, o);
	case OPT_SLOTS:
		if (!number("slots", arg, 1, SLOTS_MAX, &value))
			return false;
		o->slots = (unsigned int)value;
		return true;
	case OPT_WORK:
		if (!number("work", arg, 0, WORK_MAX, &value))
			return false;
		o->work = (uint32_t)value;
		raw->work_given = true;
		return true;
	case OPT_BATCH:
		if (!number("batch", arg, 1, BATCH_MAX, &value))
			return false;
		o->batch = (uint32_t)value;
		raw->batch_given = true;
		return true;
	case OPT_LIVE:
		raw->lives = arg;
		return true;
	case OPT_COUNTERS:
		o->counters = true;
		return true;
	case OPT_JSON:
		o->json = arg;
		return true;
	case OPT_LIST:
		o->list = true;
		return true;
	default:
		/* getopt has said what is wrong. */
		return false;
	}
}

unsigned int bench_nr_metrics(const struct bench_options *o)
{
	return o->job->nr_metrics + (o->counters ? bench_nr_counters : 0);
}

static void help(void)
{
	fputs(usage, stdout);
	for (unsigned int i = 0; i < bench_nr_jobs; i++)
		printf("  %-8s %s\n", bench_jobs[i]->name,
		       bench_jobs[i]->title);
}

enum bench_parsed bench_parse(int argc, char **argv, struct bench_options *o)
{
	struct raw raw = { NULL, NULL, NULL, false, false };
	int opt;

	*o = (struct bench_options){
		.reps = 7,
		.window_ns = 300000000,
	};
	while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (opt == OPT_HELP) {
			help();
			return BENCH_DONE;
		}
		if (opt == OPT_VERSION) {
			printf("pcpool-bench %s\n", pcpool_version());
			return BENCH_DONE;
		}
		if (!take(opt, optarg, &raw, o))
			return BENCH_BAD;
	}
	if (argc - optind > 1 || (argc == optind && !o->list)) {
		complain(argc == optind ? "which job? See --help"
					: "one job at a time");
		return BENCH_BAD;
	}
	if (optind < argc) {
		o->job = bench_find_job(argv[optind]);
		if (!o->job) {
			complain("no job \"%s\"; see --list", argv[optind]);
			return BENCH_BAD;
		}
		if (!settle(&raw, o))
			return BENCH_BAD;
	}
	return BENCH_RUN;
}

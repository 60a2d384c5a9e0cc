/* SPDX-License-Identifier: MIT */
/*
 * The statistics as a page. The numbers stand in tables, by name and place in a
 * struct; a form is a few functions that walk the tables.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "pages.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcpool/pcpool.h>

#include "conn_alloc.h"
#include "server.h"
#include "stats.h"

#define CACHES_MAX 2U

/* What the daemon tells besides its counters. */
struct now {
	uint64_t connections;
	uint64_t uptime_seconds;
};

/* One number. */
struct field {
	const char *name;
	const char *help;
	size_t at;   /* a uint64_t there */
	bool counts; /* up only */
};

/* clang-format off */
#define GAUGE(type, name, help) { #name, help, offsetof(type, name), false }
#define COUNT(type, name, help) { #name, help, offsetof(type, name), true }
/* clang-format on */

static const struct field now_fields[] = {
	GAUGE(struct now, connections, "Connections open"),
	GAUGE(struct now, uptime_seconds, "Seconds since the start"),
};

static const struct field daemon_fields[] = {
	COUNT(struct counters, accepted, "Connections served"),
	COUNT(struct counters, closed, "Connections closed again"),
	COUNT(struct counters, refused, "Clients sent away with 503"),
	COUNT(struct counters, timed_out, "Connections idle for too long"),
	COUNT(struct counters, accept_failed, "Failures of accept()"),
	COUNT(struct counters, built, "Connection objects constructed"),
	COUNT(struct counters, build_failed, "Constructions that failed"),
	COUNT(struct counters, torn_down, "Connection objects destructed"),
	COUNT(struct counters, requests, "Requests answered"),
	COUNT(struct counters, ok, "Responses with a status 2xx"),
	COUNT(struct counters, bad, "Responses with a status 4xx"),
	COUNT(struct counters, failed, "Responses with a status 5xx"),
	COUNT(struct counters, bytes_in, "Bytes received"),
	COUNT(struct counters, bytes_out, "Bytes sent"),
	COUNT(struct counters, maintain, "Calls of pcpool_maintain()"),
	COUNT(struct counters, maintain_failed, "Of these, with an error"),
};

#define CACHE_STATS struct pcpool_cache_stats
static const struct field cache_fields[] = {
	GAUGE(CACHE_STATS, object_size, "Bytes of an object"),
	GAUGE(CACHE_STATS, sheaf_capacity, "Objects in a sheaf made now"),
	GAUGE(CACHE_STATS, slabs, "Slabs"),
	GAUGE(CACHE_STATS, waiting, "Empty slabs kept built"),
	GAUGE(CACHE_STATS, live, "Objects handed out"),
	GAUGE(CACHE_STATS, cached, "Objects in stock"),
	GAUGE(CACHE_STATS, built, "Objects constructed now"),
	GAUGE(CACHE_STATS, metadata_bytes, "Bytes of the cache itself"),
	COUNT(CACHE_STATS, ctor_ok, "Successful constructor calls"),
	COUNT(CACHE_STATS, ctor_fail, "Failed constructor calls"),
	COUNT(CACHE_STATS, dtor, "Destructor calls"),
	COUNT(CACHE_STATS, alloc_fastpath, "Allocations from a CPU's stock"),
	COUNT(CACHE_STATS, alloc_slowpath, "All other allocations"),
	COUNT(CACHE_STATS, free_fastpath, "Frees into a CPU's stock"),
	COUNT(CACHE_STATS, free_slowpath, "All other frees"),
	COUNT(CACHE_STATS, alloc_slab, "Slabs made"),
	COUNT(CACHE_STATS, free_slab, "Slabs released"),
	COUNT(CACHE_STATS, list_lock, "Times a slab list was locked"),
	COUNT(CACHE_STATS, list_lock_contended, "Of these, not at once"),
};

#define MEMORY_STATS struct pcpool_memory_stats
static const struct field memory_fields[] = {
	GAUGE(MEMORY_STATS, slab_bytes, "Bytes of slabs"),
	GAUGE(MEMORY_STATS, idle_bytes, "Bytes kept for the next slab"),
};

/* All that a page shows, read at one time. */
struct snapshot {
	struct now now;
	struct counters counters;
	struct pcpool_cache_stats cache[CACHES_MAX];
	const char *cache_name[CACHES_MAX];
	unsigned int nr_caches;
	struct pcpool_memory_stats memory;
};

/* A table with the structs it applies to. */
struct set {
	const char *name;   /* of the group, in text and JSON */
	const char *prefix; /* of a metric's name */
	const struct field *fields;
	size_t nr_fields;
	const void *values;
	size_t stride;
	const char *const *labels; /* NULL: there is one, without a label */
	unsigned int n;
};

#define TABLE(table) (table), sizeof(table) / sizeof((table)[0])
#define NR_SETS 4U

static void make_sets(const struct snapshot *s, struct set *set)
{
	const struct set all[NR_SETS] = {
		{ "now", "conn_daemon_", TABLE(now_fields), &s->now, 0, NULL,
		  1 },
		{ "daemon", "conn_daemon_", TABLE(daemon_fields), &s->counters,
		  0, NULL, 1 },
		{ "cache", "pcpool_cache_", TABLE(cache_fields), s->cache,
		  sizeof(s->cache[0]), s->cache_name, s->nr_caches },
		{ "memory", "pcpool_memory_", TABLE(memory_fields), &s->memory,
		  0, NULL, 1 },
	};

	memcpy(set, all, sizeof(all));
}

static void take_snapshot(struct snapshot *s)
{
	struct pcpool_cache *cache;

	memset(s, 0, sizeof(*s));
	s->now.connections = server_active();
	s->now.uptime_seconds = server_uptime();
	counters_sum(&s->counters);
	while (s->nr_caches < CACHES_MAX &&
	       (cache = conn_alloc_cache(s->nr_caches))) {
		unsigned int i = s->nr_caches++;

		s->cache[i].stats_size = sizeof(s->cache[i]);
		s->cache_name[i] = pcpool_cache_name(cache);
		pcpool_cache_get_stats(cache, &s->cache[i]);
	}
	s->memory.stats_size = sizeof(s->memory);
	pcpool_memory_get_stats(&s->memory);
}

static uint64_t value(const struct set *set, unsigned int i,
		      const struct field *field)
{
	uint64_t v;

	memcpy(&v, (const char *)set->values + i * set->stride + field->at,
	       sizeof(v));
	return v;
}

static void text(FILE *f, const struct set *set)
{
	for (unsigned int i = 0; i < set->n; i++) {
		for (size_t k = 0; k < set->nr_fields; k++) {
			fprintf(f, "%s.", set->name);
			if (set->labels)
				fprintf(f, "%s.", set->labels[i]);
			fprintf(f, "%s %" PRIu64 "\n", set->fields[k].name,
				value(set, i, &set->fields[k]));
		}
	}
}

static void render_text(FILE *f, const struct set *sets)
{
	fprintf(f, "alloc %s\nmode %s\npcpool %s\n", conn_alloc_name,
		pcpool_mode(), pcpool_version());
	for (unsigned int i = 0; i < NR_SETS; i++)
		text(f, &sets[i]);
}

static void json_object(FILE *f, const struct set *set, unsigned int i)
{
	for (size_t k = 0; k < set->nr_fields; k++)
		fprintf(f, "%s\"%s\":%" PRIu64, k ? "," : "{",
			set->fields[k].name, value(set, i, &set->fields[k]));
	fputc('}', f);
}

/* The names in here are ours and need no escapes. */
static void render_json(FILE *f, const struct set *sets)
{
	fprintf(f, "{\"alloc\":\"%s\",\"mode\":\"%s\",\"pcpool\":\"%s\"",
		conn_alloc_name, pcpool_mode(), pcpool_version());
	for (unsigned int s = 0; s < NR_SETS; s++) {
		const struct set *set = &sets[s];

		fprintf(f, ",\"%s\":", set->name);
		if (!set->labels) {
			json_object(f, set, 0);
			continue;
		}
		fputc('{', f);
		for (unsigned int i = 0; i < set->n; i++) {
			fprintf(f, "%s\"%s\":", i ? "," : "", set->labels[i]);
			json_object(f, set, i);
		}
		fputc('}', f);
	}
	fputs("}\n", f);
}

static void metrics(FILE *f, const struct set *set)
{
	for (size_t k = 0; k < set->nr_fields && set->n; k++) {
		const struct field *field = &set->fields[k];

		fprintf(f, "# TYPE %s%s %s\n# HELP %s%s %s\n", set->prefix,
			field->name, field->counts ? "counter" : "gauge",
			set->prefix, field->name, field->help);
		for (unsigned int i = 0; i < set->n; i++) {
			fprintf(f, "%s%s%s", set->prefix, field->name,
				field->counts ? "_total" : "");
			if (set->labels)
				fprintf(f, "{cache=\"%s\"}", set->labels[i]);
			fprintf(f, " %" PRIu64 "\n", value(set, i, field));
		}
	}
}

static void render_openmetrics(FILE *f, const struct set *sets)
{
	fprintf(f,
		"# TYPE conn_daemon_build info\n"
		"# HELP conn_daemon_build What runs here\n"
		"conn_daemon_build_info{alloc=\"%s\",mode=\"%s\","
		"pcpool=\"%s\"} 1\n",
		conn_alloc_name, pcpool_mode(), pcpool_version());
	for (unsigned int i = 0; i < NR_SETS; i++)
		metrics(f, &sets[i]);
	fputs("# EOF\n", f);
}

char *page_render(enum page_form form, size_t *len)
{
	struct set sets[NR_SETS];
	struct snapshot s;
	char *page = NULL;
	FILE *f;
	bool failed;

	take_snapshot(&s);
	make_sets(&s, sets);
	f = open_memstream(&page, len);
	if (!f)
		return NULL;
	switch (form) {
	case PAGE_FORM_TEXT:
		render_text(f, sets);
		break;
	case PAGE_FORM_JSON:
		render_json(f, sets);
		break;
	case PAGE_FORM_OPENMETRICS:
		render_openmetrics(f, sets);
		break;
	}
	failed = ferror(f);
	if (fclose(f) || failed) {
		free(page);
		return NULL;
	}
	return page;
}

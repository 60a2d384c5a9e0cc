/* SPDX-License-Identifier: MIT */
/* PCPOOL_OPTIONS. See options.h. */
#include <config.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/fault.h"
#include "base/options.h"
#include "base/report.h"

struct pcp_options pcp_options;

#define ENTRY_MAX 128

/* Words of a key that takes one of a few; the position is the value. */
static const char *const mode_words[] = { "auto", "rseq", "lock", NULL };
static const char *const index_words[] = { "auto", "cpu", "cid", NULL };
static const char *const switch_words[] = { "off", "on", NULL };
/* For what is on by default. */
static const char *const negated_words[] = { "on", "off", NULL };

static const struct option {
	const char *key;
	const char *const *words; /* NULL: a number from 1 to max */
	unsigned int max;
	size_t offset;
} table[] = {
	{ "mode", mode_words, 0, offsetof(struct pcp_options, mode) },
	{ "index", index_words, 0, offsetof(struct pcp_options, index) },
	{ "slots", NULL, PCP_OPTION_SLOTS_MAX,
	  offsetof(struct pcp_options, slots) },
	{ "nodes", NULL, PCP_OPTION_NODES_MAX,
	  offsetof(struct pcp_options, nodes) },
	{ "sheaf", NULL, 1024, offsetof(struct pcp_options, sheaf) },
	{ "parking", negated_words, 0,
	  offsetof(struct pcp_options, no_parking) },
	{ "barn_refill", negated_words, 0,
	  offsetof(struct pcp_options, no_barn_refill) },
	{ "debug", switch_words, 0, offsetof(struct pcp_options, debug) },
};

static bool parse_value(const struct option *option, const char *value,
			unsigned int *out)
{
	unsigned long number;
	char *end;

	for (unsigned int i = 0; option->words && option->words[i]; i++) {
		if (!strcmp(option->words[i], value)) {
			*out = i;
			return true;
		}
	}
	if (option->words || value[0] < '0' || value[0] > '9')
		return false;
	number = strtoul(value, &end, 10);
	if (*end || number < 1 || number > option->max)
		return false;
	*out = (unsigned int)number;
	return true;
}

/* entry: "key:value", changed in place. */
static bool apply(char *entry)
{
	char *colon = strchr(entry, ':');

	if (!colon) {
		pcp_warn("PCPOOL_OPTIONS: \"%s\" is not key:value, ignored",
			 entry);
		return false;
	}
	*colon = '\0';
#if PCP_FAULTS
	if (!strcmp(entry, "fault")) {
		if (pcp_fault_parse(colon + 1))
			return true;
		pcp_warn("PCPOOL_OPTIONS: bad value \"%s\" for fault, ignored",
			 colon + 1);
		return false;
	}
#endif
	for (size_t i = 0; i < PCP_ARRAY_SIZE(table); i++) {
		unsigned int *field = (unsigned int *)(void *)((
			char *)&pcp_options + table[i].offset);

		if (strcmp(table[i].key, entry))
			continue;
		if (parse_value(&table[i], colon + 1, field))
			return true;
		pcp_warn("PCPOOL_OPTIONS: bad value \"%s\" for %s, ignored",
			 colon + 1, entry);
		return false;
	}
	pcp_warn("PCPOOL_OPTIONS: unknown key \"%s\", ignored", entry);
	return false;
}

unsigned int pcp_options_parse(const char *text)
{
	unsigned int refused = 0;

	while (*text) {
		size_t len = strcspn(text, ",");
		char entry[ENTRY_MAX];

		if (len >= sizeof(entry)) {
			pcp_warn("PCPOOL_OPTIONS: entry of %zu bytes, ignored",
				 len);
			refused++;
		} else if (len) {
			memcpy(entry, text, len);
			entry[len] = '\0';
			refused += !apply(entry);
		}
		text += len;
		text += *text == ',';
	}
	return refused;
}

void pcp_options_init(void)
{
	/* NULL in a set-user-ID program. */
	const char *text = secure_getenv("PCPOOL_OPTIONS");

	if (text)
		pcp_options_parse(text);
}

/* SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "stats.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

struct counters *counters;

int counters_init(void)
{
	counters = pcpool_percpu_alloc(sizeof(*counters), 0);
	return counters ? 0 : errno;
}

void counters_exit(void)
{
	pcpool_percpu_free(counters);
	counters = NULL;
}

void counters_sum(struct counters *sum)
{
	/* All fields are of one type, so that they can be walked. */
	uint64_t *word = (uint64_t *)(void *)counters;
	uint64_t one;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(one); i++) {
		one = pcpool_percpu_sum_u64(word + i);
		memcpy((char *)sum + i * sizeof(one), &one, sizeof(one));
	}
}

/* SPDX-License-Identifier: MIT */
/* Medians. */
#include <config.h>

#include <stdlib.h>

#include "summary.h"

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct bench_summary bench_summarise(double *values, unsigned int n)
{
	qsort(values, n, sizeof(*values), compare);
	return (struct bench_summary){
		/* Of an even number: between the two in the middle. */
		.median = (values[(n - 1) / 2] + values[n / 2]) / 2,
		.min = values[0],
		.max = values[n - 1],
	};
}

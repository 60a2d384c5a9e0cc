/* SPDX-License-Identifier: MIT */
/* The median of some repetitions, with the least and the greatest. */
#ifndef BENCH_SUMMARY_H
#define BENCH_SUMMARY_H

struct bench_summary {
	double median;
	double min;
	double max;
};

/** n must be at least 1. Sorts values. */
struct bench_summary bench_summarise(double *values, unsigned int n);

#endif /* BENCH_SUMMARY_H */

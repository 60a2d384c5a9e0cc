/* SPDX-License-Identifier: MIT */
/*
 * Fail the first, the second, … passing of a fault point, until a run of a
 * scenario gets through without reaching it. Each run starts from scratch and
 * ends with the point cleared.
 */
#ifndef PCP_TESTS_FAULT_STEPS_H
#define PCP_TESTS_FAULT_STEPS_H

#include "base/fault.h"

#include "../caches.h"

static const char *const point_names[PCP_FAULT_COUNT] = {
	[PCP_FAULT_META] = "meta",     [PCP_FAULT_RESERVE] = "reserve",
	[PCP_FAULT_COMMIT] = "commit", [PCP_FAULT_SLAB] = "slab",
	[PCP_FAULT_FENCE] = "fence",   [PCP_FAULT_NO_FENCE] = "no-fence",
	[PCP_FAULT_BIND] = "bind",
	[PCP_FAULT_THREAD] = "thread", [PCP_FAULT_DISCARD] = "discard",
};

/* What the runs of one scenario at one point add up to. */
struct steps {
	enum pcp_fault_point point;
	unsigned long nth;
	bool every;
	unsigned long hits;	/* runs that reached the point */
	unsigned long failures; /* calls that failed in them */
};

/* A call failed: rightly so only with ENOMEM and after the point was hit. */
static inline void step_failed(struct steps *steps, int err)
{
	steps->failures++;
	if (err != ENOMEM || pcp_fault_passed(steps->point) < steps->nth)
		fail_now("%s, %lu: failed with %s after %lu passings",
			 point_names[steps->point], steps->nth, strerror(err),
			 pcp_fault_passed(steps->point));
}

enum { STEPS_MAX = 3000 };

/* Runs fn with the nth passing failing for n = 1, 2, … Returns the counts. */
static inline struct steps fail_each(enum pcp_fault_point point,
				     void (*fn)(struct steps *))
{
	struct steps steps = { .point = point };

	for (steps.nth = 1; steps.nth < STEPS_MAX; steps.nth++) {
		unsigned long passed;

		pcp_fault_set(point, steps.nth, false);
		fn(&steps);
		passed = pcp_fault_passed(point);
		pcp_fault_set(point, 0, false);
		if (passed < steps.nth)
			return steps;
		steps.hits++;
	}
	return steps;
}

/* Runs fn with every nth passing failing, for a few n. */
static inline struct steps fail_often(enum pcp_fault_point point,
				      void (*fn)(struct steps *))
{
	static const unsigned long every[] = { 1, 2, 3, 5, 17 };
	struct steps steps = { .point = point, .every = true };

	for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
		steps.nth = every[i];
		pcp_fault_set(point, steps.nth, true);
		fn(&steps);
		steps.hits += pcp_fault_passed(point) >= steps.nth;
		pcp_fault_set(point, 0, false);
	}
	return steps;
}

#endif /* PCP_TESTS_FAULT_STEPS_H */

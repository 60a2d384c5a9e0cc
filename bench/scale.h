/* SPDX-License-Identifier: MIT */
/* Job scale's own core: many objects taken and given back, in small steps. */
#ifndef BENCH_SCALE_H
#define BENCH_SCALE_H

#include "core.h"

/** Objects that a step takes or gives back. */
#define BENCH_SCALE_STEP 64U

extern const struct bench_variant bench_scale_batch;

#endif /* BENCH_SCALE_H */

/* SPDX-License-Identifier: MIT */
/* The inline functions in code that is never unloaded. */
#include <config.h>

#define PCPOOL_FAST_RESIDENT
#define BENCH_FAST_NAME "pcpool-resident"
#define BENCH_FAST(job) bench_##job##_pcpool_resident

#include "fast.h"

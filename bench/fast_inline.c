/* SPDX-License-Identifier: MIT */
/* The inline functions as a plug-in would have them. */
#include <config.h>

#define BENCH_FAST_NAME "pcpool-inline"
#define BENCH_FAST(job) bench_##job##_pcpool_inline

#include "fast.h"

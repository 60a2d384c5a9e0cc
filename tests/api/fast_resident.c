/* SPDX-License-Identifier: MIT */
/* The same in code that is never unloaded. */
#include <config.h>

#define PCPOOL_FAST_RESIDENT
#define FAST_WAY fast_way_resident
#include "fast_way.h"

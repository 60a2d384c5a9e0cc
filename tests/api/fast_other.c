/* SPDX-License-Identifier: MIT */
/* The same as of a version with another layout. */
#include <config.h>

#define PCPOOL_FAST_LAYOUT 2
#define FAST_WAY fast_way_other
#include "fast_way.h"

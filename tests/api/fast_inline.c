/* SPDX-License-Identifier: MIT */
/* The functions of pcpool/fast.h as they are. */
#include <config.h>

#define FAST_WAY fast_way_inline
#include "fast_way.h"

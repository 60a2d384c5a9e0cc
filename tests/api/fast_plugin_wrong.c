/* SPDX-License-Identifier: MIT */
/* The plug-in that promises to stay, and is unloaded nevertheless. */
#include <config.h>

#define PCPOOL_FAST_RESIDENT
#define FAST_PLUGIN
#include "fast_plugin.h"

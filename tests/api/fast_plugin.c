/* SPDX-License-Identifier: MIT */
/* The plug-in as it should be: its sections take their address back. */
#include <config.h>

#define FAST_PLUGIN
#include "fast_plugin.h"

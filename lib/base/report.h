/* SPDX-License-Identifier: MIT */
/*
 * The one way the library ends a process: a broken invariant is printed with
 * cache, object and caller, and the process aborts. And warnings.
 */
#ifndef PCP_BASE_REPORT_H
#define PCP_BASE_REPORT_H

#include "base/compiler.h"

/* One line to stderr, written with a single write(2), then abort().
 * cache, obj and caller may be NULL; control characters are printed as '?'. */
_Noreturn PCP_COLD void pcp_die(const char *cache, const void *obj,
				const void *caller, const char *fmt, ...)
	PCP_PRINTF(4, 5);

/* One line to stderr; the process goes on. */
PCP_COLD void pcp_warn(const char *fmt, ...) PCP_PRINTF(1, 2);

#endif /* PCP_BASE_REPORT_H */

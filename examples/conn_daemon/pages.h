/* SPDX-License-Identifier: MIT */
/* The statistics as a page, in three forms of the same numbers. */
#ifndef CONN_PAGES_H
#define CONN_PAGES_H

#include <stddef.h>

enum page_form {
	PAGE_FORM_TEXT,
	PAGE_FORM_JSON,
	PAGE_FORM_OPENMETRICS,
};

/** Returns the page, to be freed, and its length; NULL for want of memory. */
char *page_render(enum page_form form, size_t *len);

#endif /* CONN_PAGES_H */

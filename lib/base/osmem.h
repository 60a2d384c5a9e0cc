/* SPDX-License-Identifier: MIT */
/*
 * Memory from the system: address space that is reserved first and made usable
 * piece by piece, and small metadata from malloc.
 *
 * Nothing is ever unmapped from the middle of a mapping: pages go back with
 * madvise(2), which needs no new map entry and so cannot fail for lack of one.
 */
#ifndef PCP_BASE_OSMEM_H
#define PCP_BASE_OSMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/* The page size. */
size_t pcp_page_size(void);

/* Reserve size bytes aligned to align (both multiples of the page size, align
 * a power of two), without access and without memory behind them. NULL with
 * errno ENOMEM. */
void *pcp_os_reserve(size_t size, size_t align);

/* Make [p, p+size) of a reservation readable and writable, zero-filled on
 * first touch. 0 or an errno value. */
int pcp_os_commit(void *p, size_t size);

/* Give the pages of [p, p+size) back; they read as zero afterwards. 0 or an
 * errno value (locked pages: EINVAL); the memory then stays as it is. */
int pcp_os_discard(void *p, size_t size);

/* Unmap a whole reservation. 0 or an errno value: it then is still there (the
 * kernel may have merged it with neighbours and lack a map entry to split). */
int pcp_os_unmap(void *p, size_t size);

/* Ask for memory of one node for pages of [p, p+size) not touched yet: a
 * preference that may be refused (containers do); the refusal is ignored. */
void pcp_os_bind(void *p, size_t size, unsigned int node);

/* Ask the kernel not to use huge pages there. */
void pcp_os_no_hugepage(void *p, size_t size);

/* Zeroed metadata from malloc, aligned to a power of two of at least
 * sizeof(void *). NULL with errno ENOMEM. */
void *pcp_meta_alloc(size_t size, size_t align);
void pcp_meta_free(void *p);

/* Tell the leak checker, where there is one, that pointers may live in
 * [p, p+size). */
void pcp_lsan_add_root(const void *p, size_t size);
void pcp_lsan_del_root(const void *p, size_t size);

#endif /* PCP_BASE_OSMEM_H */

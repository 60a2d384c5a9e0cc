/* SPDX-License-Identifier: MIT */
/* What the suites of per-CPU regions look at: figures, the maps, which pages
 * there are, what copies hold. */
#ifndef TESTS_UNIT_PERCPU_FIXTURE_H
#define TESTS_UNIT_PERCPU_FIXTURE_H

#include <stdlib.h>
#include <sys/mman.h>

#include <pcpool/percpu.h>

#include "common.h"

#include "base/osmem.h"
#include "cpu/index.h"
#include "percpu/region.h"

#define PAGE 4096U

static inline struct pcp_percpu_snapshot stats(void)
{
	struct pcp_percpu_snapshot snapshot;

	pcp_percpu_stats(&snapshot);
	return snapshot;
}

static inline void verify(void)
{
	int line = pcp_percpu_verify();

	if (line)
		fail_now("verify.c:%d", line);
}

static inline void *must_alloc(size_t size, size_t align)
{
	void *p = pcpool_percpu_alloc(size, align);

	expect(p);
	return p;
}

/* Pages of [p, p + size) that were ever touched. */
static inline unsigned int resident(const void *p, size_t size)
{
	uintptr_t from = (uintptr_t)p & ~((uintptr_t)pcp_page_size() - 1);
	size_t len = (uintptr_t)p + size - from, n = 0;
	size_t pages = (len + pcp_page_size() - 1) / pcp_page_size();
	unsigned char *vec = malloc(pages);

	expect(vec && !mincore((void *)from, len, vec));
	for (size_t i = 0; i < pages; i++)
		n += vec[i] & 1;
	free(vec);
	return (unsigned int)n;
}

static inline unsigned int resident_all(void *p, size_t size)
{
	unsigned int n = 0;

	for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++)
		n += resident(pcp_percpu_copy(p, slot), size);
	return n;
}

/* All slots' copies hold this byte. */
static inline void expect_bytes(void *p, size_t size, int byte,
				unsigned int slots)
{
	for (unsigned int slot = 0; slot < slots; slot++) {
		const unsigned char *copy = pcp_percpu_copy(p, slot);

		for (size_t i = 0; i < size; i++)
			expect_eq(copy[i], byte);
	}
}

static inline void fill(void *p, size_t size, int byte, unsigned int slots)
{
	for (unsigned int slot = 0; slot < slots; slot++)
		memset(pcpool_percpu_ptr(p, slot), byte, size);
}

#endif /* TESTS_UNIT_PERCPU_FIXTURE_H */

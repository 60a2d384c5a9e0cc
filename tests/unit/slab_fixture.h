/* SPDX-License-Identifier: MIT */
/* A kind of plain objects, and slabs of it. */
#ifndef TESTS_UNIT_SLAB_FIXTURE_H
#define TESTS_UNIT_SLAB_FIXTURE_H

#include "floors.h"

#define OBJECT 512U

static struct pcp_kind kind;

static inline struct pcp_slab *must_create(void)
{
	struct pcp_slab *slab = pcp_slab_create(&kind, 0, 0, NULL);

	expect(slab);
	return slab;
}

static inline void setup(void)
{
	kind_make(&kind, OBJECT, 0, NULL, 0);
}

static inline void teardown(void)
{
	kind_drop(&kind);
}

static inline uint32_t all(void)
{
	return kind.layout.objects;
}

static inline void **object_array(void)
{
	void **objs = calloc(all() + 1, sizeof(*objs));

	expect(objs);
	return objs;
}

#endif /* TESTS_UNIT_SLAB_FIXTURE_H */

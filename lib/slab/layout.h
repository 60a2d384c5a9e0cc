/* SPDX-License-Identifier: MIT */
/*
 * Where everything lies inside a slab.
 *
 *   +--------+--------+-------+---------+---------+-----+---------+------+
 *   | header | next[] | built | check[] | object0 | ... | objectN | tail |
 *   +--------+--------+-------+---------+---------+-----+---------+------+
 *   ^ aligned to the slab's size                  nothing inside an object
 *
 * next[] links free objects by index and marks those that are out; built has a
 * bit for each constructed object (absent without a constructor and
 * destructor); check[] exists in checking caches only.
 */
#ifndef PCP_SLAB_LAYOUT_H
#define PCP_SLAB_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for struct pcp_slab, asserted in slab.h. */
#define PCP_SLAB_HEADER 128U

/* Most objects in a slab: an index is 16 bits with two values to spare. */
#define PCP_SLAB_OBJECTS_MAX 65000U

struct pcp_layout {
	size_t size;	      /* as the user asked, bytes */
	size_t align;	      /* of every object */
	size_t stride;	      /* distance between two objects */
	size_t slab_size;     /* power of two */
	uint32_t objects;     /* per slab */
	uint32_t built;	      /* offset of the bitmap; 0: none */
	uint32_t check;	      /* offset of the check table; 0: none */
	uint32_t first;	      /* offset of object 0 */
	uint64_t reciprocal;  /* offset to index without a division */
};

/* One entry of the check table. */
struct pcp_check {
	uint32_t sum;	/* over the object's bytes while it is free */
	uint32_t state; /* enum pcp_check_state */
};

/* Fill *layout. align 0 means the default. The arguments are in range. */
void pcp_layout_init(struct pcp_layout *layout, size_t size, size_t align,
		     bool built, bool check);

#define PCP_RECIPROCAL_SHIFT 40

/* Index of the object at an offset from object 0; for an offset that is no
 * multiple of the stride any value, of which index * stride != offset. */
static inline uint32_t pcp_layout_index(const struct pcp_layout *layout,
					size_t offset)
{
	/* Exact for multiples: offset = i * stride, i < 2^16, and the rounding
	 * of the reciprocal adds less than i * stride / 2^40 < 1. */
	return (uint32_t)(offset * layout->reciprocal >> PCP_RECIPROCAL_SHIFT);
}

#endif /* PCP_SLAB_LAYOUT_H */

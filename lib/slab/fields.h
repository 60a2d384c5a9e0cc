/* SPDX-License-Identifier: MIT */
/*
 * Declared per-CPU fields: the regions of a slab's objects, taken together.
 *
 * A cache declares which words of an object are pointers to regions of its own.
 * Its slabs then take one region for as many objects as one can serve, which for
 * nearly all is one for the slab, and deal it out: so constructing 64 objects
 * with three regions each is one hold of the region allocator's lock, not 192. An
 * object has the same part all its life. The pointers are written before the
 * constructor runs, and what they point to is zero then.
 *
 *   region  | object 0          | object 1          | ...
 *           | field 0 | field 1 | field 0 | field 1 |
 */
#ifndef PCP_SLAB_FIELDS_H
#define PCP_SLAB_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include <pcpool/cache.h>

struct pcp_slab;

struct pcp_field {
	size_t offset; /* of the pointer, in the object */
	size_t place;  /* of its bytes, in the object's part */
};

struct pcp_fields {
	size_t align;	     /* of a region */
	size_t stride;	     /* bytes of one object's part */
	uint32_t per_region; /* objects served by one region */
	uint32_t count;
	struct pcp_field field[];
};

/* Whether fields of an object of that size make sense: inside it, aligned, apart
 * from each other, and together no larger than a region. */
bool pcp_fields_valid(const struct pcpool_percpu_field *list, size_t count,
		      size_t object_size);

/* From a valid list that is not empty. NULL: no memory. */
struct pcp_fields *pcp_fields_new(const struct pcpool_percpu_field *list,
				  size_t count);

/* Take the regions of a new slab's objects. 0 or ENOMEM. */
int pcp_fields_take(struct pcp_slab *slab);

/* Give them back: no object is built. */
void pcp_fields_give(struct pcp_slab *slab);

/* An object is about to be constructed: write its pointers. */
void pcp_fields_set(struct pcp_slab *slab, uint32_t index);

/* It was destructed, or its constructor failed: zero for the next one. */
void pcp_fields_zero(struct pcp_slab *slab, uint32_t index);

#endif /* PCP_SLAB_FIELDS_H */

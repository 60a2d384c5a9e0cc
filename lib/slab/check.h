/* SPDX-License-Identifier: MIT */
/*
 * Checking caches: pointer, owner, state and content at every call.
 *
 * A table beside the objects says of each whether it is out, and keeps a
 * checksum of its bytes while it is free, so that a second free is seen at the
 * call, and a write after free at the latest when the object is handed out
 * again or destructed. Calls on such a cache go past the slots, so that nothing
 * sits in a sheaf unseen.
 */
#ifndef PCP_SLAB_CHECK_H
#define PCP_SLAB_CHECK_H

#include "slab/slab.h"

enum pcp_check_state {
	PCP_CHECK_NEW,	/* free, content not ours to judge */
	PCP_CHECK_OUT,	/* handed out */
	PCP_CHECK_FREE, /* free, content summed */
	PCP_CHECK_BUSY, /* being freed or discarded */
};

/* The object is about to be handed out. Aborts when its content changed while
 * it was free. */
void pcp_check_alloc(struct pcp_slab *slab, uint32_t index, const void *caller);

/* obj is about to be freed: aborts unless it is an object of this cache that is
 * out. Returns its slab and index. To be followed by pcp_check_freed(). */
struct pcp_slab *pcp_check_free(struct pcp_kind *kind, const void *obj,
				const void *caller, uint32_t *index);

/* It is free now, with the content it has; or, without one, after its
 * destructor. */
void pcp_check_freed(struct pcp_slab *slab, uint32_t index, bool content);

/* Its destructor is about to run. */
void pcp_check_death(struct pcp_slab *slab, uint32_t index);

/* Without a check table: aborts, naming the cache, unless obj is an object of
 * it. Returns the slab. */
struct pcp_slab *pcp_check_owner(const struct pcp_kind *kind, const void *obj,
				 const void *caller, uint32_t *index);

/* The same, and aborts when the object is in its slab. */
struct pcp_slab *pcp_check_out(const struct pcp_kind *kind, const void *obj,
			       const void *caller, uint32_t *index);

#endif /* PCP_SLAB_CHECK_H */

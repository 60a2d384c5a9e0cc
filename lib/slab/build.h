/* SPDX-License-Identifier: MIT */
/*
 * The life of an object's content: constructed once, destructed once.
 *
 * The built bit of an object says which; only the owner of the object changes
 * it. The user's callbacks run here and nowhere else (reset hooks apart), with
 * no lock held, which debug builds check.
 */
#ifndef PCP_SLAB_BUILD_H
#define PCP_SLAB_BUILD_H

#include "slab/slab.h"

/* Destruct an object the caller owns, if it is built. No lock held. */
void pcp_unbuild(struct pcp_slab *slab, uint32_t index);

/* Construct what is not built of n objects the caller owns. Returns how many
 * are built, moved to the front of objs[]; with fewer than n, *err is the
 * constructor's errno value, and it was not called again after it failed. The
 * others still belong to the caller. No lock held. */
size_t pcp_build_many(struct pcp_kind *kind, size_t n, void **objs, int *err);

/* Destruct all objects of a slab nobody else can reach and release it; objects
 * marked as out, which are lost in a forked child, are not touched. No lock
 * held. */
void pcp_slab_kill(struct pcp_slab *slab);

/* The same for a private list of slabs. */
void pcp_slabs_kill(struct pcp_slab_link *dead);

/* Whether the caller is inside a callback of this cache. Takes the slabs lock. */
bool pcp_kind_busy_here(struct pcp_kind *kind);

/* CONTEXT: slabs lock held, in a forked child: forget all other threads. */
void pcp_kind_fork_child(struct pcp_kind *kind);

/* Built objects of a slab that are out or deferred: what pcp_slab_kill() would not
 * destruct. */
uint32_t pcp_slab_built_inuse(struct pcp_slab *slab);

#endif /* PCP_SLAB_BUILD_H */

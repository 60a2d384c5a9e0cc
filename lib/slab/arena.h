/* SPDX-License-Identifier: MIT */
/*
 * Arenas: where slabs get their size-aligned blocks.
 *
 * An arena is one large aligned reservation of address space. Blocks of powers
 * of two, aligned to their size, are cut from it and made usable from the
 * bottom up; a returned block gives its pages back but stays mapped, so that
 * returning memory needs no new map entry and cannot fail for lack of one.
 * An arena that is wholly free is unmapped, one per node kept.
 *
 * A returned block stays as it is for a while, up to a bound, because most are
 * wanted again at once, and giving pages back and faulting them in costs more
 * than anything else an allocator does. Idle blocks serve any cache; they go
 * back when they were not wanted for a second (noticed when another block is
 * returned), beyond the bound, and all of them in pcp_block_purge().
 *
 * Any address can be asked whether it lies in an arena, without touching it.
 */
#ifndef PCP_SLAB_ARENA_H
#define PCP_SLAB_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks: powers of two between these, in bytes. */
#define PCP_BLOCK_MIN ((size_t)1 << 14)
#define PCP_BLOCK_MAX ((size_t)1 << 23)

/* A block of size bytes, of unspecified content, preferring memory of a node.
 * NULL with errno ENOMEM. Takes PCP_RANK_ARENA. */
void *pcp_block_alloc(size_t size, unsigned int node);

/* Return a block of that size. Its content is gone. Takes PCP_RANK_ARENA. */
void pcp_block_free(void *block, size_t size);

/* Whether [p, p+size) lies in the usable part of an arena: then it may be
 * read. For pointers of unknown origin; takes no lock. */
bool pcp_block_readable(const void *p, size_t size);

/* Give all idle blocks back to the system. Takes PCP_RANK_ARENA. */
void pcp_block_purge(void);

/* The same for those that have been idle for more than about a second. */
void pcp_block_expire(void);

struct pcp_block_sum {
	uint64_t bytes;	 /* in allocated blocks */
	uint64_t idle;	 /* in idle ones */
	uint64_t arenas;
};
void pcp_block_sum(struct pcp_block_sum *sum);

/* Enter the fork handlers; once, from the library's first cache. */
void pcp_arena_init(void);

#endif /* PCP_SLAB_ARENA_H */

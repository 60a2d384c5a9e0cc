/* SPDX-License-Identifier: MIT */
/*
 * A barn: where the CPUs of a memory node exchange whole sheaves, without a
 * lock.
 *
 * Full and empty sheaves lie on lock-free stacks. The stacks link small nodes
 * that carry a sheaf and live as long as the barn, so that a sheaf may be freed
 * while another thread still looks at the node that carried it. More nodes come
 * when the limit has risen beyond those there are. A place is reserved before a
 * push, so the barn never holds more than its limits. One sheaf that is neither
 * full nor empty is kept in a word of its own, put and taken by exchange.
 *
 * Full sheaves have several stacks. A CPU puts on one and looks there first, so
 * that what it gave comes back to it, objects in its own caches and all; else
 * CPUs in bursts of their own carry each other's objects off. What one stack
 * has not, another may: a barn is out of sheaves when all are empty.
 *
 * Reference: barns of Linux SLUB.
 */
#ifndef PCP_SHEAF_BARN_H
#define PCP_SHEAF_BARN_H

#include "sheaf/sheaf.h"

/* Full sheaves a barn holds at first, and at least wherever its limit goes;
 * empty ones; and nodes that it is given at a time. */
#define PCP_BARN_FULL 10U
#define PCP_BARN_FULL_MIN 2U
#define PCP_BARN_EMPTY 10U
#define PCP_BARN_NODES 32U

/* Of full sheaves. More than CPUs that are often in bursts at the same time
 * would only be more to look through when there is none. */
#define PCP_BARN_STACKS 4U

/* On a line of its own: it is mostly one CPU's. */
struct pcp_barn_stack {
	struct pcp_stack sheaves;
} PCP_ALIGNED(PCP_CACHELINE);

struct pcp_barn_node {
	struct pcp_stack_node link;
	struct pcp_sheaf *sheaf;
};

/* A lot of nodes that came later. */
struct pcp_barn_more {
	struct pcp_barn_more *next;
	struct pcp_barn_node nodes[PCP_BARN_NODES];
};

struct pcp_barn {
	struct pcp_barn_stack full[PCP_BARN_STACKS];
	struct pcp_stack empty;
	struct pcp_stack unused; /* nodes that carry nothing */
	/* Places taken, those being filled or emptied included. */
	uint32_t nr_full;
	uint32_t nr_empty;
	struct pcp_sheaf *partial;
	struct pcp_stat *stat;
	/* Most full sheaves: the limit, which moves up to `most`, of which
	 * maintenance and the sheaves' capacity are the masters. */
	uint32_t limit;
	uint32_t most;
	uint32_t low; /* fewest full ones since pcp_barn_unused() */
	bool starved; /* a get found none since the limit was changed */
	uint32_t surplus; /* full ones that tending still has to give back */
	struct pcp_barn_more *more; /* all there are, for the barn's end */
	uint32_t nr_more; /* how many those are */
	struct pcp_barn_node nodes[PCP_BARN_FULL + PCP_BARN_EMPTY];
} PCP_ALIGNED(128);

void pcp_barn_init(struct pcp_barn *barn, struct pcp_stat *stat);

/* CONTEXT: nobody else uses it. What it holds is left to its owner. */
void pcp_barn_destroy(struct pcp_barn *barn);

/* Nodes that it has by now: no more sheaves lie on its stacks. */
size_t pcp_barn_nodes(const struct pcp_barn *barn);

/* Bytes of the barn itself. */
size_t pcp_barn_bytes(const struct pcp_barn *barn);

/* Take; NULL when there is none. The caller owns the sheaf. */
struct pcp_sheaf *pcp_barn_get_full(struct pcp_barn *barn);
struct pcp_sheaf *pcp_barn_get_empty(struct pcp_barn *barn);
struct pcp_sheaf *pcp_barn_get_partial(struct pcp_barn *barn);

/* Put; false when there is no room, or no memory for a node: the caller still
 * owns it. */
bool pcp_barn_put_full(struct pcp_barn *barn, struct pcp_sheaf *sheaf);
bool pcp_barn_put_empty(struct pcp_barn *barn, struct pcp_sheaf *sheaf);

/* Put a part-filled sheaf. Returns the one that lay there, now the caller's, or
 * NULL. */
struct pcp_sheaf *pcp_barn_put_partial(struct pcp_barn *barn,
				       struct pcp_sheaf *sheaf);

/* The limit may go up to `most` from now on, and is there at once if it is
 * higher. Sheaves over it stay until they are taken. */
void pcp_barn_bound(struct pcp_barn *barn, uint32_t most);

/* The limit back to what it was at first. */
void pcp_barn_relax(struct pcp_barn *barn);

/* Full sheaves that nobody has needed since the last call. */
uint32_t pcp_barn_unused(struct pcp_barn *barn);

/* CONTEXT: drain lock held. Objects in all its sheaves; exact at rest. */
uint64_t pcp_barn_objects(const struct pcp_barn *barn);

#endif /* PCP_SHEAF_BARN_H */

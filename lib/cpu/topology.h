/* SPDX-License-Identifier: MIT */
/*
 * How many CPUs there can ever be, and which memory node each belongs to.
 *
 * The number of CPUs is that of the *possible* ones as the kernel lists them,
 * never of those online, configured or allowed: a CPU number must stay below
 * it for the life of the process. Nodes come from hwloc, renumbered densely
 * from 0; whatever looks wrong there falls back to one node.
 */
#ifndef PCP_CPU_TOPOLOGY_H
#define PCP_CPU_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct pcp_topology {
	unsigned int nr_cpus;  /* possible CPUs, highest number + 1, or the
				* synthetic number */
	unsigned int possible; /* the same, never synthetic */
	unsigned int nr_nodes; /* at least 1 */
	bool known;	       /* nr_cpus is the kernel's word, not a guess */
	bool synthetic;	       /* slots: or nodes: was given */
	uint16_t *cpu_node;    /* nr_cpus entries; NULL: all on node 0 */
	uint16_t *os_node;     /* nr_nodes entries, the kernel's numbers;
				* NULL: memory is not bound */
};

extern PCP_HIDDEN struct pcp_topology pcp_topology;

/* Fill pcp_topology from pcp_options, the kernel and hwloc. Called by the
 * library's initialisation only. Never fails: without memory or without /sys
 * it settles for one node and a guess (known is false then). May run again in
 * a child that was forked in the middle of it. */
void pcp_topology_init(void);

/* The node of a CPU; 0 for numbers out of range. */
static inline unsigned int pcp_cpu_node(unsigned int cpu)
{
	return pcp_topology.cpu_node && cpu < pcp_topology.nr_cpus
		       ? pcp_topology.cpu_node[cpu]
		       : 0;
}

/* Parse the kernel's list format ("0,2-3,8"): highest number + 1, or 0 when
 * the text is not of that form. */
unsigned int pcp_parse_cpu_list(const char *text);

#endif /* PCP_CPU_TOPOLOGY_H */

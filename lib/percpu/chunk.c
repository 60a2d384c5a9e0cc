/* SPDX-License-Identifier: MIT */
/* Chunks: reserving, binding and giving back. See chunk.h. */
#include <config.h>


#include "base/osmem.h"
#include "cpu/index.h"
#include "cpu/topology.h"
#include "percpu/chunk.h"

/* A unit's aim, and the aim with so many slots that address space counts.
 * Either has room for several of the largest regions. */
#define UNIT_SIZE ((size_t)256 << 10)
#define UNIT_SIZE_MANY ((size_t)128 << 10)
#define SLOTS_MANY 256U

/* Each change of node along a chunk costs a map entry, of which a process has
 * few (65530). Where CPUs of different nodes alternate more than this, pages
 * come from the node of whoever touches them first. */
#define BIND_RUNS_MAX 32U

struct pcp_chunk_geometry pcp_chunk_geometry;

void pcp_chunk_init(void)
{
	size_t page = pcp_page_size(), pages;
	struct pcp_chunk_geometry geometry = { .slots = pcp_nr_slots() };

	pages = (geometry.slots > SLOTS_MANY ? UNIT_SIZE_MANY : UNIT_SIZE) /
		page;
	/* An odd number of pages: the copies of a region then lie in different
	 * sets of a cache that is indexed by the bits above the page offset,
	 * and do not evict each other in a sum over all slots. */
	geometry.stride = (pages | 1) * page;
	while (((size_t)1 << geometry.shift) < geometry.stride)
		geometry.shift++;
	if (__builtin_mul_overflow(geometry.stride, (size_t)geometry.slots,
				   &geometry.size))
		geometry.size = 0;
	pcp_chunk_geometry = geometry;
}

/* The memory node of a slot's unit. The stray slot, which comes last and is no
 * CPU's, goes with its neighbour. */
static unsigned int unit_node(unsigned int slot)
{
	unsigned int last = pcp_index.nr_ids - 1;

	return pcp_cpu_node(slot < last ? slot : last);
}

/* The end of the run of units on one node that starts at this slot. */
static unsigned int run_end(unsigned int slot)
{
	unsigned int node = unit_node(slot);

	while (++slot < pcp_chunk_geometry.slots)
		if (unit_node(slot) != node)
			break;
	return slot;
}

/* With concurrency ids or hashed threads a slot is on no node. */
static bool worth_binding(void)
{
	unsigned int runs = 0;

	if (pcp_index.cid || pcp_index.hash || !pcp_topology.os_node ||
	    pcp_topology.nr_nodes < 2)
		return false;
	for (unsigned int slot = 0; slot < pcp_chunk_geometry.slots;
	     slot = run_end(slot))
		runs++;
	return runs <= BIND_RUNS_MAX;
}

static void bind_units(char *base)
{
	const size_t stride = pcp_chunk_geometry.stride;
	unsigned int slot = 0;

	if (!worth_binding())
		return;
	while (slot < pcp_chunk_geometry.slots) {
		unsigned int end = run_end(slot);

		pcp_os_bind(base + slot * stride, (end - slot) * stride,
			    pcp_topology.os_node[unit_node(slot)]);
		slot = end;
	}
}

struct pcp_chunk *pcp_chunk_create(void)
{
	const struct pcp_chunk_geometry *geometry = &pcp_chunk_geometry;
	unsigned int blocks =
		(unsigned int)(geometry->stride >> PCP_BLOCK_SHIFT);
	struct pcp_chunk *chunk;
	void *base;

	if (!geometry->size)
		return NULL;
	chunk = pcp_meta_alloc(pcp_chunk_meta_size(blocks), PCP_CACHELINE);
	if (!chunk)
		return NULL;
	base = pcp_os_reserve(geometry->size, (size_t)1 << geometry->shift);
	if (!base)
		goto fail_meta;
	/* Huge pages would give every slot's unit memory at the first touch of
	 * one. Binding comes before the first touch. */
	pcp_os_no_hugepage(base, geometry->size);
	bind_units(base);
	if (pcp_os_commit(base, geometry->size))
		goto fail_reserve;
	pcp_lsan_add_root(base, geometry->size);
	pcp_chunk_meta_init(chunk, (uintptr_t)base, blocks);
	return chunk;

fail_reserve:
	pcp_os_unmap(base, geometry->size);
fail_meta:
	pcp_meta_free(chunk);
	return NULL;
}

bool pcp_chunk_destroy(struct pcp_chunk *chunk)
{
	void *base = (void *)chunk->base;
	size_t size = pcp_chunk_geometry.size;

	pcp_lsan_del_root(base, size);
	/* Where the kernel has merged this mapping with its neighbours, unmapping
	 * it takes an entry more. */
	if (!pcp_os_unmap(base, size)) {
		pcp_meta_free(chunk);
		return true;
	}
	pcp_lsan_add_root(base, size);
	if (!pcp_os_discard(base, size))
		pcp_chunk_meta_fresh(chunk);
	return false;
}

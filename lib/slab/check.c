/* SPDX-License-Identifier: MIT */
/* Checking caches. See check.h. */
#include <config.h>

#include <string.h>

#include "base/report.h"
#include "slab/arena.h"
#include "slab/check.h"

static struct pcp_check *entry_of(const struct pcp_slab *slab, uint32_t index)
{
	return (struct pcp_check *)(void *)((char *)(uintptr_t)slab +
					    slab->kind->layout.check) +
	       index;
}

/* Word-wise multiply and fold: a change goes unseen once in 2^32. */
static uint32_t sum_of(const struct pcp_slab *slab, uint32_t index)
{
	const char *p = pcp_slab_object(slab, index);
	size_t left = slab->kind->layout.size;
	uint64_t sum = left;

	while (left) {
		size_t n = left < sizeof(uint64_t) ? left : sizeof(uint64_t);
		uint64_t word = 0;

		memcpy(&word, p, n);
		sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 29;
		p += n;
		left -= n;
	}
	return (uint32_t)(sum ^ sum >> 32);
}

static void check_content(struct pcp_slab *slab, uint32_t index,
			  const void *caller)
{
	struct pcp_check *entry = entry_of(slab, index);

	if (pcp_load(&entry->sum) != sum_of(slab, index))
		pcp_die(slab->kind->name, pcp_slab_object(slab, index), caller,
			"object was written to after it was freed");
}

void pcp_check_alloc(struct pcp_slab *slab, uint32_t index, const void *caller)
{
	struct pcp_check *entry = entry_of(slab, index);
	uint32_t state = pcp_xchg(&entry->state, PCP_CHECK_OUT);

	if (state == PCP_CHECK_FREE)
		check_content(slab, index, caller);
	else if (state != PCP_CHECK_NEW)
		pcp_die(slab->kind->name, pcp_slab_object(slab, index), caller,
			"object handed out twice");
}

struct pcp_slab *pcp_check_owner(const struct pcp_kind *kind, const void *obj,
				 const void *caller, uint32_t *index)
{
	struct pcp_slab *slab = pcp_slab_check(kind, obj, index);

	if (pcp_unlikely(!slab))
		pcp_die(kind->name, obj, caller,
			pcp_block_readable(obj, 1)
				? "not the start of an object of this cache"
				: "not an object of any cache");
	return slab;
}

struct pcp_slab *pcp_check_out(const struct pcp_kind *kind, const void *obj,
			       const void *caller, uint32_t *index)
{
	struct pcp_slab *slab = pcp_check_owner(kind, obj, caller, index);

	if (pcp_unlikely(pcp_load(&slab->next[*index]) != PCP_INDEX_OUT))
		pcp_die(kind->name, obj, caller, "object freed before");
	return slab;
}

struct pcp_slab *pcp_check_free(struct pcp_kind *kind, const void *obj,
				const void *caller, uint32_t *index)
{
	struct pcp_slab *slab = pcp_check_owner(kind, obj, caller, index);
	uint32_t state = PCP_CHECK_OUT;

	/* Of two frees of one object at the same moment one fails here. */
	if (!pcp_cas(&entry_of(slab, *index)->state, &state, PCP_CHECK_BUSY))
		pcp_die(kind->name, obj, caller, "object freed twice");
	return slab;
}

void pcp_check_freed(struct pcp_slab *slab, uint32_t index, bool content)
{
	struct pcp_check *entry = entry_of(slab, index);

	if (content)
		pcp_store(&entry->sum, sum_of(slab, index));
	/* Pairs with the exchange in pcp_check_alloc(). */
	pcp_store_release(&entry->state,
			  content ? (uint32_t)PCP_CHECK_FREE
				  : (uint32_t)PCP_CHECK_NEW);
}

void pcp_check_death(struct pcp_slab *slab, uint32_t index)
{
	struct pcp_check *entry = entry_of(slab, index);

	if (pcp_load_acquire(&entry->state) == PCP_CHECK_FREE) {
		check_content(slab, index, __builtin_return_address(0));
		pcp_store(&entry->state, PCP_CHECK_NEW);
	}
}

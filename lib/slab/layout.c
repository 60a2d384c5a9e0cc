/* SPDX-License-Identifier: MIT */
/* Where everything lies inside a slab. See layout.h. */
#include <config.h>

#include <stdalign.h>

#include "slab/arena.h"
#include "slab/layout.h"

/* The usual slab; tiny objects get a smaller one, so that shuffling its
 * thousands of objects at birth stays cheap. */
#define SLAB_USUAL ((size_t)1 << 16)
#define SLAB_TINY PCP_BLOCK_MIN
#define TINY_OBJECT 16U

/* Enough objects per slab that births are rare; for large objects a few. */
#define OBJECTS_WANTED 8U

static size_t round_up(size_t n, size_t align)
{
	return (n + align - 1) & ~(align - 1);
}

/* What malloc would give, but no more than the size can need: the size of a
 * type is a multiple of its alignment. */
static size_t default_align(size_t size)
{
	size_t factor = size & -size;

	return factor < alignof(max_align_t) ? factor : alignof(max_align_t);
}

/* Offset of object 0 with n objects, and of the tables before it. */
static size_t place(struct pcp_layout *layout, size_t n, bool built,
		    bool check)
{
	size_t end = PCP_SLAB_HEADER + n * sizeof(uint16_t);

	layout->built = 0;
	layout->check = 0;
	if (built) {
		end = round_up(end, sizeof(uint64_t));
		layout->built = (uint32_t)end;
		end += (n + 63) / 64 * sizeof(uint64_t);
	}
	if (check) {
		end = round_up(end, alignof(struct pcp_check));
		layout->check = (uint32_t)end;
		end += n * sizeof(struct pcp_check);
	}
	return round_up(end, layout->align);
}

/* As many objects as fit a slab of that size. */
static void fill(struct pcp_layout *layout, size_t slab_size, bool built,
		 bool check)
{
	size_t n = (slab_size - PCP_SLAB_HEADER) / layout->stride;

	if (n > PCP_SLAB_OBJECTS_MAX)
		n = PCP_SLAB_OBJECTS_MAX;
	/* Shrink by what the tables of n objects displace; a few rounds. */
	while (n) {
		size_t need = place(layout, n, built, check) +
			      n * layout->stride;

		if (need <= slab_size)
			break;
		need = (need - slab_size + layout->stride - 1) /
		       layout->stride / 2;
		n -= need ? (need < n ? need : n) : 1;
	}
	layout->first = (uint32_t)place(layout, n, built, check);
	layout->objects = (uint32_t)n;
	layout->slab_size = slab_size;
}

static bool good(const struct pcp_layout *layout)
{
	size_t lost = layout->slab_size - layout->objects * layout->stride;

	return layout->objects >= OBJECTS_WANTED &&
	       lost <= layout->slab_size / 8;
}

void pcp_layout_init(struct pcp_layout *layout, size_t size, size_t align,
		     bool built, bool check)
{
	struct pcp_layout best = { 0 };
	size_t start = size <= TINY_OBJECT ? SLAB_TINY : SLAB_USUAL;

	layout->size = size;
	layout->align = align ? align : default_align(size);
	layout->stride = round_up(size, layout->align);
	layout->reciprocal = (((uint64_t)1 << PCP_RECIPROCAL_SHIFT) +
			      layout->stride - 1) / layout->stride;
	for (size_t slab = start; slab <= PCP_BLOCK_MAX; slab *= 2) {
		fill(layout, slab, built, check);
		if (good(layout))
			return;
		/* The smallest slab that wastes least: per byte, compared by
		 * cross-multiplication. */
		if (layout->objects &&
		    (uint64_t)layout->objects * best.slab_size >
			    (uint64_t)best.objects * slab)
			best = *layout;
		else if (layout->objects && !best.objects)
			best = *layout;
	}
	*layout = best;
}

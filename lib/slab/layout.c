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

/* Which tables there are besides next[]. */
struct tables {
	bool built, check;
};

/* End of the tables of n objects. */
static size_t end_of_tables(struct pcp_layout *layout, size_t n,
			    struct tables tables)
{
	size_t end = PCP_SLAB_HEADER + n * sizeof(uint16_t);

	layout->built = 0;
	layout->check = 0;
	if (tables.built) {
		end = round_up(end, sizeof(uint64_t));
		layout->built = (uint32_t)end;
		end += (n + 63) / 64 * sizeof(uint64_t);
	}
	if (tables.check) {
		end = round_up(end, alignof(struct pcp_check));
		layout->check = (uint32_t)end;
		end += n * sizeof(struct pcp_check);
	}
	return end;
}

/* As many objects as fit a slab of that size. */
static void fill(struct pcp_layout *layout, size_t slab_size,
		 struct tables tables)
{
	/* In bits, since an object has one of the built table. Rounding the
	 * tables and aligning object 0 may cost a few more. */
	size_t bits = 8 * (layout->stride + sizeof(uint16_t)) +
		      (tables.built ? 1 : 0) +
		      (tables.check ? 8 * sizeof(struct pcp_check) : 0);
	size_t n = 8 * (slab_size - PCP_SLAB_HEADER) / bits;
	size_t first;

	if (n > PCP_SLAB_OBJECTS_MAX)
		n = PCP_SLAB_OBJECTS_MAX;
	for (;; n--) {
		first = round_up(end_of_tables(layout, n, tables),
				 layout->align);
		if (!n || first + n * layout->stride <= slab_size)
			break;
	}
	layout->first = (uint32_t)first;
	layout->objects = (uint32_t)n;
	layout->slab_size = slab_size;
}

/* The smallest slab that loses little is best: it goes back soonest. Where the
 * tables of tiny objects lose more, they do so in a slab of any size, and a
 * larger one only helps against the header, what aligning object 0 skips, and
 * the tail. */
static bool good(struct pcp_layout *layout, struct tables tables)
{
	size_t lost = layout->slab_size - layout->objects * layout->stride;
	size_t in_tables = end_of_tables(layout, layout->objects, tables) -
			   PCP_SLAB_HEADER;

	return layout->objects >= OBJECTS_WANTED &&
	       (lost <= layout->slab_size / 8 ||
		lost - in_tables <= layout->slab_size / 16);
}

void pcp_layout_init(struct pcp_layout *layout, size_t size, size_t align,
		     bool built, bool check)
{
	const struct tables tables = { .built = built, .check = check };
	struct pcp_layout best = { 0 };
	size_t start = size <= TINY_OBJECT ? SLAB_TINY : SLAB_USUAL;

	layout->size = size;
	layout->align = align ? align : default_align(size);
	layout->stride = round_up(size, layout->align);
	layout->reciprocal = (((uint64_t)1 << PCP_RECIPROCAL_SHIFT) +
			      layout->stride - 1) / layout->stride;
	for (size_t slab = start; slab <= PCP_BLOCK_MAX; slab *= 2) {
		fill(layout, slab, tables);
		if (good(layout, tables))
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

/* SPDX-License-Identifier: MIT */
/* Quick lists: emptying them. See quick.h. */
#include <config.h>

#include "percpu/bits.h"
#include "percpu/quick.h"

PCP_COLD void pcp_quick_flush(struct pcp_quick *quick, struct pcp_map *map)
{
	for (; quick->used; quick->used &= quick->used - 1) {
		unsigned int i = pcp_ctz(quick->used);

		for (; quick->n[i]; quick->n[i]--) {
			const struct pcp_quick_entry *entry =
				&quick->entries[i][quick->n[i] - 1];
			const struct pcp_place place = { entry->chunk,
							 entry->pos,
							 entry->pos + i + 1 };

			pcp_map_unhold(map, &place);
			pcp_map_give(map, &place);
		}
	}
}

/* SPDX-License-Identifier: MIT */
/* Event counters of one cache. See stat.h. */
#include <config.h>

#include <errno.h>

#include "base/osmem.h"
#include "cpu/stat.h"

int pcp_stat_init(struct pcp_stat *stat)
{
	size_t page = pcp_page_size();
	size_t bytes = (size_t)pcp_nr_slots() * PCP_STAT_STRIDE *
		       sizeof(uint64_t);
	int err;

	/* Not from malloc, which may hand out memory that was touched before:
	 * idle slots shall cost address space only. */
	bytes = (bytes + page - 1) & ~(page - 1);
	stat->words = pcp_os_reserve(bytes, page);
	if (!stat->words)
		return ENOMEM;
	err = pcp_os_commit(stat->words, bytes);
	if (err) {
		pcp_os_unmap(stat->words, bytes);
		stat->words = NULL;
		return ENOMEM;
	}
	stat->bytes = bytes;
	return 0;
}

void pcp_stat_destroy(struct pcp_stat *stat)
{
	/* Unmapping fails only for lack of a map entry; its pages go all the
	 * same. */
	if (stat->words && pcp_os_unmap(stat->words, stat->bytes))
		(void)pcp_os_discard(stat->words, stat->bytes);
	stat->words = NULL;
}

uint64_t pcp_stat_sum(const struct pcp_stat *stat, enum pcp_stat_id id)
{
	uint64_t sum = 0;

	for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++)
		sum += pcp_load(&stat->words[slot * PCP_STAT_STRIDE + id]);
	return sum;
}

uint64_t pcp_stat_touched(const struct pcp_stat *stat)
{
	uint64_t slots = 0;

	for (unsigned int slot = 0; slot < pcp_nr_slots(); slot++) {
		const uint64_t *words = &stat->words[slot * PCP_STAT_STRIDE];
		bool used = false;

		for (unsigned int i = 0; !used && i < PCP_STAT_COUNT; i++)
			used = pcp_load(&words[i]);
		slots += used;
	}
	return slots * PCP_STAT_STRIDE * sizeof(uint64_t);
}

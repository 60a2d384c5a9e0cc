/* SPDX-License-Identifier: MIT */
/* Zeroing the copies of a region without touching what need not be. */
#ifndef PCP_PERCPU_ZERO_H
#define PCP_PERCPU_ZERO_H

#include <stdint.h>

#include "percpu/region.h"

/* Two words, of which the machine may make one; at any address that is a
 * multiple of a word's size. */
typedef uint64_t pcp_two_words
	__attribute__((vector_size(16), aligned(8), may_alias));

/* Zero 64 bytes if they are not zero already. */
static inline void pcp_zero_line(uint64_t *copy)
{
	pcp_two_words *two = (pcp_two_words *)(void *)copy;
	const pcp_two_words any = (two[0] | two[1]) | (two[2] | two[3]);

	if (any[0] | any[1])
		two[0] = two[1] = two[2] = two[3] = (pcp_two_words){ 0, 0 };
}

/* Zero a copy without writing to what is zero already: an untouched page is
 * then read as the kernel's page of zeros and costs no memory, and the lines of
 * a CPU that did not use its copy stay clean. */
static inline void pcp_zero_copy(uint64_t *copy, unsigned int words)
{
	for (; words >= 8; words -= 8, copy += 8)
		pcp_zero_line(copy);
	for (; words; words--, copy++)
		if (*copy)
			*copy = 0;
}

/* Zero every slot's copy. That of the stray slot is zero as long as nobody may
 * have written to one. */
static inline void pcp_zero_copies(void *p, unsigned int words)
{
	const size_t stride = pcp_chunk_geometry.stride;
	unsigned int slots = pcp_chunk_geometry.slots;
	char *copy = p;

	if (pcp_index.rseq && !pcp_load(&pcp_stray_used))
		slots--;
	for (; slots; slots--, copy += stride)
		pcp_zero_copy((uint64_t *)(void *)copy, words);
}

#endif /* PCP_PERCPU_ZERO_H */

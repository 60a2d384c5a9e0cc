/* SPDX-License-Identifier: MIT */
/*
 * Runs of zero bits in arrays of 64-bit words: what the maps are searched with.
 * Whole words are looked at, so that the cost depends on the number of words
 * and not on how broken up the free space is.
 */
#ifndef PCP_PERCPU_BITS_H
#define PCP_PERCPU_BITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define PCP_BITS_NONE (~0U)

static inline unsigned int pcp_ctz(uint64_t x)
{
	return (unsigned int)__builtin_ctzll(x);
}

/* The first bit of value `one` at or after pos, or nbits (a multiple of 64). */
static inline unsigned int pcp_bits_next(const uint64_t *words,
					 unsigned int nbits, unsigned int pos,
					 bool one)
{
	const uint64_t flip = one ? 0 : ~UINT64_C(0);
	uint64_t w;

	if (pos >= nbits)
		return nbits;
	w = (words[pos / 64] ^ flip) & (~UINT64_C(0) << (pos % 64));
	for (pos /= 64; !w;) {
		if (++pos == nbits / 64)
			return nbits;
		w = words[pos] ^ flip;
	}
	return pos * 64 + pcp_ctz(w);
}

/* How many zero bits lie directly before pos, not going below from (a multiple
 * of 64). */
static inline unsigned int pcp_bits_zeros_before(const uint64_t *words,
						 unsigned int from,
						 unsigned int pos)
{
	unsigned int i = pos;

	while (i > from) {
		unsigned int part = (i - 1) % 64 + 1;
		uint64_t w = words[(i - 1) / 64] << (64 - part);

		if (w) {
			unsigned int zeros = (unsigned int)__builtin_clzll(w);

			i -= zeros < part ? zeros : part;
			break;
		}
		i -= part;
	}
	return pos - i;
}

/* The mask of bits [pos % 64, …) of a word that belong to a run of n bits. */
static inline uint64_t pcp_bits_mask(unsigned int pos, unsigned int n)
{
	uint64_t mask = n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;

	return mask << (pos % 64);
}

/* Bits at multiples of align, a power of two. */
static inline uint64_t pcp_bits_aligned(unsigned int align)
{
	static const uint64_t masks[] = {
		~UINT64_C(0),
		UINT64_C(0x5555555555555555),
		UINT64_C(0x1111111111111111),
		UINT64_C(0x0101010101010101),
		UINT64_C(0x0001000100010001),
		UINT64_C(0x0000000100000001),
	};

	return align >= 64 ? 1 : masks[pcp_ctz(align)];
}

/* The first aligned run of n zero bits, n at most 64, or PCP_BITS_NONE. A bit
 * of lo that survives the folding starts a run of n; runs inside one word,
 * which come before those that go on in the next, are tried alone first. */
static inline unsigned int pcp_bits_short_run(const uint64_t *words,
					      unsigned int nwords,
					      unsigned int n,
					      unsigned int align)
{
	const uint64_t aligned = pcp_bits_aligned(align);

	for (unsigned int i = 0; i < nwords; i++) {
		uint64_t inside = ~words[i], lo = inside, hi;
		unsigned int have, by;

		if (!lo || (align > 64 && i * 64 % align))
			continue;
		for (have = 1; have < n; have += by) {
			by = n - have < have ? n - have : have;
			inside &= inside >> by;
		}
		inside &= aligned;
		if (inside)
			return i * 64 + pcp_ctz(inside);
		if (i + 1 == nwords || !(lo >> 63) || words[i + 1] & 1)
			continue;
		hi = ~words[i + 1];
		for (have = 1; have < n; have += by) {
			by = n - have < have ? n - have : have;
			lo &= lo >> by | hi << (64 - by);
			hi &= hi >> by;
		}
		lo &= aligned;
		if (lo)
			return i * 64 + pcp_ctz(lo);
	}
	return PCP_BITS_NONE;
}

/* The same for any n. */
static inline unsigned int pcp_bits_run(const uint64_t *words,
					unsigned int nwords, unsigned int n,
					unsigned int align)
{
	const unsigned int nbits = nwords * 64;
	unsigned int pos = 0;

	if (n <= 64)
		return pcp_bits_short_run(words, nwords, n, align);
	for (;;) {
		unsigned int end;

		pos = pcp_bits_next(words, nbits, pos, false);
		pos = (pos + align - 1) & ~(align - 1);
		if (pos + n > nbits)
			return PCP_BITS_NONE;
		end = pcp_bits_next(words, nbits, pos, true);
		if (end - pos >= n)
			return pos;
		pos = end;
	}
}

/* The length of the longest run of zero bits. */
static inline unsigned int pcp_bits_longest(const uint64_t *words,
					    unsigned int nwords)
{
	const unsigned int nbits = nwords * 64;
	unsigned int pos = 0, longest = 0;

	while (pos + longest < nbits) {
		unsigned int end;

		pos = pcp_bits_next(words, nbits, pos, false);
		end = pcp_bits_next(words, nbits, pos, true);
		if (end - pos > longest)
			longest = end - pos;
		pos = end;
	}
	return longest;
}

#endif /* PCP_PERCPU_BITS_H */

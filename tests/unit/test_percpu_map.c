/* SPDX-License-Identifier: MIT */
/*
 * lib/percpu/map.c and bits.h: the maps without any memory behind them, against
 * a model that keeps a byte for each granule.
 */
#include <config.h>

#include "common.h"
#include "suite.h"

#include "base/compiler.h"
#include "percpu/bits.h"
#include "percpu/find.h"

#define SHIFT 19 /* chunks are 512 KiB apart */
#define BLOCKS 65U
#define GRANULES (BLOCKS * PCP_BLOCK_GRANULES)
#define CHUNKS_MAX 2048U
#define LARGEST 8192U /* granules */

/* What the model knows of a granule. */
enum { FRESH, USED, START, INSIDE };

static struct pcp_map map;
static struct pcp_chunk *chunks[CHUNKS_MAX]; /* by number, from the address */
static unsigned char *model[CHUNKS_MAX];
static unsigned int nr_chunks;

static uintptr_t base_of(unsigned int i)
{
	return (uintptr_t)(i + 1) << SHIFT;
}

static void add_chunk(void)
{
	unsigned int i = nr_chunks++;

	expect(i < CHUNKS_MAX);
	chunks[i] = calloc(1, pcp_chunk_meta_size(BLOCKS));
	model[i] = calloc(1, GRANULES);
	expect(chunks[i] && model[i]);
	pcp_chunk_meta_init(chunks[i], base_of(i), BLOCKS);
	pcp_map_add(&map, chunks[i]);
}

static void setup(void)
{
	memset(&map, 0, sizeof(map));
	map.shift = SHIFT;
	nr_chunks = 0;
}

static void teardown(void)
{
	for (unsigned int i = 0; i < nr_chunks; i++) {
		free(chunks[i]);
		free(model[i]);
	}
}

static void verify(void)
{
	int line = pcp_map_verify(&map);

	if (line)
		fail_now("verify.c:%d", line);
}

static unsigned char *model_at(uintptr_t p)
{
	unsigned int i = (unsigned int)(p >> SHIFT) - 1;

	expect(i < nr_chunks);
	return &model[i][(p - base_of(i)) >> PCP_GRANULE_SHIFT];
}

static enum pcp_map_fault give_at(uintptr_t p)
{
	struct pcp_place place;
	enum pcp_map_fault fault = pcp_map_find(&map, p, &place);

	if (fault == PCP_MAP_OK)
		pcp_map_give(&map, &place);
	return fault;
}

/* Take one, making a chunk where there is no room, and check all about it. */
static uintptr_t take(unsigned int n, unsigned int align)
{
	bool recycled = false, was_used = false;
	uintptr_t p = pcp_map_take(&map, n, align, false, &recycled);
	unsigned char *granule;

	if (!p) {
		add_chunk();
		p = pcp_map_take(&map, n, align, false, &recycled);
	}
	expect(p);
	expect(!(p & (((uintptr_t)align << PCP_GRANULE_SHIFT) - 1)));
	expect((p & (((uintptr_t)1 << SHIFT) - 1)) +
		       ((uintptr_t)n << PCP_GRANULE_SHIFT) <=
	       (uintptr_t)BLOCKS << PCP_BLOCK_SHIFT);
	if (n <= PCP_SMALL_GRANULES)
		expect_eq(p >> PCP_BLOCK_SHIFT, (p + (n << PCP_GRANULE_SHIFT) -
						 1) >> PCP_BLOCK_SHIFT);
	granule = model_at(p);
	for (unsigned int i = 0; i < n; i++) {
		expect(granule[i] == FRESH || granule[i] == USED);
		was_used |= granule[i] == USED;
		granule[i] = i ? INSIDE : START;
	}
	expect_eq(recycled, was_used);
	return p;
}

static unsigned int give(uintptr_t p)
{
	unsigned char *granule = model_at(p);
	unsigned char *end = model[(p >> SHIFT) - 1] + GRANULES;
	unsigned int n = 0;

	expect_eq(give_at(p), PCP_MAP_OK);
	do {
		granule[n++] = USED;
	} while (&granule[n] < end && granule[n] == INSIDE);
	return n;
}

static unsigned int some_size(struct rng *rng)
{
	switch (rng_below(rng, 16)) {
	case 0:
		return 1 + rng_below(rng, LARGEST);
	case 1:
	case 2:
		return 1 + rng_below(rng, 1024);
	case 3:
		return PCP_BLOCK_GRANULES - 2 + rng_below(rng, 5);
	case 4:
		return PCP_SMALL_GRANULES - 2 + rng_below(rng, 5);
	default:
		return 1 + rng_below(rng, 24);
	}
}

static unsigned int some_align(struct rng *rng)
{
	return rng_below(rng, 3) ? 1 : 1U << rng_below(rng, 10);
}

/* Long random life, the maps recounted now and then. */
START_TEST(test_against_model)
{
	enum { SLOTS = 600 };
	static uintptr_t live[SLOTS];
	struct rng rng;

	rng_seed(&rng, 1 + (uint64_t)_i);
	memset(live, 0, sizeof(live));
	for (int step = 0; step < 60000; step++) {
		/* Grow and shrink in turns, so that chunks become empty. */
		bool fill = step / 6000 % 2 == 0;
		uintptr_t *p = &live[rng_below(&rng, SLOTS)];

		if (*p && (!fill || rng_below(&rng, 2))) {
			give(*p);
			*p = 0;
		}
		if (!*p && (fill || !rng_below(&rng, 4)))
			*p = take(some_size(&rng), some_align(&rng));
		if (step % 3000 == 0)
			verify();
	}
	for (int i = 0; i < SLOTS; i++)
		if (live[i])
			give(live[i]);
	verify();
	expect_eq(map.regions, 0);
	expect_eq(map.granules, 0);
	expect_eq(map.empty, map.chunks);
	expect_eq(map.chunks, nr_chunks);
}
END_TEST

/* Every granule of a unit and of what lies around it: only starts of live
 * regions may be given, and a refusal changes nothing. */
START_TEST(test_faults)
{
	static const enum pcp_map_fault want[] = {
		[FRESH] = PCP_MAP_FREE,
		[USED] = PCP_MAP_FREE,
		[INSIDE] = PCP_MAP_INTERIOR,
	};
	uintptr_t p[100];
	struct rng rng;

	rng_seed(&rng, 7);
	for (int i = 0; i < 100; i++)
		p[i] = take(1 + rng_below(&rng, 300), 1);
	for (int i = 0; i < 100; i += 3)
		give(p[i]);
	for (unsigned int i = 0; i < GRANULES; i++) {
		uintptr_t q = base_of(0) + (i << PCP_GRANULE_SHIFT);
		unsigned char is = model[0][i];

		if (is != START)
			expect_eq(give_at(q), want[is]);
		/* Not even a granule's start. */
		expect_eq(give_at(q + 1 + i % 7),
			  is == START ? PCP_MAP_INTERIOR : want[is]);
	}
	expect_eq(give_at(base_of(0) - 8), PCP_MAP_STRAY);
	expect_eq(give_at(base_of(1) - 8), PCP_MAP_STRAY);
	expect_eq(give_at(base_of(0) + (BLOCKS << PCP_BLOCK_SHIFT)),
		  PCP_MAP_STRAY);
	expect_eq(give_at(base_of(CHUNKS_MAX)), PCP_MAP_STRAY);
	expect_eq(give_at(0), PCP_MAP_STRAY);
	expect_eq(give_at(UINTPTR_MAX), PCP_MAP_STRAY);
	verify();
	for (int i = 0; i < 100; i++)
		if (i % 3)
			give(p[i]);
	for (int i = 0; i < 100; i++)
		expect_eq(give_at(p[i]), PCP_MAP_FREE);
	verify();
}
END_TEST

/* Regions of one size fill a unit without a gap, whatever the size, and again
 * after each second one was given back and taken anew. */
START_TEST(test_packing)
{
	static const unsigned int sizes[] = { 1,   2,	 8,    16,  64,
					      128, 260,	 511,  512, 513,
					      625, 1024, 5000, 8192 };
	unsigned int n = sizes[_i], fit = GRANULES / n;
	static uintptr_t p[GRANULES];
	bool recycled;

	for (unsigned int i = 0; i < fit; i++)
		p[i] = take(n, 1);
	for (int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < fit; i += 2)
			give(p[i]);
		verify();
		for (unsigned int i = 0; i < fit; i += 2)
			p[i] = take(n, 1);
	}
	expect_eq(nr_chunks, 1);
	/* The unit is full: what is left at its end is too small. */
	expect(!pcp_map_take(&map, n, 1, true, &recycled));
	verify();
}
END_TEST

/* An aligned request is met from aligned holes among misaligned ones. */
START_TEST(test_align)
{
	uintptr_t p[BLOCKS][64];

	for (unsigned int b = 0; b < BLOCKS; b++)
		for (int i = 0; i < 64; i++)
			p[b][i] = take(8, 8);
	for (unsigned int b = 0; b < BLOCKS; b++)
		for (int i = 0; i < 64; i += 2)
			give(p[b][i]);
	for (unsigned int b = 0; b < BLOCKS; b++) {
		/* Spoil some holes for alignment, but not all. */
		for (int i = 0; i < 64; i += 2)
			p[b][i] = take(i % 4 ? 8 : 1, i % 4 ? 8 : 1);
	}
	for (int align = 1; align <= 512; align *= 2)
		for (unsigned int n = 1; n <= 2 * PCP_BLOCK_GRANULES; n *= 2)
			take(n, (unsigned int)align);
	verify();
}
END_TEST

/* The bounds keep searches short however many regions live. */
START_TEST(test_short_search)
{
	static const unsigned int counts[] = { 1000, 10000, 100000 };
	unsigned int live = counts[_i];
	uintptr_t *p = calloc(live, sizeof(*p));
	const unsigned int steps = 100000;
	struct rng rng;
	uint64_t before;

	expect(p);
	rng_seed(&rng, 11);
	for (unsigned int i = 0; i < live; i++)
		p[i] = take(1 + rng_below(&rng, 40), 1);
	for (unsigned int i = 0; i < steps; i++) {
		unsigned int k = rng_below(&rng, live);

		give(p[k]);
		p[k] = take(1 + rng_below(&rng, 40), 1);
	}
	before = map.scans;
	for (unsigned int i = 0; i < steps; i++) {
		unsigned int k = rng_below(&rng, live);

		give(p[k]);
		p[k] = take(1 + rng_below(&rng, 40), 1);
	}
	expect_cmp(map.scans - before, <, 2 * steps);
	before = map.scans;
	for (unsigned int i = 0; i < steps; i++)
		give(take(8, 1));
	expect_cmp(map.scans - before, <, 2 * steps);
	verify();
	for (unsigned int i = 0; i < live; i++)
		give(p[i]);
	free(p);
}
END_TEST

/* Small regions go to the fullest chunk, so that the others become empty. */
START_TEST(test_fullest_first)
{
	enum { BIG = 4 * PCP_BLOCK_GRANULES, EACH = BLOCKS / 4 };
	uintptr_t big[3][EACH], p;

	for (int c = 0; c < 3; c++)
		for (unsigned int i = 0; i < EACH; i++)
			big[c][i] = take(BIG, 512);
	/* One block is left over in each; fill those. */
	for (int c = 0; c < 3; c++)
		take(PCP_BLOCK_GRANULES, 512);
	expect_eq(nr_chunks, 3);
	give(big[0][0]);
	give(big[0][1]);
	give(big[1][0]);
	give(big[2][0]);
	give(big[2][1]);
	give(big[2][2]);
	add_chunk();
	p = take(1, 1);
	expect_eq(p >> SHIFT, big[1][0] >> SHIFT);
	verify();
}
END_TEST

START_TEST(test_surplus)
{
	struct pcp_chunk *gone;
	uintptr_t p;

	expect(!pcp_map_surplus(&map, 0));
	for (int i = 0; i < 3; i++)
		add_chunk();
	p = take(5, 1);
	expect_eq(map.empty, 2);
	gone = pcp_map_surplus(&map, 1);
	expect(gone && gone->base != p >> SHIFT << SHIFT);
	expect(!pcp_map_surplus(&map, 1));
	verify();
	expect_eq(map.chunks, 2);
	expect_eq(give_at(gone->base), PCP_MAP_STRAY);
	/* Back again, as when the system does not take it. */
	pcp_map_add(&map, gone);
	give(p);
	expect_eq(map.empty, 3);
	expect_eq(map.touched, 1);
	for (int i = 0; i < 3; i++)
		expect(pcp_map_surplus(&map, 0));
	expect_eq(map.chunks, 0);
	expect_eq(map.touched, 0);
	verify();
}
END_TEST

/* A chunk whose memory was discarded is fresh again. */
START_TEST(test_fresh_again)
{
	bool recycled;
	uintptr_t p;

	give(take(LARGEST, 1));
	p = pcp_map_take(&map, 1, 1, false, &recycled);
	expect(p && recycled);
	expect_eq(give_at(p), PCP_MAP_OK);
	expect(pcp_map_surplus(&map, 0) == chunks[0]);
	pcp_chunk_meta_fresh(chunks[0]);
	pcp_map_add(&map, chunks[0]);
	expect_eq(map.touched, 0);
	p = pcp_map_take(&map, LARGEST, 1, false, &recycled);
	expect(p && !recycled);
	verify();
}
END_TEST

/* The searches of bits.h against going bit by bit. */
static bool bit(const uint64_t *words, unsigned int pos)
{
	return words[pos / 64] >> (pos % 64) & 1;
}

static unsigned int slow_run(const uint64_t *words, unsigned int nbits,
			     unsigned int n, unsigned int align)
{
	for (unsigned int pos = 0; pos + n <= nbits; pos += align) {
		unsigned int i = 0;

		while (i < n && !bit(words, pos + i))
			i++;
		if (i == n)
			return pos;
	}
	return PCP_BITS_NONE;
}

START_TEST(test_bits)
{
	enum { WORDS = 4, BITS = WORDS * 64 };
	uint64_t words[WORDS];
	struct rng rng;

	rng_seed(&rng, 3);
	for (int round = 0; round < 3000; round++) {
		unsigned int longest = 0, run = 0, before = 0, from;
		unsigned int pos = rng_below(&rng, BITS), next = pos;

		for (int i = 0; i < WORDS; i++) {
			words[i] = rng_next(&rng);
			for (int k = round % 6; k; k--)
				words[i] &= rng_next(&rng);
			if (round % 11 == 0)
				words[i] = ~words[i];
		}
		for (unsigned int i = 0; i < BITS; i++) {
			run = bit(words, i) ? 0 : run + 1;
			longest = run > longest ? run : longest;
		}
		expect_eq(pcp_bits_longest(words, WORDS), longest);
		for (unsigned int n = 1; n <= BITS; n += 1 + n / 16)
			for (unsigned int align = 1; align <= BITS; align *= 2)
				expect_eq(pcp_bits_run(words, WORDS, n, align),
					  slow_run(words, BITS, n, align));
		while (next < BITS && !bit(words, next))
			next++;
		expect_eq(pcp_bits_next(words, BITS, pos, true), next);
		for (next = pos; next < BITS && bit(words, next);)
			next++;
		expect_eq(pcp_bits_next(words, BITS, pos, false), next);
		from = rng_below(&rng, pos / 64 + 1) * 64;
		while (pos - before > from && !bit(words, pos - before - 1))
			before++;
		expect_eq(pcp_bits_zeros_before(words, from, pos), before);
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("percpu map", 120);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_bits);
	tcase_add_loop_test(tc, test_against_model, 0, 8);
	tcase_add_test(tc, test_faults);
	tcase_add_loop_test(tc, test_packing, 0, 14);
	tcase_add_test(tc, test_align);
	tcase_add_loop_test(tc, test_short_search, 0, 3);
	tcase_add_test(tc, test_fullest_first);
	tcase_add_test(tc, test_surplus);
	tcase_add_test(tc, test_fresh_again);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/percpu/quick.c: small regions that were freed come back at once, and what
 * is held for that is neither lost, nor counted, nor in anybody's way. */
#include <config.h>

#include "percpu_fixture.h"
#include "suite.h"

#include "base/fault.h"
#include "percpu/find.h"
#include "percpu/quick.h"

#define SMALL_MAX ((size_t)PCP_SMALL_GRANULES << PCP_GRANULE_SHIFT)

static void *rest; /* so that there is a chunk that is not empty */

static void setup(void)
{
	rest = must_alloc(8, 0);
}

static void teardown(void)
{
	verify();
	pcpool_percpu_free(rest);
	expect_eq(stats().regions, 0);
	expect_eq(stats().region_bytes, 0);
	expect_cmp(stats().chunks, <=, 2);
	for (unsigned int i = 0; i < PCP_SIZE_CLASSES; i++)
		expect_eq(stats().sizes[i], 0);
	verify();
}

START_TEST(test_last_freed_comes_back)
{
	static const size_t sizes[] = { 8, 16, 24, 64, 136, 504, SMALL_MAX };

	for (unsigned int n = 0; n < PCP_ARRAY_SIZE(sizes); n++) {
		const size_t size = sizes[n];
		unsigned char *p[3];

		for (unsigned int i = 0; i < 3; i++) {
			p[i] = must_alloc(size, 0);
			fill(p[i], size, 0x5a, pcp_nr_slots());
		}
		for (unsigned int i = 0; i < 3; i++)
			pcpool_percpu_free(p[i]);
		for (unsigned int i = 3; i--;) {
			expect(must_alloc(size, 0) == p[i]);
			expect_bytes(p[i], size, 0, pcp_nr_slots());
		}
		verify();
		for (unsigned int i = 0; i < 3; i++)
			pcpool_percpu_free(p[i]);
	}
}
END_TEST

/* What is held may lie wrong for who asks. */
START_TEST(test_alignment)
{
	for (size_t align = 8; align <= PAGE; align *= 2) {
		void *p[16], *q[16];

		for (unsigned int i = 0; i < 16; i++)
			p[i] = must_alloc(64, 0);
		for (unsigned int i = 0; i < 16; i++)
			pcpool_percpu_free(p[i]);
		for (unsigned int i = 0; i < 16; i++) {
			q[i] = must_alloc(64, align);
			expect(!((uintptr_t)q[i] & (align - 1)));
		}
		verify();
		for (unsigned int i = 0; i < 16; i++)
			pcpool_percpu_free(q[i]);
	}
}
END_TEST

START_TEST(test_not_counted)
{
	const struct pcp_percpu_snapshot before = stats();
	void *p[3 * PCP_QUICK_DEPTH];

	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(p); i++)
		p[i] = must_alloc(i % 3 ? 64 : 100, 0);
	expect_eq(stats().regions - before.regions, PCP_ARRAY_SIZE(p));
	expect_eq(stats().sizes[3] - before.sizes[3], 2 * PCP_QUICK_DEPTH);
	expect_eq(stats().sizes[4] - before.sizes[4], PCP_QUICK_DEPTH);
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(p); i++) {
		pcpool_percpu_free(p[i]);
		expect_eq(stats().regions - before.regions,
			  PCP_ARRAY_SIZE(p) - 1 - i);
	}
	expect_eq(stats().region_bytes, before.region_bytes);
}
END_TEST

/* However many sizes come and go, little is held. Maps without memory. */
START_TEST(test_bounded)
{
	static struct pcp_map map = { .shift = 19 };
	static struct pcp_quick quick;
	const unsigned int blocks = 65;
	struct pcp_chunk *chunk = calloc(1, pcp_chunk_meta_size(blocks));
	struct pcp_place place[PCP_QUICK_DEPTH + 10];
	bool full = false;

	expect(chunk);
	pcp_chunk_meta_init(chunk, (uintptr_t)1 << map.shift, blocks);
	pcp_map_add(&map, chunk);
	for (unsigned int n = 1; n <= PCP_SMALL_GRANULES; n++) {
		unsigned int kept = 0;

		for (unsigned int i = 0; i < PCP_ARRAY_SIZE(place); i++) {
			bool recycled;
			uintptr_t p =
				pcp_map_take(&map, n, 1, false, &recycled);

			expect_eq(pcp_map_find(&map, p, &place[i]), PCP_MAP_OK);
		}
		for (unsigned int i = 0; i < PCP_ARRAY_SIZE(place); i++)
			if (pcp_quick_keep(&quick, &map, &place[i]))
				kept++;
			else
				pcp_map_give(&map, &place[i]);
		/* Of one size no more than there is place for at a time. */
		expect_cmp(kept, >=, PCP_QUICK_DEPTH);
		expect_eq(map.regions, map.held_regions);
		expect_cmp(map.held_granules, <, PCP_QUICK_GRANULES + n);
		full |= map.held_granules + PCP_SMALL_GRANULES >
			PCP_QUICK_GRANULES;
		expect_eq(pcp_map_verify(&map), 0);
	}
	expect(full);
	pcp_quick_flush(&quick, &map);
	expect_eq(map.regions, 0);
	expect_eq(map.held_granules, 0);
	expect_eq(map.empty, 1);
	expect_eq(pcp_map_verify(&map), 0);
	free(chunk);
}
END_TEST

/* A chunk in which all else is free goes back. */
START_TEST(test_keeps_no_chunk)
{
	static void *p[16384];
	size_t n = 0;

	while (stats().chunks < 3) {
		expect_cmp(n, <, PCP_ARRAY_SIZE(p));
		p[n++] = must_alloc(64, 0);
	}
	/* The first ones freed are held; so is what goes on coming and going.
	 */
	for (size_t i = 0; i < n; i++) {
		pcpool_percpu_free(p[i]);
		if (i % 64 == 0)
			pcpool_percpu_free(must_alloc(24, 0));
	}
	/* That of rest, and an empty one that is kept. */
	expect_cmp(stats().chunks, <=, 2);
	expect_cmp(stats().chunk_free, >=, 1);
}
END_TEST

/* Whether eight of them lie side by side in one block. */
static bool in_a_row(void **p)
{
	const uintptr_t first = (uintptr_t)p[0];

	for (unsigned int i = 1; i < 8; i++)
		if ((uintptr_t)p[i] != first + i * 64)
			return false;
	return first / PAGE == (first + 511) / PAGE;
}

/* What is held gives way where there is no other room. */
START_TEST(test_gives_way)
{
	static void *p[8192];
	size_t n = 0, i = 0;
	void *wide;

	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	while ((p[n] = pcpool_percpu_alloc(64, 0)))
		expect_cmp(++n, <, PCP_ARRAY_SIZE(p));
	while (!in_a_row(&p[i]))
		expect_cmp(++i, <, n - 8);
	pcpool_percpu_free_bulk(8, &p[i]);
	wide = must_alloc(512, 0);
	expect(wide == p[i]);
	pcp_fault_set(PCP_FAULT_RESERVE, 0, false);
	memset(&p[i], 0, 8 * sizeof(p[i]));
	pcpool_percpu_free(wide);
	pcpool_percpu_free_bulk(n, p);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("quick", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_last_freed_comes_back);
	tcase_add_test(tc, test_alignment);
	tcase_add_test(tc, test_not_counted);
	tcase_add_test(tc, test_bounded);
	tcase_add_test(tc, test_keeps_no_chunk);
	tcase_add_test(tc, test_gives_way);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * Hostile sizes and alignments, each pair of them: what is accepted is large
 * enough, aligned and apart; all else is refused with the documented errno; and
 * afterwards everything is as before.
 */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const size_t sizes[] = {
	0,
	1,
	7,
	8,
	4095,
	4096,
	4097,
	65535,
	65536,
	65537,
	PCPOOL_SIZE_MAX - 1,
	PCPOOL_SIZE_MAX,
	PCPOOL_SIZE_MAX + 1,
	(size_t)1 << 31,
	((size_t)1 << 32) + 8,
	(size_t)1 << 63,
	((size_t)1 << 63) + 8,
	SIZE_MAX - 64,
	SIZE_MAX - 63,
	SIZE_MAX - 8,
	SIZE_MAX - 1,
	SIZE_MAX,
};

static const size_t aligns[] = {
	0,
	1,
	2,
	3,
	6,
	7,
	8,
	12,
	16,
	64,
	2048,
	4096,
	8192,
	(size_t)1 << 21,
	(size_t)1 << 22,
	((size_t)1 << 21) + 1,
	(size_t)1 << 31,
	(size_t)1 << 32,
	(size_t)1 << 63,
	SIZE_MAX,
};

static bool fits(size_t size, size_t align, size_t most, size_t align_most)
{
	return size >= 1 && size <= most && !(align & (align - 1)) &&
	       align <= align_most;
}

static void three_objects(struct pcpool_cache *cache, size_t size, size_t align)
{
	unsigned char *objs[3];

	for (int i = 0; i < 3; i++) {
		objs[i] = must_alloc(cache);
		if (align)
			expect_eq((uintptr_t)objs[i] % align, 0);
		objs[i][0] = objs[i][size - 1] = (unsigned char)(i + 1);
	}
	for (int i = 0; i < 3; i++) {
		expect_eq(objs[i][0], i + 1);
		expect_eq(objs[i][size - 1], i + 1);
		for (int j = 0; j < i; j++) {
			uintptr_t a = (uintptr_t)objs[i];
			uintptr_t b = (uintptr_t)objs[j];

			expect((a > b ? a - b : b - a) >= size);
		}
	}
	for (int i = 0; i < 3; i++)
		pcpool_free(cache, objs[i]);
}

START_TEST(case_ARG_01_caches)
{
	for (size_t s = 0; s < COUNT(sizes); s++)
		for (size_t a = 0; a < COUNT(aligns); a++) {
			struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
			struct pcpool_cache *cache;

			attr.align = aligns[a];
			if (!fits(sizes[s], aligns[a], PCPOOL_SIZE_MAX,
				  PCPOOL_ALIGN_MAX)) {
				expect_refused(pcpool_cache_create(
						       "arg", sizes[s], &attr),
					       EINVAL);
				continue;
			}
			cache = pcpool_cache_create("arg", sizes[s], &attr);
			if (!cache)
				fail_now("size %zu, align %zu: %s", sizes[s],
					 aligns[a], strerror(errno));
			three_objects(cache, sizes[s], aligns[a]);
			expect_eq(pcpool_cache_shrink(cache), 0);
			expect_eq(stats_of(cache).slabs, 0);
			must_destroy(cache);
		}
}
END_TEST

static void three_regions(size_t size, size_t align)
{
	unsigned int slots = pcpool_nr_slots();
	unsigned char *regions[3];

	for (int i = 0; i < 3; i++) {
		regions[i] = pcpool_percpu_alloc(size, align);
		if (!regions[i])
			fail_now("region of %zu, align %zu: %s", size, align,
				 strerror(errno));
		for (unsigned int s = 0; s < slots; s++) {
			unsigned char *p = pcpool_percpu_ptr(regions[i], s);

			expect(p);
			if (align)
				expect_eq((uintptr_t)p % align, 0);
			expect_eq(p[0] | p[size - 1], 0);
			p[0] = p[size - 1] = (unsigned char)(i * 16 + s % 16);
		}
	}
	for (int i = 0; i < 3; i++) {
		for (unsigned int s = 0; s < slots; s++) {
			unsigned char *p = pcpool_percpu_ptr(regions[i], s);
			unsigned char want = (unsigned char)(i * 16 + s % 16);

			expect_eq(p[0], want);
			expect_eq(p[size - 1], want);
		}
	}
	for (int i = 0; i < 3; i++)
		pcpool_percpu_free(regions[i]);
}

START_TEST(case_ARG_01_regions)
{
	uint64_t regions = percpu_stats_of().regions;
	uint64_t bytes = percpu_stats_of().region_bytes;

	for (size_t s = 0; s < COUNT(sizes); s++)
		for (size_t a = 0; a < COUNT(aligns); a++) {
			void *ptrs[2] = { &ptrs, &ptrs };

			if (fits(sizes[s], aligns[a], PCPOOL_PERCPU_SIZE_MAX,
				 PCPOOL_PERCPU_ALIGN_MAX)) {
				three_regions(sizes[s], aligns[a]);
				continue;
			}
			expect_refused(pcpool_percpu_alloc(sizes[s], aligns[a]),
				       EINVAL);
			expect_eq(pcpool_percpu_alloc_bulk(2, sizes[s],
							   aligns[a], ptrs),
				  EINVAL);
			expect(!ptrs[0] && !ptrs[1]);
		}
	expect_eq(percpu_stats_of().regions, regions);
	expect_eq(percpu_stats_of().region_bytes, bytes);
}
END_TEST

START_TEST(case_ARG_01_counts)
{
	const size_t over = SIZE_MAX / sizeof(void *) + 1;
	struct pcpool_cache *cache = pcpool_cache_create("arg", 64, NULL);
	void *ptrs[1] = { NULL };

	expect_eq(pcpool_alloc_bulk(cache, 0, ptrs), 0);
	expect_eq(pcpool_alloc_bulk(cache, over, ptrs), ENOMEM);
	expect_eq(pcpool_free_bulk(cache, 0, ptrs), 0);
	expect_eq(pcpool_free_bulk(cache, over, ptrs), EINVAL);
	expect_eq(pcpool_percpu_alloc_bulk(0, 8, 8, ptrs), 0);
	expect_eq(pcpool_percpu_alloc_bulk(0, 8, 8, NULL), 0);
	expect_eq(pcpool_percpu_alloc_bulk(over, 8, 8, ptrs), ENOMEM);
	expect_eq(pcpool_percpu_alloc_bulk(1, 8, 8, NULL), EINVAL);
	expect_eq(pcpool_percpu_free_bulk(0, NULL), 0);
	expect_eq(pcpool_percpu_free_bulk(1, NULL), EINVAL);
	expect_eq(pcpool_percpu_free_bulk(over, ptrs), EINVAL);
	expect_eq(pcpool_percpu_free_bulk(1, ptrs), 0);
	pcpool_percpu_free(NULL);
	expect_refused(pcpool_percpu_ptr(NULL, 0), EINVAL);
	ptrs[0] = pcpool_percpu_alloc(8, 8);
	expect_refused(pcpool_percpu_ptr(ptrs[0], pcpool_nr_slots()), EINVAL);
	expect_refused(pcpool_percpu_ptr(ptrs[0], (unsigned int)-1), EINVAL);
	expect_refused(pcpool_percpu_ptr(ptrs[0], (unsigned int)-2), EINVAL);
	pcpool_percpu_free(ptrs[0]);
	must_destroy(cache);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("args", 60);

	tcase_add_test(tc, case_ARG_01_caches);
	tcase_add_test(tc, case_ARG_01_regions);
	tcase_add_test(tc, case_ARG_01_counts);
	return suite_run(tc);
}

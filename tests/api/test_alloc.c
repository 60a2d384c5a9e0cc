/* SPDX-License-Identifier: MIT */
/*
 * Objects: their place, their alignment, what is lost of a slab, and that what
 * the constructor wrote stays whatever happens in between.
 */
#include <config.h>

#include "../caches.h"
#include "../suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static size_t default_align(size_t size)
{
	size_t factor = size & -size;

	return factor < _Alignof(max_align_t) ? factor : _Alignof(max_align_t);
}

static int compare(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

static void check_spacing(void **objs, size_t n, size_t size)
{
	uintptr_t at[64];

	expect(n <= COUNT(at));
	for (size_t i = 0; i < n; i++)
		at[i] = (uintptr_t)objs[i];
	qsort(at, n, sizeof(at[0]), compare);
	for (size_t i = 1; i < n; i++)
		expect(at[i] - at[i - 1] >= size);
}

static void one_shape(size_t size, size_t align)
{
	struct sheet sheet = { .fill = size };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	size_t want = align ? align : default_align(size);
	struct pcpool_cache *cache;
	void *objs[5];

	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.align = align;
	/* Keeps what is built, and written, near what is asked for. */
	attr.sheaf_capacity = size > 65536 ? 1 : 4;
	cache = pcpool_cache_create("shape", size, &attr);
	expect(cache);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < COUNT(objs); i++) {
			objs[i] = must_alloc(cache);
			if ((uintptr_t)objs[i] % want)
				fail_now("%p of size %zu, align %zu", objs[i],
					 size, align);
			sheet_pattern_check(objs[i], size);
		}
		check_spacing(objs, COUNT(objs), size);
		for (size_t i = 0; i < COUNT(objs); i++)
			pcpool_free(cache, objs[i]);
		if (!round)
			expect_eq(pcpool_cache_shrink(cache), 0);
	}
	destroy_balanced(cache, &sheet);
}

START_TEST(test_sizes_and_alignments)
{
	static const size_t sizes[] = {
		1,     2,     3,      5,      8,      13,     16,      31,
		32,    33,    63,     64,     65,     100,    128,     129,
		255,   256,   500,    1000,   1024,   2047,   2048,    3000,
		4095,  4096,  4097,   8192,   10000,  16384,  32769,   65535,
		65536, 65537, 131072, 262144, 524287, 524288, 1048575, 1048576,
	};
	static const size_t aligns[] = { 0,   1,    2,	   8,	    16,	    64,
					 256, 4096, 65536, 1 << 20, 1 << 21 };

	for (size_t i = 0; i < COUNT(sizes); i++)
		for (size_t j = 0; j < COUNT(aligns); j++)
			one_shape(sizes[i], aligns[j]);
}
END_TEST

START_TEST(test_every_small_size)
{
	for (size_t size = 1; size <= 300; size++)
		one_shape(size, 0);
}
END_TEST

static void check_waste(size_t size, size_t align)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	size_t want = align ? align : default_align(size);
	struct pcpool_cache_stats stats;
	struct pcpool_cache *cache;

	attr.align = align;
	cache = pcpool_cache_create("waste", size, &attr);
	expect(cache);
	stats = stats_of(cache);
	expect_eq(stats.object_size, size);
	expect(stats.objects_per_slab > 0);
	expect_eq(stats.slabs, 0);
	/* No more than alignment asks for is put between objects. */
	expect_eq(stats.stride, (size + want - 1) / want * want);
	if (stats.slab_overhead * 8 > stats.slab_size)
		fail_now("size %zu align %zu: %llu of %llu bytes lost", size,
			 align, (unsigned long long)stats.slab_overhead,
			 (unsigned long long)stats.slab_size);
	/* The figure is the truth: what the objects leave. */
	if (stats.slab_size - stats.objects_per_slab * stats.stride >
	    stats.slab_size / 8)
		fail_now("size %zu align %zu: %llu objects in %llu bytes", size,
			 align, (unsigned long long)stats.objects_per_slab,
			 (unsigned long long)stats.slab_size);
	expect(stats.slab_overhead + stats.objects_per_slab * stats.stride >=
	       stats.slab_size);
	must_destroy(cache);
}

START_TEST(test_at_most_an_eighth_is_lost)
{
	static const size_t aligns[] = { 0, 16, 64 };

	for (size_t size = 32; size <= 4096; size++)
		for (size_t i = 0; i < COUNT(aligns); i++)
			check_waste(size, aligns[i]);
}
END_TEST

/* Fill a whole slab and look at the addresses: the counted objects fit. */
START_TEST(test_a_slab_holds_what_it_says)
{
	static const size_t sizes[] = { 1,   8,	   24,	 32,	100,
					512, 1000, 4096, 20000, 70000 };

	for (size_t s = 0; s < COUNT(sizes); s++) {
		struct pcpool_cache *cache =
			pcpool_cache_create("slab", sizes[s], NULL);
		struct pcpool_cache_stats stats = stats_of(cache);
		size_t n = 2 * stats.objects_per_slab;
		void **objs = calloc(n, sizeof(*objs));

		expect(objs);
		expect_eq(pcpool_alloc_bulk(cache, n, objs), 0);
		for (size_t i = 0; i < n; i++)
			memset(objs[i], (int)i, sizes[s]);
		for (size_t i = 0; i < n; i++)
			expect_eq(((unsigned char *)objs[i])[sizes[s] - 1],
				  (unsigned char)i);
		stats = stats_of(cache);
		expect_eq(stats.live, n);
		expect(stats.slabs >= 2);
		expect_eq(stats.total_objects,
			  stats.slabs * stats.objects_per_slab);
		expect_eq(pcpool_free_bulk(cache, n, objs), 0);
		free(objs);
		must_destroy(cache);
	}
}
END_TEST

static void keep_contents(size_t size, size_t align, unsigned int flags)
{
	struct sheet sheet = { .fill = size };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	void *objs[40];

	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.align = align;
	attr.flags = flags;
	cache = pcpool_cache_create("tiny", size, &attr);
	expect(cache);
	for (int round = 0; round < 6; round++) {
		for (size_t i = 0; i < COUNT(objs); i++) {
			objs[i] = must_alloc(cache);
			expect_eq((uintptr_t)objs[i] % align, 0);
			sheet_pattern_check(objs[i], size);
		}
		check_spacing(objs, COUNT(objs), size);
		if (round % 2)
			expect_eq(pcpool_free_bulk(cache, COUNT(objs), objs),
				  0);
		else
			for (size_t i = 0; i < COUNT(objs); i++)
				pcpool_free(cache, objs[i]);
		if (round % 3 == 2)
			expect_eq(pcpool_cache_shrink(cache), 0);
	}
	destroy_balanced(cache, &sheet);
}

START_TEST(case_SHF_08_tiny_objects_keep_their_bytes)
{
	static const unsigned int flags[] = { 0, PCPOOL_CHECK,
					      PCPOOL_DTOR_ON_FREE };

	for (size_t f = 0; f < COUNT(flags); f++)
		for (size_t size = 1; size <= 40; size++)
			for (size_t align = 1; align <= 16; align *= 2)
				keep_contents(size, align, flags[f]);
}
END_TEST

START_TEST(test_free_keeps_errno_and_takes_null)
{
	struct pcpool_cache *cache = pcpool_cache_create("e", 64, NULL);
	void *obj = must_alloc(cache);

	errno = EXFULL;
	pcpool_free(cache, obj);
	expect_errno(EXFULL);
	pcpool_free(cache, NULL);
	expect_errno(EXFULL);
	/* Through the slow paths too. */
	for (int round = 0; round < 3; round++) {
		void *objs[3000];

		expect_eq(pcpool_alloc_bulk(cache, COUNT(objs), objs), 0);
		errno = EXFULL;
		for (size_t i = 0; i < COUNT(objs); i++)
			pcpool_free(cache, objs[i]);
		expect_errno(EXFULL);
	}
	expect_refused(pcpool_alloc(NULL), EINVAL);
	must_destroy(cache);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("alloc", 120);

	tcase_add_test(tc, test_sizes_and_alignments);
	tcase_add_test(tc, test_every_small_size);
	tcase_add_test(tc, test_at_most_an_eighth_is_lost);
	tcase_add_test(tc, test_a_slab_holds_what_it_says);
	tcase_add_test(tc, case_SHF_08_tiny_objects_keep_their_bytes);
	tcase_add_test(tc, test_free_keeps_errno_and_takes_null);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/slab/layout.c: nothing overlaps, every object is found again, and little
 * is wasted, for every size there can be. */
#include <config.h>

#include <stdalign.h>

#include <pcpool/cache.h>

#include "common.h"
#include "suite.h"

#include "slab/arena.h"
#include "slab/layout.h"

#define ROUNDS_UP(n, align) (((n) + (align) - 1) & ~((align) - 1))

static size_t expected_align(size_t size, size_t align)
{
	size_t factor = size & (~size + 1);

	if (align)
		return align;
	return factor < alignof(max_align_t) ? factor : alignof(max_align_t);
}

/* End of the tables of n objects. */
static size_t tables_end(size_t n, bool built, bool check)
{
	size_t end = PCP_SLAB_HEADER + n * sizeof(uint16_t);

	if (built)
		end = ROUNDS_UP(end, sizeof(uint64_t)) + (n + 63) / 64 * 8;
	if (check)
		end = ROUNDS_UP(end, alignof(struct pcp_check)) +
		      n * sizeof(struct pcp_check);
	return end;
}

static void check_tables(const struct pcp_layout *l, bool built, bool check)
{
	size_t end = PCP_SLAB_HEADER + l->objects * sizeof(uint16_t);

	expect_eq(!!l->built, built);
	expect_eq(!!l->check, check);
	if (built) {
		expect_cmp(l->built, >=, end);
		expect_eq(l->built % sizeof(uint64_t), 0);
		end = l->built + (l->objects + 63) / 64 * sizeof(uint64_t);
	}
	if (check) {
		expect_cmp(l->check, >=, end);
		expect_eq(l->check % alignof(struct pcp_check), 0);
		end = l->check + l->objects * sizeof(struct pcp_check);
	}
	expect_cmp(l->first, >=, end);
}

/* step: which objects to look at. */
static void check_lookup(const struct pcp_layout *l, size_t step)
{
	size_t reach = l->slab_size - l->first;

	for (size_t i = 0; i < l->objects; i += step) {
		size_t offset = i * l->stride;

		expect_eq(pcp_layout_index(l, offset), i);
		/* Inside an object: no index may claim it. */
		for (size_t in = 1; in < l->stride; in *= 3)
			expect(pcp_layout_index(l, offset + in) * l->stride !=
			       offset + in);
		if (l->stride > 1) {
			size_t last = offset + l->stride - 1;

			expect(pcp_layout_index(l, last) * l->stride != last);
		}
	}
	/* Behind the last object. */
	for (size_t offset = l->objects * l->stride; offset < reach;
	     offset += l->stride / 2 + 1) {
		size_t index = pcp_layout_index(l, offset);

		expect(index >= l->objects || index * l->stride != offset);
	}
}

static void check_shape(const struct pcp_layout *l, size_t size, size_t align,
			bool built, bool check)
{
	expect_eq(l->size, size);
	expect_eq(l->align, expected_align(size, align));
	expect_cmp(l->stride, >=, size);
	expect_cmp(l->stride - size, <, l->align);
	expect_eq(l->stride % l->align, 0);
	expect_eq(l->first % l->align, 0);
	expect_eq(l->slab_size & (l->slab_size - 1), 0);
	expect_cmp(l->slab_size, >=, PCP_BLOCK_MIN);
	expect_cmp(l->slab_size, <=, PCP_BLOCK_MAX);
	expect_cmp(l->objects, >=, 1);
	expect_cmp(l->objects, <=, PCP_SLAB_OBJECTS_MAX);
	expect_cmp(l->first + l->objects * l->stride, <=, l->slab_size);
	check_tables(l, built, check);
}

static void try_one(size_t size, size_t align, bool built, bool check,
		    size_t step)
{
	struct pcp_layout l;

	pcp_layout_init(&l, size, align, built, check);
	check_shape(&l, size, align, built, check);
	check_lookup(&l, step);
}

START_TEST(test_small_sizes)
{
	for (size_t size = 1; size <= 4096; size++)
		for (unsigned int kind = 0; kind < 4; kind++)
			try_one(size, 0, kind & 1, kind >> 1,
				size < 64 ? 7 : 1);
}
END_TEST

/* Every object of the slabs with the most of them. */
START_TEST(test_every_tiny_object)
{
	for (size_t size = 1; size <= 64; size++)
		try_one(size, 0, true, false, 1);
}
END_TEST

START_TEST(test_alignments)
{
	for (size_t align = 1; align <= PCPOOL_ALIGN_MAX; align *= 2)
		for (size_t size = 1; size <= 4096; size += size / 19 + 1)
			for (unsigned int kind = 0; kind < 4; kind++)
				try_one(size, align, kind & 1, kind >> 1, 5);
}
END_TEST

START_TEST(test_large_sizes)
{
	for (size_t power = 4096; power <= PCPOOL_SIZE_MAX; power *= 2)
		for (size_t align = 0; align <= PCPOOL_ALIGN_MAX;
		     align = align ? align * 2 : 1)
			for (int off = -3; off <= 3; off++) {
				size_t size = power + (size_t)off;

				if (size > PCPOOL_SIZE_MAX)
					continue;
				try_one(size, align, true, false, 1);
				try_one(size, align, true, true, 1);
			}
	for (size_t size = 4096; size < PCPOOL_SIZE_MAX; size += size / 37)
		try_one(size, 0, true, false, 1);
}
END_TEST

/* At most an eighth of a slab holds no object. */
START_TEST(test_waste)
{
	for (size_t size = 32; size <= 4096; size++)
		for (unsigned int built = 0; built < 2; built++) {
			struct pcp_layout l;

			pcp_layout_init(&l, size, 0, built, false);
			expect_cmp(8 * l.objects * size, >=, 7 * l.slab_size);
		}
}
END_TEST

/* One more object would not fit. */
START_TEST(test_filled)
{
	for (size_t size = 1; size <= 4096; size++)
		for (unsigned int kind = 0; kind < 4; kind++) {
			bool built = kind & 1, check = kind >> 1;
			struct pcp_layout l;
			size_t more;

			pcp_layout_init(&l, size, 0, built, check);
			if (l.objects == PCP_SLAB_OBJECTS_MAX)
				continue;
			more = ROUNDS_UP(tables_end(l.objects + 1, built,
						    check), l.align) +
			       (l.objects + 1) * l.stride;
			if (more <= l.slab_size)
				fail_now("%zu bytes, kind %u: %u objects in "
					 "%zu, one more needs %zu",
					 size, kind, l.objects, l.slab_size,
					 more);
		}
}
END_TEST

/* A slab of tiny objects has to be cheap to shuffle, and small. */
START_TEST(test_tiny_slabs)
{
	for (size_t size = 1; size <= 32; size++)
		for (unsigned int kind = 0; kind < 4; kind++) {
			struct pcp_layout l;

			pcp_layout_init(&l, size, 0, kind & 1, kind >> 1);
			expect_cmp(l.slab_size, <=, 1 << 16);
			expect_cmp(l.objects, <=, 8192);
		}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("layout", 60);

	tcase_add_test(tc, test_small_sizes);
	tcase_add_test(tc, test_every_tiny_object);
	tcase_add_test(tc, test_alignments);
	tcase_add_test(tc, test_large_sizes);
	tcase_add_test(tc, test_waste);
	tcase_add_test(tc, test_filled);
	tcase_add_test(tc, test_tiny_slabs);
	return suite_run(tc);
}

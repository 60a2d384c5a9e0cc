/* SPDX-License-Identifier: MIT */
/*
 * lib/cpu/rseq.h: the sections on words of per-CPU data that return something
 * or check something, for both kinds of index; with a made-up area where there
 * is no rseq and in lock mode.
 */
#include <config.h>

#include <check.h>
#include <stdlib.h>

#include "suite.h"
#include "unit/rseq_slots.h"

#if PCP_HAVE_RSEQ
/* Strides are what a region's unit size may be, and odd ones. */
static const size_t strides[] = { 8, 64, 4096, 24 };

/* The caller's word; all others are zero, which check_others() verifies. */
static uint64_t *own_word(char *area, size_t stride)
{
	long index = pcp_this_index();

	ck_assert_int_ge(index, 0);
	ck_assert_int_lt(index, nr);
	return (uint64_t *)(void *)(area + (size_t)index * stride);
}

static void check_others(const char *area, size_t stride, uint64_t *own)
{
	*own = 0;
	for (size_t i = 0; i < nr * stride; i++)
		ck_assert_int_eq(area[i], 0);
}

/* Every CPU and stride. _i of each test: the kind of index. */
static void for_each_word(int kind, void (*fn)(char *area, size_t stride,
					       uint64_t *own))
{
	if (!set_up(kind))
		return;
	for (size_t s = 0; s < PCP_ARRAY_SIZE(strides); s++) {
		char *area = calloc(nr, strides[s]);

		ck_assert_ptr_nonnull(area);
		FOR_EACH_CPU(cpu)
		{
			uint64_t *own = own_word(area, strides[s]);

			(void)cpu;
			fn(area, strides[s], own);
			check_others(area, strides[s], own);
		}
		free(area);
	}
	tear_down();
}

static void xchg(char *area, size_t stride, uint64_t *own)
{
	static const uint64_t values[] = { 1, 0, 2, UINT64_MAX,
					   UINT64_C(1) << 63, 5, 0 };
	uint32_t *half = (uint32_t *)(void *)own;
	uint64_t old, last = *own = 3;
	uint32_t old_half = 77;

	for (size_t i = 0; i < PCP_ARRAY_SIZE(values); i++) {
		old = 77;
		ck_assert_int_eq(RETRY(pcp_rseq_xchg_u64(area, stride,
							 values[i], &old)),
				 PCP_DONE);
		ck_assert_uint_eq(old, last);
		ck_assert_uint_eq(*own, values[i]);
		last = values[i];
	}
	half[0] = UINT32_MAX;
	half[1] = 9;
	ck_assert_int_eq(RETRY(pcp_rseq_xchg_u32(area, stride, 7, &old_half)),
			 PCP_DONE);
	ck_assert_uint_eq(old_half, UINT32_MAX);
	ck_assert_uint_eq(half[0], 7);
	ck_assert_uint_eq(half[1], 9);
}

START_TEST(test_xchg)
{
	for_each_word(_i, xchg);
}
END_TEST

static void cmpxchg(char *area, size_t stride, uint64_t *own)
{
	static const uint64_t values[] = { 0, 1, 2, UINT64_MAX,
					   UINT64_C(1) << 32 };
	uint32_t *half = (uint32_t *)(void *)own;
	uint32_t old_half = 77;

	for (size_t i = 0; i < PCP_ARRAY_SIZE(values); i++)
		for (size_t k = 0; k < PCP_ARRAY_SIZE(values); k++) {
			uint64_t old = 77;

			*own = values[i];
			ck_assert_int_eq(
				RETRY(pcp_rseq_cmpxchg_u64(area, stride,
							   values[k], 5, &old)),
				PCP_DONE);
			ck_assert_uint_eq(old, values[i]);
			ck_assert_uint_eq(*own, i == k ? 5 : values[i]);
		}
	half[0] = 4;
	half[1] = 9;
	ck_assert_int_eq(RETRY(pcp_rseq_cmpxchg_u32(area, stride, 9, 1,
						    &old_half)),
			 PCP_DONE);
	ck_assert_uint_eq(old_half, 4);
	ck_assert_uint_eq(half[0], 4);
	ck_assert_int_eq(RETRY(pcp_rseq_cmpxchg_u32(area, stride, 4, 1,
						    &old_half)),
			 PCP_DONE);
	ck_assert_uint_eq(old_half, 4);
	ck_assert_uint_eq(half[0], 1);
	ck_assert_uint_eq(half[1], 9);
}

START_TEST(test_cmpxchg)
{
	for_each_word(_i, cmpxchg);
}
END_TEST

static const struct within {
	int64_t before;
	int64_t value;
	uint64_t span;
	bool ok;
} withins[] = {
	{ 0, 0, 0, true },
	{ 0, 1, 0, false },
	{ 0, -1, 0, false },
	{ 1, -1, 0, true },
	{ 0, 31, 31, true },
	{ 0, 32, 31, false },
	{ 0, -31, 31, true },
	{ 0, -32, 31, false },
	{ 31, -62, 31, true },
	{ 31, -63, 31, false },
	{ -31, 62, 31, true },
	{ -31, 63, 31, false },
	{ 0, INT64_MAX, 31, false },
	{ 0, INT64_MIN, 31, false },
	/* What overflows must not come back as something small. */
	{ INT64_MAX, INT64_MAX, 31, false },
	{ INT64_MIN, INT64_MIN, 31, false },
	{ INT64_MAX, 1, 31, false },
	{ INT64_MIN, -1, 31, false },
	{ INT64_MAX, -INT64_MAX, 0, true },
	{ INT64_C(1) << 60, INT64_C(1) << 60, (uint64_t)1 << 61, true },
	{ INT64_C(1) << 60, 1 + (INT64_C(1) << 60), (uint64_t)1 << 61, false },
	{ -(INT64_C(1) << 60), -(INT64_C(1) << 60), (uint64_t)1 << 61, true },
};

static void add_within(char *area, size_t stride, uint64_t *own)
{
	for (size_t i = 0; i < PCP_ARRAY_SIZE(withins); i++) {
		const struct within *w = &withins[i];
		enum pcp_section result;

		*own = (uint64_t)w->before;
		result = RETRY(pcp_rseq_add_within(area, stride, w->value,
						   w->span));
		ck_assert_msg(result == (w->ok ? PCP_DONE : PCP_REFUSED),
			      "case %zu", i);
		ck_assert_msg(*own == (uint64_t)w->before +
					      (w->ok ? (uint64_t)w->value : 0),
			      "case %zu", i);
	}
	/* With constants, which the compiler may put into the instructions. */
	*own = 0;
	ck_assert_int_eq(RETRY(pcp_rseq_add_within(area, stride, 3, 7)),
			 PCP_DONE);
	ck_assert_int_eq(RETRY(pcp_rseq_add_within(area, stride, -11, 7)),
			 PCP_REFUSED);
	ck_assert_int_eq(RETRY(pcp_rseq_add_within(area, stride, -10, 7)),
			 PCP_DONE);
	ck_assert_uint_eq(*own, (uint64_t)-7);
}

START_TEST(test_add_within)
{
	for_each_word(_i, add_within);
}
END_TEST

#endif /* PCP_HAVE_RSEQ */

int main(void)
{
	TCase *tc = suite_case("rseq words", 120);

#if PCP_HAVE_RSEQ
	tcase_add_loop_test(tc, test_xchg, 0, KINDS);
	tcase_add_loop_test(tc, test_cmpxchg, 0, KINDS);
	tcase_add_loop_test(tc, test_add_within, 0, KINDS);
#endif
	return suite_run(tc);
}

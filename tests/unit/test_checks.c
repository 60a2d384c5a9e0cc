/* SPDX-License-Identifier: MIT */
/* lib/slab/check.c: the states of an object in a checking cache, and what each
 * misuse ends with. */
#include <config.h>

#include "floors.h"

#include "slab/check.h"

#define OBJECT 96U

static struct pcp_kind kind;
static struct pcp_slab *slab;
static char *obj; /* taken, not handed out yet */
static uint32_t at;

static void make(size_t size)
{
	void *p;
	bool full;

	kind_make(&kind, size, 0, NULL, PCPOOL_CHECK);
	slab = pcp_slab_create(&kind, 0, 0, NULL);
	expect(slab);
	expect_eq(pcp_slab_take(slab, 1, &p, &full), 1);
	obj = p;
	at = pcp_slab_index(slab, obj);
}

static void drop(void)
{
	void *p = obj;

	slab_give(slab, 1, &p);
	kind_drop(&kind);
}

static void setup(void)
{
	make(OBJECT);
	memset(obj, 0x5a, OBJECT);
}

static struct pcp_check *entry(void)
{
	return (struct pcp_check *)(void *)((char *)slab + kind.layout.check) +
	       at;
}

static void hand_out(void)
{
	pcp_check_alloc(slab, at, &kind);
	expect_eq(entry()->state, PCP_CHECK_OUT);
}

static void give_back(void)
{
	uint32_t index;

	expect(pcp_check_free(&kind, obj, &kind, &index) == slab);
	expect_eq(index, at);
	expect_eq(entry()->state, PCP_CHECK_BUSY);
	pcp_check_freed(slab, index, true);
	expect_eq(entry()->state, PCP_CHECK_FREE);
}

START_TEST(test_life)
{
	expect_eq(entry()->state, PCP_CHECK_NEW);
	for (unsigned int i = 0; i < 5; i++) {
		uint32_t index;

		hand_out();
		memset(obj, (int)i, OBJECT);
		expect(pcp_check_owner(&kind, obj, NULL, &index) == slab);
		expect(pcp_check_out(&kind, obj, NULL, &index) == slab);
		expect_eq(index, at);
		give_back();
	}
	/* Destructed: the content is nobody's, and may change. */
	pcp_check_death(slab, at);
	expect_eq(entry()->state, PCP_CHECK_NEW);
	memset(obj, 0x77, OBJECT);
	hand_out();
	/* The same by a discard. */
	expect(pcp_check_free(&kind, obj, NULL, &at) == slab);
	pcp_check_death(slab, at);
	memset(obj, 0x78, OBJECT);
	pcp_check_freed(slab, at, false);
	expect_eq(entry()->state, PCP_CHECK_NEW);
	memset(obj, 0x79, OBJECT);
	hand_out();
	give_back();
}
END_TEST

/* --- misuse --------------------------------------------------------------- */

static void free_twice(void *arg)
{
	(void)arg;
	hand_out();
	give_back();
	give_back();
}

static void free_while_freed(void *arg)
{
	uint32_t index;

	(void)arg;
	hand_out();
	pcp_check_free(&kind, obj, NULL, &index);
	pcp_check_free(&kind, obj, NULL, &index);
}

static void free_unborn(void *arg)
{
	(void)arg;
	give_back();
}

static void hand_out_twice(void *arg)
{
	(void)arg;
	hand_out();
	hand_out();
}

static void hand_out_busy(void *arg)
{
	uint32_t index;

	(void)arg;
	hand_out();
	pcp_check_free(&kind, obj, NULL, &index);
	hand_out();
}

static void write_then_alloc(void *arg)
{
	(void)arg;
	hand_out();
	give_back();
	obj[OBJECT - 1] ^= 1;
	hand_out();
}

static void write_then_death(void *arg)
{
	(void)arg;
	hand_out();
	give_back();
	obj[0] ^= 1;
	pcp_check_death(slab, at);
}

static void out_in_its_slab(void *arg)
{
	void *p = obj;
	uint32_t index;

	(void)arg;
	slab_give(slab, 1, &p);
	pcp_check_out(&kind, obj, NULL, &index);
}

START_TEST(test_misuse)
{
	must_abort(free_twice, NULL, "\"unit\"", "freed twice", "caller");
	must_abort(free_while_freed, NULL, "\"unit\"", "freed twice");
	must_abort(free_unborn, NULL, "\"unit\"", "freed twice");
	must_abort(hand_out_twice, NULL, "\"unit\"", "handed out twice");
	must_abort(hand_out_busy, NULL, "\"unit\"", "handed out twice");
	must_abort(write_then_alloc, NULL, "\"unit\"", "written to", "caller");
	must_abort(write_then_death, NULL, "\"unit\"", "written to");
	must_abort(out_in_its_slab, NULL, "\"unit\"", "freed before");
}
END_TEST

static void free_this(void *arg)
{
	uint32_t index;

	pcp_check_free(&kind, arg, &kind, &index);
}

static void own_this(void *arg)
{
	uint32_t index;

	pcp_check_owner(&kind, arg, &kind, &index);
}

START_TEST(test_stray_pointers)
{
	void (*const calls[])(void *) = { free_this, own_this };
	struct pcp_kind twin;
	struct pcp_slab *other;
	char local = 0, *heap = malloc(100);

	hand_out();
	kind_make(&twin, OBJECT, 0, NULL, PCPOOL_CHECK);
	other = pcp_slab_create(&twin, 0, 0, NULL);
	expect(other);
	for (size_t i = 0; i < PCP_ARRAY_SIZE(calls); i++) {
		must_abort(calls[i], obj + 1, "\"unit\"", "not the start");
		must_abort(calls[i], obj + OBJECT - 1, "not the start");
		must_abort(calls[i], slab, "\"unit\"", "not the start");
		must_abort(calls[i], pcp_slab_object(other, 0),
			   "\"unit\"", "not the start");
		must_abort(calls[i], &local, "\"unit\"", "any cache");
		must_abort(calls[i], heap, "\"unit\"", "any cache");
		must_abort(calls[i], NULL, "\"unit\"", "any cache");
		must_abort(calls[i], (void *)UINTPTR_MAX, "any cache");
	}
	free(heap);
	kind_drop(&twin);
	give_back();
}
END_TEST

/* --- the sum -------------------------------------------------------------- */

static uint32_t sum_now(void)
{
	hand_out();
	give_back();
	return entry()->sum;
}

/* Every bit counts, at every size; bytes behind the object do not. */
START_TEST(test_every_bit)
{
	drop();
	for (size_t size = 1; size <= 70; size++) {
		uint32_t sum;

		make(size);
		for (size_t i = 0; i < kind.layout.stride; i++)
			obj[i] = (char)(i * 37);
		sum = sum_now();
		expect_eq(sum_now(), sum);
		for (size_t bit = 0; bit < 8 * size; bit++) {
			entry()->state = PCP_CHECK_NEW;
			obj[bit / 8] ^= (char)(1 << bit % 8);
			expect(sum_now() != sum);
			entry()->state = PCP_CHECK_NEW;
			obj[bit / 8] ^= (char)(1 << bit % 8);
			expect_eq(sum_now(), sum);
		}
		for (size_t i = size; i < kind.layout.stride; i++)
			obj[i] ^= 1;
		expect_eq(sum_now(), sum);
		drop();
	}
	make(OBJECT);
}
END_TEST

/* --- the way of a cache's own death --------------------------------------- */

START_TEST(test_killed_with_check)
{
	struct sheet sheet = { .fill = OBJECT };
	struct pcp_kind built;
	struct pcp_slab *mine;
	uint32_t index;
	void *objs[6];
	bool full;

	kind_make(&built, OBJECT, 0, &sheet, PCPOOL_CHECK);
	mine = pcp_slab_create(&built, 0, 0, NULL);
	expect(mine);
	expect_eq(pcp_slab_take(mine, 6, objs, &full), 6);
	for (unsigned int i = 0; i < 6; i++) {
		index = pcp_slab_index(mine, objs[i]);
		expect_eq(build_one(mine, index), 0);
		if (i % 2)
			continue;
		pcp_check_alloc(mine, index, NULL);
		pcp_check_free(&built, objs[i], NULL, &index);
		pcp_check_freed(mine, index, true);
	}
	slab_give(mine, 6, objs);
	kind_drop(&built);
	sheet_balanced(&sheet);
	expect_eq(atomic_load(&sheet.dtor), 6);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("checks", 60);

	tcase_add_checked_fixture(tc, setup, drop);
	tcase_add_test(tc, test_life);
	tcase_add_test(tc, test_misuse);
	tcase_add_test(tc, test_stray_pointers);
	tcase_add_test(tc, test_every_bit);
	tcase_add_test(tc, test_killed_with_check);
	return suite_run(tc);
}

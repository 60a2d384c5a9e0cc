/* SPDX-License-Identifier: MIT */
/*
 * lib/cpu/rseq.h: what every section does and what it refuses, on slots and
 * sheaves made by hand, for both kinds of index; where there is no rseq, and in
 * lock mode, with a made-up area only. Aborts are test_rseq_aborts.c's
 * business.
 */
#include <config.h>

#include <check.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/topology.h"
#include "unit/rseq_slots.h"

#if PCP_HAVE_RSEQ
#include <sys/rseq.h>
#endif

/* With one thread the concurrency id stays while the thread is pinned. */
static unsigned int own_index(int cpu)
{
	long index = pcp_this_index();

	ck_assert_int_ge(index, 0);
	ck_assert_int_lt(index, nr);
	if (fake || !pcp_index.cid)
		ck_assert_int_eq(index, cpu);
	return (unsigned int)index;
}

static void expect_others_untouched(unsigned int own)
{
	for (unsigned int i = 0; i < nr; i++) {
		if (i == own)
			continue;
		ck_assert_uint_eq(sheaves[i].word, 0);
		ck_assert_ptr_null(sheaves[i].objects[0]);
	}
}

/* --- one section at a time ------------------------------------------------ */

START_TEST(test_pop)
{
	if (!set_up(_i))
		return;
	FOR_EACH_CPU(cpu)
	{
		unsigned int own = own_index(cpu);
		struct sheaf *sheaf = &sheaves[own];
		void *got = NULL;

		fill(sheaf, 5, CAPACITY);
		sheaf->word |= UINT64_C(7) << PCP_SHEAF_ALLOC_SHIFT;
		for (unsigned int left = 5; left-- > 0;) {
			ck_assert_int_eq(RETRY(pcp_rseq_pop(slots, &got)),
					 PCP_DONE);
			ck_assert_ptr_eq(got, object(left));
			ck_assert_uint_eq(sheaf->word & PCP_SHEAF_SIZE_MASK,
					  left);
			ck_assert_uint_eq(sheaf->word >> PCP_SHEAF_ALLOC_SHIFT,
					  7 + 5 - left);
		}
		ck_assert_int_eq(RETRY(pcp_rseq_pop(slots, &got)), PCP_REFUSED);
		ck_assert_uint_eq(sheaf->word,
				  UINT64_C(12) << PCP_SHEAF_ALLOC_SHIFT);
		expect_others_untouched(own);
		fill(sheaf, 0, CAPACITY);
	}
	tear_down();
}
END_TEST

/* The count of allocations wraps without a trace in the size. */
START_TEST(test_pop_wraps)
{
	if (!set_up(_i))
		return;
	FOR_EACH_CPU(cpu)
	{
		struct sheaf *sheaf = &sheaves[own_index(cpu)];
		void *got = NULL;

		fill(sheaf, 2, CAPACITY);
		sheaf->word |= UINT64_MAX << PCP_SHEAF_ALLOC_SHIFT;
		ck_assert_int_eq(RETRY(pcp_rseq_pop(slots, &got)), PCP_DONE);
		ck_assert_ptr_eq(got, object(1));
		ck_assert_uint_eq(sheaf->word, 1);
		fill(sheaf, 0, CAPACITY);
	}
	tear_down();
}
END_TEST

START_TEST(test_push)
{
	if (!set_up(_i))
		return;
	FOR_EACH_CPU(cpu)
	{
		unsigned int own = own_index(cpu);
		struct sheaf *sheaf = &sheaves[own];

		fill(sheaf, 0, 3);
		sheaf->word |= UINT64_C(9) << PCP_SHEAF_ALLOC_SHIFT;
		for (unsigned int i = 0; i < 3; i++)
			ck_assert_int_eq(RETRY(pcp_rseq_push(slots, object(i))),
					 PCP_DONE);
		for (unsigned int i = 0; i < 3; i++)
			ck_assert_ptr_eq(sheaf->objects[i], object(i));
		ck_assert_int_eq(RETRY(pcp_rseq_push(slots, object(4))),
				 PCP_REFUSED);
		ck_assert_ptr_null(sheaf->objects[3]);
		ck_assert_uint_eq(sheaf->word,
				  UINT64_C(9) << PCP_SHEAF_ALLOC_SHIFT | 3);
		expect_others_untouched(own);
		fill(sheaf, 0, CAPACITY);
	}
	tear_down();
}
END_TEST

/* Into the sheaf of another word of the slot, unless the main is the one that
 * says closed. _i: the kind of index. */
START_TEST(test_push_at)
{
	static const size_t offsets[] = { PCP_SLOT_SPARE, PCP_SLOT_RCU };
	static struct sheaf other;

	if (!set_up(_i))
		return;
	FOR_EACH_CPU(cpu)
	{
		unsigned int own = own_index(cpu);
		struct slot *slot = &slots[own];

		for (size_t o = 0; o < PCP_ARRAY_SIZE(offsets); o++) {
			void **word = (void **)(void *)((char *)slot +
							offsets[o]);

			fill(&other, 1, 4);
			other.word |= UINT64_C(9) << PCP_SHEAF_ALLOC_SHIFT;
			/* There is none. */
			ck_assert_int_eq(RETRY(pcp_rseq_push_at(
						 slots, offsets[o], object(7),
						 &nr)),
					 PCP_REFUSED);
			*word = &other;
			/* Closed, whatever lies there. */
			ck_assert_int_eq(RETRY(pcp_rseq_push_at(
						 slots, offsets[o], object(7),
						 slot->main)),
					 PCP_REFUSED);
			ck_assert_ptr_null(other.objects[1]);
			for (size_t i = 1; i < 4; i++)
				ck_assert_int_eq(
					RETRY(pcp_rseq_push_at(slots,
							       offsets[o],
							       object(i), &nr)),
					PCP_DONE);
			/* Full. */
			ck_assert_int_eq(RETRY(pcp_rseq_push_at(
						 slots, offsets[o], object(7),
						 &nr)),
					 PCP_REFUSED);
			for (size_t i = 0; i < 4; i++)
				ck_assert_ptr_eq(other.objects[i], object(i));
			ck_assert_ptr_null(other.objects[4]);
			ck_assert_uint_eq(
				other.word,
				UINT64_C(9) << PCP_SHEAF_ALLOC_SHIFT | 4);
			*word = NULL;
		}
		/* The main was read, not written. */
		ck_assert_uint_eq(sheaves[own].word, 0);
		ck_assert_ptr_eq(slot->main, &sheaves[own]);
		expect_others_untouched(own);
	}
	tear_down();
}
END_TEST

/* A sheaf without capacity is both empty and full. */
START_TEST(test_sentinel)
{
	struct {
		uint64_t word;
		uint32_t capacity;
	} sentinel = { 0, 0 };
	void *got = &got, *objs[2] = { NULL, NULL };
	size_t done = 77;

	if (!set_up(_i))
		return;
	for (unsigned int i = 0; i < nr; i++) {
		slots[i].main = &sentinel;
		slots[i].rcu = &sentinel;
	}
	FOR_EACH_CPU(cpu)
	{
		ck_assert_int_eq(RETRY(pcp_rseq_push_at(slots, PCP_SLOT_RCU,
							&got, &done)),
				 PCP_REFUSED);
		ck_assert_int_eq(RETRY(pcp_rseq_pop(slots, &got)), PCP_REFUSED);
		ck_assert_int_eq(RETRY(pcp_rseq_push(slots, &got)),
				 PCP_REFUSED);
		ck_assert_int_eq(
			RETRY(pcp_rseq_pop_many(slots, 2, objs, &done)),
			PCP_REFUSED);
		ck_assert_int_eq(
			RETRY(pcp_rseq_push_many(slots, 2, objs, &done)),
			PCP_REFUSED);
	}
	ck_assert_uint_eq(sentinel.word, 0);
	ck_assert_uint_eq(sentinel.capacity, 0);
	ck_assert_ptr_eq(got, &got);
	ck_assert_uint_eq(done, 77);
	tear_down();
}
END_TEST

static const struct many {
	uint32_t size; /* before */
	uint32_t capacity;
	size_t n;
} manys[] = {
	{ 0, 8, 1 },	    { 1, 8, 1 },	  { 8, 8, 1 },
	{ 5, 8, 3 },	    { 5, 8, 5 },	  { 3, 8, 5 },
	{ 3, 8, 9 },	    { 0, 1, 1 },	  { 1, 1, 2 },
	{ 700, 1024, 500 }, { 1024, 1024, 1024 }, { 0, 1024, 1024 },
	{ 4, 8, SIZE_MAX }, { 4, 8, 1U << 16 },	  { 4, 8, (size_t)1 << 32 },
};

static void check_pop_many(struct sheaf *sheaf, const struct many *m)
{
	size_t want = m->n < m->size ? m->n : m->size, done = 77;
	void *objs[CAPACITY + 1] = { NULL };
	enum pcp_section result;

	fill(sheaf, m->size, m->capacity);
	sheaf->word |= UINT64_C(3) << PCP_SHEAF_ALLOC_SHIFT;
	result = RETRY(pcp_rseq_pop_many(slots, m->n, objs, &done));
	ck_assert_int_eq(result, want ? PCP_DONE : PCP_REFUSED);
	ck_assert_uint_eq(done, want ? want : 77);
	for (size_t i = 0; i < want; i++)
		ck_assert_ptr_eq(objs[i], object(m->size - 1 - i));
	ck_assert_ptr_null(objs[want]);
	ck_assert_uint_eq(sheaf->word, (3 + want) << PCP_SHEAF_ALLOC_SHIFT |
					       (m->size - want));
}

static void check_push_many(struct sheaf *sheaf, const struct many *m)
{
	size_t room = m->capacity - m->size, done = 77;
	size_t want = m->n < room ? m->n : room;
	void *objs[CAPACITY + 1];
	enum pcp_section result;

	fill(sheaf, m->size, m->capacity);
	sheaf->word |= UINT64_C(3) << PCP_SHEAF_ALLOC_SHIFT;
	for (size_t i = 0; i <= CAPACITY; i++)
		objs[i] = object(5000 + i);
	result = RETRY(pcp_rseq_push_many(slots, m->n, objs, &done));
	ck_assert_int_eq(result, want ? PCP_DONE : PCP_REFUSED);
	ck_assert_uint_eq(done, want ? want : 77);
	for (size_t i = 0; i < m->size; i++)
		ck_assert_ptr_eq(sheaf->objects[i], object(i));
	for (size_t i = 0; i < want; i++)
		ck_assert_ptr_eq(sheaf->objects[m->size + i], object(5000 + i));
	if (m->size + want < CAPACITY)
		ck_assert_ptr_null(sheaf->objects[m->size + want]);
	ck_assert_uint_eq(sheaf->word, UINT64_C(3) << PCP_SHEAF_ALLOC_SHIFT |
					       (m->size + want));
}

START_TEST(test_many)
{
	if (!set_up(_i))
		return;
	FOR_EACH_CPU(cpu)
	{
		unsigned int own = own_index(cpu);

		for (size_t i = 0; i < PCP_ARRAY_SIZE(manys); i++) {
			check_pop_many(&sheaves[own], &manys[i]);
			check_push_many(&sheaves[own], &manys[i]);
		}
		expect_others_untouched(own);
		fill(&sheaves[own], 0, CAPACITY);
	}
	tear_down();
}
END_TEST

START_TEST(test_commit)
{
	static const size_t offsets[] = { PCP_SLOT_MAIN, PCP_SLOT_SPARE,
					  PCP_SLOT_RCU };
	static int a, b, closed;

	if (!set_up(_i))
		return;
	FOR_EACH_CPU(cpu)
	{
		long own = own_index(cpu);
		const long wrong[] = { own + 1,	 own - 1,
				       -1,	 -2,
				       nr,	 LONG_MAX,
				       LONG_MIN, own + (1L << 32) };

		for (size_t i = 0; i < PCP_ARRAY_SIZE(offsets); i++) {
			size_t at = offsets[i];
			struct slot *slot = &slots[own];
			void **word = (void **)(void *)((char *)slot + at);

			*slot = (struct slot){ &a, &a, &a };
			for (size_t w = 0; w < PCP_ARRAY_SIZE(wrong); w++)
				ck_assert_int_eq(RETRY(pcp_rseq_commit(
							 slots, wrong[w], at,
							 &a, &b, &closed)),
						 PCP_REFUSED);
			ck_assert_int_eq(
				RETRY(pcp_rseq_commit(slots, own, at, &b, &b,
						      &closed)),
				PCP_REFUSED);
			ck_assert_int_eq(RETRY(pcp_rseq_commit(slots, own, at,
							       &a, &b, &a)),
					 PCP_REFUSED);
			ck_assert_ptr_eq(*word, &a);
			ck_assert_int_eq(
				RETRY(pcp_rseq_commit(slots, own, at, &a, &b,
						      &closed)),
				PCP_DONE);
			ck_assert_ptr_eq(*word, &b);
			ck_assert_ptr_eq(slot->main, i == 0 ? &b : &a);
			ck_assert_ptr_eq(slot->spare, i == 1 ? &b : &a);
			ck_assert_ptr_eq(slot->rcu, i == 2 ? &b : &a);
			/* To NULL and back. */
			ck_assert_int_eq(
				RETRY(pcp_rseq_commit(slots, own, at, &b, NULL,
						      &closed)),
				PCP_DONE);
			ck_assert_int_eq(
				RETRY(pcp_rseq_commit(slots, own, at, NULL, &a,
						      &closed)),
				PCP_DONE);
			ck_assert_ptr_eq(*word, &a);
		}
		slots[own] = (struct slot){ .main = &sheaves[own] };
	}
	for (unsigned int i = 0; i < nr; i++)
		ck_assert_ptr_eq(slots[i].main, &sheaves[i]);
	tear_down();
}
END_TEST

START_TEST(test_add)
{
	/* Strides are what a region's unit size may be, and odd ones. */
	static const size_t strides[] = { 8, 64, 4096, 24 };

	if (!set_up(_i))
		return;
	for (size_t s = 0; s < PCP_ARRAY_SIZE(strides); s++) {
		size_t stride = strides[s];
		char *area = calloc(nr + 1, stride);
		uint64_t *word;
		uint32_t *half;

		ck_assert_ptr_nonnull(area);
		FOR_EACH_CPU(cpu)
		{
			word = (uint64_t *)(void *)(area +
						    own_index(cpu) * stride);
			half = (uint32_t *)(void *)word;
			*word = UINT64_MAX - 1;
			ck_assert_int_eq(
				RETRY(pcp_rseq_add_u64(area, stride, 5)),
				PCP_DONE);
			ck_assert_uint_eq(*word, 3);
			ck_assert_int_eq(
				RETRY(pcp_rseq_add_u64(area, stride,
						       UINT64_C(1) << 40)),
				PCP_DONE);
			ck_assert_uint_eq(*word, (UINT64_C(1) << 40) + 3);
			/* A carry must not reach the neighbour. */
			half[0] = UINT32_MAX;
			half[1] = 1;
			ck_assert_int_eq(
				RETRY(pcp_rseq_add_u32(area, stride, 3)),
				PCP_DONE);
			ck_assert_uint_eq(half[0], 2);
			ck_assert_uint_eq(half[1], 1);
			*word = 0;
		}
		for (size_t i = 0; i < (nr + 1) * stride; i++)
			ck_assert_int_eq(area[i], 0);
		free(area);
	}
	tear_down();
}
END_TEST

/* --- a thread that is not registered -------------------------------------- */

#if PCP_HAVE_RSEQ
#ifndef SYS_rseq
#define SYS_rseq __NR_rseq
#endif

/* The libc does not tell with which length it registered. */
static bool unregister(void)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	for (unsigned int size = 20; size <= 1024; size++)
		if (!syscall(SYS_rseq, area, size, RSEQ_FLAG_UNREGISTER,
			     RSEQ_SIG))
			return true;
	return false;
}

static void expect_all_refused(void)
{
	void *objs[2] = { &objs, &objs };
	size_t done = 77;
	uint64_t word = 0, old = 77;
	uint32_t old_half = 77;

	ck_assert_int_eq(pcp_this_index(), -1);
	ck_assert_uint_eq(pcp_this_slot(), pcp_index.stray);
	ck_assert_uint_lt(pcp_this_slot(), pcp_nr_slots());
	ck_assert_int_eq(pcp_rseq_pop(slots, objs), PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_push(slots, objs), PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_push_at(slots, PCP_SLOT_MAIN, objs, &done),
			 PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_pop_many(slots, 2, objs, &done), PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_push_many(slots, 2, objs, &done),
			 PCP_REFUSED);
	for (long index = -2; index <= (long)nr; index++)
		ck_assert_int_eq(pcp_rseq_commit(slots, index, PCP_SLOT_SPARE,
						 NULL, &word, &done),
				 PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_add_u64(&word, 0, 1), PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_add_u32(&word, 0, 1), PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_add_within(&word, 0, 1, 7), PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_xchg_u64(&word, 0, 1, &old), PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_xchg_u32(&word, 0, 1, &old_half),
			 PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_cmpxchg_u64(&word, 0, 0, 1, &old),
			 PCP_REFUSED);
	ck_assert_int_eq(pcp_rseq_cmpxchg_u32(&word, 0, 0, 1, &old_half),
			 PCP_REFUSED);
	ck_assert_ptr_eq(objs[0], &objs);
	ck_assert_uint_eq(done, 77);
	ck_assert_uint_eq(word, 0);
	ck_assert_uint_eq(old, 77);
	ck_assert_uint_eq(old_half, 77);
}

static void *unregistered(void *arg)
{
	if (!unregister())
		return NULL;
	expect_all_refused();
	return arg;
}

static void *made_up(void *arg)
{
	/* Not yet registered, and registration failed. */
	fake_area.mm_cid = 0;
	fake_area.cpu_id = -1;
	expect_all_refused();
	fake_area.cpu_id = -2;
	expect_all_refused();
	return arg;
}

START_TEST(test_unregistered)
{
	pthread_t thread;
	void *ok = NULL;

	if (!set_up(_i))
		return;
	for (unsigned int i = 0; i < nr; i++)
		fill(&sheaves[i], 4, CAPACITY);
	if (fake) {
		ok = made_up(&nr);
	} else {
		ck_assert_int_eq(
			pthread_create(&thread, NULL, unregistered, &nr), 0);
		pthread_join(thread, &ok);
	}
	ck_assert_msg(ok != NULL, "the thread could not be unregistered");
	for (unsigned int i = 0; i < nr; i++) {
		ck_assert_uint_eq(sheaves[i].word, 4);
		ck_assert_ptr_null(slots[i].spare);
	}
	tear_down();
}
END_TEST
#endif /* PCP_HAVE_RSEQ */

/* --- the index ------------------------------------------------------------ */

START_TEST(test_index)
{
	pcp_init();
	pcp_options.index = _i ? PCP_INDEX_CID : PCP_INDEX_CPU;
	pcp_index_init();
	ck_assert_ptr_nonnull(pcp_index.reason);
	ck_assert_uint_ge(pcp_index.nr_ids, 1);
	ck_assert_uint_ge(pcp_nr_slots(), pcp_index.nr_ids);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	FOR_EACH_CPU(cpu)
	{
		long index = pcp_this_index();

		ck_assert_int_ge(index, 0);
		ck_assert_int_lt(index, pcp_index.nr_ids);
		ck_assert_uint_lt(pcp_this_slot(), pcp_nr_slots());
		ck_assert_uint_lt(pcp_this_node(), pcp_topology.nr_nodes);
		ck_assert_uint_lt(pcp_slot_node(index), pcp_topology.nr_nodes);
		if (pcp_index.rseq && !pcp_index.cid)
			ck_assert_int_eq(index, cpu);
	}
	sched_setaffinity(0, sizeof(allowed), &allowed);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rseq");
	TCase *tcase = tcase_create("sections");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_index, 0, KINDS_REAL);
	tcase_add_loop_test(tcase, test_pop, 0, KINDS);
	tcase_add_loop_test(tcase, test_pop_wraps, 0, KINDS);
	tcase_add_loop_test(tcase, test_push, 0, KINDS);
	tcase_add_loop_test(tcase, test_push_at, 0, KINDS);
	tcase_add_loop_test(tcase, test_sentinel, 0, KINDS);
	tcase_add_loop_test(tcase, test_many, 0, KINDS);
	tcase_add_loop_test(tcase, test_commit, 0, KINDS);
	tcase_add_loop_test(tcase, test_add, 0, KINDS);
#if PCP_HAVE_RSEQ
	tcase_add_loop_test(tcase, test_unregistered, 0, KINDS);
#endif
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/*
 * The inline sections of pcpool/fast.h on a made-up cache and a made-up area in
 * place of the libc's. Nothing aborts them then, but every instruction is there:
 * also on a machine of another kind, under an emulator that has no rseq.
 */
#include <config.h>

#include <pcpool/fast.h>

#include "base/compiler.h"
#include "../common.h"
#include "../suite.h"

#if PCPOOL_FAST_INLINE
enum { IDS = 3, CAPACITY = 5 };

struct sheaf {
	uint64_t word;
	uint32_t capacity, unused;
	void *objects[CAPACITY];
};

struct slot {
	struct sheaf *main;
	unsigned char more[64 - sizeof(void *)];
};

static struct {
	unsigned char head[PCPOOL_FAST_SLOTS_ - 2 * sizeof(struct slot)];
	struct slot nobody[2];
	struct slot slots[IDS];
} cache PCP_ALIGNED(128);

/* The kernel's layout. */
static struct {
	uint32_t cpu_id_start;
	int32_t cpu_id;
	uint64_t rseq_cs;
	uint32_t flags, node_id;
	int32_t mm_cid;
	uint32_t unused;
} area PCP_ALIGNED(32);

/* Neither an object nor room for one. */
static struct sheaf closed;
static struct sheaf sheaves[IDS];
static unsigned char objects[IDS][CAPACITY];

static ptrdiff_t distance(void)
{
	return (char *)&area - (char *)__builtin_thread_pointer();
}

static void set_up(void)
{
	for (int i = 0; i < IDS; i++) {
		sheaves[i] = (struct sheaf){ .word = 7U << 16 | 2,
					     .capacity = CAPACITY };
		for (int k = 0; k < CAPACITY; k++)
			sheaves[i].objects[k] = &objects[i][k];
		cache.slots[i].main = &sheaves[i];
	}
	for (int i = 0; i < 2; i++)
		cache.nobody[i].main = &closed;
	area.cpu_id = 1;
	area.mm_cid = 2;
	area.rseq_cs = 42;
}

static struct pcpool_cache *made_up(void)
{
	return (struct pcpool_cache *)(void *)&cache;
}

static void *pop(bool cid)
{
	return cid ? pcpool_fast_pop_cid_(made_up(), distance())
		   : pcpool_fast_pop_cpu_(made_up(), distance());
}

static int push(bool cid, void *obj)
{
	return cid ? pcpool_fast_push_cid_(made_up(), obj, distance())
		   : pcpool_fast_push_cpu_(made_up(), obj, distance());
}

START_TEST(takes_from_its_slot)
{
	for (int cid = 0; cid < 2; cid++) {
		const int id = cid + 1;

		set_up();
		expect(pop(cid) == &objects[id][1]);
		/* An object less and an allocation more, in one word. */
		expect_eq(sheaves[id].word, 8 << 16 | 1);
		expect(pop(cid) == &objects[id][0]);
		expect_eq(sheaves[id].word, 9 << 16);
		expect(!pop(cid));
		expect_eq(sheaves[id].word, 9 << 16);
		expect_eq(sheaves[3 - id].word, 7 << 16 | 2);
		expect_eq(sheaves[0].word, 7 << 16 | 2);
		expect_eq(area.rseq_cs, 0);
	}
}
END_TEST

START_TEST(gives_to_its_slot)
{
	for (int cid = 0; cid < 2; cid++) {
		const int id = cid + 1;

		set_up();
		for (uint64_t size = 2; size < CAPACITY; size++) {
			expect(push(cid, &objects[0][size]));
			expect(sheaves[id].objects[size] == &objects[0][size]);
			expect_eq(sheaves[id].word, 7 << 16 | (size + 1));
		}
		expect(!push(cid, &objects[0][0]));
		expect_eq(sheaves[id].word, 7 << 16 | CAPACITY);
		expect_eq(sheaves[3 - id].word, 7 << 16 | 2);
		expect_eq(area.rseq_cs, 0);
	}
}
END_TEST

/* Neither registered, nor failed to be, nor with the other index. */
START_TEST(refuses_threads_without_a_cpu)
{
	for (int32_t cpu = -2; cpu < 0; cpu++)
		for (int cid = 0; cid < 2; cid++) {
			set_up();
			area.cpu_id = cpu;
			area.mm_cid = 0;
			expect(!pop(cid));
			expect(!push(cid, &objects[0][0]));
			for (int i = 0; i < IDS; i++)
				expect_eq(sheaves[i].word, 7 << 16 | 2);
			/* Nothing that could be unloaded is named. */
			expect_eq(area.rseq_cs, 0);
		}
}
END_TEST

static int add(bool cid, int64_t *parts, int64_t amount)
{
	return cid ? pcpool_fast_add_cid_(parts, 64, amount, distance())
		   : pcpool_fast_add_cpu_(parts, 64, amount, distance());
}

START_TEST(adds_to_its_part)
{
	const int64_t most = PCPOOL_COUNTER_BATCH - 1;

	for (int cid = 0; cid < 2; cid++) {
		int64_t parts[IDS * 8] = { 0 }, *part = &parts[8 * (cid + 1)];

		set_up();
		expect(add(cid, parts, most));
		expect_eq(*part, most);
		expect(!add(cid, parts, 1));
		expect(!add(cid, parts, INT64_MAX));
		expect(!add(cid, parts, -2 * most - 1));
		expect_eq(*part, most);
		expect(add(cid, parts, -2 * most));
		expect_eq(*part, -most);
		expect(!add(cid, parts, -1));
		expect(!add(cid, parts, INT64_MIN));
		expect_eq(*part, -most);
		*part = 0;
		for (int i = 0; i < IDS * 8; i++)
			expect_eq(parts[i], 0);
		expect_eq(area.rseq_cs, 0);
		area.cpu_id = -1;
		expect(!add(cid, parts, 1));
		expect_eq(parts[0], 0);
	}
}
END_TEST

/* The counter above the size goes on past its end, and past the size's bits. */
START_TEST(large_words)
{
	set_up();
	sheaves[1].word = UINT64_MAX << 16 | 1;
	expect(pop(false) == &objects[1][0]);
	expect_eq(sheaves[1].word, 0);
	sheaves[1].word = 0xffffffffffff0000U;
	expect(push(false, &objects[1][0]));
	expect_eq(sheaves[1].word, 0xffffffffffff0001U);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fast section", 20);

	tcase_add_test(tc, takes_from_its_slot);
	tcase_add_test(tc, gives_to_its_slot);
	tcase_add_test(tc, refuses_threads_without_a_cpu);
	tcase_add_test(tc, adds_to_its_part);
	tcase_add_test(tc, large_words);
	return suite_run(tc);
}
#else
int main(void)
{
	skip_test("no inline sections for this compiler, machine or libc");
}
#endif

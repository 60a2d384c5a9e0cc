/* SPDX-License-Identifier: MIT */
/*
 * Slots and sheaves made by hand, one for each index, for the tests of
 * lib/cpu/rseq.h.
 */
#ifndef TESTS_UNIT_RSEQ_SLOTS_H
#define TESTS_UNIT_RSEQ_SLOTS_H

#include <check.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/options.h"
#include "cpu/index.h"
#include "cpu/init.h"
#include "cpu/rseq.h"

#define CAPACITY 1024U

/* Kinds of index. The real ones need the kernel. With a made-up area in place
 * of the libc's the same instructions run anywhere (nothing aborts them then),
 * also under an emulator without rseq. */
enum {
	KIND_CPU,
	KIND_CID,
	KINDS_REAL,
	KIND_FAKE_CPU = KINDS_REAL,
	KIND_FAKE_CID,
	KINDS
};

#define FAKE_IDS 5

struct slot {
	void *main, *spare, *rcu;
} PCP_ALIGNED(64);

struct sheaf {
	uint64_t word;
	uint32_t capacity;
	uint32_t unused;
	void *objects[CAPACITY];
};

_Static_assert(sizeof(struct slot) == 1U << PCP_SLOT_SHIFT, "slot");
_Static_assert(offsetof(struct slot, spare) == PCP_SLOT_SPARE, "spare");
_Static_assert(offsetof(struct slot, rcu) == PCP_SLOT_RCU, "rcu");
_Static_assert(offsetof(struct sheaf, capacity) == PCP_SHEAF_CAPACITY, "sheaf");
_Static_assert(offsetof(struct sheaf, objects) == PCP_SHEAF_OBJECTS, "sheaf");

static struct slot *slots;
static struct sheaf *sheaves; /* one per index, main of its slot */
static unsigned int nr;
static cpu_set_t allowed;
static bool fake;

/* The kernel's layout, as far as it matters. */
static struct {
	uint32_t cpu_id_start;
	int32_t cpu_id;
	uint64_t rseq_cs;
	uint32_t flags;
	uint32_t node_id;
	int32_t mm_cid;
	uint32_t unused;
} PCP_ALIGNED(32) fake_area;

/* A section may be aborted at any time; only then is it tried again. */
#define RETRY(call)                                                            \
	({                                                                     \
		enum pcp_section done_;                                        \
		do                                                             \
			done_ = (call);                                        \
		while (done_ == PCP_ABORTED);                                  \
		done_;                                                         \
	})

static inline void *object(size_t i)
{
	return (void *)(uintptr_t)(0x100000 + 16 * i);
}

static inline void fill(struct sheaf *sheaf, uint32_t size, uint32_t capacity)
{
	sheaf->word = size;
	sheaf->capacity = capacity;
	for (size_t i = 0; i < CAPACITY; i++)
		sheaf->objects[i] = i < size ? object(i) : NULL;
}

/* Make the calling thread's index ours to say. */
static inline bool set_up_fake(bool cid)
{
#if PCP_HAVE_RSEQ
	char *tp = __builtin_thread_pointer();

	pcp_rseq_area = (char *)&fake_area - tp;
	pcp_rseq_id =
		(cid ? (char *)&fake_area.mm_cid : (char *)&fake_area.cpu_id) -
		tp;
	pcp_index = (struct pcp_index){
		.nr_ids = FAKE_IDS,
		.stray = FAKE_IDS,
		.rseq = true,
		.cid = cid,
		.reason = "a made-up area",
	};
	CPU_ZERO(&allowed);
	for (size_t cpu = 0; cpu < FAKE_IDS; cpu++)
		CPU_SET(cpu, &allowed);
	return true;
#else
	return cid && false;
#endif
}

/* Settle for one kind of index and make a slot for each. False: this process
 * has none of that kind. */
static inline bool set_up(int kind)
{
	pcp_init();
	fake = kind >= KINDS_REAL;
	if (fake) {
		if (!set_up_fake(kind == KIND_FAKE_CID))
			return false;
	} else {
		pcp_options.index =
			kind == KIND_CID ? PCP_INDEX_CID : PCP_INDEX_CPU;
		pcp_index_init();
		if (!pcp_index.rseq || pcp_index.cid != (kind == KIND_CID))
			return false;
		ck_assert_int_eq(
			sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	}
	nr = pcp_index.nr_ids;
	slots = aligned_alloc(64, nr * sizeof(*slots));
	sheaves = calloc(nr, sizeof(*sheaves));
	ck_assert_ptr_nonnull(slots);
	ck_assert_ptr_nonnull(sheaves);
	for (unsigned int i = 0; i < nr; i++) {
		slots[i] = (struct slot){ .main = &sheaves[i] };
		fill(&sheaves[i], 0, CAPACITY);
	}
	return true;
}

static inline void tear_down(void)
{
	if (!fake)
		sched_setaffinity(0, sizeof(allowed), &allowed);
	free(slots);
	free(sheaves);
}

static inline void pin(int cpu)
{
	cpu_set_t one;

	if (fake) {
		/* The CPU's number must not matter where mm_cid is used. */
		fake_area.cpu_id = pcp_index.cid ? FAKE_IDS + 77 : cpu;
		fake_area.mm_cid = cpu;
		return;
	}
	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* The caller is pinned to each allowed CPU in turn. */
#define FOR_EACH_CPU(cpu)                                                      \
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)                            \
		if (CPU_ISSET((size_t)cpu, &allowed) && (pin(cpu), true))

#endif /* TESTS_UNIT_RSEQ_SLOTS_H */

/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU counters: a 64-bit signed count that many threads add to at once.
 *
 * An add goes to the part of the slot the caller is on and touches no line that
 * other CPUs write. A part that reaches the batch is folded into the shared
 * count. So the shared count alone, pcpool_counter_read(), is off by less than
 * one batch for each slot; pcpool_counter_sum() adds the parts and is exact:
 * over all slots, whichever CPUs are online or allowed. Counts wrap.
 *
 * struct pcpool_counter is meant to be embedded in other objects. Nothing is
 * allocated after initialisation, and there is no list of counters: an object
 * whose memory goes away without pcpool_counter_destroy() leaks a region and
 * leaves nothing behind that points to it.
 *
 * A counter is used from any thread, but initialised and destroyed while no
 * other thread uses it. Its calls may be made from constructors and
 * destructors. After fork(2) parent and child each have the whole count, exact
 * in both.
 *
 * Reference: lib/percpu_counter.c of Linux.
 */
#ifndef PCPOOL_COUNTER_H
#define PCPOOL_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pcpool/percpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a slot's part may reach before it is folded, where no batch is given:
 *  the error of pcpool_counter_read() for each slot. */
#define PCPOOL_COUNTER_BATCH ((int64_t)1024)

/* Machines with 32 bits align 8-byte integers to 4, which would tear them. */
#if defined(__GNUC__)
#define PCPOOL_COUNTER_ALIGN_ __attribute__((aligned(8)))
#else
#define PCPOOL_COUNTER_ALIGN_
#endif

/** A counter: 32 bytes, no field of which is to be used directly. All zero it
 *  is one that pcpool_counter_destroy() takes, and no other call. */
struct pcpool_counter {
	int64_t pcpool_count PCPOOL_COUNTER_ALIGN_;
	int64_t pcpool_widest PCPOOL_COUNTER_ALIGN_;
	void *pcpool_parts;
	uint32_t pcpool_owner;
	uint32_t pcpool_fast;
};

/**
 * Make a counter with its own region.
 *
 * initial: what it starts with.
 *
 * Returns 0, or an errno value with *c all zero:
 *   EINVAL  c is NULL;
 *   ENOMEM  no memory for the region.
 * Takes the locks of pcpool_percpu_alloc(3).
 */
int pcpool_counter_init(struct pcpool_counter *c, int64_t initial);

/**
 * Make n counters, an array, all or none, with one region for all (for each
 * 8192 of them): cheaper than one by one, and the parts of one slot lie
 * together, which is right for counters that the same threads use.
 *
 * Returns 0, or an errno value with all of them all zero:
 *   EINVAL  counters is NULL while n is not 0;
 *   ENOMEM  no memory, or n * sizeof(struct pcpool_counter) overflows: then
 *           nothing was written.
 * To be destroyed by pcpool_counter_destroy_many() with the same array and n.
 */
int pcpool_counter_init_many(struct pcpool_counter *counters, size_t n,
			     int64_t initial);

/**
 * Make a counter on 8 bytes of a region that the caller has, such as a per-CPU
 * field of a cached object.
 *
 * parts: per-CPU pointer, perhaps displaced inside the region, aligned to 8.
 *        Every copy must be zero, as they are in a fresh region, and is the
 *        counter's alone. (To use a counter anew, pcpool_counter_set().)
 *
 * Returns 0, or EINVAL with nothing written when c or parts is NULL or parts is
 * not aligned. Touches no copy. pcpool_counter_destroy() leaves the region to
 * the caller.
 */
int pcpool_counter_init_at(struct pcpool_counter *c,
			   void PCPOOL_PERCPU *parts, int64_t initial);

/**
 * End a counter, which is all zero then, and free its region if it has one of
 * its own. NULL and a counter that is all zero are no error.
 */
void pcpool_counter_destroy(struct pcpool_counter *c);

/** End what pcpool_counter_init_many() made; counters may be NULL when n is 0,
 *  and counters that are all zero are skipped. */
void pcpool_counter_destroy_many(struct pcpool_counter *counters, size_t n);

/**
 * Add amount, which may be negative; never fails, is never lost.
 *
 * Takes no lock that it would wait for, makes no system call (but for
 * sched_getcpu(3) in lock mode), keeps errno: safe in a signal handler. An add
 * that finds the part full folds it; if another thread is just at the counter's
 * lock it adds to the shared count instead. Orders nothing.
 */
void pcpool_counter_add(struct pcpool_counter *c, int64_t amount);

/**
 * The same with another batch: the part is folded when it would reach batch or
 * -batch. Below 2 every add goes to the shared count, whose reading is then as
 * exact as a sum. A counter of bytes wants a batch of many typical amounts.
 * The largest batch that a counter ever saw bounds the error of its reading.
 */
void pcpool_counter_add_batch(struct pcpool_counter *c, int64_t amount,
			      int64_t batch);

/** Subtract amount. */
static inline void pcpool_counter_sub(struct pcpool_counter *c, int64_t amount)
{
	/* The least number is its own negative. */
	pcpool_counter_add(c, amount == INT64_MIN ? amount : -amount);
}

/** Add 1. */
static inline void pcpool_counter_inc(struct pcpool_counter *c)
{
	pcpool_counter_add(c, 1);
}

/** Subtract 1. */
static inline void pcpool_counter_dec(struct pcpool_counter *c)
{
	pcpool_counter_add(c, -1);
}

/**
 * The count, roughly: one load. Off by less than pcpool_nr_slots() times the
 * largest batch. Safe in a signal handler.
 */
int64_t pcpool_counter_read(const struct pcpool_counter *c);

/** The same for what cannot be negative: 0 where the reading is. */
int64_t pcpool_counter_read_positive(const struct pcpool_counter *c);

/**
 * The count, exactly: every add that came before the call is in it, none is in
 * it twice, and of those that run beside it some are. At rest it is the sum of
 * all amounts.
 *
 * Reads every slot's part under the counter's lock, which it may wait for. Not
 * in a signal handler. Orders nothing.
 */
int64_t pcpool_counter_sum(struct pcpool_counter *c);

/**
 * Compare the count with value: -1 less, 0 equal, 1 greater. Adds the parts up
 * only where the shared count is too close to value to tell.
 *
 * batch: the largest batch of any add; 0: what the counter saw. A batch smaller
 *        than that is taken as 0.
 * As exact as pcpool_counter_sum(), and in the same contexts.
 */
int pcpool_counter_compare(struct pcpool_counter *c, int64_t value,
			   int64_t batch);

/**
 * Add amount unless that takes the count past limit: above it when amount is
 * positive, below it when amount is negative. 0 is always added.
 *
 * Returns whether it was added. The decision is exact, and takes one of these
 * calls at a time: together they never take the count past the limit, and none
 * is refused that would have fitted. Plain adds are not held up by it and do not
 * look at the limit; where they only lead away from it, the count is never past
 * it.
 *
 * Takes the counter's lock, and adds the parts up where the limit is near. Not
 * in a signal handler.
 */
bool pcpool_counter_limited_add(struct pcpool_counter *c, int64_t limit,
				int64_t amount);

/**
 * Set the count. Adds that run beside it come before or after it, none is lost
 * or halved. pcpool_counter_sum() is value afterwards, at rest;
 * pcpool_counter_read() is still approximate, since the parts of other CPUs are
 * left as they are and made up for in the shared count.
 *
 * Takes the counter's lock and reads every part. Not in a signal handler.
 */
void pcpool_counter_set(struct pcpool_counter *c, int64_t value);

#ifdef __cplusplus
}
#endif

#endif /* PCPOOL_COUNTER_H */

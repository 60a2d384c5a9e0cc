/* SPDX-License-Identifier: MIT */
/*
 * An object with three per-CPU regions, kept built, that is found by RCU while
 * others remove it. Read mm_struct.h first; this adds three things to it:
 *
 *   1. two ways to come by the regions: a constructor that allocates them, and
 *      fields that are declared to the cache, which then takes one region for
 *      a whole slab of objects and deals it out;
 *   2. an end of use that nobody is present at. A removed object may still be
 *      counted in by readers that found it before, so that its statistics are
 *      not final until a grace period has passed, and then pcpool has it
 *      already. What mm_put() does for an mm, the *reset hook* does here, when
 *      the object is handed out the next time;
 *   3. a mark that spares the sweep over all CPUs' copies where nothing was
 *      counted.
 *
 * The model is the kernel's tc_action, what is done with the packets that a
 * traffic-control filter matches: each has statistics of its own, for each CPU,
 * in three blocks. Inserting a filter allocates them one after the other.
 *
 * Reference: the "slab destructor" RFC for Linux (April 2025), which names this
 * object as the second user.
 */
#ifndef TC_ACTION_H
#define TC_ACTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <urcu/hlist.h>

#include <pcpool/pcpool.h>

/** What is counted, summed over the CPUs. */
enum tc_count {
	TC_PACKETS,
	TC_BYTES,
	TC_HW_PACKETS, /**< those of them that the hardware took care of */
	TC_HW_BYTES,
	TC_DROPS,
	TC_COUNTS,
};

/** One CPU's copy of a statistics block: regions 1 and 2. */
struct tc_stats {
	uint64_t packets;
	uint64_t bytes;
};

/** One CPU's copy of region 3. */
struct tc_queue {
	uint64_t drops;
};

/** What happens to a packet. */
enum tc_verdict {
	TC_PASS,
	TC_DROP,
};

/**
 * The object. What belongs to one use comes first and last; the regions
 * survive.
 */
struct tc_action {
	/** What packets it is for. tc_action_begin() sets this and the next two,
	 *  and they stay while readers can find the object. */
	uint32_t key;
	enum tc_verdict verdict;
	bool hardware;

	/** Whether anything was counted since the copies were last zero. Built:
	 *  false. Written once in each use, read by all that count: it stays in
	 *  every CPU's cache. */
	atomic_bool counted;

	/** Regions, as per-CPU pointers. Built: every copy is zero, unless
	 *  counted says that the reset hook has to see to it. */
	struct tc_stats *basic;
	struct tc_stats *hw;
	struct tc_queue *queue;

	/** For the table that holds it; belongs to one use. */
	struct cds_hlist_node node;
};

/** Where the regions come from. */
enum tc_regions {
	TC_CTOR,     /**< the constructor allocates three */
	TC_DECLARED, /**< the cache does, they are declared */
};

/**
 * One for all objects of a cache; must live until the cache is destroyed. Start
 * from all zero.
 */
struct tc_env {
	atomic_ullong ctor_ok;
	atomic_ullong dtor;
	/** What ended uses had counted: after pcpool_cache_destroy() all there
	 *  ever was. */
	atomic_ullong total[TC_COUNTS];
};

/** Build an object, as TC_CTOR: arg is a struct tc_env or NULL. Returns 0 or an
 *  errno value, and has undone all its doing then. */
int tc_action_ctor(void *obj, void *arg);

/** Tear it down; adds what it still counted to the totals. */
void tc_action_dtor(void *obj, void *arg);

/** Attributes of a cache of actions: what a program adds to them is its own
 *  affair. env may be NULL. */
void tc_cache_attr(struct pcpool_cache_attr *attr, enum tc_regions regions,
		   struct tc_env *env);

/** A cache of actions. Returns NULL with errno as pcpool_cache_create(). */
struct pcpool_cache *tc_cache_create(enum tc_regions regions,
				     struct tc_env *env);

/** Begin a use of an object from pcpool_alloc(), before others can find it.
 *  Nothing has to be done to end it. */
static inline void tc_action_begin(struct tc_action *action, uint32_t key,
				   enum tc_verdict verdict, bool hardware)
{
	action->key = key;
	action->verdict = verdict;
	action->hardware = hardware;
}

/** Count a packet of some bytes on this CPU; inside a reader that found the
 *  action. */
void tc_action_count(struct tc_action *action, uint32_t bytes);

/** Whether all its statistics are zero, as they must be when a use begins.
 *  Reads all copies of the regions: for tests and assertions. */
bool tc_action_is_zero(const struct tc_action *action);

#endif /* TC_ACTION_H */

/* SPDX-License-Identifier: MIT */
/*
 * The action: how its regions are made and unmade in both ways, counting, and
 * how what was counted is gathered. Read tc_action.h first.
 */
#include "tc_action.h"

#include <errno.h>

/* The whole of what a program with declared fields writes about its regions;
 * compare tc_action_ctor(). */
static const struct pcpool_percpu_field tc_fields[] = {
	{ offsetof(struct tc_action, basic), sizeof(struct tc_stats),
	  _Alignof(struct tc_stats) },
	{ offsetof(struct tc_action, hw), sizeof(struct tc_stats),
	  _Alignof(struct tc_stats) },
	{ offsetof(struct tc_action, queue), sizeof(struct tc_queue),
	  _Alignof(struct tc_queue) },
};

/* What both ways have in common: the rest of the constructed state. Fresh
 * regions are zero. */
static void tc_action_built(struct tc_action *action, struct tc_env *env)
{
	atomic_init(&action->counted, false);
	if (env)
		atomic_fetch_add_explicit(&env->ctor_ok, 1,
					  memory_order_relaxed);
}

int tc_action_ctor(void *obj, void *arg)
{
	struct tc_action *action = obj;
	int err;

	action->basic = pcpool_percpu_alloc(sizeof(*action->basic),
					    _Alignof(struct tc_stats));
	if (!action->basic)
		return errno;
	action->hw = pcpool_percpu_alloc(sizeof(*action->hw),
					 _Alignof(struct tc_stats));
	if (!action->hw) {
		err = errno;
		goto fail_basic;
	}
	action->queue = pcpool_percpu_alloc(sizeof(*action->queue),
					    _Alignof(struct tc_queue));
	if (!action->queue) {
		err = errno;
		goto fail_hw;
	}
	tc_action_built(action, arg);
	return 0;

fail_hw:
	pcpool_percpu_free(action->hw);
fail_basic:
	pcpool_percpu_free(action->basic);
	return err;
}

/* The regions are there already, and nothing else can fail. */
static int tc_action_ctor_declared(void *obj, void *arg)
{
	tc_action_built(obj, arg);
	return 0;
}

/*
 * Bring an object back to its constructed state and keep what it counted. Only
 * the caller can reach the object, so plain accesses do, whatever CPU made the
 * counts: a grace period has passed since.
 *
 * This reads every CPU's copies, which on a large machine is far more than the
 * rest of a use costs. An action that never matched a packet is spared it.
 */
static void tc_action_gather(struct tc_action *action, struct tc_env *env)
{
	uint64_t sum[TC_COUNTS] = { 0 };

	if (!atomic_load_explicit(&action->counted, memory_order_relaxed))
		return;
	for (unsigned int slot = 0; slot < pcpool_nr_slots(); slot++) {
		struct tc_stats *basic = pcpool_percpu_ptr(action->basic, slot);
		struct tc_stats *hw = pcpool_percpu_ptr(action->hw, slot);
		struct tc_queue *queue = pcpool_percpu_ptr(action->queue, slot);

		sum[TC_PACKETS] += basic->packets;
		sum[TC_BYTES] += basic->bytes;
		sum[TC_HW_PACKETS] += hw->packets;
		sum[TC_HW_BYTES] += hw->bytes;
		sum[TC_DROPS] += queue->drops;
		/* Lines of CPUs that counted nothing stay clean. A thread may
		 * have moved on between its two additions. */
		if (basic->packets | basic->bytes)
			*basic = (struct tc_stats){ 0 };
		if (hw->packets | hw->bytes)
			*hw = (struct tc_stats){ 0 };
		if (queue->drops)
			queue->drops = 0;
	}
	atomic_store_explicit(&action->counted, false, memory_order_relaxed);
	for (int i = 0; env && i < TC_COUNTS; i++)
		atomic_fetch_add_explicit(&env->total[i], sum[i],
					  memory_order_relaxed);
}

/* On every hand-out; the end of the use before. */
static void tc_action_reset(void *obj, void *arg)
{
	tc_action_gather(obj, arg);
}

static void tc_action_dtor_declared(void *obj, void *arg)
{
	struct tc_env *env = arg;

	tc_action_gather(obj, env);
	if (env)
		atomic_fetch_add_explicit(&env->dtor, 1, memory_order_relaxed);
}

void tc_action_dtor(void *obj, void *arg)
{
	struct tc_action *action = obj;

	tc_action_dtor_declared(action, arg);
	pcpool_percpu_free(action->queue);
	pcpool_percpu_free(action->hw);
	pcpool_percpu_free(action->basic);
}

void tc_cache_attr(struct pcpool_cache_attr *attr, enum tc_regions regions,
		   struct tc_env *env)
{
	pcpool_cache_attr_init(attr);
	attr->align = _Alignof(struct tc_action);
	attr->reset = tc_action_reset;
	attr->arg = env;
	if (regions == TC_DECLARED) {
		attr->fields = tc_fields;
		attr->nr_fields = sizeof(tc_fields) / sizeof(tc_fields[0]);
		attr->ctor = tc_action_ctor_declared;
		attr->dtor = tc_action_dtor_declared;
	} else {
		attr->ctor = tc_action_ctor;
		attr->dtor = tc_action_dtor;
	}
}

struct pcpool_cache *tc_cache_create(enum tc_regions regions,
				     struct tc_env *env)
{
	struct pcpool_cache_attr attr;

	tc_cache_attr(&attr, regions, env);
	return pcpool_cache_create("tc_action", sizeof(struct tc_action),
				   &attr);
}

void tc_action_count(struct tc_action *action, uint32_t bytes)
{
	if (!atomic_load_explicit(&action->counted, memory_order_relaxed))
		atomic_store_explicit(&action->counted, true,
				      memory_order_relaxed);
	pcpool_this_cpu_inc(&action->basic->packets);
	pcpool_this_cpu_add(&action->basic->bytes, bytes);
	if (action->hardware) {
		pcpool_this_cpu_inc(&action->hw->packets);
		pcpool_this_cpu_add(&action->hw->bytes, bytes);
	}
	if (action->verdict == TC_DROP)
		pcpool_this_cpu_inc(&action->queue->drops);
}

bool tc_action_is_zero(const struct tc_action *action)
{
	return !pcpool_percpu_sum_u64(&action->basic->packets) &&
	       !pcpool_percpu_sum_u64(&action->basic->bytes) &&
	       !pcpool_percpu_sum_u64(&action->hw->packets) &&
	       !pcpool_percpu_sum_u64(&action->hw->bytes) &&
	       !pcpool_percpu_sum_u64(&action->queue->drops);
}

/* SPDX-License-Identifier: MIT */
/*
 * One of two translation units that are linked together: all headers, twice,
 * and a use of each inline function and macro. UNIT names the function.
 */
#include <pcpool/pcpool.h>
#include <pcpool/counter.h>
#include <pcpool/stats.h>
#include <pcpool/maintain.h>
#include <pcpool/rcu.h>
#include <pcpool/sheaf.h>
#include <pcpool/percpu.h>
#include <pcpool/cache.h>
#include <pcpool/pcpool.h>

#ifdef __cplusplus
extern "C"
#endif
int UNIT(uint64_t *wide, uint32_t *narrow);

int UNIT(uint64_t *wide, uint32_t *narrow)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache_attr same;
	struct pcpool_counter counter;

	pcpool_cache_attr_init(&same);
	pcpool_this_cpu_add(wide, 3);
	pcpool_this_cpu_inc(narrow);
	pcpool_this_cpu_add(narrow, -1);
	pcpool_this_cpu_dec(wide);
	pcpool_this_cpu_sub(wide, -1);
	pcpool_this_cpu_inc(narrow);
	pcpool_this_cpu_cmpxchg(wide, UINT64_MAX, pcpool_this_cpu_read(wide));
	pcpool_this_cpu_xchg(narrow + 1, pcpool_this_cpu_read(narrow + 1));
	if (pcpool_counter_init(&counter, 2))
		return 0;
	pcpool_counter_inc(&counter);
	pcpool_counter_dec(&counter);
	pcpool_counter_sub(&counter, 2 - PCPOOL_COUNTER_BATCH);
	if (pcpool_counter_sum(&counter) != PCPOOL_COUNTER_BATCH)
		return 0;
	pcpool_counter_destroy(&counter);
	return attr.attr_size == same.attr_size &&
	       PCPOOL_SIZE_MAX > PCPOOL_PERCPU_SIZE_MAX &&
	       PCPOOL_ALIGN_MAX > PCPOOL_PERCPU_ALIGN_MAX &&
	       PCPOOL_SHEAF_PREFILL_MAX > PCPOOL_SHEAF_CAPACITY_MAX &&
	       PCPOOL_SHEAF_CAPACITY_MAX > 1U &&
	       (PCPOOL_CHECK & PCPOOL_DTOR_ON_FREE) == 0U &&
	       (PCPOOL_TYPESAFE_BY_RCU &
		(PCPOOL_CHECK | PCPOOL_DTOR_ON_FREE)) == 0U;
}

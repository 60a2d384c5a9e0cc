/* SPDX-License-Identifier: MIT */
/*
 * One of two translation units that are linked together: all headers, twice,
 * and a use of each inline function and macro. UNIT names the function.
 */
#include <pcpool/pcpool.h>
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

	pcpool_cache_attr_init(&same);
	pcpool_this_cpu_add(wide, 3);
	pcpool_this_cpu_inc(narrow);
	return attr.attr_size == same.attr_size &&
	       PCPOOL_SIZE_MAX > PCPOOL_PERCPU_SIZE_MAX &&
	       PCPOOL_ALIGN_MAX > PCPOOL_PERCPU_ALIGN_MAX &&
	       PCPOOL_SHEAF_PREFILL_MAX > PCPOOL_SHEAF_CAPACITY_MAX &&
	       PCPOOL_SHEAF_CAPACITY_MAX > 1U &&
	       (PCPOOL_CHECK & PCPOOL_DTOR_ON_FREE) == 0U &&
	       (PCPOOL_TYPESAFE_BY_RCU &
		(PCPOOL_CHECK | PCPOOL_DTOR_ON_FREE)) == 0U;
}

/* SPDX-License-Identifier: MIT */
/* The mode of the process and the caller's index. See index.h. */
#include <config.h>

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#include "base/atomic.h"
#include "base/options.h"
#include "base/report.h"
#include "cpu/fence.h"
#include "cpu/index.h"
#include "cpu/topology.h"

#if PCP_HAVE_RSEQ
#include <sys/rseq.h>
#endif

ptrdiff_t pcp_rseq_area, pcp_rseq_id;
struct pcp_index pcp_index = { .nr_ids = 1, .reason = "not decided yet" };

/* Fields of the area, by the kernel's layout. */
enum {
	AREA_CPU_ID = 4,
	AREA_FLAGS = 16,
	AREA_MM_CID = 24,
	AREA_MM_CID_END = 28,
};

/* With more CPUs than this, concurrency ids are worth their costlier fence:
 * only as many slots are ever touched as threads run at a time. */
#define AUTO_CID_CPUS 32U

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

#if PCP_HAVE_RSEQ
static inline int32_t area_read(ptrdiff_t offset)
{
	const char *tp = __builtin_thread_pointer();

	return pcp_load((const int32_t *)(const void *)(tp + offset));
}

/* How much of the area the kernel fills. The libc's size says so only since it
 * learned to ask; the two sizes older ones report mean "at least 20". */
static unsigned int area_bytes(void)
{
	unsigned long feature;

	if (__rseq_size != 20 && __rseq_size != 32)
		return __rseq_size;
	feature = getauxval(AT_RSEQ_FEATURE_SIZE);
	if (!feature)
		feature = 20;
	return feature < 32 ? (unsigned int)feature : 32;
}

/* Kernels from 6.19 to before 7.0.14 do not restart a section on aarch64 when
 * another thread ran on the same CPU meanwhile, unless it also migrated. */
__attribute__((unused)) static bool kernel_keeps_promise(void)
{
#if defined(__aarch64__)
	unsigned int major, minor, patch = 0;
	struct utsname uts;

	if (uname(&uts) ||
	    sscanf(uts.release, "%u.%u.%u", &major, &minor, &patch) < 2)
		return false;
	if (major < 6 || (major == 6 && minor < 19))
		return true;
	return major > 7 || (major == 7 && (minor > 0 || patch >= 14));
#else
	return true;
#endif
}
#endif /* PCP_HAVE_RSEQ */

/* Why sections cannot be used; NULL when they can. */
static const char *refuse_rseq(void)
{
	if (pcp_options.mode == PCP_MODE_LOCK)
		return "lock mode was asked for";
#if PCP_TSAN
	return "the thread sanitizer sees nothing of a section";
#elif PCP_HAVE_RSEQ
	if (!__rseq_size || area_read(__rseq_offset + AREA_CPU_ID) < 0)
		return "the libc has not registered rseq";
	if (!pcp_topology.known)
		return "the number of possible CPUs is not known";
	if (pcp_topology.nr_cpus < pcp_topology.possible)
		return "fewer slots than CPUs were asked for";
	if (!kernel_keeps_promise())
		return "this kernel does not restart sections reliably";
	if (pcp_fence_init())
		return "membarrier cannot fence sections";
	return NULL;
#else
	return "built without sections";
#endif
}

static bool want_cid(void)
{
#if PCP_HAVE_RSEQ
	bool usable = area_bytes() >= AREA_MM_CID_END;

	switch (pcp_options.index) {
	case PCP_INDEX_CPU:
		return false;
	case PCP_INDEX_CID:
		if (!usable)
			pcp_warn("index:cid: this kernel or libc has no mm_cid, "
				 "using the CPU number");
		return usable;
	default:
		return usable && pcp_topology.possible > AUTO_CID_CPUS;
	}
#else
	return false;
#endif
}

void pcp_index_init(void)
{
	struct pcp_index index = {
		.nr_ids = pcp_topology.nr_cpus,
		.stray = pcp_topology.nr_cpus,
		.reason = refuse_rseq(),
	};

#if PCP_HAVE_RSEQ
	/* In lock mode sections still run, once per call, in threads that the
	 * libc has registered. There the CPU number may be beyond the slots, so
	 * they read a field that the kernel insists is 0, and find slot 0
	 * closed like all others. */
	pcp_rseq_area = __rseq_offset;
	pcp_rseq_id = __rseq_offset +
		      (index.reason ? AREA_FLAGS : AREA_CPU_ID);
#endif
	if (!index.reason) {
		index.rseq = true;
		index.cid = want_cid();
		index.reason = "rseq and its fence are available";
#if PCP_HAVE_RSEQ
		if (index.cid)
			pcp_rseq_id = __rseq_offset + AREA_MM_CID;
#endif
	} else {
		index.hash = index.nr_ids > pcp_topology.possible;
		if (pcp_options.mode == PCP_MODE_RSEQ)
			pcp_warn("mode:rseq: %s, using lock mode",
				 index.reason);
	}
	pcp_index = index;
}

/* Lock mode with more slots than CPUs: spread threads by where their stacks
 * are, which costs no per-thread state. */
static long hashed_index(void)
{
	uintptr_t tp = (uintptr_t)__builtin_thread_pointer();
	uint64_t hash = ((uint64_t)tp >> 6) * UINT64_C(0x9e3779b97f4a7c15);

	return (long)((hash >> 32) % pcp_index.nr_ids);
}

static unsigned int current_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (unsigned int)cpu;
}

long pcp_this_index(void)
{
#if PCP_HAVE_RSEQ
	if (pcp_likely(pcp_index.rseq)) {
		if (pcp_unlikely(area_read(pcp_rseq_area + AREA_CPU_ID) < 0))
			return -1;
		return area_read(pcp_rseq_id);
	}
#endif
	if (pcp_index.hash)
		return hashed_index();
	return (long)(current_cpu() % pcp_index.nr_ids);
}

unsigned int pcp_this_node(void)
{
	if (pcp_topology.nr_nodes == 1)
		return 0;
	return pcp_cpu_node(current_cpu());
}

unsigned int pcp_slot_node(long index)
{
	if (pcp_topology.nr_nodes == 1)
		return 0;
	if (index < 0 || pcp_index.cid || pcp_index.hash)
		return pcp_this_node();
	return pcp_cpu_node((unsigned int)index);
}

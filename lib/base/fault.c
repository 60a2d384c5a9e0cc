/* SPDX-License-Identifier: MIT */
/* Fault points and race-widening hooks of test builds. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/fault.h"

#if PCP_FAULTS
struct point {
	const char *name;
	unsigned long nth;
	unsigned long passed;
	bool every;
};

static struct point points[PCP_FAULT_COUNT] = {
	[PCP_FAULT_META] = { .name = "meta" },
	[PCP_FAULT_RESERVE] = { .name = "reserve" },
	[PCP_FAULT_COMMIT] = { .name = "commit" },
	[PCP_FAULT_SLAB] = { .name = "slab" },
	[PCP_FAULT_FENCE] = { .name = "fence" },
	[PCP_FAULT_NO_FENCE] = { .name = "no-fence" },
	[PCP_FAULT_BIND] = { .name = "bind" },
	[PCP_FAULT_THREAD] = { .name = "thread" },
	[PCP_FAULT_DISCARD] = { .name = "discard" },
};
static void (*hook)(enum pcp_hook_id id);

void pcp_fault_set(enum pcp_fault_point point, unsigned long nth, bool every)
{
	struct point *p = &points[point];

	pcp_store(&p->nth, 0UL);
	pcp_store(&p->passed, 0UL);
	pcp_store(&p->every, every);
	pcp_store_release(&p->nth, nth);
}

unsigned long pcp_fault_passed(enum pcp_fault_point point)
{
	return pcp_load(&points[point].passed);
}

bool pcp_fault_hit(enum pcp_fault_point point)
{
	struct point *p = &points[point];
	unsigned long passed = pcp_add(&p->passed, 1UL) + 1;
	unsigned long nth = pcp_load_acquire(&p->nth);

	if (!nth)
		return false;
	return pcp_load(&p->every) ? passed % nth == 0 : passed == nth;
}

void pcp_hook_set(void (*fn)(enum pcp_hook_id id))
{
	pcp_store_release(&hook, fn);
}

void pcp_hook_run(enum pcp_hook_id id)
{
	void (*fn)(enum pcp_hook_id) = pcp_load_acquire(&hook);

	if (pcp_unlikely(fn))
		fn(id);
}

bool pcp_fault_parse(const char *text)
{
	size_t len = strcspn(text, "/%");
	char *end;
	unsigned long nth;

	if (!text[len] || text[len + 1] < '0' || text[len + 1] > '9')
		return false;
	nth = strtoul(text + len + 1, &end, 10);
	if (*end || !nth)
		return false;
	for (int i = 0; i < PCP_FAULT_COUNT; i++) {
		if (strlen(points[i].name) != len ||
		    strncmp(points[i].name, text, len))
			continue;
		pcp_fault_set((enum pcp_fault_point)i, nth, text[len] == '%');
		return true;
	}
	return false;
}
#endif

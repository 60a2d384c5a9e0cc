/* SPDX-License-Identifier: MIT */
/* A plug-in that uses pcpool inline: what test_fast_unload.c calls. */
#ifndef PCP_TESTS_API_FAST_PLUGIN_H
#define PCP_TESTS_API_FAST_PLUGIN_H

#include <pcpool/fast.h>

/* Takes objects and gives them back; NULL when that failed, else the address of
 * something in the plug-in. The last section that the thread began is this one's,
 * unless it was interrupted. */
const void *fast_plugin_use(struct pcpool_cache *cache);

#ifdef FAST_PLUGIN
const void *fast_plugin_use(struct pcpool_cache *cache)
{
	static const char here;
	void *obj;

	for (int i = 0; i < 100; i++) {
		obj = pcpool_fast_alloc(cache);
		if (!obj)
			return NULL;
		pcpool_fast_free(cache, obj);
	}
	return &here;
}
#endif

#endif /* PCP_TESTS_API_FAST_PLUGIN_H */

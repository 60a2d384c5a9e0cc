/* SPDX-License-Identifier: MIT */
/* Snapshots of counters, for the other services. */
#ifndef PCP_SERVICE_STATS_H
#define PCP_SERVICE_STATS_H

#include <pcpool/stats.h>

#include "cache/cache.h"

/* As pcpool_cache_get_stats(), whose arguments were checked. */
void pcp_cache_stats(struct pcpool_cache *cache, struct pcpool_cache_stats *s);

#endif /* PCP_SERVICE_STATS_H */

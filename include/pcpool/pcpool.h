/* SPDX-License-Identifier: MIT */
/* All of pcpool's interface but the opt-in inline fast path. */
#ifndef PCPOOL_PCPOOL_H
#define PCPOOL_PCPOOL_H

#include <pcpool/account.h>
#include <pcpool/cache.h>
#include <pcpool/counter.h>
#include <pcpool/maintain.h>
#include <pcpool/percpu.h>
#include <pcpool/rcu.h>
#include <pcpool/sheaf.h>
#include <pcpool/stats.h>

#endif /* PCPOOL_PCPOOL_H */

/* SPDX-License-Identifier: MIT */
/* The oversub variant with a free list for each thread. It gives nothing back
 * unless a thread frees its own list, to the C library's malloc. */
#include <config.h>

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "job.h"
#include "oversub.h"
#include "plain.h"

static _Thread_local struct bench_list tls_list;

BENCH_INLINE void *take(const void *ctx, size_t size)
{
	void *obj = bench_list_pop(&tls_list);

	(void)ctx;
	return __builtin_expect(!obj, 0) ? bench_new_object(size) : obj;
}

BENCH_INLINE void give(const void *ctx, void *obj)
{
	(void)ctx;
	bench_list_push(&tls_list, obj);
}

static int fill(struct bench_oversub_thread *t)
{
	return bench_oversub_fill(t, NULL, take);
}

static int replace(struct bench_oversub_thread *t, unsigned int n)
{
	return bench_oversub_replace(t, n, NULL, take, give);
}

static void empty(struct bench_oversub_thread *t)
{
	bench_oversub_empty(t, NULL, give);
}

static void idle(struct bench_oversub_thread *t)
{
	(void)t;
	bench_free_list(&tls_list);
}

static int shrink(struct bench_oversub *o)
{
	(void)o;
#ifdef __GLIBC__
	malloc_trim(0);
#endif
	return 0;
}

static const struct bench_oversub_ops ops = {
	.fill = fill,
	.replace = replace,
	.empty = empty,
	.idle = idle,
	.shrink = shrink,
};

static int open_ops(const struct bench_params *params,
		    const struct bench_malloc *peer, void **shared)
{
	(void)params;
	return bench_oversub_open(&ops, peer, shared);
}

const struct bench_variant bench_oversub_tls_list = {
	.name = "tls-list",
	.open = open_ops,
	.close = bench_oversub_close,
};

/* SPDX-License-Identifier: MIT */
/* The allocation of connections, twice; conn_alloc.h says what for. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "conn_alloc.h"

#include <errno.h>
#include <stdlib.h>

#include <pcpool/pcpool.h>

#include "conn.h"
#include "stats.h"

static struct conn_env *env;

#ifndef CONN_MALLOC

const char *const conn_alloc_name = "pcpool";

/* Steps of one call of pcpool_maintain(), so that the loop which calls it is
 * back with its clients after some tens of microseconds. */
#define MAINTAIN_BUDGET 16U

/* Added to a buffer. Buffers of 16 KiB at addresses that are multiples of that
 * would all begin in the same few sets of the processor's caches, and it is
 * their beginnings that are used. */
#define SPREAD 64U

static struct pcpool_cache *conns;
/* Plain memory. That a constructor uses another cache is fine: pcpool holds no
 * lock while it runs. It comes second, so that one pcpool_maintain() lets
 * connections go and then their buffers. */
static struct pcpool_cache *buffers;

int conn_alloc_init(struct conn_env *e)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	int err;

	env = e;
	attr.align = _Alignof(struct conn);
	attr.ctor = conn_ctor;
	attr.dtor = conn_dtor;
	attr.reset = conn_reset;
	attr.arg = env;
	conns = pcpool_cache_create("conn", sizeof(struct conn), &attr);
	if (!conns)
		return errno;
	buffers = pcpool_cache_create("conn_buffer",
				      env->settings->buffer + SPREAD, NULL);
	if (buffers)
		return 0;
	err = errno;
	pcpool_cache_destroy(conns);
	conns = NULL;
	return err;
}

/* Connections first: their destructors give the buffers back. */
int conn_alloc_exit(unsigned long long *live)
{
	struct pcpool_cache_stats stats = { .stats_size = sizeof(stats) };
	int err = pcpool_cache_get_stats(conns, &stats);

	*live = stats.live;
	if (!err)
		err = pcpool_cache_destroy(conns);
	if (!err)
		err = pcpool_cache_destroy(buffers);
	return err;
}

struct conn *conn_get(void)
{
	return pcpool_alloc(conns);
}

void conn_put(struct conn *c)
{
	pcpool_free(conns, c);
}

char *conn_buffer_get(void)
{
	return pcpool_alloc(buffers);
}

void conn_buffer_put(char *buffer)
{
	pcpool_free(buffers, buffer);
}

int conn_alloc_maintain(void)
{
	return pcpool_maintain(MAINTAIN_BUDGET);
}

struct pcpool_cache *conn_alloc_cache(unsigned int i)
{
	return i == 0 ? conns : i == 1 ? buffers : NULL;
}

#else /* CONN_MALLOC */

const char *const conn_alloc_name = "malloc";

int conn_alloc_init(struct conn_env *e)
{
	env = e;
	return 0;
}

int conn_alloc_exit(unsigned long long *live)
{
	struct counters sum;

	counters_sum(&sum);
	*live = sum.built - sum.torn_down;
	return *live ? EBUSY : 0;
}

struct conn *conn_get(void)
{
	struct conn *c = malloc(sizeof(*c));
	int err;

	if (!c)
		return NULL;
	err = conn_ctor(c, env);
	if (err) {
		free(c);
		errno = err;
		return NULL;
	}
	conn_reset(c, env);
	return c;
}

void conn_put(struct conn *c)
{
	conn_dtor(c, env);
	free(c);
}

char *conn_buffer_get(void)
{
	return malloc(env->settings->buffer);
}

void conn_buffer_put(char *buffer)
{
	free(buffer);
}

int conn_alloc_maintain(void)
{
	return 0;
}

struct pcpool_cache *conn_alloc_cache(unsigned int i)
{
	(void)i;
	return NULL;
}

#endif /* CONN_MALLOC */

/* SPDX-License-Identifier: MIT */
/*
 * A library that is initialised before every other (it is linked so), and that
 * uses pcpool in its constructor and in its destructor. It is not linked to
 * pcpool; the program it is preloaded into is.
 */
#include <config.h>

#include <stdlib.h>
#include <unistd.h>

#include <pcpool/pcpool.h>

#pragma weak pcpool_cache_create
#pragma weak pcpool_cache_destroy
#pragma weak pcpool_alloc
#pragma weak pcpool_free
#pragma weak pcpool_percpu_alloc
#pragma weak pcpool_percpu_free
#pragma weak pcpool_percpu_sum_u64
#pragma weak pcpool_this_cpu_add_u64

static struct pcpool_cache *cache;
static void *kept;

static void say(const char *text, size_t len)
{
	if (write(STDERR_FILENO, text, len) < 0)
		abort();
}

static void use(void)
{
	void *region = pcpool_percpu_alloc(8, 8);
	void *obj = pcpool_alloc(cache);

	if (!region || !obj)
		abort();
	pcpool_this_cpu_add_u64(region, 1);
	if (pcpool_percpu_sum_u64(region) != 1)
		abort();
	pcpool_percpu_free(region);
	pcpool_free(cache, obj);
}

__attribute__((constructor(101))) static void first(void)
{
	static const char text[] = "preload: constructor was here\n";

	/* Also preloaded into a shell that a wrapper may start. */
	if (!pcpool_cache_create)
		return;
	cache = pcpool_cache_create("preload", 64, NULL);
	if (!cache)
		abort();
	kept = pcpool_alloc(cache);
	if (!kept)
		abort();
	use();
	say(text, sizeof(text) - 1);
}

__attribute__((destructor(101))) static void last(void)
{
	static const char text[] = "preload: destructor was here\n";

	if (!cache)
		return;
	use();
	pcpool_free(cache, kept);
	if (pcpool_cache_destroy(cache))
		abort();
	say(text, sizeof(text) - 1);
}

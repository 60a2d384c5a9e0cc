/* SPDX-License-Identifier: MIT */
/*
 * Loading the malloc implementations.
 *
 * Each is opened with RTLD_LOCAL, found by its SONAME and called by pointer,
 * which costs what a call through the PLT does. The worker process goes on
 * using its own malloc for everything else. Since these libraries keep
 * thread-local data in the static TLS block, the driver starts workers with
 * room for it (drive.c).
 */
#include <config.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#include <malloc.h>
#endif

#include "module.h"
#include "peers.h"

#define SONAMES_MAX 3U

/* What a library that is loaded is told to give memory back with. */
static int (*je_mallctl)(const char *, void *, size_t *, void *, size_t);
static void (*mi_collect)(bool force);
static void (*tc_idle)(void);
static void (*tc_trim)(void);

static void trim_own(struct bench_malloc *peer, void *lib);
static void trim_jemalloc(struct bench_malloc *peer, void *lib);
static void trim_mimalloc(struct bench_malloc *peer, void *lib);
static void trim_tcmalloc(struct bench_malloc *peer, void *lib);
static void version_own(void *lib, char *version, size_t vlen);
static void version_jemalloc(void *lib, char *version, size_t vlen);
static void version_mimalloc(void *lib, char *version, size_t vlen);
static void version_tcmalloc(void *lib, char *version, size_t vlen);

static const struct library {
	const char *name;
	const char *soname[SONAMES_MAX]; /* the first that can be opened */
	const char *malloc;
	const char *free;
	void (*version)(void *lib, char *version, size_t vlen);
	void (*trim)(struct bench_malloc *peer, void *lib);
} libraries[] = {
	{ "glibc", { NULL }, NULL, NULL, version_own, trim_own },
	{ "jemalloc",
	  { "libjemalloc.so.2" },
	  "malloc",
	  "free",
	  version_jemalloc,
	  trim_jemalloc },
	{ "mimalloc",
	  { "libmimalloc.so.2", "libmimalloc.so.3" },
	  "mi_malloc",
	  "mi_free",
	  version_mimalloc,
	  trim_mimalloc },
	{ "tcmalloc",
	  { "libtcmalloc.so.4", "libtcmalloc_minimal.so.4" },
	  "tc_malloc",
	  "tc_free",
	  version_tcmalloc,
	  trim_tcmalloc },
};

/* The last ones are modules (module.h). */
const char *const bench_peers[] = { "glibc",	"jemalloc", "mimalloc",
				    "tcmalloc", "apr",	    "rte_mempool",
				    NULL };

static void version_own(void *lib, char *version, size_t vlen)
{
	(void)lib;
#ifdef __GLIBC__
	snprintf(version, vlen, "%s", gnu_get_libc_version());
#else
	snprintf(version, vlen, "unknown");
#endif
}

/* dlsym() gives data pointers; ISO C wants function pointers come by a copy. */
static bool find(void *lib, const char *symbol, void *function)
{
	void *address = dlsym(lib, symbol);

	memcpy(function, &address, sizeof(address));
	return address;
}

static void version_jemalloc(void *lib, char *version, size_t vlen)
{
	int (*mallctl)(const char *, void *, size_t *, void *, size_t);
	const char *text = NULL;
	size_t len = sizeof(text);

	if (find(lib, "mallctl", &mallctl) &&
	    !mallctl("version", &text, &len, NULL, 0) && text)
		/* "5.3.0-0-g…": the release is enough. */
		snprintf(version, vlen, "%.*s", (int)strcspn(text, "-"), text);
}

static void version_mimalloc(void *lib, char *version, size_t vlen)
{
	int (*mi_version)(void);
	int v;

	if (!find(lib, "mi_version", &mi_version))
		return;
	/* Three digits up to 2.1.x ("209" is 2.0.9), then five or more. */
	v = mi_version();
	if (v < 1000)
		snprintf(version, vlen, "%d.%d.%d", v / 100, v / 10 % 10,
			 v % 10);
	else
		snprintf(version, vlen, "%d.%d.%d", v / 10000, v / 100 % 100,
			 v % 100);
}

static void version_tcmalloc(void *lib, char *version, size_t vlen)
{
	const char *(*tc_version)(int *, int *, const char **);
	const char *patch = "";
	int major, minor;

	if (!find(lib, "tc_version", &tc_version))
		return;
	tc_version(&major, &minor, &patch);
	snprintf(version, vlen, "%d.%d%s", major, minor, patch);
}

/* --- giving memory back ---------------------------------- */

static void own_trim(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

static void trim_own(struct bench_malloc *peer, void *lib)
{
	(void)lib;
	peer->trim = own_trim;
}

static void jemalloc_idle(void)
{
	je_mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
}

/* 4096 stands for all arenas (MALLCTL_ARENAS_ALL). */
static void jemalloc_trim(void)
{
	je_mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
}

static void trim_jemalloc(struct bench_malloc *peer, void *lib)
{
	if (!find(lib, "mallctl", &je_mallctl))
		return;
	peer->idle = jemalloc_idle;
	peer->trim = jemalloc_trim;
}

static void mimalloc_trim(void)
{
	mi_collect(true);
}

/* The call is for the calling thread's heap, and for what all share. */
static void trim_mimalloc(struct bench_malloc *peer, void *lib)
{
	if (find(lib, "mi_collect", &mi_collect))
		peer->idle = peer->trim = mimalloc_trim;
}

static void trim_tcmalloc(struct bench_malloc *peer, void *lib)
{
	if (find(lib, "MallocExtension_MarkThreadIdle", &tc_idle))
		peer->idle = tc_idle;
	if (find(lib, "MallocExtension_ReleaseFreeMemory", &tc_trim))
		peer->trim = tc_trim;
}

int bench_load_peer(const char *name, struct bench_malloc *peer, char *version,
		    size_t vlen)
{
	const struct library *l = libraries;
	const struct library *end =
		libraries + sizeof(libraries) / sizeof(libraries[0]);
	const struct bench_module *module;
	void *lib = NULL;

	while (l < end && strcmp(l->name, name))
		l++;
	*peer = (struct bench_malloc){ NULL, NULL, NULL, NULL };
	if (l == end) {
		module = bench_load_module(name);
		if (!module)
			return ENOENT;
		snprintf(version, vlen, "%s", module->version());
		return 0;
	}
	snprintf(version, vlen, "unknown");
	if (!l->malloc) {
		peer->malloc = malloc;
		peer->free = free;
		l->trim(peer, NULL);
		l->version(NULL, version, vlen);
		return 0;
	}
	for (unsigned int i = 0; i < SONAMES_MAX && l->soname[i] && !lib; i++)
		lib = dlopen(l->soname[i], RTLD_NOW | RTLD_LOCAL);
	/* Never closed: its memory and its thread-exit hooks stay in use. */
	if (!lib || !find(lib, l->malloc, &peer->malloc) ||
	    !find(lib, l->free, &peer->free))
		return ENOENT;
	l->trim(peer, lib);
	l->version(lib, version, vlen);
	return 0;
}

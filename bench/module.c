/* SPDX-License-Identifier: MIT */
/* Loading the peers that are modules. */
#include <config.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "module.h"

const struct bench_variant bench_apr = {
	.name = "apr",
	.peer = "apr",
};

const struct bench_variant bench_rte_mempool = {
	.name = "rte_mempool",
	.peer = "rte_mempool",
};

/* Where this program is, libtool has put its modules too. */
static bool find_module(const char *name, char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	int len;

	if (n < 0)
		return false;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	len = snprintf(path, size, "%s/peer_%s.so", self, name);
	return len > 0 && (size_t)len < size && !access(path, R_OK);
}

const struct bench_module *bench_load_module(const char *name)
{
	char path[PATH_MAX];
	void *module;

	if (!find_module(name, path, sizeof(path)))
		return NULL;
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return module ? dlsym(module, "bench_module") : NULL;
}

const struct bench_variant *bench_module_variant(const struct bench_module *m,
						 const char *job)
{
	for (unsigned int i = 0; i < BENCH_MODULE_JOBS; i++)
		if (m->jobs[i].job && !strcmp(m->jobs[i].job, job))
			return m->jobs[i].variant;
	return NULL;
}

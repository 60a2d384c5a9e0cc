/* SPDX-License-Identifier: MIT */
/* Processor, kernel and C library by name. */
#include <config.h>

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "machine.h"

/* The value of the first "model name : value" line; arm64 kernels have none. */
static int cpu_name(char *name, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];
	char *value;
	int found = 0;

	if (!f)
		return 0;
	while (!found && fgets(line, sizeof(line), f)) {
		value = strstr(line, ": ");
		if (strncmp(line, "model name", 10) || !value)
			continue;
		value += 2;
		value[strcspn(value, "\n")] = '\0';
		snprintf(name, size, "%s", value);
		found = 1;
	}
	fclose(f);
	return found;
}

void bench_machine_read(struct bench_machine *m)
{
	struct utsname u;

	if (uname(&u)) {
		snprintf(u.release, sizeof(u.release), "unknown");
		snprintf(u.machine, sizeof(u.machine), "unknown");
	}
	if (!cpu_name(m->cpu, sizeof(m->cpu)))
		snprintf(m->cpu, sizeof(m->cpu), "%s", u.machine);
	snprintf(m->kernel, sizeof(m->kernel), "%.95s", u.release);
#ifdef __GLIBC__
	snprintf(m->libc, sizeof(m->libc), "glibc %s", gnu_get_libc_version());
#else
	snprintf(m->libc, sizeof(m->libc), "unknown");
#endif
}

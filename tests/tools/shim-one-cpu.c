/* SPDX-License-Identifier: MIT */
/*
 * A preload: the process is told that it has one CPU, number 0, by every means
 * but the kernel's files, until it first sets an affinity itself.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int widened;

/* The next definition of a function after this one. */
#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

long sysconf(int name)
{
	if (name == _SC_NPROCESSORS_CONF || name == _SC_NPROCESSORS_ONLN)
		return 1;
	return NEXT(long (*)(int), "sysconf")(name);
}

int get_nprocs(void)
{
	return 1;
}

int get_nprocs_conf(void)
{
	return 1;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	widened = 1;
	return NEXT(int (*)(pid_t, size_t, const cpu_set_t *),
		    "sched_setaffinity")(pid, size, set);
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	if (widened)
		return NEXT(int (*)(pid_t, size_t, cpu_set_t *),
			    "sched_getaffinity")(pid, size, set);
	memset(set, 0, size);
	CPU_SET_S(0, size, set);
	return 0;
}

long syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_sched_getaffinity && !widened) {
		if ((size_t)a[1] < sizeof(long)) {
			errno = EINVAL;
			return -1;
		}
		memset((void *)a[2], 0, sizeof(long));
		*(unsigned char *)a[2] = 1;
		return sizeof(long);
	}
	return NEXT(long (*)(long, ...), "syscall")(number, a[0], a[1], a[2],
						    a[3], a[4], a[5]);
}

/* SPDX-License-Identifier: MIT */
/*
 * A preload: every second read(2) and open(2) is interrupted, and a read brings
 * one byte at a time.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

static int interrupted(void)
{
	static unsigned int calls;

	if (__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 2 == 0) {
		errno = EINTR;
		return 1;
	}
	return 0;
}

ssize_t read(int fd, void *buf, size_t size)
{
	ssize_t (*next)(int, void *, size_t) =
		(ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");

	if (interrupted())
		return -1;
	return next(fd, buf, size ? 1 : 0);
}

int open(const char *path, int flags, ...)
{
	int (*next)(const char *, int, ...) =
		(int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	mode_t mode = 0;
	va_list ap;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	if (interrupted())
		return -1;
	return next(path, flags, mode);
}

/* SPDX-License-Identifier: MIT */
/*
 * Last words and warnings. Formatted in a buffer on the stack and written with
 * one write(2): no allocation, no stdio lock, whole lines beside other threads.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/report.h"

/* Append to a buffer of size bytes, leaving room for a newline. */
PCP_PRINTF(4, 0)
static size_t append(char *buf, size_t size, size_t len, const char *fmt,
		     va_list ap)
{
	int n = vsnprintf(buf + len, size - 1 - len, fmt, ap);

	if (n < 0)
		return len;
	len += (size_t)n;
	return len < size - 1 ? len : size - 2;
}

PCP_PRINTF(4, 5)
static size_t appendf(char *buf, size_t size, size_t len, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	len = append(buf, size, len, fmt, ap);
	va_end(ap);
	return len;
}

static void emit(char *buf, size_t len)
{
	ssize_t n;

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)buf[i] < 0x20 || buf[i] == 0x7f)
			buf[i] = '?';
	buf[len++] = '\n';
	do
		n = write(STDERR_FILENO, buf, len);
	while (n < 0 && errno == EINTR);
}

void pcp_die(const char *cache, const void *obj, const void *caller,
	     const char *fmt, ...)
{
	char buf[512];
	size_t len;
	va_list ap;

	len = appendf(buf, sizeof(buf), 0, "pcpool: ");
	if (cache)
		len = appendf(buf, sizeof(buf), len, "cache \"%.64s\": ", cache);
	va_start(ap, fmt);
	len = append(buf, sizeof(buf), len, fmt, ap);
	va_end(ap);
	if (obj)
		len = appendf(buf, sizeof(buf), len, ": object %p", obj);
	if (caller)
		len = appendf(buf, sizeof(buf), len, ", caller %p", caller);
	emit(buf, len);
	abort();
}

void pcp_warn(const char *fmt, ...)
{
	char buf[512];
	size_t len;
	int saved = errno, cancel;
	va_list ap;

	len = appendf(buf, sizeof(buf), 0, "pcpool: ");
	va_start(ap, fmt);
	len = append(buf, sizeof(buf), len, fmt, ap);
	va_end(ap);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	emit(buf, len);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

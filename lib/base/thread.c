/* SPDX-License-Identifier: MIT */
/* See thread.h. */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/atomic.h"
#include "base/fault.h"
#include "base/osmem.h"
#include "base/thread.h"

static bool forked; /* this is a child */
static char *stack; /* of the thread in a child; who starts it may change it */

/* Its first page has no access. NULL: no memory. */
static char *make_stack(size_t size)
{
	const size_t page = pcp_page_size();
	char *p = pcp_os_reserve(page + size, page);

	if (!p)
		return NULL;
	if (pcp_os_commit(p + page, size)) {
		(void)pcp_os_unmap(p, page + size);
		return NULL;
	}
	return p;
}

static int set_stack(pthread_attr_t *attr)
{
	const size_t page = pcp_page_size();
	size_t size;
	int err = pthread_attr_getstacksize(attr, &size);

	if (err)
		return err;
	size = (size + page - 1) / page * page;
	if (!stack)
		stack = make_stack(size);
	return stack ? pthread_attr_setstack(attr, stack + page, size) : ENOMEM;
}

static int create(pthread_t *thread, void *(*fn)(void *))
{
	pthread_attr_t attr;
	int err = PCP_FAULT(PCP_FAULT_THREAD) ? EAGAIN
					      : pthread_attr_init(&attr);

	if (err)
		return err;
	if (pcp_load(&forked))
		err = set_stack(&attr);
	if (!err)
		err = pthread_create(thread, &attr, fn, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

int pcp_thread_start(void *(*fn)(void *), const char *name)
{
	int saved = errno, err;
	sigset_t all, old;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = create(&thread, fn);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err) {
		pthread_setname_np(thread, name);
		pthread_detach(thread);
	}
	errno = saved;
	return err;
}

void pcp_thread_fork_child(bool goes_on)
{
	pcp_store(&forked, true);
	/* It may be the one this runs on. */
	if (goes_on)
		stack = NULL;
}

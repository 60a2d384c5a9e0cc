/* SPDX-License-Identifier: MIT */
/* A thread of the library's own. */
#ifndef PCP_BASE_THREAD_H
#define PCP_BASE_THREAD_H

#include <stdbool.h>

/*
 * Start fn(NULL) in a detached thread with all signals blocked. One at a time is
 * started, and one lives at a time. 0 or an errno value; keeps errno.
 *
 * In a child the libc makes threads on the stacks of the parent's. In these the
 * flavours of RCU have entries of their lists of readers, and as nobody can take
 * them out any more they have to stay as they are. So there it gets a stack of
 * its own, which is kept for the thread of a child of that child.
 */
int pcp_thread_start(void *(*fn)(void *), const char *name);

/* In a child, with nothing else running. goes_on: the caller may be the thread
 * that was started. */
void pcp_thread_fork_child(bool goes_on);

#endif /* PCP_BASE_THREAD_H */

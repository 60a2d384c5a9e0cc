/* SPDX-License-Identifier: MIT */
/* The measure of job percpu: a mutex that nobody else wants, locked and
 * unlocked. An allocator with one lock cannot do without two of these. */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "job.h"
#include "touch.h"

/* One for each thread, in lines of its own. */
struct lock {
	_Alignas(2 * BENCH_CACHE_LINE) pthread_mutex_t mutex;
};

static int enter(struct bench_thread *t)
{
	struct lock *lock = aligned_alloc(_Alignof(struct lock), sizeof(*lock));
	int err;

	if (!lock)
		return ENOMEM;
	err = pthread_mutex_init(&lock->mutex, NULL);
	if (err) {
		free(lock);
		return err;
	}
	t->own = lock;
	return 0;
}

static int run(struct bench_thread *t, unsigned int n)
{
	struct lock *lock = t->own;

	for (unsigned int i = 0; i < n; i++) {
		pthread_mutex_lock(&lock->mutex);
		bench_forget();
		pthread_mutex_unlock(&lock->mutex);
	}
	return 0;
}

static void leave(struct bench_thread *t)
{
	struct lock *lock = t->own;

	pthread_mutex_destroy(&lock->mutex);
	free(lock);
}

const struct bench_variant bench_percpu_mutex = {
	.name = "mutex",
	.enter = enter,
	.run = run,
	.leave = leave,
};

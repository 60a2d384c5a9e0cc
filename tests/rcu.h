/* SPDX-License-Identifier: MIT */
/*
 * What tests of deferred frees share: the flavours of liburcu, and a thread that
 * is inside a reader until it is told to leave. Programs link liburcu-memb and
 * the other flavours, which Debian has in one package with it.
 */
#ifndef PCP_TESTS_RCU_H
#define PCP_TESTS_RCU_H

#include <pthread.h>
#include <semaphore.h>

#include <urcu/flavor.h>

#include "common.h"

/* Each in a header of its own, of which a file can include one. */
extern const struct rcu_flavor_struct urcu_memb_flavor, urcu_mb_flavor,
	urcu_bp_flavor, urcu_qsbr_flavor;

static const struct rcu_flavor_struct *const flavors[] = {
	&urcu_memb_flavor,
	&urcu_mb_flavor,
	&urcu_bp_flavor,
	&urcu_qsbr_flavor,
};

enum { FLAVORS = sizeof(flavors) / sizeof(flavors[0]) };

/* In it no thread is inside a reader by its locks: one that is registered is,
 * unless it says otherwise. */
static inline bool is_qsbr(const struct rcu_flavor_struct *flavor)
{
	return flavor == &urcu_qsbr_flavor;
}

struct reader {
	const struct rcu_flavor_struct *flavor;
	pthread_t thread;
	sem_t inside, go;
	/* Called inside, before the thread says that it is; or NULL. */
	void (*look)(void *arg);
	void *arg;
};

static inline void wait_sem(sem_t *sem)
{
	while (sem_wait(sem))
		expect_eq(errno, EINTR);
}

static inline void *reader_run(void *p)
{
	struct reader *reader = p;
	const struct rcu_flavor_struct *flavor = reader->flavor;

	pin_to(1);
	flavor->register_thread();
	flavor->read_lock();
	if (reader->look)
		reader->look(reader->arg);
	sem_post(&reader->inside);
	wait_sem(&reader->go);
	/* What it saw is still there. */
	if (reader->look)
		reader->look(reader->arg);
	flavor->read_unlock();
	flavor->unregister_thread();
	return NULL;
}

/* Returns when the reader is inside. The rest of *reader is filled in. */
static inline void reader_start(struct reader *reader,
				const struct rcu_flavor_struct *flavor)
{
	reader->flavor = flavor;
	expect(!sem_init(&reader->inside, 0, 0));
	expect(!sem_init(&reader->go, 0, 0));
	expect(!pthread_create(&reader->thread, NULL, reader_run, reader));
	wait_sem(&reader->inside);
}

static inline void reader_end(struct reader *reader)
{
	sem_post(&reader->go);
	expect(!pthread_join(reader->thread, NULL));
}

#endif /* PCP_TESTS_RCU_H */

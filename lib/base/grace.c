/* SPDX-License-Identifier: MIT */
/* Grace periods. See grace.h. */
#include <config.h>

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <urcu/urcu-memb.h>

#include "base/atomic.h"
#include "base/fault.h"
#include "base/fork.h"
#include "base/grace.h"
#include "base/lock.h"
#include "base/thread.h"

#define NS_PER_S UINT64_C(1000000000)
/* How long a batch is gathered: some hundred sheaves of a busy CPU. */
#define LINGER_NS UINT64_C(1000000)

#define FORK_WAIT_NS (PCP_GRACE_FORK_WAIT_S * NS_PER_S)

/* A waiter looks again so often whatever happens: another thread that tried to
 * start ours may have failed since. */
#define LOOK_AGAIN_NS (NS_PER_S / 10)

#define CPU_WORDS (4096 / (8 * sizeof(long))) /* of an affinity */
#define FLAVORS 8U /* of one batch; there are five */

/* Work to be done, pushed by anyone, taken whole. */
static struct pcp_grace *queue;
static bool started; /* the thread exists, or is being made */
static bool hurried;
static sem_t wake; /* posted when the queue gets its first work, and to hurry */

/* Batches done, what waiters sleep on. Without a lock: hundreds may wake at
 * once, and the next batch should not stand in line with them. */
static uint32_t batches;
static uint32_t sleepers;

/* Where the thread may run: where the first to use the library could. */
static unsigned long affinity[CPU_WORDS];

/* Rank PCP_RANK_GRACE. Guards the following; fork holds it, which keeps grace
 * periods from beginning. */
static struct pcp_lock lock = PCP_LOCK_INIT(PCP_RANK_GRACE);
static pthread_cond_t changed; /* any of the following */
static bool running;	       /* somebody does a batch */
static pthread_t runner;       /* that is this thread */
static const struct rcu_flavor_struct *syncing; /* liburcu is at work for us */
static bool forking;				/* none may begin */
static bool forked_here;			/* by the runner */
static bool lost;				/* also read without the lock */

const struct rcu_flavor_struct *pcp_grace_default(void)
{
	return &urcu_memb_flavor;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / NS_PER_S),
				  (long)(ns % NS_PER_S) };
}

/* --- one batch ------------------------------------------------------------ */

/* Oldest first. */
static struct pcp_grace *take_queue(void)
{
	struct pcp_grace *work = NULL, *next;

	/* Pairs with the swap in pcp_grace_queue(). */
	for (struct pcp_grace *g = pcp_xchg(&queue, NULL); g; g = next) {
		next = g->next;
		g->next = work;
		work = g;
	}
	return work;
}

static void wait_changed(uint64_t until_ns)
{
	struct timespec until = timespec_of(until_ns);

	pthread_cond_timedwait(&changed, &lock.mutex, &until);
}

/* A thread about to wait for readers must not be one. A QSBR thread that is
 * online can say that it is quiescent for the time; *online: it has to be told
 * that it is back. */
static int leave_readers(const struct rcu_flavor_struct *flavor, bool *online)
{
	*online = false;
	if (!flavor->read_ongoing())
		return 0;
	flavor->thread_offline();
	if (flavor->read_ongoing())
		return EDEADLK;
	*online = true;
	return 0;
}

/* Not linked to; NULL where nobody uses that flavour. */
extern void urcu_bp_synchronize_rcu(void) __attribute__((weak));

/* Whether the flavour can be asked if this thread is a reader. The application's
 * fork handlers for liburcu-bp may have run and taken its locks, and asking may
 * register the thread, which would wait for them for ever. */
static bool may_ask(const struct rcu_flavor_struct *flavor)
{
	return !urcu_bp_synchronize_rcu ||
	       flavor->update_synchronize_rcu != urcu_bp_synchronize_rcu;
}

/* CONTEXT: lock held. Keep liburcu idle for the fork that begins. */
static void pause_locked(void)
{
	uint64_t until = now_ns() + FORK_WAIT_NS;
	const struct rcu_flavor_struct *flavor = syncing;
	bool online = false;

	if (forking)
		return;
	forking = true;
	/* A destructor that forks cannot wait for itself. */
	forked_here = running && pthread_equal(runner, pthread_self());
	if (flavor && !forked_here &&
	    (!may_ask(flavor) || !leave_readers(flavor, &online)))
		while (syncing && now_ns() < until)
			wait_changed(until);
	if (online)
		flavor->thread_online();
}

/* Runs before all handlers that were entered earlier, thus, since it is entered
 * with the first grace period, before those of an application that knows of
 * forks: liburcu-bp's take the lock that a grace period under way needs. */
static void pause_prepare(void)
{
	pcp_lock(&lock);
	pause_locked();
	pcp_unlock(&lock);
}

static void enter_pause(void)
{
	/* Without memory for it the pause comes with the other handlers. */
	(void)pthread_atfork(pause_prepare, NULL, NULL);
}

/* Around what a fork must not come between: liburcu's locks are taken, or this
 * thread is in its list of readers, which it would be for ever in the child. */
static void begin_with(const struct rcu_flavor_struct *flavor)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, enter_pause);
	pcp_lock(&lock);
	while (forking)
		pthread_cond_wait(&changed, &lock.mutex);
	syncing = flavor;
	pcp_unlock(&lock);
}

static void end_with(void)
{
	pcp_lock(&lock);
	syncing = NULL;
	/* Only a fork waits for this. */
	if (forking)
		pthread_cond_broadcast(&changed);
	pcp_unlock(&lock);
}

static void synchronize(const struct rcu_flavor_struct *flavor)
{
	begin_with(flavor);
	PCP_HOOK(PCP_HOOK_GRACE_BEGUN);
	flavor->update_synchronize_rcu();
	end_with();
}

/* One grace period of each flavour in the batch. */
static void wait_for_readers(const struct pcp_grace *work)
{
	const struct rcu_flavor_struct *seen[FLAVORS];
	unsigned int nr = 0;

	for (; work; work = work->next) {
		unsigned int i = 0;

		while (i < nr && seen[i] != work->flavor)
			i++;
		if (i < nr)
			continue;
		if (nr < FLAVORS)
			seen[nr++] = work->flavor;
		synchronize(work->flavor);
	}
}

static void run(struct pcp_grace *work, bool on_worker)
{
	struct pcp_grace *next;

	for (; work; work = next) {
		const struct rcu_flavor_struct *flavor = work->flavor;
		bool reader = on_worker && work->user_code;

		/* fn may queue its work anew, or be the end of it. */
		next = work->next;
		if (reader) {
			begin_with(flavor);
			flavor->register_thread();
		}
		work->fn(work);
		if (reader) {
			flavor->unregister_thread();
			end_with();
		}
	}
}

/* Split off what runs last. */
static struct pcp_grace *split_last(struct pcp_grace **work)
{
	struct pcp_grace *last = NULL, **tail = &last;

	while (*work) {
		struct pcp_grace *g = *work;

		if (!g->last) {
			work = &g->next;
			continue;
		}
		*work = g->next;
		*tail = g;
		g->next = NULL;
		tail = &g->next;
	}
	return last;
}

/* CONTEXT: the caller is the runner; no lock held. */
static void run_batch(bool on_worker)
{
	struct pcp_grace *work, *last;

	pcp_store(&hurried, false);
	work = take_queue();
	if (!work)
		return;
	for (struct pcp_grace *g = work; g; g = g->next)
		if (g->seal)
			g->seal(g);
	PCP_HOOK(PCP_HOOK_GRACE_SEALED);
	wait_for_readers(work);
	last = split_last(&work);
	run(work, on_worker);
	run(last, on_worker);
}

static void become_runner(void)
{
	pcp_lock(&lock);
	while (running)
		pthread_cond_wait(&changed, &lock.mutex);
	running = true;
	runner = pthread_self();
	pcp_unlock(&lock);
}

static void futex_wait(uint32_t seen, uint64_t ns)
{
	struct timespec timeout = timespec_of(ns);

	/* Not a cancellation point. */
	(void)syscall(SYS_futex, &batches, FUTEX_WAIT_PRIVATE, seen, &timeout,
		      NULL, 0);
}

static void end_running(void)
{
	pcp_lock(&lock);
	running = false;
	pthread_cond_broadcast(&changed);
	pcp_unlock(&lock);
	/* What waiters ask for was done before. Sequentially consistent with
	 * the count of sleepers: either they see the new number, or are seen. */
	__atomic_fetch_add(&batches, 1U, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST))
		(void)syscall(SYS_futex, &batches, FUTEX_WAKE_PRIVATE, INT_MAX,
			      NULL, NULL, 0);
}

static void run_one_batch(bool on_worker)
{
	become_runner();
	run_batch(on_worker);
	end_running();
}

/* --- the thread ----------------------------------------------------------- */

static void linger(void)
{
#if HAVE_SEM_CLOCKWAIT
	struct timespec until = timespec_of(now_ns() + LINGER_NS);

	while (!pcp_load(&hurried))
		if (sem_clockwait(&wake, CLOCK_MONOTONIC, &until) &&
		    errno == ETIMEDOUT)
			break;
#else
	/* A hurry is heard at the end only. */
	struct timespec pause = timespec_of(LINGER_NS);

	if (!pcp_load(&hurried))
		(void)nanosleep(&pause, NULL);
#endif
}

static void *worker(void *unused)
{
	(void)unused;
	/* A thread that is pinned must not pin this one. */
	(void)syscall(SYS_sched_setaffinity, 0, sizeof(affinity), affinity);
	for (;;) {
		while (!pcp_load(&queue))
			(void)sem_wait(&wake);
		linger();
		run_one_batch(true);
	}
	return NULL;
}

void pcp_grace_kick(void)
{
	if (pcp_load(&started) || pcp_load(&lost) || !pcp_load(&queue) ||
	    pcp_xchg(&started, true))
		return;
	/* Tried again with the next work; a barrier does without. */
	if (pcp_thread_start(worker, "pcpool-rcu"))
		pcp_store(&started, false);
}

void pcp_grace_queue(struct pcp_grace *grace)
{
	struct pcp_grace *head = pcp_load(&queue);

	do
		grace->next = head;
	while (!pcp_cas(&queue, &head, grace));
	if (!head)
		sem_post(&wake);
}

bool pcp_grace_hurry(void)
{
	if (pcp_load(&hurried) || pcp_xchg(&hurried, true))
		return false;
	sem_post(&wake);
	return true;
}

uint64_t pcp_grace_batches(void)
{
	return pcp_load(&batches);
}

/* --- waiting -------------------------------------------------------------- */

static int wait_done(bool (*done)(void *arg), void *arg, uint64_t deadline_ns)
{
	for (;;) {
		/* Before the look, so that no end of a batch is missed. */
		uint32_t seen = __atomic_load_n(&batches, __ATOMIC_SEQ_CST);
		uint64_t now;

		if (done(arg))
			return 0;
		if (pcp_load(&lost))
			return ENOTRECOVERABLE;
		now = now_ns();
		if (now >= deadline_ns)
			return ETIMEDOUT;
		(void)pcp_grace_hurry();
		pcp_grace_kick();
		if (pcp_load(&started) || !pcp_load(&queue)) {
			futex_wait(seen, deadline_ns - now < LOOK_AGAIN_NS
						 ? deadline_ns - now
						 : LOOK_AGAIN_NS);
			continue;
		}
		/* Nobody else would do it: the thread cannot be had. */
		run_one_batch(false);
	}
}

static bool is_runner(void)
{
	bool mine;

	pcp_lock(&lock);
	mine = running && pthread_equal(runner, pthread_self());
	pcp_unlock(&lock);
	return mine;
}

int pcp_grace_wait(const struct rcu_flavor_struct *flavor,
		   bool (*done)(void *arg), void *arg, uint64_t deadline_ns)
{
	bool online;
	int err;

	pcp_assert_unlocked();
	if (is_runner())
		return EDEADLK;
	err = leave_readers(flavor, &online);
	if (err)
		return err;
	__atomic_fetch_add(&sleepers, 1U, __ATOMIC_SEQ_CST);
	err = wait_done(done, arg, deadline_ns);
	pcp_sub(&sleepers, 1U);
	if (online)
		flavor->thread_online();
	return err;
}

struct barrier {
	struct pcp_grace grace;
	struct pcp_grace *work; /* sealed and finished with it; or NULL */
	void (*finish)(struct pcp_grace *work);
	bool done;
};

static void barrier_seal(struct pcp_grace *grace)
{
	struct barrier *b = pcp_container_of(grace, struct barrier, grace);

	if (b->work)
		b->work->seal(b->work);
}

static void barrier_fn(struct pcp_grace *grace)
{
	struct barrier *b = pcp_container_of(grace, struct barrier, grace);

	if (b->work)
		b->finish(b->work);
	/* The last touch: the waiter's stack goes with its wait. Pairs with
	 * the acquire in barrier_done(). */
	pcp_store_release(&b->done, true);
}

static bool barrier_done(void *arg)
{
	return pcp_load_acquire(&((struct barrier *)arg)->done);
}

int pcp_grace_may_wait(const struct rcu_flavor_struct *flavor)
{
	bool online;
	int err;

	if (pcp_load(&lost))
		return ENOTRECOVERABLE;
	err = leave_readers(flavor, &online);
	if (online)
		flavor->thread_online();
	return is_runner() ? EDEADLK : err;
}

static int run_barrier(const struct rcu_flavor_struct *flavor,
		       struct pcp_grace *work,
		       void (*finish)(struct pcp_grace *work))
{
	struct barrier b = {
		.grace = {
			.flavor = flavor,
			.seal = barrier_seal,
			.fn = barrier_fn,
			.user_code = work && work->user_code,
			.last = true,
		},
		.work = work,
		.finish = finish,
	};
	int err = pcp_grace_may_wait(flavor);

	/* Nothing may be queued that lives on this stack and not waited for. */
	if (err)
		return err;
	pcp_grace_queue(&b.grace);
	return pcp_grace_wait(flavor, barrier_done, &b, UINT64_MAX);
}

int pcp_grace_barrier(const struct rcu_flavor_struct *flavor)
{
	return run_barrier(flavor, NULL, NULL);
}

int pcp_grace_barrier_of(struct pcp_grace *work,
			 void (*finish)(struct pcp_grace *work))
{
	return run_barrier(work->flavor, work, finish);
}

/* --- fork ----------------------------------------------------------------- */

PCP_NO_TSA static void fork_prepare(void)
{
	pcp_lock(&lock);
	pause_locked();
}

PCP_NO_TSA static void fork_parent(void)
{
	forking = false;
	pthread_cond_broadcast(&changed);
	pcp_unlock(&lock);
}

static void make_new(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attr);
	pthread_condattr_destroy(&attr);
	sem_init(&wake, 0, 0);
}

PCP_NO_TSA static void fork_child(void)
{
	/* The work is in its owners' hands: they queue it anew
	 * (pcp_stock_fork_child()). Barriers were on stacks of threads that do
	 * not exist. */
	if (syncing && !forked_here)
		pcp_store(&lost, true);
	pcp_thread_fork_child(forked_here);
	pcp_store(&queue, NULL);
	pcp_store(&started, false);
	pcp_store(&hurried, false);
	pcp_store(&sleepers, 0U);
	syncing = NULL;
	running = forking = false;
	make_new();
	pcp_lock_reinit(&lock);
}

static void init_once(void)
{
	static const struct pcp_fork_ops ops = {
		.prepare = fork_prepare,
		.parent = fork_parent,
		.child = fork_child,
	};

	(void)syscall(SYS_sched_getaffinity, 0, sizeof(affinity), affinity);
	make_new();
	pcp_fork_register(PCP_FORK_GRACE, &ops);
}

void pcp_grace_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
}

/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees at the ends of things: a cache destroyed while frees are under
 * way, a process that forks, one that may not have another thread.
 */
#include <config.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../caches.h"
#include "../rcu.h"
#include "../suite.h"

enum { CAPACITY = 8, N = 5 * CAPACITY };

static struct sheet sheet;
static struct pcpool_cache *cache;

static void make(const struct rcu_flavor_struct *flavor, unsigned int flags)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	sheet = (struct sheet){ .fill = 64 };
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	attr.flags = flags;
	attr.sheaf_capacity = CAPACITY;
	attr.rcu = flavor;
	cache = pcpool_cache_create("life", 64, &attr);
	expect(cache);
}

static void defer(uint32_t n)
{
	void *objs[N];

	expect_eq(pcpool_alloc_bulk(cache, n, objs), 0);
	for (uint32_t i = 0; i < n; i++)
		pcpool_free_rcu(cache, objs[i]);
}

/* --- destroy ---------------------------------------------------------------- */

static atomic_bool gone;

static void *destroyer(void *arg)
{
	pin_to(0);
	expect_eq(pcpool_cache_destroy(arg), 0);
	atomic_store(&gone, true);
	return NULL;
}

static void look_at(void *obj)
{
	sheet_pattern_check(obj, 64);
}

/* No destructor before the reader has left. _i: the flavour. */
START_TEST(test_destroy_waits)
{
	const struct rcu_flavor_struct *flavor = flavors[_i];
	const struct timespec moment = { 0, 20000000 };

	for (int round = 0; round < 3; round++) {
		struct reader reader = { .look = look_at };
		pthread_t thread;

		make(flavor, round == 1 ? PCPOOL_CHECK : 0);
		reader.arg = must_alloc(cache);
		reader_start(&reader, flavor);
		pcpool_free_rcu(cache, reader.arg);
		/* Part-filled, or whole sheaves as well. */
		if (round)
			defer(N);
		atomic_store(&sheet.no_dtor, true);
		atomic_store(&gone, false);
		expect(!pthread_create(&thread, NULL, destroyer, cache));
		nanosleep(&moment, NULL);
		expect(!atomic_load(&gone));
		atomic_store(&sheet.no_dtor, false);
		reader_end(&reader);
		expect(!pthread_join(thread, NULL));
		sheet_balanced(&sheet);
	}
}
END_TEST

/* Refused for what is out, with frees under way: nothing was destructed, and
 * what was deferred comes back. */
START_TEST(test_destroy_busy)
{
	void *obj;

	make(NULL, 0);
	atomic_store(&sheet.no_dtor, true);
	obj = must_alloc(cache);
	for (int i = 0; i < 20; i++) {
		defer(N);
		expect_eq(pcpool_cache_destroy(cache), EBUSY);
		expect_eq(stats_of(cache).live, 1);
		expect_eq(pcpool_rcu_backlog(cache), 0);
	}
	atomic_store(&sheet.no_dtor, false);
	pcpool_free_rcu(cache, obj);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* --- case SHF-02 ------------------------------------------------------------ */

struct shf02 {
	struct pcpool_cache *cache, *busy;
	atomic_bool stop;
	/* Reader: how often it came out; what it sees inside. */
	_Atomic(uint64_t *) seen;
};

enum { DEFERRERS = 4 };

static void shf02_deferrer(const struct worker *w)
{
	struct shf02 *s = w->arg;

	for (unsigned long i = scaled(2500); i; i--) {
		uint64_t *obj = must_alloc(s->cache);

		sheet_pattern_check(obj, 64);
		atomic_store(&s->seen, obj);
		pcpool_free_rcu(s->cache, obj);
	}
}

/* Looks at one object for 50 ms, which is not destructed meanwhile: destructors
 * spoil what they destruct. */
static void *shf02_reader(void *arg)
{
	const struct timespec hold = { 0, 50000000 };
	struct shf02 *s = arg;

	pin_to(1);
	urcu_memb_flavor.register_thread();
	while (!atomic_load(&s->stop)) {
		uint64_t *obj;

		urcu_memb_flavor.read_lock();
		obj = atomic_exchange(&s->seen, NULL);
		if (obj)
			sheet_pattern_check(obj, 64);
		nanosleep(&hold, NULL);
		if (obj)
			sheet_pattern_check(obj, 64);
		urcu_memb_flavor.read_unlock();
		sched_yield();
	}
	urcu_memb_flavor.unregister_thread();
	return NULL;
}

static void *shf02_busy(void *arg)
{
	struct shf02 *s = arg;

	while (!atomic_load(&s->stop)) {
		void *objs[20];

		expect_eq(pcpool_alloc_bulk(s->busy, 20, objs), 0);
		for (int i = 0; i < 20; i++)
			pcpool_free_rcu(s->busy, objs[i]);
		expect_eq(pcpool_rcu_wait(s->busy, 100, -1), 0);
	}
	return NULL;
}

static void spoiling_dtor(void *obj, void *arg)
{
	sheet_dtor(obj, arg);
	memset(obj, 0x5a, 64);
}

START_TEST(case_SHF_02_destroy_beside_deferred)
{
	struct sheet busy_sheet = { .clear = 8 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct shf02 s = { 0 };
	pthread_t reader, busy;

	s.busy = sheet_cache_of("busy", 64, &busy_sheet, 0, CAPACITY);
	expect(!pthread_create(&reader, NULL, shf02_reader, &s));
	expect(!pthread_create(&busy, NULL, shf02_busy, &s));
	for (int round = 0; round < 20; round++) {
		sheet = (struct sheet){ .fill = 64 };
		attr.ctor = sheet_ctor;
		attr.dtor = spoiling_dtor;
		attr.arg = &sheet;
		attr.sheaf_capacity = round % 3 ? 16 : 0;
		attr.flags = round % 4 == 3 ? PCPOOL_TYPESAFE_BY_RCU : 0;
		s.cache = pcpool_cache_create("shf02", 64, &attr);
		expect(s.cache);
		run_threads(DEFERRERS, shf02_deferrer, &s);
		/* Of a cache that is gone nothing may be looked at anew. */
		atomic_store(&s.seen, NULL);
		destroy_balanced(s.cache, &sheet);
	}
	atomic_store(&s.stop, true);
	pthread_join(reader, NULL);
	pthread_join(busy, NULL);
	destroy_balanced(s.busy, &busy_sheet);
}
END_TEST

/* --- forks ------------------------------------------------------------------ */

static struct child child;

/* What waits in the parent waits in the child, and comes back there. */
static void child_waits(void *arg)
{
	(void)arg;
	expect_eq(pcpool_rcu_barrier(cache), 0);
	expect_eq(pcpool_rcu_backlog(cache), 0);
	defer(N);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	expect_eq(pcpool_rcu_backlog(cache), 0);
	expect_eq(stats_of(cache).lost_in_fork, 0);
	destroy_balanced(cache, &sheet);
}

/* _i: flags. */
START_TEST(test_fork)
{
	make(NULL, (unsigned int)_i);
	for (int round = 0; round < 5; round++) {
		/* In sheaves of slots; of the parent nothing is under way. */
		defer(CAPACITY / 2);
		if (_i & (int)PCPOOL_CHECK)
			expect_eq(pcpool_rcu_barrier(cache), 0);
		run_child(child_waits, NULL, 20, &child);
		expect_child_exit(&child, 0);
		expect_eq(pcpool_rcu_barrier(cache), 0);
	}
	destroy_balanced(cache, &sheet);
}
END_TEST

/* A reader that stays: the child is told that nothing comes back, and can use
 * the cache for everything else. */
static void child_is_lost(void *arg)
{
	void *objs[N];

	(void)arg;
	expect_eq(pcpool_rcu_barrier(cache), ENOTRECOVERABLE);
	expect_eq(pcpool_rcu_wait(cache, 1, -1), ENOTRECOVERABLE);
	expect_eq(pcpool_rcu_wait(cache, 1, 0), ETIMEDOUT);
	expect_cmp(pcpool_rcu_backlog(cache), >=, N);
	expect_eq(pcpool_alloc_bulk(cache, N, objs), 0);
	for (int i = 0; i < N; i++)
		sheet_pattern_check(objs[i], 64);
	expect_eq(pcpool_free_bulk(cache, N, objs), 0);
	defer(N);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(pcpool_cache_destroy(cache), ENOTRECOVERABLE);
	expect_eq(pcpool_alloc_bulk(cache, N, objs), 0);
	expect_eq(pcpool_free_bulk(cache, N, objs), 0);
}

START_TEST(test_fork_lost)
{
	struct reader reader = { 0 };
	void *objs[N];

	make(NULL, 0);
	expect_eq(pcpool_alloc_bulk(cache, N, objs), 0);
	reader_start(&reader, &urcu_memb_flavor);
	for (int i = 0; i < N; i++)
		pcpool_free_rcu(cache, objs[i]);
	/* By now the grace period that never ends has begun. */
	expect_eq(pcpool_rcu_wait(cache, 1, 100), ETIMEDOUT);
	run_child(child_is_lost, NULL, 30, &child);
	expect_child_exit(&child, 0);
	/* Nothing is lost here. */
	expect_eq(pcpool_rcu_backlog(cache), N);
	reader_end(&reader);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* --- case THR-03 (b) -------------------------------------------------------- */

/* From now on the kernel makes no thread. False: there is no such filter. */
static bool forbid_threads(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *nothing(void *arg)
{
	return arg;
}

static void without_threads(void *arg)
{
	unsigned int flags = *(unsigned int *)arg;
	pthread_t thread;

	if (!forbid_threads())
		_exit(TEST_SKIP);
	/* An emulator may see to it otherwise. */
	if (!pthread_create(&thread, NULL, nothing, NULL))
		_exit(TEST_SKIP);
	make(NULL, flags);
	for (int round = 0; round < 20; round++) {
		defer(N);
		if (round % 3 == 1)
			expect_eq(pcpool_rcu_wait(cache, 1, -1), 0);
		if (round % 3 == 2) {
			expect_eq(pcpool_rcu_barrier(cache), 0);
			expect_eq(pcpool_rcu_backlog(cache), 0);
		}
		expect_eq(pcpool_cache_shrink(cache), 0);
	}
	/* A shrink waits where it has to, and does it then. */
	expect_eq(pcpool_rcu_backlog(cache) > 0, !flags);
	destroy_balanced(cache, &sheet);
}

/* No thread to be had: nothing aborts, nothing is lost, who waits does it. */
START_TEST(case_THR_03_no_thread)
{
	unsigned int flags = (unsigned int)_i;

	run_child(without_threads, &flags, 20, &child);
	if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == TEST_SKIP)
		fprintf(stderr, "note: threads cannot be forbidden here\n");
	else
		expect_child_exit(&child, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("rcu-life", 120);

	tcase_add_loop_test(tc, test_destroy_waits, 0, FLAVORS);
	tcase_add_test(tc, test_destroy_busy);
	tcase_add_test(tc, case_SHF_02_destroy_beside_deferred);
	if (!TEST_TSAN) {
		/* The thread sanitizer has no threads after a fork. */
		tcase_add_loop_test(tc, test_fork, 0, 1);
		tcase_add_loop_test(tc, test_fork, PCPOOL_CHECK,
				    PCPOOL_CHECK + 1);
		tcase_add_loop_test(tc, test_fork, PCPOOL_TYPESAFE_BY_RCU,
				    PCPOOL_TYPESAFE_BY_RCU + 1);
		tcase_add_test(tc, test_fork_lost);
		tcase_add_loop_test(tc, case_THR_03_no_thread, 0, 1);
		tcase_add_loop_test(tc, case_THR_03_no_thread,
				    PCPOOL_TYPESAFE_BY_RCU,
				    PCPOOL_TYPESAFE_BY_RCU + 1);
	}
	return suite_run(tc);
}

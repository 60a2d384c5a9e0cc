/* SPDX-License-Identifier: MIT */
/*
 * Forks of a busy process: the child works at once and shares nothing, and the
 * parent's balance stays exact. test_fork_balance.c has the child's balance.
 */
#include <config.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../caches.h"
#include "../suite.h"

/* The address sanitizer's allocator does not hold its locks over a fork, so a
 * child may find one taken for ever: no verdict then. */
enum { THREADS = 8, FORKS = 300, CHILD_SECONDS = TEST_ASAN ? 4 : 20 };

/* --- every call, once ----------------------------------------------------- */

static void every_call(struct pcpool_cache *shared)
{
	struct sheet sheet = { .fill = 100 };
	struct pcpool_cache *own = sheet_cache("own", 100, &sheet);
	void *objs[40], *regions[2];

	expect_eq(pcpool_alloc_bulk(own, 40, objs), 0);
	for (int i = 0; i < 40; i++)
		sheet_pattern_check(objs[i], 100);
	expect_eq(pcpool_discard(own, objs[39]), 0);
	expect_eq(pcpool_free_bulk(own, 39, objs), 0);
	expect(objs[0] = pcpool_alloc_node(own, 0));
	pcpool_free(own, objs[0]);
	stats_of(own);
	expect_eq(pcpool_cache_shrink(own), 0);
	destroy_balanced(own, &sheet);
	expect_eq(pcpool_percpu_alloc_bulk(2, 24, 8, regions), 0);
	pcpool_this_cpu_add_u64(regions[0], 5);
	expect_eq(pcpool_percpu_sum_u64(regions[0]), 5);
	expect_eq(pcpool_percpu_sum_u64(regions[1]), 0);
	expect_eq(pcpool_percpu_free_bulk(2, regions), 0);
	expect(pcpool_this_slot() < pcpool_nr_slots());
	if (!shared)
		return;
	pcpool_free(shared, must_alloc(shared));
	expect_eq(pcpool_alloc_bulk(shared, 40, objs), 0);
	expect_eq(pcpool_free_bulk(shared, 40, objs), 0);
	stats_of(shared);
	expect_eq(pcpool_cache_shrink(shared), 0);
}

/* Those of deferred frees: apart, since waiting takes many a turn of the CPU
 * where threads are busy. */
static void every_rcu_call(struct pcpool_cache *shared)
{
	for (int i = 0; i < 40; i++)
		pcpool_free_rcu(shared, must_alloc(shared));
	expect_eq(pcpool_rcu_wait(shared, 1, -1), 0);
	expect_eq(pcpool_rcu_barrier(shared), 0);
	pcpool_rcu_backlog(shared);
}

/* Not run_child(): 300 pipes and polls would hide how long a fork takes. */
static pid_t fork_child(void (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	expect(pid >= 0);
	if (!pid) {
		kill_after(CHILD_SECONDS);
		fn(arg);
		_exit(0);
	}
	return pid;
}

static void reap(pid_t pid, int nth)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		expect_eq(errno, EINTR);
	if (TEST_ASAN && was_hung(status)) {
		fprintf(stderr, "note: child of fork %d hung\n", nth);
		return;
	}
	if (WIFSIGNALED(status))
		fail_now("child of fork %d: signal %d%s", nth, WTERMSIG(status),
			 was_hung(status) ? " (hung)" : "");
	if (WEXITSTATUS(status))
		fail_now("child of fork %d: status %d", nth,
			 WEXITSTATUS(status));
}

/* --- a busy parent -------------------------------------------------------- */

struct busy {
	struct pcpool_cache *cache[3];
	struct sheet sheet[3];
	atomic_bool stop;
};

static void use_all(struct busy *busy, struct rng *rng, uint64_t id)
{
	struct pcpool_cache *cache = busy->cache[rng_below(rng, 3)];
	void *objs[70], *region;
	uint32_t n = 1 + rng_below(rng, 70);

	switch (rng_below(rng, 10)) {
	case 0:
		every_call(NULL);
		break;
	case 1:
		expect_eq(pcpool_cache_shrink(cache), 0);
		break;
	case 2:
		stats_of(cache);
		percpu_stats_of();
		break;
	case 3:
		region = pcpool_percpu_alloc(8 * n, 8);
		expect(region);
		pcpool_this_cpu_add_u64(region, n);
		expect_eq(pcpool_percpu_sum_u64(region), n);
		pcpool_percpu_free(region);
		break;
	case 4:
		expect_eq(pcpool_discard(cache, must_alloc(cache)), 0);
		break;
	case 5:
		/* Of one cache only, as in the child. */
		cache = busy->cache[0];
		while (n--)
			pcpool_free_rcu(cache, must_alloc(cache));
		if (rng_below(rng, 8) == 0)
			every_rcu_call(cache);
		else
			expect_eq(pcpool_rcu_wait(cache, 500, -1), 0);
		break;
	default:
		expect_eq(pcpool_alloc_bulk(cache, n, objs), 0);
		for (uint32_t i = 0; i < n; i++)
			owner_take(objs[i], id);
		for (uint32_t i = 0; i < n; i++) {
			owner_leave(objs[i], id);
			pcpool_free(cache, objs[i]);
		}
	}
}

static atomic_uint thread_ids;

static void *busy_thread(void *arg)
{
	struct busy *busy = arg;
	unsigned int id = atomic_fetch_add(&thread_ids, 1);
	struct rng rng;

	/* Not pinned: threads beside each other in a process that forks were
	 * seen to stand still for seconds on Linux 6.18, inside the kernel. */
	rng_seed(&rng, id);
	while (!atomic_load(&busy->stop))
		use_all(busy, &rng, id + 1);
	return NULL;
}

static void child_of_busy(void *arg)
{
	struct busy *busy = arg;

	for (int i = 0; i < 3; i++) {
		struct pcpool_cache_stats stats;

		if (!i)
			every_rcu_call(busy->cache[0]);
		every_call(busy->cache[i]);
		stats = stats_of(busy->cache[i]);
		expect_eq(stats.cached, 0);
		expect_eq(stats.rcu_backlog, 0);
		/* What threads had in their own hands stays out for good. */
		if (!stats.live) {
			struct sheet *sheet = &busy->sheet[i];
			unsigned long long off;

			must_destroy(busy->cache[i]);
			/* A thread may have been inside a callback, on either
			 * side of the sheet's own counting. */
			off = sheet->ok - sheet->dtor - stats.lost_in_fork +
			      THREADS;
			expect_cmp(off, <=, 2 * THREADS);
		} else {
			int err = pcpool_cache_destroy(busy->cache[i]);

			expect_eq(err, EBUSY);
			every_call(busy->cache[i]);
		}
	}
}

START_TEST(case_FRK_01_child_of_a_busy_process)
{
	struct busy busy = { 0 };
	pthread_t threads[THREADS];
	pid_t pid[2];

	for (int i = 0; i < 3; i++) {
		busy.sheet[i].clear = 8;
		busy.cache[i] = sheet_cache("busy", (size_t)8 << (3 * i),
					    &busy.sheet[i]);
	}
	for (int i = 0; i < THREADS; i++)
		expect(!pthread_create(&threads[i], NULL, busy_thread, &busy));
	for (int i = 0; i < (int)scaled(FORKS); i += 2) {
		pid[0] = fork_child(child_of_busy, &busy);
		pid[1] = fork_child(child_of_busy, &busy);
		reap(pid[0], i);
		reap(pid[1], i + 1);
	}
	atomic_store(&busy.stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++) {
		struct pcpool_cache_stats stats = stats_of(busy.cache[i]);

		expect_eq(stats.live, 0);
		expect_eq(stats.free_rcu_sheaf + stats.free_rcu_sheaf_fail > 0,
			  i == 0);
		expect_eq(stats.lost_in_fork, 0);
		expect_eq(stats.ctor_ok, busy.sheet[i].ok);
		destroy_balanced(busy.cache[i], &busy.sheet[i]);
	}
}
END_TEST

/* The very first call of the process races with forks. */
static void *first_call(void *arg)
{
	(void)arg;
	every_call(NULL);
	return NULL;
}

static void first_call_in_child(void *arg)
{
	first_call(arg);
}

static void first_use(void *arg)
{
	pthread_t threads[4];
	pid_t pids[8];

	for (int i = 0; i < 4; i++)
		expect(!pthread_create(&threads[i], NULL, first_call, NULL));
	for (int i = 0; i < 8; i++)
		pids[i] = fork_child(first_call_in_child, NULL);
	for (int i = 0; i < 8; i++)
		reap(pids[i], i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	(void)arg;
}

START_TEST(case_FRK_01_first_use_races_with_fork)
{
	for (int i = 0; i < 20; i++) {
		static struct child child;

		run_child(first_use, NULL, 60, &child);
		expect_child_exit(&child, 0);
	}
}
END_TEST

/* --- memory is the child's own -------------------------------------------- */

struct region_pair {
	uint64_t *counter;
	struct pcpool_cache *cache;
	uint64_t *obj;
};

static void region_child(void *arg)
{
	struct region_pair *pair = arg;
	unsigned int slots = pcpool_nr_slots();

	expect_eq(pcpool_percpu_sum_u64(pair->counter), 1000);
	for (unsigned int s = 0; s < slots; s++)
		*(uint64_t *)pcpool_percpu_ptr(pair->counter, s) = 77;
	pcpool_this_cpu_add_u64(pair->counter, 1);
	expect_eq(pcpool_percpu_sum_u64(pair->counter), 77 * slots + 1);
	pcpool_percpu_free(pair->counter);
	expect_eq(*pair->obj, 4711);
	*pair->obj = 1;
	pcpool_free(pair->cache, pair->obj);
	must_destroy(pair->cache);
	/* With exit(), so that whatever the library registered runs. */
	exit(0);
}

static unsigned int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	expect(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

START_TEST(case_PCP_02_child_shares_nothing)
{
	struct region_pair pair;
	unsigned int files;

	pair.counter = pcpool_percpu_alloc(64, 8);
	pair.cache = pcpool_cache_create("pair", 64, NULL);
	expect(pair.counter && pair.cache);
	pair.obj = must_alloc(pair.cache);
	*pair.obj = 4711;
	pcpool_this_cpu_add_u64(pair.counter, 1000);
	files = open_files();
	for (int i = 0; i < 20; i++) {
		reap(fork_child(region_child, &pair), i);
		expect_eq(pcpool_percpu_sum_u64(pair.counter), 1000);
		expect_eq(*pair.obj, 4711);
	}
	expect_eq(open_files(), files);
	pcpool_percpu_free(pair.counter);
	pcpool_free(pair.cache, pair.obj);
	must_destroy(pair.cache);
}
END_TEST

/* Children of children, each with a fresh thread. */
static void generation(void *arg)
{
	int left = *(int *)arg;
	pthread_t thread;

	every_call(NULL);
	expect(!pthread_create(&thread, NULL, first_call, NULL));
	if (left--)
		reap(fork_child(generation, &left), left);
	expect(!pthread_join(thread, NULL));
}

START_TEST(test_generations)
{
	int left = 10;

	generation(&left);
}
END_TEST

/* --- the application's own handlers --------------------------------------- */

static atomic_uint handled;

static void on_fork(void)
{
	every_call(NULL);
	atomic_fetch_add(&handled, 1);
}

static void count_handled(void *arg)
{
	(void)arg;
	expect_eq(atomic_load(&handled), 2);
	every_call(NULL);
}

/* Entered after the library's, they run outside of its own on either side. */
START_TEST(test_handlers_use_the_library)
{
	every_call(NULL);
	expect(!pthread_atfork(on_fork, on_fork, on_fork));
	reap(fork_child(count_handled, NULL), 0);
	expect_eq(atomic_load(&handled), 2);
	every_call(NULL);
}
END_TEST

static atomic_bool enough;

static void *tend_and_tell(void *unused)
{
	struct pcpool_memory_stats memory = { .stats_size = sizeof(memory) };
	int null = open("/dev/null", O_WRONLY);

	while (!atomic_load(&enough)) {
		expect_eq(pcpool_maintain(0), 0);
		expect_eq(pcpool_memory_get_stats(&memory), 0);
		percpu_stats_of();
		expect_eq(pcpool_print(null), 0);
	}
	close(null);
	return unused;
}

static void tend_and_use(void *arg)
{
	(void)arg;
	expect_eq(pcpool_maintain(0), 0);
	every_call(NULL);
	expect_eq(pcpool_maintain(0), 0);
}

/* Before there is a cache, in calls that are about all of them. */
START_TEST(test_tended_before_the_first_cache)
{
	pthread_t thread;

	expect(!pthread_create(&thread, NULL, tend_and_tell, NULL));
	for (unsigned long i = scaled(100); i; i--)
		reap(fork_child(tend_and_use, NULL), 0);
	atomic_store(&enough, true);
	expect(!pthread_join(thread, NULL));
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fork", 300);

	if (TEST_TSAN)
		skip_test("the thread sanitizer has no threads after a fork");
	tcase_add_test(tc, case_FRK_01_child_of_a_busy_process);
	tcase_add_test(tc, case_FRK_01_first_use_races_with_fork);
	tcase_add_test(tc, case_PCP_02_child_shares_nothing);
	tcase_add_test(tc, test_generations);
	tcase_add_test(tc, test_handlers_use_the_library);
	tcase_add_test(tc, test_tended_before_the_first_cache);
	return suite_run(tc);
}

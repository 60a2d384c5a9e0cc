/* SPDX-License-Identifier: MIT */
/*
 * Surroundings that a daemon may have: small stacks, locked memory, limits on
 * data, an application's own locks around and inside every callback, a reader
 * that does not read, chains of objects, very many caches.
 */
#include <config.h>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../caches.h"
#include "../suite.h"

/* --- small stacks --------------------------------------------------------- */

static void *on_small_stack(void *arg)
{
	struct sheet sheet = { .fill = 24 };
	struct pcpool_cache *cache = sheet_cache("small", 24, &sheet);
	void *objs[100], *region;
	int null = open("/dev/null", O_WRONLY);

	for (int round = 0; round < 20; round++) {
		expect_eq(pcpool_alloc_bulk(cache, 100, objs), 0);
		expect_eq(pcpool_free_bulk(cache, 100, objs), 0);
		pcpool_free(cache, must_alloc(cache));
	}
	region = pcpool_percpu_alloc(64, 8);
	expect(region);
	pcpool_percpu_free(region);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(pcpool_print(null), 0);
	close(null);
	destroy_balanced(cache, &sheet);
	return arg;
}

START_TEST(test_small_stack)
{
	pthread_attr_t attr;
	pthread_t thread;
	size_t size = 32768;

	if (TEST_ASAN || TEST_TSAN)
		return; /* their frames are larger */
	if (size < (size_t)PTHREAD_STACK_MIN)
		size = (size_t)PTHREAD_STACK_MIN;
	expect(!pthread_attr_init(&attr));
	expect(!pthread_attr_setstacksize(&attr, size));
	expect(!pthread_create(&thread, &attr, on_small_stack, NULL));
	expect(!pthread_join(thread, NULL));
	pthread_attr_destroy(&attr);
}
END_TEST

/* --- locked memory -------------------------------------------------------- */

static void locked(void *arg)
{
	struct sheet sheet = { .fill = 500 };
	struct pcpool_cache *cache;
	void *objs[400], *regions[20];

	(void)arg;
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		_exit(TEST_SKIP);
	cache = sheet_cache("locked", 500, &sheet);
	for (int round = 0; round < 5; round++) {
		if (pcpool_alloc_bulk(cache, 400, objs))
			_exit(TEST_SKIP); /* the limit is too small */
		for (int i = 0; i < 400; i++)
			sheet_pattern_check(objs[i], 500);
		expect_eq(pcpool_free_bulk(cache, 400, objs), 0);
		expect_eq(pcpool_cache_shrink(cache), 0);
		expect_eq(stats_of(cache).slabs, 0);
		/* Zeroed, though the pages could not be given back. */
		if (pcpool_percpu_alloc_bulk(20, 3000, 8, regions))
			_exit(TEST_SKIP);
		for (int i = 0; i < 20; i++)
			for (unsigned int s = 0; s < pcpool_nr_slots(); s++) {
				char *p = pcpool_percpu_ptr(regions[i], s);

				for (int j = 0; j < 3000; j++)
					expect_eq(p[j], 0);
				memset(p, 0xee, 3000);
			}
		expect_eq(pcpool_percpu_free_bulk(20, regions), 0);
	}
	destroy_balanced(cache, &sheet);
}

START_TEST(test_locked_memory)
{
	static struct child child;

	if (TEST_ASAN || TEST_TSAN)
		return; /* terabytes of shadow cannot be locked */
	run_child(locked, NULL, 60, &child);
	if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == TEST_SKIP)
		return;
	expect_child_exit(&child, 0);
}
END_TEST

/* --- a limit on data ------------------------------------------------------ */

static void data_limit(void *arg)
{
	struct sheet sheet = { .clear = 8 };
	struct pcpool_cache *cache = sheet_cache("data", 4000, &sheet);
	static void *objs[40000];
	struct rlimit limit;
	size_t n = 0;

	(void)arg;
	expect(!getrlimit(RLIMIT_DATA, &limit));
	limit.rlim_cur = 24 << 20;
	expect(!setrlimit(RLIMIT_DATA, &limit));
	while (n < 40000 && (objs[n] = pcpool_alloc(cache)))
		n++;
	expect_errno(ENOMEM);
	expect_eq(stats_of(cache).live, n);
	expect_eq(pcpool_free_bulk(cache, n, objs), 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).slabs, 0);
	limit.rlim_cur = limit.rlim_max;
	expect(!setrlimit(RLIMIT_DATA, &limit));
	expect_eq(pcpool_alloc_bulk(cache, 20000, objs), 0);
	expect_eq(pcpool_free_bulk(cache, 20000, objs), 0);
	destroy_balanced(cache, &sheet);
}

START_TEST(test_data_limit)
{
	static struct child child;

	if (TEST_ASAN || TEST_TSAN || TEST_EMULATED)
		return;
	run_child(data_limit, NULL, 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* --- the application's own lock ------------------------------------------- */

static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sheet locked_sheet;

static int locking_ctor(void *obj, void *arg)
{
	int err;

	pthread_mutex_lock(&big_lock);
	err = sheet_ctor(obj, arg);
	pthread_mutex_unlock(&big_lock);
	return err;
}

static void locking_dtor(void *obj, void *arg)
{
	pthread_mutex_lock(&big_lock);
	sheet_dtor(obj, arg);
	pthread_mutex_unlock(&big_lock);
}

/* Frees under the lock that the destructor takes: never runs it. And takes the
 * library's locks within its own, which callbacks take within theirs. */
static void under_lock(const struct worker *w)
{
	struct pcpool_cache *cache = w->arg;
	struct pcpool_cache_stats stats = { .stats_size = sizeof(stats) };
	void *objs[60];

	for (int i = 0; i < 400; i++) {
		expect_eq(pcpool_alloc_bulk(cache, 60, objs), 0);
		pthread_mutex_lock(&big_lock);
		expect_eq(pcpool_free_bulk(cache, 30, objs), 0);
		for (int j = 30; j < 60; j++)
			pcpool_free(cache, objs[j]);
		expect_eq(pcpool_cache_get_stats(cache, &stats), 0);
		pthread_mutex_unlock(&big_lock);
		if (i % 5 == 0)
			expect_eq(pcpool_cache_shrink(cache), 0);
	}
}

START_TEST(test_applications_lock)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;

	attr.ctor = locking_ctor;
	attr.dtor = locking_dtor;
	attr.arg = &locked_sheet;
	cache = pcpool_cache_create("lock", 100, &attr);
	run_threads(6, under_lock, cache);
	destroy_balanced(cache, &locked_sheet);
}
END_TEST

/* --- a reader that does not read ------------------------------------------ */

static int print_to;

static void noop(void *arg)
{
	(void)arg;
}

static void *print_thread(void *arg)
{
	for (int i = 0; i < 20; i++)
		expect_eq(pcpool_print(print_to), 0);
	close(print_to);
	return arg;
}

static void use_all(void)
{
	struct sheet sheet = { .fill = 24 };
	struct pcpool_cache *cache = sheet_cache("beside", 24, &sheet);
	struct child *child = calloc(1, sizeof(*child));

	pcpool_free(cache, must_alloc(cache));
	expect_eq(pcpool_cache_shrink(cache), 0);
	stats_of(cache);
	pcpool_percpu_free(pcpool_percpu_alloc(8, 8));
	if (!TEST_TSAN) {
		run_child(noop, NULL, 20, child);
		expect_child_exit(child, 0);
	}
	free(child);
	destroy_balanced(cache, &sheet);
}

/* Everybody else goes on while the text waits to be read. */
START_TEST(test_print_blocks_nobody)
{
	struct pcpool_cache *many[100];
	static char buf[65536];
	pthread_t thread;
	struct pollfd room;
	int pipes[2];

	for (int i = 0; i < 100; i++)
		many[i] = pcpool_cache_create("many", 64, NULL);
	expect(!pipe(pipes));
	print_to = pipes[1];
	expect(!pthread_create(&thread, NULL, print_thread, NULL));
	/* Until the pipe takes no more, twice a while apart. */
	room = (struct pollfd){ .fd = pipes[1], .events = POLLOUT };
	do {
		while (poll(&room, 1, 0) > 0)
			usleep(1000);
		usleep(50000);
	} while (poll(&room, 1, 0) > 0);
	use_all();
	while (read(pipes[0], buf, sizeof(buf)) > 0)
		;
	expect(!pthread_join(thread, NULL));
	for (int i = 0; i < 100; i++)
		must_destroy(many[i]);
}
END_TEST

/* --- chains --------------------------------------------------------------- */

struct link {
	struct link *next;
	struct pcpool_cache *cache;
};

static int link_ctor(void *obj, void *arg)
{
	(void)arg;
	((struct link *)obj)->next = NULL;
	return 0;
}

static void link_dtor(void *obj, void *arg)
{
	struct link *link = obj;

	(void)arg;
	if (link->next)
		pcpool_free(link->cache, link->next);
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (void *const *)a;
	uintptr_t y = (uintptr_t) * (void *const *)b;

	return x < y ? -1 : x > y;
}

static void *free_it(void *obj)
{
	pcpool_free(((struct link *)obj)->cache, obj);
	return NULL;
}

/* One object left in each slab, and each destructor frees the next one's:
 * however long the chain is, the stack does not grow with it. */
static void chain(void *arg)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	static struct link *objs[16000];
	const size_t n = sizeof(objs) / sizeof(objs[0]);
	struct pcpool_cache *cache;
	struct link *head = NULL;
	pthread_attr_t small;
	uintptr_t slab_size;
	pthread_t thread;

	attr.ctor = link_ctor;
	attr.dtor = link_dtor;
	attr.flags = *(unsigned int *)arg;
	attr.sheaf_capacity = 1;
	attr.min_partial = 1;
	cache = pcpool_cache_create("chain", 60000, &attr);
	slab_size = stats_of(cache).slab_size;
	expect_eq(pcpool_alloc_bulk(cache, n, (void **)objs), 0);
	qsort(objs, n, sizeof(objs[0]), by_address);
	for (size_t i = 0; i < n; i++) {
		if (head && (uintptr_t)head / slab_size ==
				    (uintptr_t)objs[i] / slab_size) {
			pcpool_free(cache, objs[i]);
			continue;
		}
		objs[i]->cache = cache;
		objs[i]->next = head;
		head = objs[i];
	}
	expect(stats_of(cache).live > 1000);
	expect(!pthread_attr_init(&small));
	expect(!pthread_attr_setstacksize(&small, 131072));
	expect(!pthread_create(&thread, &small, free_it, head));
	expect(!pthread_join(thread, NULL));
	/* Each shrink may make the next one's work. */
	for (size_t i = 0; i < n && stats_of(cache).live; i++)
		expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(stats_of(cache).live, 0);
	must_destroy(cache);
}

START_TEST(test_chain_of_destructors)
{
	static unsigned int flags[] = {
		0, PCPOOL_DTOR_ON_FREE,
		/* Past the stocks, straight to slabs. */
		PCPOOL_DTOR_ON_FREE | PCPOOL_CHECK
	};
	static struct child child;

	for (int i = 0; i < 3; i++) {
		run_child(chain, &flags[i], 60, &child);
		if (child.status)
			fprintf(stderr, "flags %u:\n", flags[i]);
		expect_child_exit(&child, 0);
	}
}
END_TEST

/* --- very many caches ----------------------------------------------------- */

static void very_many(void *arg)
{
	enum { MANY = 40000 };
	static struct pcpool_cache *caches[MANY];
	int n = 0;

	(void)arg;
	for (; n < MANY; n++) {
		caches[n] = pcpool_cache_create("many", 64, NULL);
		if (!caches[n]) {
			expect_errno(ENOMEM);
			break;
		}
		if (n % 100 == 0)
			pcpool_free(caches[n], must_alloc(caches[n]));
	}
	fprintf(stderr, "note: %d caches\n", n);
	expect_cmp(n, >=, 10000);
	/* Not in the order they came in. */
	for (int i = 0; i < n; i += 2)
		must_destroy(caches[i]);
	for (int i = n - 1 - n % 2; i > 0; i -= 2)
		must_destroy(caches[i]);
}

START_TEST(test_very_many_caches)
{
	static struct child child;

	if (TEST_ASAN || TEST_TSAN)
		return;
	run_child(very_many, NULL, 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("limits", 120);

	tcase_add_test(tc, test_small_stack);
	tcase_add_test(tc, test_locked_memory);
	tcase_add_test(tc, test_data_limit);
	tcase_add_test(tc, test_applications_lock);
	tcase_add_test(tc, test_print_blocks_nobody);
	tcase_add_test(tc, test_chain_of_destructors);
	tcase_add_test(tc, test_very_many_caches);
	return suite_run(tc);
}

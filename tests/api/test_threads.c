/* SPDX-License-Identifier: MIT */
/*
 * Too early and too late: constructors of other libraries, destructors of
 * threads and of the process; and ten thousand short threads.
 */
#include <config.h>

#include <malloc.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../caches.h"
#include "../suite.h"

static struct sheet sheet = { .fill = 64 };
static struct pcpool_cache *cache;

static void use_both(void)
{
	void *region = pcpool_percpu_alloc(8, 8);
	void *obj = must_alloc(cache);

	sheet_pattern_check(obj, 64);
	pcpool_free(cache, obj);
	expect(region);
	pcpool_this_cpu_add_u64(region, 3);
	expect_eq(pcpool_percpu_sum_u64(region), 3);
	pcpool_percpu_free(region);
}

/* --- thread keys ---------------------------------------------------------- */

static pthread_key_t key;
static atomic_uint key_runs;

struct held {
	unsigned int rounds;
	void *obj;
};

/* Arms itself again as often as POSIX promises to look, less one; once less
 * under the thread sanitizer, which itself leaves the thread in the last. */
enum { KEY_ROUNDS = TEST_TSAN ? 2 : 3 };

static void key_destructor(void *value)
{
	struct held *held = value;

	atomic_fetch_add(&key_runs, 1);
	sheet_pattern_check(held->obj, 64);
	pcpool_free(cache, held->obj);
	use_both();
	if (!held->rounds--) {
		free(held);
		return;
	}
	held->obj = must_alloc(cache);
	pthread_setspecific(key, held);
}

static void with_key(const struct worker *w)
{
	struct held *held = malloc(sizeof(*held));

	(void)w;
	expect(held);
	held->rounds = KEY_ROUNDS;
	held->obj = must_alloc(cache);
	pthread_setspecific(key, held);
}

START_TEST(case_THR_01_thread_keys)
{
	cache = sheet_cache("keys", 64, &sheet);
	expect(!pthread_key_create(&key, key_destructor));
	for (int i = 0; i < 20; i++)
		run_threads(8, with_key, NULL);
	expect_eq(atomic_load(&key_runs), 20 * 8 * (KEY_ROUNDS + 1));
	expect_eq(stats_of(cache).live, 0);
	pthread_key_delete(key);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* --- what C++ calls thread_local ------------------------------------------ */

/* The C library's half of it: what a compiler emits for a thread_local with a
 * destructor. Runs after the last use of the thread and before its keys. */
extern int __cxa_thread_atexit_impl(void (*fn)(void *), void *obj, void *dso)
	__attribute__((weak));
extern void *__dso_handle;

static atomic_uint local_runs;

static void local_destructor(void *obj)
{
	atomic_fetch_add(&local_runs, 1);
	sheet_pattern_check(obj, 64);
	pcpool_free(cache, obj);
	use_both();
}

static void with_local(const struct worker *w)
{
	(void)w;
	for (int i = 0; i < 3; i++)
		expect(!__cxa_thread_atexit_impl(
			local_destructor, must_alloc(cache), &__dso_handle));
}

START_TEST(case_THR_01_thread_locals)
{
	if (!__cxa_thread_atexit_impl)
		return;
	cache = sheet_cache("locals", 64, &sheet);
	for (int i = 0; i < 20; i++)
		run_threads(8, with_local, NULL);
	expect_eq(atomic_load(&local_runs), 20 * 8 * 3);
	expect_eq(stats_of(cache).live, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* --- short threads -------------------------------------------------------- */

static void *short_thread(void *arg)
{
	void *obj = must_alloc(cache);

	(void)arg;
	sheet_pattern_check(obj, 64);
	pcpool_free(cache, obj);
	return NULL;
}

static void short_threads(int n)
{
	for (int i = 0; i < n; i += 4) {
		pthread_t threads[4];

		for (int j = 0; j < 4; j++)
			expect(!pthread_create(&threads[j], NULL, short_thread,
					       NULL));
		for (int j = 0; j < 4; j++)
			expect(!pthread_join(threads[j], NULL));
	}
}

/* Nothing is per thread: not an object, not a byte of metadata more. */
START_TEST(case_THR_01_short_threads)
{
	struct pcpool_cache_stats some, many;

	cache = sheet_cache("short", 64, &sheet);
	short_threads(200);
	some = stats_of(cache);
	short_threads((int)scaled(10000));
	many = stats_of(cache);
	expect_eq(many.live, 0);
	/* Each slot may yet have had its first sheaves. */
	expect_cmp(many.sheaves, <=, some.sheaves + 4 * pcpool_nr_slots());
	expect_cmp(many.slabs, <=, some.slabs + 1 + pcpool_nr_slots());
	destroy_balanced(cache, &sheet);
}
END_TEST

/* --- before and after everything ------------------------------------------ */

static bool late;

static void at_exit(void)
{
	if (!late)
		return;
	use_both();
	destroy_balanced(cache, &sheet);
	/* The tests look at the exit status, and this is past setting it. */
	fputs("atexit was here\n", stderr);
}

static int main_late(void)
{
	late = true;
	cache = sheet_cache("late", 64, &sheet);
	use_both();
	return 0;
}

static void preload_path(char *path, size_t size)
{
	const char *top = getenv("top_builddir");
	struct stat st;

	snprintf(path, size, "%s/tests/api/.libs/preload_early.so",
		 top ? top : ".");
	if (stat(path, &st))
		*path = '\0';
}

START_TEST(case_THR_01_preload_and_exit)
{
	static const char *const args[] = { "--late", NULL };
	static struct child child;
	char path[4096];

	run_self(args, NULL, 20, &child);
	expect_child_exit(&child, 0);
	expect(strstr(child.err, "atexit was here"));
	/* A sanitizer wants to be first itself, and a static-only build has
	 * nothing to preload. A blank would end the path. */
	preload_path(path, sizeof(path));
	if (TEST_ASAN || TEST_TSAN || !*path || strchr(path, ' ')) {
		fputs("note: no preloaded library here\n", stderr);
		return;
	}
	setenv("LD_PRELOAD", path, 1);
	run_self(args, NULL, 20, &child);
	unsetenv("LD_PRELOAD");
	expect_child_exit(&child, 0);
	expect(strstr(child.err, "preload: constructor was here"));
	expect(strstr(child.err, "preload: destructor was here"));
	expect(strstr(child.err, "atexit was here"));
}
END_TEST

/* A constructor of the program's own that runs before nearly all others. */
static void *early_obj;
static struct pcpool_cache *early_cache;

__attribute__((constructor(101))) static void early(void)
{
	early_cache = pcpool_cache_create("early", 64, NULL);
	early_obj = must_alloc(early_cache);
	expect(pcpool_nr_slots() > 0);
	/* Registered before main()'s: runs after them. */
	atexit(at_exit);
}

START_TEST(case_THR_01_early_constructor)
{
	memset(early_obj, 1, 64);
	pcpool_free(early_cache, early_obj);
	must_destroy(early_cache);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc > 1 && !strcmp(argv[1], "--late"))
		return main_late();
	tc = suite_case("threads", 120);
	tcase_add_test(tc, case_THR_01_thread_keys);
	tcase_add_test(tc, case_THR_01_thread_locals);
	tcase_add_test(tc, case_THR_01_short_threads);
	tcase_add_test(tc, case_THR_01_preload_and_exit);
	tcase_add_test(tc, case_THR_01_early_constructor);
	return suite_run(tc);
}

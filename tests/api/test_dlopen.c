/* SPDX-License-Identifier: MIT */
/*
 * Loading at run time, by a program that is not linked to pcpool: after many
 * libraries with thread-local memory, again and again, and it stays for good.
 */
#include <config.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pcpool/pcpool.h>

#include "../common.h"
#include "../suite.h"

enum { FILLERS = 30, CYCLES = 200 };

static char library[4096], filler[4096];

static void find_files(void)
{
	const char *top = getenv("top_builddir");
	struct stat st;

	snprintf(library, sizeof(library), "%s/.libs/libpcpool.so",
		 top ? top : ".");
	snprintf(filler, sizeof(filler), "%s/tests/api/.libs/tls_filler.so",
		 top ? top : ".");
	if (stat(library, &st) || stat(filler, &st))
		skip_test("no shared library was built");
}

struct calls {
	void *handle;
	struct pcpool_cache *(*create)(const char *, size_t,
				       const struct pcpool_cache_attr *);
	void *(*alloc)(struct pcpool_cache *);
	void (*free)(struct pcpool_cache *, void *);
	int (*destroy)(struct pcpool_cache *);
	int (*print)(int);
	const char *(*mode)(void);
};

static void *symbol(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	if (!found)
		fail_now("%s: %s", name, dlerror());
	return found;
}

static struct calls load(void)
{
	struct calls calls;

	calls.handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!calls.handle)
		fail_now("dlopen: %s", dlerror());
	*(void **)&calls.create = symbol(calls.handle, "pcpool_cache_create");
	*(void **)&calls.alloc = symbol(calls.handle, "pcpool_alloc");
	*(void **)&calls.free = symbol(calls.handle, "pcpool_free");
	*(void **)&calls.destroy = symbol(calls.handle, "pcpool_cache_destroy");
	*(void **)&calls.print = symbol(calls.handle, "pcpool_print");
	*(void **)&calls.mode = symbol(calls.handle, "pcpool_mode");
	return calls;
}

static void use(const struct calls *calls)
{
	struct sheet sheet = { .fill = 64 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	void *objs[100];

	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	cache = calls->create("dlopened", 64, &attr);
	expect(cache);
	for (int i = 0; i < 100; i++) {
		objs[i] = calls->alloc(cache);
		expect(objs[i]);
		sheet_pattern_check(objs[i], 64);
	}
	for (int i = 0; i < 100; i++)
		calls->free(cache, objs[i]);
	expect_eq(calls->destroy(cache), 0);
	sheet_balanced(&sheet);
}

static unsigned int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int lines = 0;
	int c;

	expect(maps);
	while ((c = fgetc(maps)) != EOF)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

static void copy_file(const char *from, const char *to)
{
	char buf[1 << 16];
	int in = open(from, O_RDONLY);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0700);
	ssize_t n;

	expect(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		expect_eq(write(out, buf, (size_t)n), n);
	expect_eq(n, 0);
	close(in);
	close(out);
}

/* Thirty different files, so that the loader takes them for as many. */
static void load_fillers(void)
{
	char dir[] = "/tmp/pcpool-fillers-XXXXXX";
	char path[64];

	expect(mkdtemp(dir));
	for (int i = 0; i < FILLERS; i++) {
		void *handle;

		snprintf(path, sizeof(path), "%s/filler-%d.so", dir, i);
		copy_file(filler, path);
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		/* The host itself may run out of room: not our doing. */
		if (!handle)
			fprintf(stderr, "note: filler %d: %s\n", i, dlerror());
		unlink(path);
	}
	rmdir(dir);
}

static void *ending_thread(void *arg)
{
	use(arg);
	return NULL;
}

START_TEST(case_THR_02_after_other_libraries)
{
	struct calls calls;
	pthread_t thread;

	load_fillers();
	calls = load();
	use(&calls);
	expect(!pthread_create(&thread, NULL, ending_thread, &calls));
	expect(!pthread_join(thread, NULL));
	dlclose(calls.handle);
}
END_TEST

START_TEST(case_THR_02_open_and_close)
{
	unsigned int before = 0;
	struct calls calls;
	pthread_t thread;
	pid_t pid;
	int status;

	for (int i = 0; i < CYCLES; i++) {
		calls = load();
		use(&calls);
		if (i % 10 == 0) {
			expect(!pthread_create(&thread, NULL, ending_thread,
					       &calls));
			expect(!pthread_join(thread, NULL));
		}
		expect_eq(dlclose(calls.handle), 0);
		if (i == 10)
			before = mappings();
	}
	/* A sanitizer's own mappings may grow. */
	if (!TEST_ASAN && !TEST_TSAN)
		expect_cmp(mappings(), <=, before + 4);
	/* A thread that ends, and a child, after the last close. */
	expect(!pthread_create(&thread, NULL, ending_thread, &calls));
	expect(!pthread_join(thread, NULL));
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		kill_after(20);
		use(&calls);
		_exit(0);
	}
	expect_eq(waitpid(pid, &status, 0), pid);
	expect_eq(status, 0);
}
END_TEST

START_TEST(case_THR_02_never_unloaded)
{
	struct calls calls = load();
	void *again;

	use(&calls);
	expect_eq(dlclose(calls.handle), 0);
	again = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	expect(again);
	expect(!strcmp(calls.mode(), "rseq") || !strcmp(calls.mode(), "lock"));
	use(&calls);
}
END_TEST

/* Closed without a single call; the host's own key keeps its value. */
START_TEST(case_THR_02_unused)
{
	pthread_key_t key;
	void *handle;

	expect(!pthread_key_create(&key, NULL));
	expect(!pthread_setspecific(key, &key));
	for (int i = 0; i < 50; i++) {
		handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
		expect(handle);
		expect_eq(dlclose(handle), 0);
		expect(pthread_getspecific(key) == &key);
	}
}
END_TEST

/* A name that a plug-in lent is there after the plug-in has gone. */
START_TEST(case_SHF_15_name_of_an_unloaded_library)
{
	struct calls calls = load();
	void *plugin = dlopen(filler, RTLD_NOW | RTLD_LOCAL);
	struct pcpool_cache *cache;
	const char *name;
	FILE *file = tmpfile();
	char text[65536];
	ssize_t n;

	expect(plugin && file);
	name = symbol(plugin, "filler_name");
	cache = calls.create(name, 64, NULL);
	expect(cache);
	expect_eq(dlclose(plugin), 0);
	expect_eq(calls.print(fileno(file)), 0);
	n = pread(fileno(file), text, sizeof(text) - 1, 0);
	expect(n > 0);
	text[n] = '\0';
	expect(strstr(text, "name-of-a-plug-in"));
	fclose(file);
	expect_eq(calls.destroy(cache), 0);
	dlclose(calls.handle);
}
END_TEST

int main(void)
{
	TCase *tc;

	find_files();
	tc = suite_case("dlopen", 60);
	tcase_add_test(tc, case_THR_02_after_other_libraries);
	tcase_add_test(tc, case_THR_02_open_and_close);
	tcase_add_test(tc, case_THR_02_never_unloaded);
	tcase_add_test(tc, case_THR_02_unused);
	tcase_add_test(tc, case_SHF_15_name_of_an_unloaded_library);
	return suite_run(tc);
}

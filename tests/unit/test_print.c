/* SPDX-License-Identifier: MIT */
/* lib/service/print.c, stats.c: what is printed can be read back, whatever a
 * cache is called, and a descriptor that fails is reported. */
#include <config.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "caches.h"
#include "suite.h"

#include "base/compiler.h"
#include "base/fault.h"

/* --- names ---------------------------------------------------------------- */

static const struct {
	const char *name, *text;
} names[] = {
	{ "plain", "cache \"plain\"\n" },
	{ "two words", "cache \"two words\"\n" },
	{ "a\"b", "cache \"a\\\"b\"\n" },
	{ "a\\b", "cache \"a\\\\b\"\n" },
	{ "\\\"", "cache \"\\\\\\\"\"\n" },
	{ "line\nline", "cache \"line\\x0aline\"\n" },
	{ "\t\r", "cache \"\\x09\\x0d\"\n" },
	{ "\x1b[31m", "cache \"\\x1b[31m\"\n" },
	{ "\x7f", "cache \"\\x7f\"\n" },
	{ "\xc3\xa9", "cache \"\\xc3\\xa9\"\n" },
	{ "\xff", "cache \"\\xff\"\n" },
	{ "%s%n", "cache \"%s%n\"\n" },
	{ "\x01", "cache \"\\x01\"\n" },
	{ "cache \"fake\"\n  live 7", "cache \"cache \\\"fake\\\"\\x0a  live 7\"\n" },
};

START_TEST(test_names)
{
	for (size_t i = 0; i < PCP_ARRAY_SIZE(names); i++) {
		struct pcpool_cache *cache =
			pcpool_cache_create(names[i].name, 8, NULL);
		char *text;

		expect(cache);
		expect(!strcmp(pcpool_cache_name(cache), names[i].name));
		text = printed();
		if (!strstr(text, names[i].text))
			fail_now("no %s in:\n%s", names[i].text, text);
		expect_eq(occurrences(text, "\ncache "), 1);
		/* Nothing but printable lines. */
		for (const char *p = text; *p; p++)
			expect(*p == '\n' || (*p >= 0x20 && *p < 0x7f));
		free(text);
		must_destroy(cache);
	}
}
END_TEST

/* The longest that is kept, all of it escaped. */
START_TEST(test_long_name)
{
	char name[200], *text;
	struct pcpool_cache *cache;

	memset(name, '\n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	cache = pcpool_cache_create(name, 8, NULL);
	expect(cache);
	expect_eq(strlen(pcpool_cache_name(cache)), 63);
	text = printed();
	expect_eq(occurrences(text, "\\x0a"), 63);
	free(text);
	must_destroy(cache);
}
END_TEST

/* --- values --------------------------------------------------------------- */

/* The value of a field of the nth cache printed. */
static uint64_t field(const char *text, const char *cache, const char *name)
{
	char head[80], line[80];
	const char *p, *end;
	uint64_t value;

	snprintf(head, sizeof(head), "\ncache \"%s\"\n", cache);
	snprintf(line, sizeof(line), "\n  %s ", name);
	p = strstr(text, head);
	expect(p);
	end = strstr(p + 1, "\ncache ");
	p = strstr(p + strlen(head) - 1, line);
	if (!p || (end && p > end))
		fail_now("no %s of %s in:\n%s", name, cache, text);
	expect_eq(sscanf(p + strlen(line), "%" SCNu64 "\n", &value), 1);
	return value;
}

START_TEST(test_values)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *a, *b;
	void *objs[100];
	char *text;

	a = sheet_cache_of("first", 100, &sheet, 0, 5);
	b = sheet_cache_of("second", 3000, &sheet, 0, 0);
	expect_eq(pcpool_alloc_bulk(a, 100, objs), 0);
	expect_eq(pcpool_free_bulk(a, 60, objs), 0);
	text = printed();
	for (unsigned int i = 0; i < 2; i++) {
		const char *name = pcpool_cache_name(i ? b : a);
		struct pcpool_cache_stats s = stats_of(i ? b : a);

#define SAME(f) expect_eq(field(text, name, #f), s.f)
		SAME(object_size); SAME(stride); SAME(slab_size);
		SAME(objects_per_slab); SAME(slab_overhead);
		SAME(sheaf_capacity); SAME(slabs); SAME(partial);
		SAME(waiting); SAME(total_objects); SAME(objects);
		SAME(live); SAME(cached); SAME(built); SAME(sheaves);
		SAME(metadata_bytes); SAME(ctor_ok); SAME(ctor_fail);
		SAME(dtor); SAME(mem_fail); SAME(lost_in_fork);
		SAME(alloc_fastpath); SAME(alloc_slowpath);
		SAME(free_fastpath); SAME(free_slowpath); SAME(alloc_fail);
		SAME(alloc_slab); SAME(free_slab); SAME(free_add_partial);
		SAME(free_remove_partial); SAME(cmpxchg_fail);
		SAME(barn_get); SAME(barn_get_fail); SAME(barn_put);
		SAME(barn_put_fail); SAME(sheaf_alloc); SAME(sheaf_free);
		SAME(sheaf_refill); SAME(sheaf_flush); SAME(rseq_abort);
		SAME(bypass); SAME(drain); SAME(drain_retry);
		SAME(drain_fail); SAME(list_lock); SAME(list_lock_contended);
		SAME(shared_atomic); SAME(other_lock);
#undef SAME
	}
	/* Every field there is; the first is the size. */
	expect_eq(occurrences(strstr(text, "\ncache "), "\n  "),
		  2 * (sizeof(struct pcpool_cache_stats) - sizeof(size_t)) /
			  sizeof(uint64_t));
	expect_eq(field(text, "first", "live"), 40);
	expect_eq(field(text, "first", "object_size"), 100);
	expect_eq(field(text, "second", "live"), 0);
	free(text);
	expect_eq(pcpool_free_bulk(a, 40, objs + 60), 0);
	must_destroy(a);
	must_destroy(b);
	sheet_balanced(&sheet);
}
END_TEST

START_TEST(test_head)
{
	char *text = printed(), line[128];

	snprintf(line, sizeof(line), "pcpool %s mode %s index %s\n",
		 pcpool_version(), pcpool_mode(), pcpool_index());
	expect(!strncmp(text, line, strlen(line)));
	snprintf(line, sizeof(line), "  reason %s\n", pcpool_mode_reason());
	expect(strstr(text, line));
	snprintf(line, sizeof(line), "percpu\n  slots %u\n", pcpool_nr_slots());
	expect(strstr(text, line));
	expect(!strstr(text, "\ncache "));
	free(text);
}
END_TEST

/* --- descriptors ---------------------------------------------------------- */

static void expect_print(int fd, int err)
{
	errno = ERANGE;
	expect_eq(pcpool_print(fd), err);
	expect_errno(ERANGE);
}

START_TEST(test_bad_descriptors)
{
	int fd;

	expect_print(-1, EBADF);
	fd = open("/dev/null", O_RDONLY);
	expect(fd >= 0);
	expect_print(fd, EBADF);
	close(fd);
	expect_print(fd, EBADF);
	fd = open("/dev/null", O_WRONLY);
	expect_print(fd, 0);
	close(fd);
	fd = open("/dev/full", O_WRONLY);
	if (fd >= 0) {
		expect_print(fd, ENOSPC);
		close(fd);
	}
}
END_TEST

/* A pipe that takes little at a time, read by another thread. */
struct reader {
	int fd;
	size_t len;
	char text[1 << 20];
};

static void *read_all(void *p)
{
	struct reader *reader = p;
	ssize_t n;

	while ((n = read(reader->fd, reader->text + reader->len, 7)) > 0)
		reader->len += (size_t)n;
	return NULL;
}

START_TEST(test_pipe)
{
	enum { CACHES = 200 };
	struct reader *reader = calloc(1, sizeof(*reader));
	struct pcpool_cache *caches[CACHES];
	pthread_t thread;
	char *text;
	int fds[2];

	expect(reader && !pipe(fds));
	for (unsigned int i = 0; i < CACHES; i++)
		caches[i] = pcpool_cache_create("many", 8, NULL);
	/* Full: what was written so far is a part. */
	expect_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	expect_print(fds[1], EAGAIN);
	close(fds[0]);
	close(fds[1]);
	expect(!pipe(fds));
	reader->fd = fds[0];
	expect(!pthread_create(&thread, NULL, read_all, reader));
	expect_print(fds[1], 0);
	close(fds[1]);
	expect(!pthread_join(thread, NULL));
	expect_eq(occurrences(reader->text, "\ncache \"many\"\n"), CACHES);
	text = printed();
	expect_eq(strlen(text), reader->len);
	free(text);
	for (unsigned int i = 0; i < CACHES; i++)
		must_destroy(caches[i]);
	free(reader);
	close(fds[0]);
}
END_TEST

/* --- while caches come and go --------------------------------------------- */

static atomic_bool stop;

static void churn_or_print(const struct worker *worker)
{
	if (!worker->id) {
		for (unsigned int i = 0; i < 200; i++)
			free(printed());
		atomic_store(&stop, true);
		return;
	}
	while (!atomic_load(&stop)) {
		struct pcpool_cache *cache =
			pcpool_cache_create("busy", 64, NULL);
		void *objs[50];

		expect(cache);
		expect_eq(pcpool_alloc_bulk(cache, 50, objs), 0);
		expect_eq(pcpool_free_bulk(cache, 50, objs), 0);
		expect_eq(pcpool_cache_shrink(cache), 0);
		must_destroy(cache);
	}
}

START_TEST(test_beside)
{
	char *text;

	run_threads(3, churn_or_print, NULL);
	text = printed();
	expect(!strstr(text, "busy"));
	free(text);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("print", 60);

	tcase_add_test(tc, test_names);
	tcase_add_test(tc, test_long_name);
	tcase_add_test(tc, test_values);
	tcase_add_test(tc, test_head);
	tcase_add_test(tc, test_bad_descriptors);
	tcase_add_test(tc, test_pipe);
	tcase_add_test(tc, test_beside);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * The leak checker (address sanitizer builds only): what cached objects point
 * to is no leak, what nobody points to is reported.
 */
#include <config.h>

#include <sys/wait.h>

#include "../caches.h"

struct holder {
	void *bytes;
	struct holder *next;
};

static int holder_ctor(void *obj, void *arg)
{
	struct holder *holder = obj;

	(void)arg;
	holder->bytes = malloc(100);
	holder->next = NULL;
	return holder->bytes ? 0 : ENOMEM;
}

static void holder_dtor(void *obj, void *arg)
{
	struct holder *holder = obj;

	(void)arg;
	free(holder->bytes);
}

static struct pcpool_cache *holders;

static void make(void)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	attr.ctor = holder_ctor;
	attr.dtor = holder_dtor;
	holders = pcpool_cache_create("holders", sizeof(struct holder), &attr);
	expect(holders);
}

/* Stack and registers must not keep the pointers alive by chance. */
static __attribute__((noinline)) void wipe_stack(void)
{
	volatile char bytes[65536];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = 0;
}

enum { OBJECTS = 1000 };

static __attribute__((noinline)) void cache_them(void)
{
	struct holder *objs[OBJECTS];

	make();
	expect_eq(pcpool_alloc_bulk(holders, OBJECTS, (void **)objs), 0);
	expect_eq(pcpool_free_bulk(holders, OBJECTS, (void **)objs), 0);
	memset(objs, 0, sizeof(objs));
}

/* Objects that are out, which nobody but their neighbour in a list knows. */
static __attribute__((noinline)) void keep_them(void)
{
	static struct holder *head;

	make();
	for (int i = 0; i < OBJECTS; i++) {
		struct holder *holder = must_alloc(holders);

		holder->next = head;
		head = holder;
	}
}

static __attribute__((noinline)) void lose_one(void)
{
	struct holder *holder;

	cache_them();
	holder = must_alloc(holders);
	holder->bytes = malloc(4242);
	holder->bytes = NULL;
	pcpool_free(holders, holder);
}

static __attribute__((noinline)) void destroy_all(void)
{
	cache_them();
	must_destroy(holders);
	holders = NULL;
}

static __attribute__((noinline)) void shrink_and_fill(void)
{
	for (int i = 0; i < 3; i++) {
		struct holder *objs[OBJECTS];

		if (!holders)
			make();
		expect_eq(pcpool_alloc_bulk(holders, OBJECTS, (void **)objs),
			  0);
		expect_eq(pcpool_free_bulk(holders, OBJECTS, (void **)objs), 0);
		if (i < 2)
			expect_eq(pcpool_cache_shrink(holders), 0);
		memset(objs, 0, sizeof(objs));
	}
}

/* What a slab has beside it, of a cache that is alive at the end. */
static __attribute__((noinline)) void account_for_them(void)
{
	struct pcpool_percpu_field field = { offsetof(struct holder, next), 8,
					     0 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	attr.flags = PCPOOL_ACCOUNT;
	attr.fields = &field;
	attr.nr_fields = 1;
	holders = pcpool_cache_create("holders", sizeof(struct holder), &attr);
	expect(holders);
	pcpool_free(holders, must_alloc(holders));
}

static const struct {
	const char *name;
	void (*fn)(void);
	bool leaks;
} cases[] = {
	{ "cached", cache_them, false },
	{ "kept", keep_them, false },
	{ "lost", lose_one, true },
	{ "destroyed", destroy_all, false },
	{ "again", shrink_and_fill, false },
	{ "accounted", account_for_them, false },
};

int main(int argc, char **argv)
{
	const char *given = getenv("ASAN_OPTIONS");
	static struct child child;
	char options[1024];
	int bad = 0;

	if (!TEST_ASAN)
		skip_test("not built with the address sanitizer");
	if (argc > 1) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			if (!strcmp(argv[1], cases[i].name))
				cases[i].fn();
		wipe_stack();
		return 0;
	}
	snprintf(options, sizeof(options), "%s%sdetect_leaks=1:exitcode=23",
		 given ? given : "", given ? ":" : "");
	setenv("ASAN_OPTIONS", options, 1);
	setenv("LSAN_OPTIONS", "exitcode=23", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *args[] = { cases[i].name, NULL };
		bool said;

		run_self(args, NULL, 60, &child);
		said = strstr(child.err, "LeakSanitizer") != NULL;
		if (strstr(child.err, "does not work under ptrace"))
			skip_test("the leak checker does not work here");
		if (said != cases[i].leaks || !WIFEXITED(child.status) ||
		    WEXITSTATUS(child.status) != (cases[i].leaks ? 23 : 0)) {
			fprintf(stderr, "%s: status 0x%x, %s\n", cases[i].name,
				(unsigned int)child.status, child.err);
			bad++;
		}
		if (cases[i].leaks && !strstr(child.err, "4242 byte")) {
			fprintf(stderr, "%s: not reported\n", cases[i].name);
			bad++;
		}
	}
	return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

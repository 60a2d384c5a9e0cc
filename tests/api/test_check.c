/* SPDX-License-Identifier: MIT */
/*
 * Misuse: in checking mode it is reported at the offending call, otherwise at
 * the latest when the object reaches its slab. Each case dies in a child of its
 * own, with the cache's name and the object in its last words.
 */
#include <config.h>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../caches.h"
#include "../suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* What a child leaves for its parent. */
struct note {
	const void *object;   /* the one to be reported */
	atomic_bool survived; /* the offending call returned */
};

static struct note *note;
static struct pcpool_cache *victim, *twin;
static bool checking;

enum { SIZE = 72 };

static void setup(void)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	attr.flags = checking ? PCPOOL_CHECK : 0;
	victim = pcpool_cache_create("victim-cache", SIZE, &attr);
	twin = pcpool_cache_create("twin-cache", SIZE, &attr);
	expect(victim && twin);
}

static void bad_free(void *obj)
{
	note->object = obj;
	pcpool_free(victim, obj);
	atomic_store(&note->survived, true);
}

static void bad_discard(void *obj)
{
	note->object = obj;
	pcpool_discard(victim, obj);
	atomic_store(&note->survived, true);
}

static void bad_free_rcu(void *obj)
{
	note->object = obj;
	pcpool_free_rcu(victim, obj);
	atomic_store(&note->survived, true);
}

/* --- the cases ---------------------------------------------------------------
 */

static void twice_at_once(void)
{
	void *obj = must_alloc(victim);

	pcpool_free(victim, obj);
	bad_free(obj);
}

static void twice_with_between(size_t n)
{
	void **objs = calloc(n, sizeof(*objs));
	void *obj = must_alloc(victim);

	expect_eq(pcpool_alloc_bulk(victim, n, objs), 0);
	pcpool_free(victim, obj);
	for (size_t i = 0; i < n; i++)
		pcpool_free(victim, objs[i]);
	free(objs);
	bad_free(obj);
}

static void twice_with_three_between(void)
{
	twice_with_between(3);
}

static void twice_with_many_between(void)
{
	twice_with_between(3 * stats_of(victim).sheaf_capacity);
}

static void twice_on_another_cpu(void)
{
	void *obj;

	pin_to(0);
	obj = must_alloc(victim);
	pcpool_free(victim, obj);
	pin_to(1);
	bad_free(obj);
}

static void *freeing_thread(void *obj)
{
	pin_to(1);
	bad_free(obj);
	return NULL;
}

static void twice_by_another_thread(void)
{
	void *obj = must_alloc(victim);
	pthread_t thread;

	pcpool_free(victim, obj);
	expect(!pthread_create(&thread, NULL, freeing_thread, obj));
	pthread_join(thread, NULL);
}

static void twice_second_by_bulk(void)
{
	void *objs[3];

	expect_eq(pcpool_alloc_bulk(victim, 3, objs), 0);
	pcpool_free(victim, objs[1]);
	note->object = objs[1];
	pcpool_free_bulk(victim, 3, objs);
	atomic_store(&note->survived, true);
}

static void twice_first_by_bulk(void)
{
	void *objs[3];

	expect_eq(pcpool_alloc_bulk(victim, 3, objs), 0);
	expect_eq(pcpool_free_bulk(victim, 3, objs), 0);
	bad_free(objs[2]);
}

static void twice_in_one_bulk(void)
{
	void *objs[4];

	expect_eq(pcpool_alloc_bulk(victim, 4, objs), 0);
	objs[3] = objs[0];
	note->object = objs[0];
	pcpool_free_bulk(victim, 4, objs);
	atomic_store(&note->survived, true);
}

static void twice_second_by_free_rcu(void)
{
	void *obj = must_alloc(victim);

	pcpool_free(victim, obj);
	bad_free_rcu(obj);
}

static void twice_first_by_free_rcu(void)
{
	void *obj = must_alloc(victim);

	pcpool_free_rcu(victim, obj);
	bad_free(obj);
}

static void twice_both_by_free_rcu(void)
{
	void *obj = must_alloc(victim);

	pcpool_free_rcu(victim, obj);
	bad_free_rcu(obj);
}

/* Waiting no more when it is freed again. */
static void twice_by_free_rcu_at_last(void)
{
	void *obj = must_alloc(victim);

	pcpool_free_rcu(victim, obj);
	expect_eq(pcpool_rcu_barrier(victim), 0);
	bad_free_rcu(obj);
}

static void discard_after_free_rcu(void)
{
	void *obj = must_alloc(victim);

	pcpool_free_rcu(victim, obj);
	bad_discard(obj);
}

static void free_rcu_after_discard(void)
{
	void *obj = must_alloc(victim);

	expect_eq(pcpool_discard(victim, obj), 0);
	bad_free_rcu(obj);
}

static void free_after_discard(void)
{
	void *obj = must_alloc(victim);

	expect_eq(pcpool_discard(victim, obj), 0);
	bad_free(obj);
}

static void discard_after_free(void)
{
	void *obj = must_alloc(victim);

	pcpool_free(victim, obj);
	bad_discard(obj);
}

static void discard_twice(void)
{
	void *obj = must_alloc(victim);

	expect_eq(pcpool_discard(victim, obj), 0);
	bad_discard(obj);
}

static void interior_of_a_live_one(void)
{
	bad_free((char *)must_alloc(victim) + 8);
}

static void odd_interior(void)
{
	bad_free((char *)must_alloc(victim) + 1);
}

static void discard_interior(void)
{
	bad_discard((char *)must_alloc(victim) + 16);
}

static void other_cache(void)
{
	must_alloc(victim);
	bad_free(must_alloc(twin));
}

static void other_cache_free_rcu(void)
{
	must_alloc(victim);
	bad_free_rcu(must_alloc(twin));
}

static void free_rcu_interior(void)
{
	bad_free_rcu((char *)must_alloc(victim) + 8);
}

static void free_rcu_of_malloc(void)
{
	must_alloc(victim);
	bad_free_rcu(malloc(SIZE));
}

static void other_cache_discard(void)
{
	must_alloc(victim);
	bad_discard(must_alloc(twin));
}

static void other_cache_in_bulk(void)
{
	void *objs[3];

	expect_eq(pcpool_alloc_bulk(victim, 3, objs), 0);
	pcpool_free(victim, objs[1]);
	objs[1] = must_alloc(twin);
	note->object = objs[1];
	pcpool_free_bulk(victim, 3, objs);
	atomic_store(&note->survived, true);
}

static void on_the_stack(void)
{
	_Alignas(64) char local[256];

	must_alloc(victim);
	bad_free(local);
}

static void from_malloc(void)
{
	must_alloc(victim);
	bad_free(malloc(SIZE));
}

static void large_from_malloc(void)
{
	must_alloc(victim);
	bad_free(malloc(1 << 22));
}

static void static_memory(void)
{
	static _Alignas(64) char bytes[256];

	must_alloc(victim);
	bad_free(bytes);
}

static void tiny_number(void)
{
	must_alloc(victim);
	bad_free((void *)(uintptr_t)64);
}

static void huge_number(void)
{
	must_alloc(victim);
	bad_free((void *)~(uintptr_t)63);
}

static void start_of_the_slab(void)
{
	uintptr_t size = stats_of(victim).slab_size;

	bad_free((void *)((uintptr_t)must_alloc(victim) & ~(size - 1)));
}

static void end_of_the_slab(void)
{
	uintptr_t size = stats_of(victim).slab_size;

	bad_free((void *)((uintptr_t)must_alloc(victim) | (size - 8)));
}

/* An object's place nobody ever had: next to the only one that is out. */
static void never_handed_out(void)
{
	uintptr_t size = stats_of(victim).slab_size;
	uintptr_t at = (uintptr_t)must_alloc(victim);
	uintptr_t stride = stats_of(victim).stride;

	if ((at + stride) % size < at % size ||
	    (at + 2 * stride) / size != at / size)
		at -= 2 * stride;
	bad_free((void *)(at + stride));
}

static void after_its_slab_is_gone(void)
{
	void *obj = must_alloc(victim);

	pcpool_free(victim, obj);
	expect_eq(pcpool_cache_shrink(victim), 0);
	expect_eq(stats_of(victim).slabs, 0);
	bad_free(obj);
}

/* Free it, write to it: seen when it is handed out again, or destructed. */
static void *written_after_free(void)
{
	char *obj = must_alloc(victim);

	memset(obj, 7, SIZE);
	pcpool_free(victim, obj);
	obj[SIZE - 1] ^= 1;
	note->object = obj;
	return obj;
}

static void written_then_taken(void)
{
	const void *obj = written_after_free();

	/* What was freed last is taken first, or soon. */
	for (int i = 0; i < 10000 && pcpool_alloc(victim) != obj; i++)
		;
	atomic_store(&note->survived, true);
}

static void written_then_taken_by_bulk(void)
{
	static void *objs[10000];

	written_after_free();
	pcpool_alloc_bulk(victim, COUNT(objs), objs);
	atomic_store(&note->survived, true);
}

static void do_nothing(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
}

static void written_then_destructed(void)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	/* Only a cache with a destructor looks at what it releases. */
	attr.flags = PCPOOL_CHECK;
	attr.dtor = do_nothing;
	victim = pcpool_cache_create("victim-cache", SIZE, &attr);
	written_after_free();
	pcpool_cache_shrink(victim);
	atomic_store(&note->survived, true);
}

/* --- running them --------------------------------------------------------- */

struct misuse {
	const char *name;
	void (*fn)(void);
};

/* clang-format off: it takes the operator for a directive. */
#define CASE(fn) { #fn, fn }
/* clang-format on */

static const struct misuse misuses[] = {
	CASE(twice_at_once),
	CASE(twice_with_three_between),
	CASE(twice_with_many_between),
	CASE(twice_on_another_cpu),
	CASE(twice_by_another_thread),
	CASE(twice_second_by_bulk),
	CASE(twice_first_by_bulk),
	CASE(twice_in_one_bulk),
	CASE(twice_second_by_free_rcu),
	CASE(twice_first_by_free_rcu),
	CASE(twice_both_by_free_rcu),
	CASE(twice_by_free_rcu_at_last),
	CASE(discard_after_free_rcu),
	CASE(free_rcu_after_discard),
	CASE(other_cache_free_rcu),
	CASE(free_rcu_interior),
	CASE(free_rcu_of_malloc),
	CASE(free_after_discard),
	CASE(discard_after_free),
	CASE(discard_twice),
	CASE(interior_of_a_live_one),
	CASE(odd_interior),
	CASE(discard_interior),
	CASE(other_cache),
	CASE(other_cache_discard),
	CASE(other_cache_in_bulk),
	CASE(on_the_stack),
	CASE(from_malloc),
	CASE(large_from_malloc),
	CASE(static_memory),
	CASE(tiny_number),
	CASE(huge_number),
	CASE(start_of_the_slab),
	CASE(end_of_the_slab),
	CASE(never_handed_out),
	CASE(after_its_slab_is_gone),
};

/* What only the checksum of a checking cache can see. */
static const struct misuse writes[] = {
	CASE(written_then_taken),
	CASE(written_then_taken_by_bulk),
	CASE(written_then_destructed),
};

static void run_case(void *arg)
{
	const struct misuse *misuse = arg;

	setup();
	misuse->fn();
	if (checking)
		return;
	/* In normal mode: when the stocks reach the slabs, at the latest. */
	pcpool_rcu_barrier(victim);
	pcpool_cache_shrink(victim);
}

/* Returns whether it ended as it should. */
static bool try_case(const struct misuse *misuse, struct child *child)
{
	char object[32];
	const char *why = NULL;

	*note = (struct note){ 0 };
	run_child(run_case, (void *)(uintptr_t)misuse, 20, child);
	snprintf(object, sizeof(object), "%p", note->object);
	if (was_hung(child->status))
		why = "hung";
	else if (!WIFSIGNALED(child->status))
		why = "was not noticed";
	else if (WTERMSIG(child->status) != SIGABRT)
		why = "crashed without a report";
	else if (checking && atomic_load(&note->survived))
		why = "was noticed only after the call";
	else if (!strstr(child->err, "victim-cache"))
		why = "was reported without the cache's name";
	else if (!strstr(child->err, object))
		why = "was reported without the object";
	if (why)
		fprintf(stderr, "%s mode: %s %s (object %s): %s\n",
			checking ? "checking" : "normal", misuse->name, why,
			object, child->err);
	return !why;
}

static void try_cases(const struct misuse *cases, size_t n)
{
	static struct child child;
	unsigned int bad = 0;

	note = mmap(NULL, sizeof(*note), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect(note != MAP_FAILED);
	for (size_t i = 0; i < n; i++)
		bad += !try_case(&cases[i], &child);
	munmap(note, sizeof(*note));
	expect_eq(bad, 0);
}

START_TEST(case_SHF_14_checking_mode)
{
	checking = true;
	try_cases(misuses, COUNT(misuses));
	try_cases(writes, COUNT(writes));
}
END_TEST

START_TEST(case_SHF_14_normal_mode)
{
	checking = false;
	try_cases(misuses, COUNT(misuses));
}
END_TEST

/* debug:on makes every cache a checking one. */
START_TEST(test_debug_option)
{
	static const char *const args[] = { "--by-option", NULL };
	static struct child child;

	run_self(args, "debug:on", 100, &child);
	expect_child_exit(&child, 0);
}
END_TEST

static void option_case(void *arg)
{
	const struct misuse *misuse = arg;
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

	victim = pcpool_cache_create("victim-cache", SIZE, &attr);
	twin = pcpool_cache_create("twin-cache", SIZE, NULL);
	expect(victim && twin);
	misuse->fn();
}

static int main_by_option(void)
{
	static struct child child;

	note = mmap(NULL, sizeof(*note), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect(note != MAP_FAILED);
	for (size_t i = 0; i < COUNT(misuses); i++) {
		*note = (struct note){ 0 };
		run_child(option_case, (void *)(uintptr_t)&misuses[i], 20,
			  &child);
		if (atomic_load(&note->survived))
			fail_now("%s survived", misuses[i].name);
		expect_child_abort(&child, "victim-cache", NULL);
	}
	return 0;
}

/* A checking cache serves right use as any other does. */
static void right_use(const struct worker *w)
{
	struct pcpool_cache *cache = w->arg;
	void *objs[64];

	for (int i = 0; i < 300; i++) {
		expect_eq(pcpool_alloc_bulk(cache, 64, objs), 0);
		for (int j = 0; j < 64; j++)
			owner_take(objs[j], w->id + 1);
		for (int j = 0; j < 64; j++)
			owner_leave(objs[j], w->id + 1);
		for (int j = 0; j < 32; j++)
			pcpool_free(cache, objs[j]);
		expect_eq(pcpool_free_bulk(cache, 32, objs + 32), 0);
		pcpool_free(cache, must_alloc(cache));
		pcpool_free_rcu(cache, must_alloc(cache));
		expect_eq(pcpool_discard(cache, must_alloc(cache)), 0);
	}
}

START_TEST(test_right_use)
{
	struct sheet sheet = { .clear = 8 };
	struct pcpool_cache *cache =
		sheet_cache_of("right", 48, &sheet, PCPOOL_CHECK, 0);

	run_threads(4, right_use, cache);
	expect_eq(pcpool_rcu_barrier(cache), 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	sheet_balanced(&sheet);
	expect_eq(stats_of(cache).slabs, 0);
	destroy_balanced(cache, &sheet);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc > 1 && !strcmp(argv[1], "--by-option"))
		return main_by_option();
	tc = suite_case("check", 120);
	tcase_add_test(tc, case_SHF_14_checking_mode);
	tcase_add_test(tc, case_SHF_14_normal_mode);
	tcase_add_test(tc, test_debug_option);
	tcase_add_test(tc, test_right_use);
	return suite_run(tc);
}

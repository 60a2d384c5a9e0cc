/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves: what is refused, that what was promised is there, that a
 * failure loses nothing, and that the books know of sheaves that are out.
 */
#include <config.h>

#include <sys/wait.h>
#include <unistd.h>

#include "../caches.h"
#include "../suite.h"

enum { CAPACITY = 8, MAX = (int)PCPOOL_SHEAF_PREFILL_MAX };

static struct sheet sheet;
static struct pcpool_cache *cache;

static void make(size_t size, unsigned int flags, unsigned int capacity)
{
	sheet = (struct sheet){ .clear = 8 };
	cache = sheet_cache_of("sheaf", size, &sheet, flags, capacity);
}

static void setup(void)
{
	pin_to(0);
	make(64, 0, CAPACITY);
}

/* Nothing is out. */
static void teardown(void)
{
	atomic_store(&sheet.fail_from, 0);
	atomic_store(&sheet.fail_every, 0);
	destroy_balanced(cache, &sheet);
}

static void remake(size_t size, unsigned int flags, unsigned int capacity)
{
	teardown();
	make(size, flags, capacity);
}

static struct pcpool_sheaf *must_prefill(unsigned int n)
{
	struct pcpool_sheaf *sheaf = pcpool_sheaf_prefill(cache, n);

	if (!sheaf)
		fail_now("prefill(%u): %s", n, strerror(errno));
	expect_cmp(pcpool_sheaf_size(sheaf), >=, n);
	return sheaf;
}

/* The books add up at rest, whatever is out. */
static struct pcpool_cache_stats books(uint64_t live)
{
	struct pcpool_cache_stats stats = stats_of(cache);

	expect_eq(stats.live, live);
	expect_eq(stats.live + stats.cached, stats.objects);
	expect_eq(stats.ctor_ok - stats.dtor, sheet_built(&sheet));
	expect_cmp(stats.built, >=, stats.objects);
	return stats;
}

/* Take the next n, which must be there, then free them. */
static void take_and_free(struct pcpool_sheaf *sheaf, unsigned int n)
{
	unsigned int size = pcpool_sheaf_size(sheaf);
	void **objs = calloc(n + 1, sizeof(*objs));

	expect(objs);
	for (unsigned int i = 0; i < n; i++) {
		objs[i] = pcpool_sheaf_alloc(cache, sheaf);
		if (!objs[i])
			fail_now("object %u of %u: %s", i, n, strerror(errno));
		owner_take(objs[i], i + 1);
		expect_eq(pcpool_sheaf_size(sheaf), size - i - 1);
	}
	books(n);
	for (unsigned int i = 0; i < n; i++) {
		owner_leave(objs[i], i + 1);
		pcpool_free(cache, objs[i]);
	}
	free(objs);
}

/* --- what is refused -------------------------------------------------------- */

START_TEST(test_prefill_refused)
{
	expect_refused(pcpool_sheaf_prefill(NULL, 0), EINVAL);
	expect_refused(pcpool_sheaf_prefill(NULL, 1), EINVAL);
	expect_refused(pcpool_sheaf_prefill(cache, MAX + 1), EINVAL);
	expect_refused(pcpool_sheaf_prefill(cache, UINT32_MAX), EINVAL);
	expect_eq(books(0).objects, 0);
	expect_eq(books(0).sheaves, 0);
}
END_TEST

START_TEST(test_alloc_refused)
{
	struct pcpool_sheaf *sheaf = must_prefill(1);
	unsigned int size = pcpool_sheaf_size(sheaf);

	expect_refused(pcpool_sheaf_alloc(NULL, NULL), EINVAL);
	expect_refused(pcpool_sheaf_alloc(NULL, sheaf), EINVAL);
	expect_refused(pcpool_sheaf_alloc(cache, NULL), EINVAL);
	expect_eq(pcpool_sheaf_size(sheaf), size);
	take_and_free(sheaf, size);
	for (int i = 0; i < 3; i++)
		expect_refused(pcpool_sheaf_alloc(cache, sheaf), ENOENT);
	expect_eq(pcpool_sheaf_size(sheaf), 0);
	pcpool_sheaf_return(cache, sheaf);
	books(0);
}
END_TEST

START_TEST(test_refill_refused)
{
	struct pcpool_sheaf *sheaf = must_prefill(3), *same = sheaf;
	struct pcpool_sheaf *none = NULL;
	unsigned int size = pcpool_sheaf_size(sheaf);

	errno = ENOTTY;
	expect_eq(pcpool_sheaf_refill(NULL, &sheaf, 1), EINVAL);
	expect_eq(pcpool_sheaf_refill(cache, NULL, 1), EINVAL);
	expect_eq(pcpool_sheaf_refill(cache, &none, 1), EINVAL);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, MAX + 1), EINVAL);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, UINT32_MAX), EINVAL);
	expect_errno(ENOTTY);
	expect(!none);
	expect(sheaf == same);
	expect_eq(pcpool_sheaf_size(sheaf), size);
	pcpool_sheaf_return(cache, sheaf);
}
END_TEST

START_TEST(test_return_of_nothing)
{
	errno = ENOTTY;
	pcpool_sheaf_return(cache, NULL);
	pcpool_sheaf_return(NULL, NULL);
	expect_eq(pcpool_sheaf_size(NULL), 0);
	pcpool_sheaf_return(cache, must_prefill(2));
	expect_errno(ENOTTY);
	expect_eq(books(0).sheaf_return_fast + books(0).sheaf_return_slow, 1);
}
END_TEST

static void return_to_no_cache(void *sheaf)
{
	pcpool_sheaf_return(NULL, sheaf);
}

START_TEST(test_return_to_no_cache)
{
	static struct child child;
	struct pcpool_sheaf *sheaf = must_prefill(1);

	run_child(return_to_no_cache, sheaf, 20, &child);
	expect_child_abort(&child, "no cache", NULL);
	pcpool_sheaf_return(cache, sheaf);
}
END_TEST

/* --- the promise ------------------------------------------------------------ */

static const unsigned int counts[] = { 0,	     1,	  CAPACITY - 1,
				       CAPACITY,     CAPACITY + 1,
				       9 * CAPACITY, 777, MAX };

/* From now on nothing can be built: the next n are there all the same. */
static void check_promise(unsigned int n)
{
	struct pcpool_sheaf *sheaf = must_prefill(n);
	unsigned int size = pcpool_sheaf_size(sheaf);

	atomic_store(&sheet.fail_from, 1);
	expect_cmp(books(0).cached, >=, size);
	take_and_free(sheaf, size);
	expect_refused(pcpool_sheaf_alloc(cache, sheaf), ENOENT);
	books(0);
	pcpool_sheaf_return(cache, sheaf);
	atomic_store(&sheet.fail_from, 0);
	books(0);
}

START_TEST(test_promise)
{
	check_promise(counts[_i]);
	/* Again, out of what lies about now. */
	check_promise(counts[_i]);
}
END_TEST

/* Others that run out of everything do not run out of what is set aside. */
START_TEST(test_others_cannot_take_it)
{
	unsigned int n = _i ? 5 * CAPACITY : CAPACITY / 2, others = 0;
	struct pcpool_sheaf *sheaf = must_prefill(n);
	unsigned int size = pcpool_sheaf_size(sheaf);
	void *objs[64], *obj;

	for (; others < 40; others++)
		objs[others] = must_alloc(cache);
	atomic_store(&sheet.error, ENOSPC);
	atomic_store(&sheet.fail_from, 1);
	while ((obj = pcpool_alloc(cache))) {
		expect_cmp(others, <, 64);
		objs[others++] = obj;
	}
	expect_errno(ENOSPC);
	expect_refused(pcpool_sheaf_prefill(cache, 1), ENOSPC);
	expect_eq(pcpool_cache_shrink(cache), 0);
	books(others);
	expect_eq(pcpool_sheaf_size(sheaf), size);
	while (size--) {
		obj = pcpool_sheaf_alloc(cache, sheaf);
		expect(obj);
		pcpool_free(cache, obj);
	}
	pcpool_sheaf_return(cache, sheaf);
	while (others)
		pcpool_free(cache, objs[--others]);
}
END_TEST

/* No more is taken than was asked for and a batch. */
START_TEST(test_modest)
{
	struct pcpool_sheaf *large = must_prefill(5000), *sheaf;

	expect_cmp(pcpool_sheaf_size(large), <=, 5000 + CAPACITY);
	expect_cmp(sheet.ok, <, 5000 + 600);
	pcpool_sheaf_return(cache, large);
	/* It might get that large sheaf, with room for 5000. */
	sheaf = must_prefill(CAPACITY + 1);
	expect_cmp(pcpool_sheaf_size(sheaf), <=, 2 * CAPACITY + 1);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, 30), 0);
	expect_cmp(pcpool_sheaf_size(sheaf), <=, 30 + CAPACITY);
	pcpool_sheaf_return(cache, sheaf);
}
END_TEST

/* Every number once: that must not leave a sheaf behind for each. */
START_TEST(test_growing_numbers)
{
	for (unsigned int n = 1; n < 600; n++)
		pcpool_sheaf_return(cache, must_prefill(n));
	expect_cmp(books(0).sheaves, <=, 40);
	expect_cmp(books(0).metadata_bytes, <=, 256 * 1024);
}
END_TEST

/* --- refills ----------------------------------------------------------------- */

START_TEST(test_refill)
{
	struct pcpool_sheaf *sheaf = must_prefill(2), *before;
	unsigned int size;

	take_and_free(sheaf, pcpool_sheaf_size(sheaf));
	for (unsigned int n = 1; n < 6 * CAPACITY; n += 3) {
		expect_eq(pcpool_sheaf_refill(cache, &sheaf, n), 0);
		expect_cmp(pcpool_sheaf_size(sheaf), >=, n);
		books(0);
	}
	size = pcpool_sheaf_size(sheaf);
	before = sheaf;
	/* Downward: as it was. */
	for (unsigned int n = 0; n <= size; n++) {
		expect_eq(pcpool_sheaf_refill(cache, &sheaf, n), 0);
		expect(sheaf == before);
		expect_eq(pcpool_sheaf_size(sheaf), size);
	}
	take_and_free(sheaf, size);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, 0), 0);
	expect_eq(pcpool_sheaf_size(sheaf), 0);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, MAX), 0);
	take_and_free(sheaf, MAX);
	pcpool_sheaf_return(cache, sheaf);
	books(0);
}
END_TEST

/* What it held is what it holds, however often it is replaced. */
START_TEST(test_refill_keeps)
{
	struct pcpool_sheaf *sheaf = must_prefill(CAPACITY);
	uint64_t built = sheet.ok;
	unsigned int size = pcpool_sheaf_size(sheaf);

	atomic_store(&sheet.fail_from, 1);
	for (unsigned int n = CAPACITY + 1; n < 20 * CAPACITY; n += 7) {
		expect_eq(pcpool_sheaf_refill(cache, &sheaf, n), EXDEV);
		expect_cmp(pcpool_sheaf_size(sheaf), >=, size);
		expect_cmp(pcpool_sheaf_size(sheaf), <, n);
		size = pcpool_sheaf_size(sheaf);
		books(0);
	}
	expect_eq(sheet.ok, built);
	take_and_free(sheaf, size);
	pcpool_sheaf_return(cache, sheaf);
}
END_TEST

/* --- failures lose nothing ------------------------------------------------------ */

/* A prefill and a refill that may fail, and what they got given back. */
static void try_both(void)
{
	struct pcpool_sheaf *sheaf;
	unsigned int size;
	int err;

	errno = 0;
	sheaf = pcpool_sheaf_prefill(cache, 32);
	if (!sheaf) {
		expect_errno(EXDEV);
		return;
	}
	size = pcpool_sheaf_size(sheaf);
	expect_cmp(size, >=, 32);
	err = pcpool_sheaf_refill(cache, &sheaf, 64);
	expect(err == 0 || err == EXDEV);
	expect_cmp(pcpool_sheaf_size(sheaf), >=, err ? size : 64);
	take_and_free(sheaf, 5);
	pcpool_sheaf_return(cache, sheaf);
}

/* A constructor that fails from its k-th call on. */
START_TEST(case_SHF_01)
{
	static const unsigned int capacities[] = { 0, 1, CAPACITY };
	unsigned long rounds = scaled(2000);

	for (unsigned int k = 1; k <= 40; k++) {
		unsigned long n = k % 13 ? rounds / 40 + 1 : rounds;
		uint64_t slabs = 0;

		remake(64, 0, capacities[_i]);
		atomic_store(&sheet.fail_from, k);
		for (unsigned long i = 0; i < n; i++) {
			try_both();
			if (i == 1)
				slabs = stats_of(cache).slabs;
		}
		expect_eq(sheet_built(&sheet), k - 1);
		expect_eq(books(0).slabs, slabs);
		expect_cmp(books(0).sheaves, <=, 16);
		atomic_store(&sheet.fail_from, 0);
		pcpool_sheaf_return(cache, must_prefill(32));
		/* The built ones are all still there. */
		expect_eq(sheet.dtor, 0);
	}
}
END_TEST

START_TEST(test_now_and_then)
{
	for (unsigned int every = 2; every < 20; every++) {
		remake(64, 0, CAPACITY);
		atomic_store(&sheet.fail_every, every);
		for (int i = 0; i < 30; i++)
			try_both();
		books(0);
	}
}
END_TEST

static void *scattered[2][30];

static void take_there(const struct worker *w)
{
	for (int i = 0; i < 30; i++)
		scattered[w->id][i] = must_alloc(cache);
}

static void free_there(const struct worker *w)
{
	for (int i = 0; i < 30; i++)
		pcpool_free(cache, scattered[w->id][i]);
}

/* Nothing can be built: every built object is found, wherever it is. */
START_TEST(test_finds_all)
{
	struct pcpool_sheaf *sheaf;
	unsigned int built;

	run_threads(2, take_there, NULL);
	run_threads(2, free_there, NULL);
	built = (unsigned int)sheet_built(&sheet);
	expect_cmp(built, >=, 60);
	atomic_store(&sheet.fail_from, 1);
	expect_refused(pcpool_sheaf_prefill(cache, built + 1), EXDEV);
	expect_eq(sheet_built(&sheet), built);
	books(0);
	sheaf = must_prefill(built);
	expect_eq(pcpool_sheaf_size(sheaf), built);
	pcpool_sheaf_return(cache, sheaf);
	sheaf = must_prefill(1);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, built), 0);
	expect_eq(pcpool_sheaf_size(sheaf), built);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, built + 1), EXDEV);
	take_and_free(sheaf, built);
	pcpool_sheaf_return(cache, sheaf);
}
END_TEST

/* --- destroy, shrink --------------------------------------------------------------- */

START_TEST(test_destroy_is_refused)
{
	static const unsigned int n[] = { 0, 1, CAPACITY, CAPACITY + 1 };
	struct pcpool_sheaf *sheaf = must_prefill(n[_i]);

	expect_eq(pcpool_cache_destroy(cache), EBUSY);
	books(0);
	take_and_free(sheaf, n[_i]);
	expect_eq(pcpool_cache_destroy(cache), EBUSY);
	/* The sheaf alone, with nothing in it. */
	take_and_free(sheaf, pcpool_sheaf_size(sheaf));
	expect_eq(pcpool_cache_destroy(cache), EBUSY);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, CAPACITY), 0);
	pcpool_sheaf_return(cache, sheaf);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(books(0).slabs, 0);
}
END_TEST

/* Returned part-filled while the slot's spare is taken, it lies in the barn. */
START_TEST(test_shrink_empties_partial)
{
	struct pcpool_sheaf *sheaf[4];

	for (int i = 0; i < 4; i++) {
		sheaf[i] = must_prefill(CAPACITY);
		take_and_free(sheaf[i], CAPACITY / 2 + 1);
	}
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(books(0).cached, 4 * (CAPACITY - CAPACITY / 2 - 1));
	for (int i = 0; i < 4; i++)
		pcpool_sheaf_return(cache, sheaf[i]);
	expect_cmp(books(0).cached, >, 0);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(books(0).cached, 0);
	expect_eq(books(0).slabs, 0);
	expect_eq(books(0).sheaves, 0);
	sheet_balanced(&sheet);
}
END_TEST

/* --- the books -------------------------------------------------------------------- */

START_TEST(test_books)
{
	struct pcpool_sheaf *sheaf[5];
	unsigned int n[5] = { 0, 3, CAPACITY, CAPACITY + 1, 100 };
	uint64_t held = 0;
	void *objs[5];

	for (int i = 0; i < 5; i++) {
		sheaf[i] = must_prefill(n[i]);
		held += pcpool_sheaf_size(sheaf[i]);
		expect_cmp(books(0).cached, >=, held);
	}
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(books(0).cached, held);
	expect_eq(books(0).sheaves, 5);
	for (int i = 1; i < 5; i++) {
		objs[i] = pcpool_sheaf_alloc(cache, sheaf[i]);
		expect(objs[i]);
		expect_eq(books((uint64_t)i).cached, held - (uint64_t)i);
	}
	for (int i = 0; i < 5; i++)
		pcpool_sheaf_return(cache, sheaf[i]);
	expect_eq(books(4).cached + 4, books(4).objects);
	for (int i = 1; i < 5; i++)
		pcpool_free(cache, objs[i]);
	expect_eq(books(0).alloc_fastpath + books(0).alloc_slowpath, 4);
	expect_eq(books(0).free_fastpath + books(0).free_slowpath, 4);
}
END_TEST

/* Each prefill counts once, each return once, and nothing else does. */
START_TEST(test_counters)
{
	struct pcpool_sheaf *sheaf = must_prefill(CAPACITY);
	struct pcpool_cache_stats stats = books(0);

	expect_eq(stats.sheaf_prefill_slow, 1);
	expect_eq(stats.sheaf_prefill_fast, 0);
	expect_eq(stats.sheaf_prefill_oversize, 0);
	pcpool_sheaf_return(cache, sheaf);
	sheaf = must_prefill(CAPACITY);
	stats = books(0);
	expect_eq(stats.sheaf_prefill_slow, 1);
	expect_eq(stats.sheaf_prefill_fast, 1);
	expect_eq(stats.sheaf_return_fast + stats.sheaf_return_slow, 1);
	/* The replaced sheaf was not returned by anyone. */
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, 3 * CAPACITY), 0);
	stats = books(0);
	expect_eq(stats.sheaf_return_fast + stats.sheaf_return_slow, 1);
	pcpool_sheaf_return(cache, sheaf);
	stats = books(0);
	expect_cmp(stats.sheaf_return_slow, >=, 1);
	expect_eq(stats.sheaf_return_fast + stats.sheaf_return_slow, 2);
	sheaf = must_prefill(CAPACITY + 1);
	expect_eq(books(0).sheaf_prefill_oversize, 1);
	pcpool_sheaf_return(cache, sheaf);
	/* Nor was one that never was handed over. */
	atomic_store(&sheet.fail_from, 1);
	expect_refused(pcpool_sheaf_prefill(cache, 1000), EXDEV);
	stats = books(0);
	expect_eq(stats.sheaf_return_fast + stats.sheaf_return_slow, 3);
	expect_eq(stats.sheaf_prefill_oversize, 1);
}
END_TEST

/* --- with other features ------------------------------------------------------------- */

START_TEST(test_reset_hook)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_sheaf *sheaf;
	void *obj;

	teardown();
	sheet = (struct sheet){ .clear = 8 };
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.reset = sheet_reset;
	attr.arg = &sheet;
	attr.sheaf_capacity = CAPACITY;
	attr.flags = _i ? PCPOOL_CHECK : 0;
	cache = pcpool_cache_create("reset", 64, &attr);
	expect(cache);
	sheaf = must_prefill(3 * CAPACITY);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, 4 * CAPACITY), 0);
	expect_eq(sheet.reset, 0);
	for (unsigned int i = 1; i <= 4 * CAPACITY; i++) {
		obj = pcpool_sheaf_alloc(cache, sheaf);
		expect(obj);
		expect_eq(sheet.reset, i);
		pcpool_free(cache, obj);
	}
	pcpool_sheaf_return(cache, sheaf);
	expect_eq(sheet.reset, 4 * CAPACITY);
}
END_TEST

static void free_twice(void *obj)
{
	pcpool_free(cache, obj);
	pcpool_free(cache, obj);
}

/* Free what a sheaf still holds: nobody has been handed it. */
static void free_held(void *obj)
{
	pcpool_free(cache, obj);
}

START_TEST(test_checking)
{
	static struct child child;
	struct pcpool_sheaf *sheaf;
	void *first, *second;

	remake(64, PCPOOL_CHECK, CAPACITY);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) - 1; i++)
		check_promise(counts[i]);
	sheaf = must_prefill(CAPACITY);
	first = pcpool_sheaf_alloc(cache, sheaf);
	expect(first);
	run_child(free_twice, first, 20, &child);
	expect_child_abort(&child, "sheaf", NULL);
	/* Only what came back is known to lie in the sheaf. */
	second = pcpool_sheaf_alloc(cache, sheaf);
	expect(second && second != first);
	pcpool_free(cache, second);
	pcpool_free(cache, first);
	run_child(free_held, second, 20, &child);
	expect_child_abort(&child, "sheaf", NULL);
	pcpool_sheaf_return(cache, sheaf);
	expect_eq(pcpool_cache_shrink(cache), 0);
	expect_eq(books(0).slabs, 0);
}
END_TEST

struct relay {
	struct pcpool_sheaf *sheaf[2];
	void *objs[2][CAPACITY];
};

/* Take from it and give it back, on another CPU than it was filled on. */
static void other_end(const struct worker *w)
{
	struct relay *relay = w->arg;
	struct pcpool_sheaf *sheaf = relay->sheaf[1 - w->id];

	for (int i = 0; i < CAPACITY; i++) {
		relay->objs[w->id][i] = pcpool_sheaf_alloc(cache, sheaf);
		expect(relay->objs[w->id][i]);
		owner_take(relay->objs[w->id][i], w->id + 1);
	}
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, 2 * CAPACITY), 0);
	pcpool_sheaf_return(cache, sheaf);
}

static void fill_here(const struct worker *w)
{
	struct relay *relay = w->arg;

	relay->sheaf[w->id] = must_prefill(CAPACITY * (1 + w->id));
}

START_TEST(test_another_thread)
{
	for (int round = 0; round < 20; round++) {
		struct relay relay;

		run_threads(2, fill_here, &relay);
		run_threads(2, other_end, &relay);
		books(2 * CAPACITY);
		for (unsigned int t = 0; t < 2; t++)
			for (int i = 0; i < CAPACITY; i++) {
				owner_leave(relay.objs[t][i], t + 1);
				pcpool_free(cache, relay.objs[t][i]);
			}
	}
	books(0);
}
END_TEST

/* A sheaf that was out when the process forked serves in both. */
START_TEST(test_fork)
{
	struct pcpool_sheaf *sheaf = must_prefill(CAPACITY);
	int status;
	pid_t pid = fork();

	expect(pid >= 0);
	take_and_free(sheaf, CAPACITY / 2);
	expect_eq(pcpool_sheaf_refill(cache, &sheaf, 3 * CAPACITY), 0);
	take_and_free(sheaf, 3 * CAPACITY);
	pcpool_sheaf_return(cache, sheaf);
	if (!pid) {
		destroy_balanced(cache, &sheet);
		_exit(0);
	}
	expect_eq(waitpid(pid, &status, 0), pid);
	expect(WIFEXITED(status) && !WEXITSTATUS(status));
}
END_TEST

/* --- extremes -------------------------------------------------------------------------- */

START_TEST(case_SHF_11)
{
	static const unsigned int capacities[] = { 1, 2, 3,
						   PCPOOL_SHEAF_CAPACITY_MAX };
	static const size_t sizes[] = { 8, 30000, 1 << 20 };
	unsigned int cap = capacities[_i];

	for (int i = 0; i < 3; i++) {
		unsigned int most = sizes[i] > 100000 ? 20 : 3 * cap + 5;
		unsigned int n[] = { 0, 1, cap, cap + 1, most };

		if (cap > most)
			continue; /* gigabytes */
		remake(sizes[i], 0, cap);
		expect_eq(books(0).sheaf_capacity, cap);
		for (size_t j = 0; j < sizeof(n) / sizeof(n[0]); j++) {
			struct pcpool_sheaf *sheaf;

			check_promise(n[j]);
			sheaf = must_prefill(n[j]);
			expect_eq(pcpool_sheaf_refill(cache, &sheaf, most), 0);
			expect_cmp(pcpool_sheaf_size(sheaf), >=, most);
			expect_eq(pcpool_sheaf_refill(cache, &sheaf, 1), 0);
			expect_cmp(pcpool_sheaf_size(sheaf), >=, most);
			take_and_free(sheaf, most);
			pcpool_sheaf_return(cache, sheaf);
			books(0);
		}
		expect_eq(pcpool_cache_shrink(cache), 0);
		expect_eq(books(0).slabs, 0);
	}
}
END_TEST

/* The promise and the books with barn_refill:off; run by itself again. */
START_TEST(test_without_barn_refill)
{
	static const char *const args[] = { "--promise", NULL };
	static struct child child;

	run_self(args, "barn_refill:off,parking:off", 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

static int promise_only(void)
{
	setup();
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		check_promise(counts[i]);
	try_both();
	teardown();
	return 0;
}

/* --- misuse ---------------------------------------------------------------- */

static void misuse(void *arg)
{
	const int how = *(int *)arg;
	struct pcpool_cache *mine = pcpool_cache_create("victim", 64, NULL);
	struct pcpool_cache *other = pcpool_cache_create("other", 64, NULL);
	struct pcpool_sheaf *sheaf = pcpool_sheaf_prefill(mine, 4);

	expect(sheaf);
	if (how < 3)
		pcpool_sheaf_return(mine, sheaf);
	if (how % 3 == 0)
		pcpool_sheaf_return(how ? other : mine, sheaf);
	else if (how % 3 == 1)
		pcpool_sheaf_alloc(how > 3 ? other : mine, sheaf);
	else
		pcpool_sheaf_refill(how > 3 ? other : mine, &sheaf, 8);
}

/* Returned twice, taken from and refilled after the return; the same with
 * another cache. */
START_TEST(test_misuse)
{
	static struct child child;

	for (int how = 0; how < 6; how++) {
		run_child(misuse, &how, 60, &child);
		expect_child_abort(&child, "pcpool: ",
				   how < 3 ? "a sheaf that is not out"
					   : "a sheaf of another cache",
				   how < 3 ? "victim" : "other", NULL);
	}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc == 2 && !strcmp(argv[1], "--promise"))
		return promise_only();
	tc = suite_case("sheaf", 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_prefill_refused);
	tcase_add_test(tc, test_alloc_refused);
	tcase_add_test(tc, test_refill_refused);
	tcase_add_test(tc, test_return_of_nothing);
	tcase_add_test(tc, test_return_to_no_cache);
	tcase_add_loop_test(tc, test_promise, 0,
			    sizeof(counts) / sizeof(counts[0]));
	tcase_add_loop_test(tc, test_others_cannot_take_it, 0, 2);
	tcase_add_test(tc, test_modest);
	tcase_add_test(tc, test_growing_numbers);
	tcase_add_test(tc, test_refill);
	tcase_add_test(tc, test_refill_keeps);
	tcase_add_loop_test(tc, case_SHF_01, 0, 3);
	tcase_add_test(tc, test_now_and_then);
	tcase_add_test(tc, test_finds_all);
	tcase_add_loop_test(tc, test_destroy_is_refused, 0, 4);
	tcase_add_test(tc, test_shrink_empties_partial);
	tcase_add_test(tc, test_books);
	tcase_add_test(tc, test_counters);
	tcase_add_loop_test(tc, test_reset_hook, 0, 2);
	tcase_add_test(tc, test_checking);
	tcase_add_test(tc, test_another_thread);
	tcase_add_test(tc, test_fork);
	tcase_add_loop_test(tc, case_SHF_11, 0, 4);
	tcase_add_test(tc, test_without_barn_refill);
	tcase_add_test(tc, test_misuse);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU regions as users see them: every copy, sums, operations on the
 * caller's own copy, and the end of a process that frees what it must not.
 */
#include <config.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <pcpool/percpu.h>

#include "../common.h"
#include "../suite.h"

static void *must_region(size_t size, size_t align)
{
	void *p = pcpool_percpu_alloc(size, align);

	if (!p)
		fail_now("region of %zu, align %zu: %s", size, align,
			 strerror(errno));
	return p;
}

/* --- copies ------------------------------------------------------------------
 */

/* Many regions of all sizes and alignments at once: no copy of any slot
 * overlaps another, through frees and reuse. Owner stamps in every word. */
struct stamped {
	uint64_t *p;
	size_t words;
	uint64_t stamp;
};

static void stamp(struct stamped *region, uint64_t value)
{
	region->stamp = value;
	for (unsigned int s = 0; s < pcpool_nr_slots(); s++) {
		uint64_t *copy = pcpool_percpu_ptr(region->p, s);

		for (size_t i = 0; i < region->words; i++) {
			expect_eq(copy[i], 0);
			copy[i] = value + s;
		}
	}
}

static void check_stamp(const struct stamped *region)
{
	for (unsigned int s = 0; s < pcpool_nr_slots(); s++) {
		const uint64_t *copy = pcpool_percpu_ptr(region->p, s);

		for (size_t i = 0; i < region->words; i++)
			expect_eq(copy[i], region->stamp + s);
	}
}

START_TEST(test_no_overlap)
{
	enum { LIVE = 400 };
	static struct stamped live[LIVE];
	struct rng rng;

	rng_seed(&rng, 5);
	for (uint64_t step = 0; step < 12000; step++) {
		struct stamped *region = &live[rng_below(&rng, LIVE)];
		size_t align = (size_t)1 << rng_below(&rng, 13);

		if (region->p) {
			check_stamp(region);
			pcpool_percpu_free(region->p);
		}
		region->words = 1 + rng_below(&rng, step % 50 ? 40 : 8192);
		region->p = must_region(region->words * 8, align);
		expect_eq((uintptr_t)pcpool_percpu_ptr(region->p, 0) % align,
			  0);
		expect_eq((uintptr_t)pcpool_percpu_ptr(region->p,
						       pcpool_nr_slots() - 1) %
				  align,
			  0);
		stamp(region, step << 16);
	}
	for (int i = 0; i < LIVE; i++) {
		if (live[i].p)
			check_stamp(&live[i]);
		pcpool_percpu_free(live[i].p);
	}
}
END_TEST

START_TEST(test_slots)
{
	unsigned int slots = pcpool_nr_slots();
	char *p = must_region(16, 0), *first = pcpool_percpu_ptr(p, 0);

	expect_cmp(slots, >=, 1);
	expect_cmp(pcpool_nr_nodes(), >=, 1);
	for (unsigned int cpu = 0; cpu < allowed_cpus(); cpu++) {
		pin_to(cpu);
		expect_cmp(pcpool_this_slot(), <, slots);
	}
	unpin();
	expect_eq(pcpool_nr_slots(), slots);
	/* Displaced inside a region, and one distance for all regions. */
	for (unsigned int s = 1; s < slots; s++) {
		char *copy = pcpool_percpu_ptr(p, s);
		char *one = pcpool_percpu_ptr(p, 1);

		expect(pcpool_percpu_ptr(p + 8, s) == copy + 8);
		expect_eq(copy - first, (ptrdiff_t)s * (one - first));
	}
	pcpool_percpu_free(p);
}
END_TEST

/* --- sums and the caller's own copy --------------------------------------- */

START_TEST(test_sums)
{
	unsigned int slots = pcpool_nr_slots();
	uint64_t *p = must_region(64, 8);
	uint32_t *half = (uint32_t *)&p[1];
	uint64_t want = 0;

	for (unsigned int s = 0; s < slots; s++) {
		uint64_t *copy = pcpool_percpu_ptr(p, s);

		copy[0] = (UINT64_C(1) << 60) * (s + 3);
		want += copy[0];
		*(uint32_t *)pcpool_percpu_ptr(half, s) = 0xf0000000U + s;
		*(uint32_t *)pcpool_percpu_ptr(half + 1, s) = 7;
	}
	expect(pcpool_percpu_sum_u64(p) == want);
	expect_eq(pcpool_percpu_sum_u32(half),
		  (uint32_t)(slots * 0xf0000000U + slots * (slots - 1) / 2));
	expect_eq(pcpool_percpu_sum_u32(half + 1), 7 * slots);
	pcpool_percpu_free(p);
}
END_TEST

/* Each argument evaluated once, 4 and 8 bytes told apart, negative numbers. */
START_TEST(test_macros)
{
	struct both {
		uint64_t wide;
		int32_t narrow;
		uint32_t guard;
	} *p = must_region(sizeof(*p), 8), *once = p;
	int value = 5;

	pin_to(0);
	pcpool_this_cpu_add(&(once++)->wide, value++);
	expect_eq(once - p, 1);
	expect_eq(value, 6);
	pcpool_this_cpu_inc(&p->wide);
	pcpool_this_cpu_add(&p->wide, -10);
	pcpool_this_cpu_add(&p->narrow, -10);
	pcpool_this_cpu_inc(&p->narrow);
	expect_eq((int64_t)pcpool_percpu_sum_u64(&p->wide), -4);
	expect_eq((int32_t)pcpool_percpu_sum_u32(&p->narrow), -9);
	expect_eq(pcpool_percpu_sum_u32(&p->guard), 0);
	expect_eq((int64_t)pcpool_this_cpu_read_u64(&p->wide), -4);
	expect_eq((int32_t)pcpool_this_cpu_read_u32(&p->narrow), -9);
	unpin();
	pcpool_percpu_free(p);
}
END_TEST

struct counts {
	uint64_t *wide;
	uint32_t *narrow;
};

enum { ADDS = 100000, THREADS = 16 };

/* A sum that tore would show in the low half. */
#define HIGH ((uint64_t)1 << 33)

static struct counts counts;
static atomic_ullong handled;
static atomic_uint running;

static void on_alarm(int signal)
{
	(void)signal;
	/* To the very word that the interrupted thread may be adding to. */
	pcpool_this_cpu_add_u64(counts.wide, HIGH);
	pcpool_this_cpu_add_u32(counts.narrow, 1);
	atomic_fetch_add(&handled, 1);
}

static void adder(const struct worker *worker)
{
	for (unsigned int i = 0; i < ADDS; i++) {
		pcpool_this_cpu_add_u64(counts.wide, HIGH);
		pcpool_this_cpu_add_u32(counts.narrow, worker->id);
		if (i % 4096 == 0)
			pin_to(worker->id + i / 4096);
	}
	atomic_fetch_sub(&running, 1);
}

static void *summer(void *arg)
{
	uint64_t last = 0;

	/* Sums never tear and, as nobody subtracts, never go back by more than
	 * what is added meanwhile: not at all for one reader. */
	while (atomic_load(&running)) {
		uint64_t sum = pcpool_percpu_sum_u64(counts.wide);

		expect_eq(sum % HIGH, 0);
		expect(sum >= last);
		last = sum;
	}
	return arg;
}

static void add_and_sum(void)
{
	const struct itimerval every = { { 0, 100 }, { 0, 100 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm,
				    .sa_flags = SA_RESTART };
	pthread_t thread;

	counts.wide = must_region(8, 8);
	counts.narrow = must_region(4, 4);
	atomic_store(&running, THREADS);
	expect(!pthread_create(&thread, NULL, summer, NULL));
	expect(!sigaction(SIGALRM, &action, NULL));
	expect(!setitimer(ITIMER_REAL, &every, NULL));
	run_threads(THREADS, adder, NULL);
	expect(!setitimer(ITIMER_REAL, &never, NULL));
	expect(!pthread_join(thread, NULL));
	expect_eq(pcpool_percpu_sum_u64(counts.wide) / HIGH,
		  (uint64_t)ADDS * THREADS + atomic_load(&handled));
	expect_eq(pcpool_percpu_sum_u32(counts.narrow),
		  (uint32_t)(ADDS * (THREADS * (THREADS - 1) / 2) +
			     atomic_load(&handled)));
	expect_cmp(atomic_load(&handled), >, 0);
	pcpool_percpu_free(counts.wide);
	pcpool_percpu_free(counts.narrow);
}

/* Not one add is lost to preemption, migration or signals. */
START_TEST(test_exact)
{
	add_and_sum();
}
END_TEST

/* Nor where threads on different CPUs share a slot. */
START_TEST(test_exact_one_slot)
{
	static const char *const args[] = { "one-slot", NULL };
	static struct child child;

	run_self(args, "slots:1", 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* --- bulk ----------------------------------------------------------------- */

START_TEST(test_bulk)
{
	enum { N = 3000 };
	static void *p[N];

	for (int round = 0; round < 2; round++) {
		expect_eq(pcpool_percpu_alloc_bulk(N, 24, 8, p), 0);
		for (int i = 0; i < N; i++) {
			struct stamped region = { p[i], 3, 0 };

			stamp(&region, (uint64_t)(i + 1) << 16);
		}
		for (int i = 0; i < N; i++) {
			struct stamped region = { p[i], 3,
						  (uint64_t)(i + 1) << 16 };

			check_stamp(&region);
		}
		/* Some one by one, the rest with NULLs between. */
		for (int i = 0; i < N; i += 3) {
			pcpool_percpu_free(p[i]);
			p[i] = NULL;
		}
		expect_eq(pcpool_percpu_free_bulk(N, p), 0);
	}
}
END_TEST

/* --- frees that must not be ----------------------------------------------- */

struct death {
	const char *what;
	const char *said;
	void (*fn)(char *region);
};

static void die_double(char *p)
{
	pcpool_percpu_free(p);
	pcpool_percpu_free(p);
}

static void die_double_later(char *p)
{
	static void *others[1000];

	expect_eq(pcpool_percpu_alloc_bulk(1000, 5000, 0, others), 0);
	pcpool_percpu_free(p);
	expect_eq(pcpool_percpu_free_bulk(1000, others), 0);
	pcpool_percpu_free(p);
}

static void die_double_bulk(char *p)
{
	void *ptrs[3] = { NULL, p, p };

	pcpool_percpu_free_bulk(3, ptrs);
}

static void die_interior(char *p)
{
	pcpool_percpu_free(p + 8);
}

static void die_interior_end(char *p)
{
	pcpool_percpu_free(p + 4999);
}

static void die_unaligned(char *p)
{
	pcpool_percpu_free(p + 1);
}

static void die_copy(char *p)
{
	pcpool_percpu_free(pcpool_percpu_ptr(p, 1));
}

static void die_stack(char *p)
{
	pcpool_percpu_free(&p);
}

static void die_heap(char *p)
{
	p = malloc(100);
	pcpool_percpu_free(p);
}

static void die_unmapped(char *p)
{
	(void)p;
	pcpool_percpu_free((void *)4096);
}

static void die_top(char *p)
{
	(void)p;
	pcpool_percpu_free((void *)(UINTPTR_MAX - 7));
}

static const struct death deaths[] = {
	{ "twice", "not in use", die_double },
	{ "twice, much later", "not in use", die_double_later },
	{ "twice in one bulk", "not in use", die_double_bulk },
	{ "interior", "inside", die_interior },
	{ "last byte", "inside", die_interior_end },
	{ "not even aligned", "inside", die_unaligned },
	{ "a slot's copy", "no per-CPU region", die_copy },
	{ "stack", "no per-CPU region", die_stack },
	{ "heap", "no per-CPU region", die_heap },
	{ "unmapped", "no per-CPU region", die_unmapped },
	{ "top of memory", "no per-CPU region", die_top },
};

#define NR_DEATHS (sizeof(deaths) / sizeof(deaths[0]))

static void die(void *arg)
{
	const struct death *death = arg;

	death->fn(must_region(5000, 0));
}

START_TEST(test_deaths)
{
	static struct child child;
	struct death death = deaths[_i];

	if (death.fn == die_copy && pcpool_nr_slots() < 2)
		return;
	run_child(die, &death, 20, &child);
	expect_child_abort(&child, "pcpool: ", death.said, ": object 0x",
			   ", caller 0x", NULL);
}
END_TEST

/* --- fork ----------------------------------------------------------------- */

static uint64_t *shared[2];

static void forked(void *arg)
{
	unsigned int slots = pcpool_nr_slots();

	(void)arg;
	expect_eq(pcpool_percpu_sum_u64(shared[0]), 1000 * slots);
	for (unsigned int s = 0; s < slots; s++)
		*(uint64_t *)pcpool_percpu_ptr(shared[0], s) = 1;
	for (int i = 0; i < 500; i++)
		pcpool_this_cpu_add(shared[0], 1);
	expect_eq(pcpool_percpu_sum_u64(shared[0]), 500 + slots);
	pcpool_percpu_free(shared[0]);
	pcpool_percpu_free(shared[1]);
	pcpool_percpu_free(must_region(64, 0));
	exit(3);
}

/* What a child does to regions stays in the child. */
START_TEST(case_PCP_02_fork)
{
	static struct child child;
	unsigned int slots = pcpool_nr_slots();

	for (int i = 0; i < 2; i++)
		shared[i] = must_region(64, 0);
	for (unsigned int s = 0; s < slots; s++)
		*(uint64_t *)pcpool_percpu_ptr(shared[0], s) = 1000;
	for (int i = 0; i < 20; i++) {
		run_child(forked, NULL, 20, &child);
		expect_child_exit(&child, 3);
		expect_eq(pcpool_percpu_sum_u64(shared[0]), 1000 * slots);
	}
	pcpool_percpu_free(shared[0]);
	pcpool_percpu_free(shared[1]);
}
END_TEST

static unsigned int count_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned int n = 0;
	int c;

	expect(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static unsigned int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	expect(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static size_t address_space(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	expect(f && fscanf(f, "%lu", &pages) == 1);
	fclose(f);
	return pages * 4096;
}

static void creations(void *arg)
{
	enum { MOST = 64 };
	static void *p[MOST];
	unsigned int maps, fds, failed = 0;
	struct rlimit limit;
	size_t room = (size_t)4 << 20;
	void *keep = must_region(8, 0);

	(void)arg;
	room += 2 * (size_t)pcpool_nr_slots() * (320 << 10);
	maps = count_lines("/proc/self/maps");
	fds = count_fds();
	limit.rlim_cur = limit.rlim_max = address_space() + room;
	expect(!setrlimit(RLIMIT_AS, &limit));
	for (int i = 0; i < 1000; i++) {
		int n = 0;

		while (n < MOST && (p[n] = pcpool_percpu_alloc(65536, 0)))
			n++;
		if (n < MOST) {
			expect_errno(ENOMEM);
			failed++;
		}
		expect_cmp(n, >, 0);
		expect_eq(pcpool_percpu_free_bulk((size_t)n, p), 0);
		expect_eq(pcpool_percpu_alloc_bulk(MOST, 65536, 0, p), ENOMEM);
		for (n = 0; n < MOST; n++)
			expect(!p[n]);
	}
	expect_eq(failed, 1000);
	expect_cmp(count_lines("/proc/self/maps"), <=, maps + 4);
	expect_eq(count_fds(), fds);
	pcpool_percpu_free(keep);
	exit(0);
}

/* Creation that fails half way, a thousand times. */
START_TEST(case_PCP_02_creations)
{
	static struct child child;
	const char *preload = getenv("LD_PRELOAD");

	/* Sanitizers and Valgrind need the address space for themselves, and
	 * with very many synthetic slots this would use all memory. */
	if (TEST_ASAN || TEST_TSAN || TEST_EMULATED ||
	    pcpool_nr_slots() > 512 ||
	    (preload && strstr(preload, "vgpreload")))
		return;
	run_child(creations, NULL, 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc > 1 && !strcmp(argv[1], "one-slot")) {
		add_and_sum();
		return 0;
	}
	tc = suite_case("percpu api", 120);

	tcase_add_test(tc, test_no_overlap);
	tcase_add_test(tc, test_slots);
	tcase_add_test(tc, test_sums);
	tcase_add_test(tc, test_macros);
	tcase_add_test(tc, test_exact);
	tcase_add_test(tc, test_exact_one_slot);
	tcase_add_test(tc, test_bulk);
	tcase_add_loop_test(tc, test_deaths, 0, NR_DEATHS);
	tcase_add_test(tc, case_PCP_02_fork);
	tcase_add_test(tc, case_PCP_02_creations);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * lib/percpu/chunk.c, region.c, thiscpu.c: memory behind the regions. What is
 * touched and zeroed when, what comes back to the system, what happens without
 * memory, and which locks are taken.
 */
#include <config.h>

#include <inttypes.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "percpu_fixture.h"
#include "suite.h"

#include "base/fault.h"
#include "cpu/init.h"
#include "cpu/topology.h"

#if PCP_HAVE_RSEQ
#include <sys/rseq.h>
#endif

/* Stands before the libc's: tests of this file can make it fail. */
static bool munmap_fails;

int munmap(void *p, size_t size)
{
	if (munmap_fails) {
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_munmap, p, size);
}

/* The process's mappings; 0 where a sanitizer makes more of its own. */
static unsigned int map_lines(void)
{
	unsigned int lines = 0;
	FILE *f;
	int c;

	if (TEST_TSAN)
		return 0;
	f = fopen("/proc/self/maps", "r");
	expect(f);
	while ((c = getc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

/* --- touching and zeroing ------------------------------------------------- */

START_TEST(test_fresh_is_untouched)
{
	/* With larger pages several of them share one. */
	if (pcp_page_size() != PAGE)
		return;
	for (size_t size = 1; size <= PCPOOL_PERCPU_SIZE_MAX; size *= 2) {
		void *p = must_alloc(size, PAGE);

		expect_eq(resident_all(p, size), 0);
		expect_bytes(p, size, 0, pcp_nr_slots());
	}
	expect_cmp(stats().populated_bytes, >=, PCPOOL_PERCPU_SIZE_MAX);
}
END_TEST

/* A fresh region next to a used one of the same page is known to be zero too:
 * copies nobody touched stay so. */
START_TEST(test_fresh_in_used_page)
{
	char *p = must_alloc(64, PAGE), *q;

	memset(p, 1, 64);
	q = must_alloc(64, 0);
	expect_eq(q - p, 64);
	expect_eq(resident(pcp_percpu_copy(q, 0), 64), 1);
	for (unsigned int slot = 1; slot < pcp_nr_slots(); slot++)
		expect_eq(resident(pcp_percpu_copy(q, slot), 64), 0);
	expect_bytes(q, 64, 0, pcp_nr_slots());
	verify();
}
END_TEST

START_TEST(test_recycled_is_zeroed)
{
	static const size_t sizes[] = { 1,    7,    8,
					24,   100,  4095,
					4096, 5000, PCPOOL_PERCPU_SIZE_MAX };
	size_t size = sizes[_i];
	void *keep = must_alloc(8, 0), *p = must_alloc(size, 0), *q;

	fill(p, size, 0xa5, pcp_nr_slots());
	pcpool_percpu_free(p);
	q = must_alloc(size, 0);
	/* The same place, or the test shows nothing. */
	expect(q == p);
	expect_bytes(q, size, 0, pcp_nr_slots());
	pcpool_percpu_free(q);
	pcpool_percpu_free(keep);
	verify();
}
END_TEST

START_TEST(test_stray_copy_is_left_alone)
{
	void *p = must_alloc(64, PAGE);

	if (!pcp_index.rseq)
		return;
	fill(p, 64, 1, pcp_index.stray);
	pcpool_percpu_free(p);
	expect(must_alloc(64, PAGE) == p);
	expect_bytes(p, 64, 0, pcp_index.stray);
	expect_eq(resident(pcp_percpu_copy(p, pcp_index.stray), 64), 0);
	/* Once somebody may have written there it is zeroed like the others. */
	memset(pcpool_percpu_ptr(p, pcp_index.stray), 1, 64);
	pcpool_percpu_free(p);
	expect(must_alloc(64, PAGE) == p);
	expect_bytes(p, 64, 0, pcp_nr_slots());
}
END_TEST

START_TEST(test_bulk_zeroes)
{
	enum { N = 700 };
	static void *p[N];

	for (int round = 0; round < 3; round++) {
		expect_eq(pcpool_percpu_alloc_bulk(N, 40, 0, p), 0);
		for (int i = 0; i < N; i++) {
			expect(p[i] && !((uintptr_t)p[i] & 7));
			expect_bytes(p[i], 40, 0, pcp_nr_slots());
			fill(p[i], 40, 0xff, pcp_nr_slots());
		}
		expect_eq(pcpool_percpu_free_bulk(N, p), 0);
		verify();
	}
}
END_TEST

/* --- chunks ----------------------------------------------------------------
 */

/* Enough regions of the largest size for so many chunks. */
static size_t fill_chunks(void **p, size_t max, unsigned int chunks)
{
	size_t n = 0;

	while (stats().chunks < chunks) {
		expect_cmp(n, <, max);
		p[n++] = must_alloc(PCPOOL_PERCPU_SIZE_MAX, 0);
	}
	return n;
}

START_TEST(test_give_back)
{
	static void *p[100];
	unsigned int gone = 0;
	size_t n;

	pcpool_percpu_free(must_alloc(8, 0));
	expect_eq(stats().chunks, 1);
	n = fill_chunks(p, 100, 5);
	for (size_t i = 0; i < n; i++)
		pcpool_percpu_free(p[i]);
	verify();
	expect_eq(stats().chunks, 1);
	expect_eq(stats().chunk_alloc, 5);
	expect_eq(stats().chunk_free, 4);
	for (size_t i = 0; i < n; i++) {
		unsigned char vec;
		uintptr_t page = (uintptr_t)p[i] & ~(pcp_page_size() - 1);

		gone += mincore((void *)page, 1, &vec) && errno == ENOMEM;
	}
	expect_cmp(gone, >=, n / 2);
	/* And on. */
	pcpool_percpu_free(must_alloc(8, 0));
	expect_eq(stats().chunk_alloc, 5);
}
END_TEST

/* The system refuses to unmap: nothing is lost, nothing aborts, the memory is
 * given back all the same and the address space once that works again. */
START_TEST(test_unmap_refused)
{
	static void *p[100];
	size_t n = fill_chunks(p, 100, 4);
	struct pcp_percpu_snapshot now;

	for (size_t i = 0; i < n; i++)
		fill(p[i], PAGE, 0x77, pcp_nr_slots());
	munmap_fails = true;
	for (size_t i = 0; i < n; i++) {
		errno = 4711;
		pcpool_percpu_free(p[i]);
		expect_errno(4711);
	}
	verify();
	now = stats();
	expect_eq(now.chunks, 4);
	expect_eq(now.chunk_free, 0);
	expect_eq(now.regions, 0);
	/* Only the chunk that is kept in any case may still have pages. */
	expect_cmp(now.populated_bytes, <=, now.unit_size);
	for (size_t i = 0; i < n; i++) {
		p[i] = must_alloc(PCPOOL_PERCPU_SIZE_MAX, 0);
		expect_bytes(p[i], PAGE, 0, pcp_nr_slots());
	}
	expect_eq(stats().chunk_alloc, 4);
	for (size_t i = 1; i < n; i++)
		pcpool_percpu_free(p[i]);
	munmap_fails = false;
	pcpool_percpu_free(p[0]);
	expect_eq(stats().chunks, 1);
	verify();
}
END_TEST

/* The same with a chunk of which a tending has given some pages back and was
 * about to go on with others. */
START_TEST(test_unmap_refused_when_due)
{
	static void *p[100];
	size_t n = fill_chunks(p, 100, 3) - 1, mine = 0;
	struct pcp_budget all = { 0 }, one = { .bounded = true, .left = 1 };

	/* The second chunk's, four of them: every other is live. */
	while (((uintptr_t)p[mine] ^ (uintptr_t)p[n - 1]) >>
	       pcp_chunk_geometry.shift)
		mine++;
	expect_cmp(n - mine, >=, 4);
	for (size_t i = mine; i < n; i++)
		fill(p[i], PCPOOL_PERCPU_SIZE_MAX, 0x77, pcp_nr_slots());
	pcpool_percpu_free(p[mine]);
	pcpool_percpu_free(p[mine + 2]);
	expect(pcp_region_tend(&all));
	expect(!pcp_region_tend(&one));
	expect_cmp(stats().discarded_bytes, >, 0);
	/* First another one is empty, and kept. */
	for (size_t i = 0; i < mine; i++)
		pcpool_percpu_free(p[i]);
	munmap_fails = true;
	for (size_t i = mine; i < n; i++)
		if (i != mine && i != mine + 2)
			pcpool_percpu_free(p[i]);
	verify();
	munmap_fails = false;
	expect(pcp_region_tend(&all));
	verify();
	for (size_t i = 0; i < n; i++) {
		p[i] = must_alloc(PCPOOL_PERCPU_SIZE_MAX, 0);
		expect_bytes(p[i], PAGE, 0, pcp_nr_slots());
	}
	verify();
}
END_TEST

/* Wherever memory ends, what was there before is there after. */
START_TEST(test_no_memory)
{
	static const enum pcp_fault_point points[] = { PCP_FAULT_META,
						       PCP_FAULT_RESERVE,
						       PCP_FAULT_COMMIT };
	enum { N = 40 };
	void *p[N];
	unsigned int lines;
	struct pcp_percpu_snapshot before;

	pcpool_percpu_free(must_alloc(8, 0));
	before = stats();
	lines = map_lines();
	pcp_fault_set(points[_i], 1, true);
	/* The chunk there is holds four of the largest at most, or the next
	 * ones fail; single first. */
	for (int i = 0; i < N; i++) {
		errno = 0;
		p[i] = pcpool_percpu_alloc(PCPOOL_PERCPU_SIZE_MAX, 0);
		if (!p[i])
			expect_errno(ENOMEM);
	}
	expect(p[0] && !p[N - 1]);
	/* Small ones still find room. */
	pcpool_percpu_free(must_alloc(8, 0));
	for (int i = 0; i < N; i++)
		pcpool_percpu_free(p[i]);
	verify();
	for (int i = 0; i < N; i++)
		p[i] = &p[i];
	expect_eq(pcpool_percpu_alloc_bulk(N, PCPOOL_PERCPU_SIZE_MAX, 0, p),
		  ENOMEM);
	for (int i = 0; i < N; i++)
		expect(!p[i]);
	verify();
	expect_eq(stats().regions, before.regions);
	expect_eq(stats().region_bytes, before.region_bytes);
	expect_eq(stats().chunks, before.chunks);
	expect_cmp(stats().alloc_fail, >, before.alloc_fail);
	expect_cmp(map_lines(), <=, lines + 1);
	pcp_fault_set(points[_i], 0, false);
	expect_eq(pcpool_percpu_alloc_bulk(N, PCPOOL_PERCPU_SIZE_MAX, 0, p), 0);
	expect_eq(pcpool_percpu_free_bulk(N, p), 0);
	expect_eq(stats().chunks, 1);
	verify();
}
END_TEST

/* Before giving up for lack of memory every corner is searched. */
START_TEST(test_last_resort)
{
	enum { N = 20000 };
	static void *p[N];
	size_t n = 0, holes = 0, got = 0;

	pcpool_percpu_free(must_alloc(8, 0));
	pcp_fault_set(PCP_FAULT_RESERVE, 1, true);
	/* Every block with a hole for 16 bytes at a multiple of 64, behind many
	 * holes of that size that lie elsewhere. */
	while (n < N && (p[n] = pcpool_percpu_alloc(16, 0)))
		n++;
	expect_cmp(n, <, N);
	for (size_t i = 0; i < n; i++) {
		bool aligned = !((uintptr_t)p[i] % 64);

		if (((uintptr_t)p[i] / 16) % 4 == 1 ||
		    (aligned && i % 7 == 0)) {
			holes += aligned;
			pcpool_percpu_free(p[i]);
		}
	}
	for (errno = 0; pcpool_percpu_alloc(16, 64); got++)
		expect_errno(0);
	expect_errno(ENOMEM);
	expect_cmp(got, ==, holes);
	verify();
}
END_TEST

START_TEST(test_errno_is_kept)
{
	void *p[200];

	errno = 4711;
	for (int i = 0; i < 200; i++)
		p[i] = must_alloc(PCPOOL_PERCPU_SIZE_MAX, 0);
	for (int i = 0; i < 200; i++)
		pcpool_percpu_free(p[i]);
	expect_eq(pcpool_percpu_alloc_bulk(200, 4096, 64, p), 0);
	expect_eq(pcpool_percpu_free_bulk(200, p), 0);
	expect_errno(4711);
}
END_TEST

/* --- geometry --------------------------------------------------------------
 */

START_TEST(test_geometry)
{
	static const unsigned int cpus[] = { 1, 2, 191, 255, 256, 1023, 4096 };

	pcp_init();
	pcp_index.nr_ids = cpus[_i];
	pcp_chunk_init();
	expect_eq(pcp_chunk_geometry.slots, pcp_nr_slots());
	expect_eq(pcp_chunk_geometry.stride % PAGE, 0);
	expect_eq(pcp_chunk_geometry.stride % pcp_page_size(), 0);
	/* Copies spread over the sets of a cache. */
	expect_eq(pcp_chunk_geometry.stride / pcp_page_size() % 2, 1);
	expect_cmp(pcp_chunk_geometry.stride, >=, 2 * PCPOOL_PERCPU_SIZE_MAX);
	expect_cmp(pcp_chunk_geometry.stride >> PCP_BLOCK_SHIFT, <=,
		   PCP_CHUNK_BLOCKS_MAX);
	expect_cmp((size_t)1 << pcp_chunk_geometry.shift, >=,
		   pcp_chunk_geometry.stride);
	expect_eq(pcp_chunk_geometry.size,
		  pcp_chunk_geometry.stride * pcp_nr_slots());
	expect_cmp(pcp_chunk_geometry.size, <=, (size_t)1 << 30);
}
END_TEST

/* A huge page would give memory to several units at the touch of one. */
START_TEST(test_no_huge_pages)
{
	uintptr_t p = (uintptr_t)must_alloc(8, 0);
	FILE *f = fopen("/proc/self/smaps", "r");
	bool here = false, seen = false, refused = false;
	char line[512];

	expect(f);
	if (TEST_EMULATED ||
	    access("/sys/kernel/mm/transparent_hugepage", F_OK)) {
		fclose(f);
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		uintptr_t a, b;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &a, &b) == 2)
			here = a <= p && p < b;
		if (here && !strncmp(line, "VmFlags:", 8)) {
			seen = true;
			refused = strstr(line, " nh") != NULL;
		}
	}
	fclose(f);
	expect(seen && refused);
}
END_TEST

/* One call for each run of units on a node; none where that would be too many,
 * where slots are on no node, or where there is one node only. */
static unsigned long binds(void)
{
	struct pcp_chunk *chunk;
	unsigned long n;

	pcp_chunk_init();
	pcp_fault_set(PCP_FAULT_BIND, 0, false);
	chunk = pcp_chunk_create();
	expect(chunk);
	n = pcp_fault_passed(PCP_FAULT_BIND);
	expect(pcp_chunk_destroy(chunk));
	return n;
}

START_TEST(test_binding)
{
	enum { CPUS = 128 };
	static uint16_t node_of[CPUS], os_node[2];

	pcp_init();
	pcp_index.nr_ids = CPUS;
	pcp_index.stray = CPUS;
	pcp_index.cid = pcp_index.hash = false;
	pcp_topology = (struct pcp_topology){
		.nr_cpus = CPUS,
		.possible = CPUS,
		.nr_nodes = 2,
		.cpu_node = node_of,
		.os_node = os_node,
	};
	for (int cpu = 0; cpu < CPUS; cpu++)
		node_of[cpu] = cpu / 32 % 2;
	expect_eq(binds(), 4);
	pcp_index.cid = true;
	expect_eq(binds(), 0);
	pcp_index.cid = false;
	pcp_index.hash = true;
	expect_eq(binds(), 0);
	pcp_index.hash = false;
	for (int cpu = 0; cpu < CPUS; cpu++)
		node_of[cpu] = cpu % 2;
	expect_eq(binds(), 0);
	node_of[CPUS - 1] = 0;
	for (int cpu = 0; cpu < CPUS - 1; cpu++)
		node_of[cpu] = 1;
	expect_eq(binds(), 2);
	pcp_topology.nr_nodes = 1;
	expect_eq(binds(), 0);
	pcp_topology.nr_nodes = 2;
	pcp_topology.os_node = NULL;
	expect_eq(binds(), 0);
}
END_TEST

/* --- locks -----------------------------------------------------------------
 */

START_TEST(test_counts)
{
	struct pcp_percpu_snapshot a, b;
	void *p[64];

	pcpool_percpu_free(must_alloc(8, 0));
	a = stats();
	p[0] = must_alloc(8, 0);
	b = stats();
	expect_eq(b.mutex - a.mutex, 1);
	expect_eq(b.map_lock - a.map_lock, 1);
	expect_eq(b.regions - a.regions, 1);
	expect_eq(b.region_bytes - a.region_bytes, 8);
	pcpool_percpu_free(p[0]);
	a = stats();
	expect_eq(a.mutex - b.mutex, 0);
	expect_eq(a.map_lock - b.map_lock, 1);
	expect_eq(pcpool_percpu_alloc_bulk(64, 100, 0, p), 0);
	b = stats();
	expect_eq(b.mutex - a.mutex, 1);
	expect_eq(b.map_lock - a.map_lock, 1);
	expect_eq(b.regions - a.regions, 64);
	expect_eq(b.region_bytes - a.region_bytes, 64 * 104);
	expect_eq(pcpool_percpu_free_bulk(64, p), 0);
	a = stats();
	expect_eq(a.mutex - b.mutex, 0);
	expect_eq(a.map_lock - b.map_lock, 1);
	expect_eq(a.regions, 0);
	/* A first chunk, and the bulk that makes it. */
	expect_eq(a.chunk_alloc, 1);
	expect_eq(a.slots, pcp_nr_slots());
	expect_eq(a.unit_size, pcp_chunk_geometry.stride);
}
END_TEST

static void child_allocates(void *arg)
{
	pcpool_percpu_free(arg);
	pcpool_percpu_free(must_alloc(100, 0));
	verify();
	_exit(0);
}

static atomic_bool stop;

static void *churn(void *arg)
{
	void *p[8];

	(void)arg;
	while (!stop) {
		expect_eq(pcpool_percpu_alloc_bulk(8, 30000, 0, p), 0);
		expect_eq(pcpool_percpu_free_bulk(8, p), 0);
		pcpool_percpu_free(must_alloc(64, 0));
	}
	return NULL;
}

/* Locks that other threads hold at that moment are usable in the child. */
START_TEST(test_fork_of_busy_process)
{
	static struct child child;
	void *p = must_alloc(64, 0);
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		expect(!pthread_create(&threads[i], NULL, churn, NULL));
	for (int i = 0; i < 40; i++) {
		run_child(child_allocates, p, 20, &child);
		expect_child_exit(&child, 0);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		expect(!pthread_join(threads[i], NULL));
	verify();
	expect_eq(stats().regions, 1);
	pcpool_percpu_free(p);
}
END_TEST

/* --- slots -----------------------------------------------------------------
 */

#if PCP_HAVE_RSEQ
static void *unregistered(void *arg)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
	uint64_t *p = arg;
	unsigned int size = 20;

	/* The libc does not tell with which length it registered. */
	while (syscall(SYS_rseq, area, size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG))
		expect_cmp(++size, <=, 1024);
	/* Not pcpool_this_slot(), which notes the stray slot itself. */
	expect_eq(pcp_this_slot(), pcp_index.stray);
	for (int i = 0; i < 1000; i++) {
		pcpool_this_cpu_add_u64(&p[0], 3);
		pcpool_this_cpu_add_u32(&p[1], 5);
	}
	expect_eq(pcpool_this_cpu_read_u64(&p[0]), 3000);
	expect_eq(pcpool_this_cpu_read_u32(&p[1]), 5000);
	return NULL;
}

/* A thread without rseq counts in the stray slot; sums include it, and the next
 * user of the place does not see it. */
START_TEST(test_unregistered)
{
	uint64_t *p = must_alloc(16, 0), *copy;
	pthread_t thread;

	if (!pcp_index.rseq)
		return;
	pcpool_this_cpu_add_u64(&p[0], 1);
	expect_eq(pcp_stray_used, 0);
	expect(!pthread_create(&thread, NULL, unregistered, p));
	expect(!pthread_join(thread, NULL));
	expect_eq(pcp_stray_used, 1);
	expect_eq(pcpool_percpu_sum_u64(&p[0]), 3001);
	expect_eq(pcpool_percpu_sum_u32(&p[1]), 5000);
	copy = pcp_percpu_copy(p, pcp_index.stray);
	expect_eq(copy[0], 3000);
	pcpool_percpu_free(p);
	expect(must_alloc(16, 0) == p);
	expect_eq(pcpool_percpu_sum_u64(&p[0]), 0);
	expect_eq(copy[1], 0);
}
END_TEST
#endif

int main(void)
{
	TCase *tc = suite_case("percpu", 120);

	tcase_add_test(tc, test_fresh_is_untouched);
	tcase_add_test(tc, test_fresh_in_used_page);
	tcase_add_loop_test(tc, test_recycled_is_zeroed, 0, 9);
	tcase_add_test(tc, test_stray_copy_is_left_alone);
	tcase_add_test(tc, test_bulk_zeroes);
	tcase_add_test(tc, test_give_back);
	tcase_add_test(tc, test_unmap_refused);
	tcase_add_test(tc, test_unmap_refused_when_due);
	tcase_add_loop_test(tc, test_no_memory, 0, 3);
	tcase_add_test(tc, test_last_resort);
	tcase_add_test(tc, test_errno_is_kept);
	tcase_add_loop_test(tc, test_geometry, 0, 7);
	tcase_add_test(tc, test_no_huge_pages);
	tcase_add_test(tc, test_binding);
	tcase_add_test(tc, test_counts);
	tcase_add_test(tc, test_fork_of_busy_process);
#if PCP_HAVE_RSEQ
	tcase_add_test(tc, test_unregistered);
#endif
	return suite_run(tc);
}

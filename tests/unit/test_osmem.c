/* SPDX-License-Identifier: MIT */
/* Memory from the system: aligned, zeroed, given back, and refused cleanly. */
#include <config.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/osmem.h"

#include "../common.h"
#include "../suite.h"

START_TEST(test_page_size)
{
	expect_eq(pcp_page_size(), sysconf(_SC_PAGESIZE));
	expect_eq(pcp_page_size() & (pcp_page_size() - 1), 0);
}
END_TEST

START_TEST(test_reserve_alignments)
{
	const size_t page = pcp_page_size();

	for (size_t align = page; align <= (size_t)1 << 30; align *= 4)
		for (size_t size = page; size <= (size_t)1 << 26; size *= 16) {
			char *p[4];

			for (int i = 0; i < 4; i++) {
				p[i] = pcp_os_reserve(size, align);
				expect(p[i]);
				expect_eq((uintptr_t)p[i] % align, 0);
				expect_eq(pcp_os_commit(p[i], page), 0);
				expect_eq(
					pcp_os_commit(p[i] + size - page, page),
					0);
				p[i][0] = 1;
				p[i][size - 1] = 2;
			}
			for (int i = 0; i < 4; i++) {
				expect_eq(p[i][size - 1], 2);
				pcp_os_unmap(p[i], size);
			}
		}
}
END_TEST

/* Nothing but the range itself stays mapped. */
START_TEST(test_reserve_leaves_no_rest)
{
	const size_t size = 16 * pcp_page_size();
	unsigned long before, after;
	FILE *file;

	for (int round = 0; round < 2; round++) {
		file = fopen("/proc/self/statm", "r");
		expect(file && fscanf(file, "%lu", &before) == 1);
		fclose(file);
		for (int i = 0; i < 200; i++) {
			void *p = pcp_os_reserve(size, (size_t)1 << 24);

			expect(p);
			pcp_os_unmap(p, size);
		}
		file = fopen("/proc/self/statm", "r");
		expect(file && fscanf(file, "%lu", &after) == 1);
		fclose(file);
		/* The first round may fill stdio's buffers, and an emulator maps
		 * memory of its own; a page left each time would be 200. */
		if (round)
			expect_cmp(after, <, before + 200);
	}
}
END_TEST

START_TEST(test_discarded_reads_zero)
{
	const size_t size = 8 * pcp_page_size();
	char *p = pcp_os_reserve(size, pcp_page_size());

	expect_eq(pcp_os_commit(p, size), 0);
	for (size_t i = 0; i < size; i++)
		expect_eq(p[i], 0);
	memset(p, 7, size);
	expect_eq(pcp_os_discard(p + size / 2, size / 2), 0);
	expect_eq(p[size / 2 - 1], 7);
	for (size_t i = size / 2; i < size; i++)
		expect_eq(p[i], 0);
	memset(p, 9, size);
	pcp_os_bind(p, size, 0);
	pcp_os_no_hugepage(p, size);
	expect_eq(p[size - 1], 9);
	pcp_os_unmap(p, size);
}
END_TEST

static void touch_uncommitted(void *arg)
{
	volatile char *p = pcp_os_reserve(pcp_page_size(), pcp_page_size());

	(void)arg;
	p[0] = 1;
}

START_TEST(test_reserved_is_out_of_bounds)
{
	static struct child child;

	run_child(touch_uncommitted, NULL, 10, &child);
	expect(child.status != 0);
}
END_TEST

START_TEST(test_refusals)
{
	const size_t page = pcp_page_size();

	expect_refused(pcp_os_reserve((size_t)1 << 62, page), ENOMEM);
	expect_refused(pcp_os_reserve(SIZE_MAX - page + 1, page), ENOMEM);
	expect_refused(pcp_os_reserve(SIZE_MAX & ~(page - 1), (size_t)1 << 30),
		       ENOMEM);
	if (!TEST_ASAN && !TEST_TSAN) /* theirs would end the process */
		expect_refused(pcp_meta_alloc((size_t)1 << 62, 64), ENOMEM);
	pcp_fault_set(PCP_FAULT_RESERVE, 1, false);
	expect_refused(pcp_os_reserve(page, page), ENOMEM);
	pcp_fault_set(PCP_FAULT_META, 1, false);
	expect_refused(pcp_meta_alloc(64, 64), ENOMEM);
	{
		void *p = pcp_os_reserve(page, page);

		pcp_fault_set(PCP_FAULT_COMMIT, 1, false);
		expect_eq(pcp_os_commit(p, page), ENOMEM);
		expect_eq(pcp_os_commit(p, page), 0);
		pcp_os_unmap(p, page);
	}
}
END_TEST

/* A refused bind and a missing feature are nobody's errno. */
START_TEST(test_errno_is_kept)
{
	const size_t page = pcp_page_size();
	void *p = pcp_os_reserve(page, page);

	expect_eq(pcp_os_commit(p, page), 0);
	errno = EXFULL;
	pcp_os_bind(p, page, 0);
	pcp_os_bind(p, page, 63);
	pcp_os_bind(p, page, 1023);
	pcp_os_bind(p, page, 1024);
	pcp_os_bind(p, page, (unsigned int)-1);
	expect_errno(EXFULL);
	pcp_os_no_hugepage(p, page);
	expect_errno(EXFULL);
	pcp_os_unmap(p, page);
}
END_TEST

START_TEST(test_meta)
{
	for (size_t align = sizeof(void *); align <= 4096; align *= 2)
		for (size_t size = 1; size <= 10000; size = size * 3 + 1) {
			unsigned char *p[3];

			for (int i = 0; i < 3; i++) {
				p[i] = pcp_meta_alloc(size, align);
				expect(p[i]);
				expect_eq((uintptr_t)p[i] % align, 0);
				for (size_t j = 0; j < size; j++)
					expect_eq(p[i][j], 0);
				memset(p[i], 0xa5, size);
			}
			for (int i = 0; i < 3; i++)
				pcp_meta_free(p[i]);
		}
	pcp_meta_free(NULL);
}
END_TEST

START_TEST(test_roots)
{
	const size_t page = pcp_page_size();
	void **p = pcp_os_reserve(page, page);

	expect_eq(pcp_os_commit(p, page), 0);
	/* Without a leak checker these do nothing; with one this would be
	 * reported otherwise. */
	pcp_lsan_add_root(p, page);
	p[3] = malloc(100);
	free(p[3]);
	pcp_lsan_del_root(p, page);
	pcp_os_unmap(p, page);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("osmem", 60);

	tcase_add_test(tc, test_page_size);
	tcase_add_test(tc, test_reserve_alignments);
	tcase_add_test(tc, test_reserve_leaves_no_rest);
	tcase_add_test(tc, test_discarded_reads_zero);
	tcase_add_test(tc, test_reserved_is_out_of_bounds);
	tcase_add_test(tc, test_refusals);
	tcase_add_test(tc, test_errno_is_kept);
	tcase_add_test(tc, test_meta);
	tcase_add_test(tc, test_roots);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/*
 * One Check suite per program, each test with a watchdog of its own:
 *
 *	TCase *tc = suite_case("name", seconds);
 *	tcase_add_test(tc, test_this);
 *	return suite_run(tc);
 */
#ifndef PCP_TESTS_SUITE_H
#define PCP_TESTS_SUITE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static Suite *suite_one;

static inline TCase *suite_case(const char *name, double seconds)
{
	TCase *tc = tcase_create(name);

	suite_one = suite_create(name);
	tcase_set_timeout(tc, seconds);
	return tc;
}

static inline int suite_run(TCase *tc)
{
	SRunner *runner;
	int failed;

	suite_add_tcase(suite_one, tc);
	runner = srunner_create(suite_one);
	/* Objects' addresses show which test is at fault only if each is its
	 * own process; CK_FORK=no is for debuggers. */
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif /* PCP_TESTS_SUITE_H */

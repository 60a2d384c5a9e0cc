/* SPDX-License-Identifier: MIT */
/* PCPOOL_OPTIONS: what is understood, what is refused, what is left alone. */
#include <config.h>

#include "base/options.h"

#include "../common.h"
#include "../suite.h"

static void reset(void)
{
	memset(&pcp_options, 0, sizeof(pcp_options));
}

START_TEST(test_each_key)
{
	reset();
	expect_eq(pcp_options_parse("mode:lock"), 0);
	expect_eq(pcp_options.mode, PCP_MODE_LOCK);
	expect_eq(pcp_options_parse("mode:rseq"), 0);
	expect_eq(pcp_options.mode, PCP_MODE_RSEQ);
	expect_eq(pcp_options_parse("mode:auto"), 0);
	expect_eq(pcp_options.mode, PCP_MODE_AUTO);
	expect_eq(pcp_options_parse("index:cid"), 0);
	expect_eq(pcp_options.index, PCP_INDEX_CID);
	expect_eq(pcp_options_parse("index:cpu"), 0);
	expect_eq(pcp_options.index, PCP_INDEX_CPU);
	expect_eq(pcp_options_parse("slots:1"), 0);
	expect_eq(pcp_options.slots, 1);
	expect_eq(pcp_options_parse("slots:4096"), 0);
	expect_eq(pcp_options.slots, PCP_OPTION_SLOTS_MAX);
	expect_eq(pcp_options_parse("nodes:64"), 0);
	expect_eq(pcp_options.nodes, PCP_OPTION_NODES_MAX);
	expect_eq(pcp_options_parse("sheaf:1024"), 0);
	expect_eq(pcp_options.sheaf, 1024);
	expect_eq(pcp_options_parse("debug:on"), 0);
	expect_eq(pcp_options.debug, 1);
	expect_eq(pcp_options_parse("debug:off"), 0);
	expect_eq(pcp_options.debug, 0);
	/* On unless said otherwise. */
	expect_eq(pcp_options.no_parking, 0);
	expect_eq(pcp_options_parse("parking:off"), 0);
	expect_eq(pcp_options.no_parking, 1);
	expect_eq(pcp_options_parse("parking:on"), 0);
	expect_eq(pcp_options.no_parking, 0);
	expect_eq(pcp_options.no_barn_refill, 0);
	expect_eq(pcp_options_parse("barn_refill:off"), 0);
	expect_eq(pcp_options.no_barn_refill, 1);
	expect_eq(pcp_options.no_parking, 0);
	expect_eq(pcp_options_parse("barn_refill:on"), 0);
	expect_eq(pcp_options.no_barn_refill, 0);
}
END_TEST

START_TEST(test_lists)
{
	reset();
	expect_eq(pcp_options_parse(""), 0);
	expect_eq(pcp_options_parse(","), 0);
	expect_eq(pcp_options_parse(",,,"), 0);
	expect_eq(pcp_options_parse("mode:lock,slots:7,debug:on"), 0);
	expect_eq(pcp_options.mode, PCP_MODE_LOCK);
	expect_eq(pcp_options.slots, 7);
	expect_eq(pcp_options.debug, 1);
	/* The last one counts. */
	expect_eq(pcp_options_parse(",slots:8,,slots:9,"), 0);
	expect_eq(pcp_options.slots, 9);
	/* A bad one does not spoil its neighbours. */
	expect_eq(pcp_options_parse("slots:3,what:1,nodes:2,slots:,x,:,:1"), 5);
	expect_eq(pcp_options.slots, 3);
	expect_eq(pcp_options.nodes, 2);
}
END_TEST

START_TEST(test_refused)
{
	static const char *const bad[] = {
		"mode",	      "mode:",	    "mode:x",	  "mode:LOCK",
		"mode:lockx", "mode: lock", " mode:lock", "Mode:lock",
		"mode:0",     "mode:lock:", "slots:0",	  "slots:-1",
		"slots:+4",   "slots: 4",   "slots:4 ",	  "slots:0x10",
		"slots:4097", "slots:4.5",  "slots:1e2",  "nodes:65",
		"sheaf:1025", "sheaf:0",    "debug:1",	  "debug:yes",
		"slots:99999999999999999999999999",	  "slots:4294967297",
		"slots:18446744073709551617",		  "index:hint",
		"unknown:1",  ":",	    "::",	  "\n",
		"mode=lock",  "%s%n:1",	    "mode:%s%n",  "parking:1",
		"parking:",   "barn_refill:no",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pcp_options before;

		reset();
		pcp_options.slots = 5;
		before = pcp_options;
		if (pcp_options_parse(bad[i]) != 1)
			fail_now("\"%s\" was not refused", bad[i]);
		expect(!memcmp(&before, &pcp_options, sizeof(before)));
	}
}
END_TEST

START_TEST(test_long_entries)
{
	static char text[100000];

	reset();
	memset(text, 'a', sizeof(text) - 1);
	expect_eq(pcp_options_parse(text), 1);
	memcpy(text, "slots:4,", 8);
	strcpy(text + sizeof(text) - 9, ",nodes:3");
	expect_eq(pcp_options_parse(text), 1);
	expect_eq(pcp_options.slots, 4);
	expect_eq(pcp_options.nodes, 3);
	/* Around the longest that is looked at, to the byte. */
	for (size_t len = 100; len < 300; len++) {
		memset(text, 'x', len);
		text[len] = '\0';
		expect_eq(pcp_options_parse(text), 1);
		text[3] = ':';
		expect_eq(pcp_options_parse(text), 1);
	}
}
END_TEST

static void warn_child(void *arg)
{
	pcp_options_parse(arg);
}

/* Each refusal is one whole line that a terminal can take. */
START_TEST(test_warnings)
{
	static const char *const bad[] = { "colour:red",      "mode:fast",
					   "new\nline:1",     "slots:\x1b[2J",
					   "fault:nowhere/1", "fault:meta",
					   "fault:meta/0",    "fault:meta/-1",
					   "fault:meta/ 5",   "fault:meta/x" };
	static struct child child;
	unsigned int silent = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		run_child(warn_child, (void *)(uintptr_t)bad[i], 20, &child);
		expect_child_exit(&child, 0);
		if (!strstr(child.err, "PCPOOL_OPTIONS") ||
		    strchr(child.err, '\n') != child.err + child.len - 1 ||
		    strchr(child.err, '\x1b')) {
			fprintf(stderr, "\"%s\" gave: %s\n", bad[i], child.err);
			silent++;
		}
	}
	expect_eq(silent, 0);
}
END_TEST

static void environment_child(void *arg)
{
	reset();
	if (arg)
		setenv("PCPOOL_OPTIONS", arg, 1);
	else
		unsetenv("PCPOOL_OPTIONS");
	pcp_options_init();
	expect_eq(pcp_options.slots, arg ? 12 : 0);
}

START_TEST(test_environment)
{
	static struct child child;

	run_child(environment_child, NULL, 20, &child);
	expect_child_exit(&child, 0);
	run_child(environment_child, (void *)(uintptr_t) "slots:12", 20,
		  &child);
	expect_child_exit(&child, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("options", 30);

	tcase_add_test(tc, test_each_key);
	tcase_add_test(tc, test_lists);
	tcase_add_test(tc, test_refused);
	tcase_add_test(tc, test_long_entries);
	tcase_add_test(tc, test_warnings);
	tcase_add_test(tc, test_environment);
	return suite_run(tc);
}

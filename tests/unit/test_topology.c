/* SPDX-License-Identifier: MIT */
/*
 * lib/cpu/topology.c: the kernel's lists, synthetic topologies, and odd ones
 * through hwloc. Everything that reads the environment runs in a forked child,
 * also under CK_FORK=no.
 */
#include <config.h>

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/options.h"
#include "common.h"
#include "cpu/topology.h"
#include "unit/topology_xml.h"

/* Run fn in a child under a watchdog; it passes when the child exits with 0. */
static void in_child(void (*fn)(const void *arg), const void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		kill_after(100);
		fn(arg);
		fflush(NULL);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		      "the child ended with status %#x", (unsigned int)status);
}

static void expect_sane(void)
{
	const struct pcp_topology *t = &pcp_topology;

	expect(t->nr_cpus >= 1);
	expect(t->possible >= 1);
	expect(t->nr_nodes >= 1);
	for (unsigned int cpu = 0; cpu < t->nr_cpus; cpu++)
		expect(pcp_cpu_node(cpu) < t->nr_nodes);
	expect(pcp_cpu_node(t->nr_cpus) == 0);
	expect(pcp_cpu_node(~0U) == 0);
}

/* --- lists ---------------------------------------------------------------- */

static const struct {
	const char *text;
	unsigned int top;
} lists[] = {
	{ "0", 1 },
	{ "0\n", 1 },
	{ "0-1\n", 2 },
	{ "0,2-3,8", 9 },
	{ "8,0-3", 9 },
	{ "0-0", 1 },
	{ "7", 8 },
	{ "0-65535", 65536 },
	{ "00012", 13 },
	{ "", 0 },
	{ "\n", 0 },
	{ " 0", 0 },
	{ "-1", 0 },
	{ "0-", 0 },
	{ "0-\n", 0 },
	{ "3-2", 0 },
	{ "0,", 0 },
	{ "0,\n", 0 },
	{ ",0", 0 },
	{ "0,,1", 0 },
	{ "0-1-2", 0 },
	{ "0\n\n", 0 },
	{ "0 1", 0 },
	{ "0x3", 0 },
	{ "all", 0 },
	{ "65536", 0 },
	{ "0-4294967295", 0 },
	{ "0-4294967296", 0 },
	{ "99999999999999999999999", 0 },
};

START_TEST(test_list)
{
	ck_assert_msg(pcp_parse_cpu_list(lists[_i].text) == lists[_i].top,
		      "\"%s\" gives %u", lists[_i].text,
		      pcp_parse_cpu_list(lists[_i].text));
}
END_TEST

/* --- this machine --------------------------------------------------------- */

static void check_machine(const void *arg)
{
	unsigned int top = 0;
	char line[4096];
	FILE *file = fopen("/sys/devices/system/cpu/possible", "re");

	(void)arg;
	if (file && fgets(line, sizeof(line), file))
		top = pcp_parse_cpu_list(line);
	pcp_topology_init();
	expect_sane();
	expect(!pcp_topology.synthetic);
	expect(pcp_topology.nr_cpus == pcp_topology.possible);
	expect(sched_getcpu() < (int)pcp_topology.nr_cpus);
	if (top) {
		expect(pcp_topology.nr_cpus == top);
		expect(pcp_topology.known);
	}
}

START_TEST(test_machine)
{
	in_child(check_machine, NULL);
}
END_TEST

/* Allowed CPUs are not possible CPUs. */
static void check_affinity(const void *arg)
{
	unsigned int possible;
	cpu_set_t one;

	(void)arg;
	pcp_topology_init();
	possible = pcp_topology.nr_cpus;
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	expect(!sched_setaffinity(0, sizeof(one), &one));
	pcp_topology_init();
	expect(pcp_topology.nr_cpus == possible);
}

START_TEST(test_affinity)
{
	in_child(check_affinity, NULL);
}
END_TEST

static void check_errno(const void *arg)
{
	(void)arg;
	setenv("HWLOC_XMLFILE", "/nonexistent/topology.xml", 1);
	errno = EDOM;
	pcp_topology_init();
	expect(errno == EDOM);
}

START_TEST(test_errno)
{
	in_child(check_errno, NULL);
}
END_TEST

/* --- synthetic ------------------------------------------------------------ */

static const struct synthetic {
	unsigned int slots, nodes;
} synthetics[] = {
	{ 1, 1 },    { 1, 4 },	 { 2, 2 },     { 3, 2 },
	{ 4096, 1 }, { 256, 8 }, { 4096, 64 }, { 7, 5 },
};

static void check_synthetic(const void *arg)
{
	const struct synthetic *want = arg;
	unsigned int last = 0;

	pcp_topology_init();
	pcp_options.slots = want->slots;
	pcp_options.nodes = want->nodes;
	pcp_topology_init();
	expect_sane();
	expect(pcp_topology.synthetic);
	expect(pcp_topology.nr_cpus == want->slots);
	expect(pcp_topology.nr_nodes == want->nodes);
	expect(!pcp_topology.os_node);
	/* Contiguous blocks, and no node without a CPU where they suffice. */
	for (unsigned int cpu = 0; cpu < want->slots; cpu++) {
		unsigned int node = pcp_cpu_node(cpu);

		expect(node >= last);
		expect(node <= last + 1 || want->nodes > want->slots);
		last = node;
	}
	if (want->slots >= want->nodes)
		expect(last == want->nodes - 1);
}

START_TEST(test_synthetic)
{
	in_child(check_synthetic, &synthetics[_i]);
}
END_TEST

static void check_slots_keep_possible(const void *arg)
{
	unsigned int possible;

	(void)arg;
	pcp_topology_init();
	possible = pcp_topology.possible;
	pcp_options.slots = possible + 3;
	pcp_topology_init();
	expect(pcp_topology.possible == possible);
	expect(pcp_topology.nr_cpus == possible + 3);
	expect(pcp_topology.nr_nodes == 1);
	pcp_options.slots = 0;
	pcp_options.nodes = 2;
	pcp_topology_init();
	expect(pcp_topology.nr_cpus == possible);
	expect(pcp_topology.nr_nodes == 2);
}

START_TEST(test_slots_keep_possible)
{
	in_child(check_slots_keep_possible, NULL);
}
END_TEST

static void check_no_memory(const void *arg)
{
	(void)arg;
	pcp_options.slots = 16;
	pcp_options.nodes = 4;
	pcp_fault_set(PCP_FAULT_META, 1, false);
	pcp_topology_init();
	expect_sane();
	expect(pcp_topology.nr_cpus == 16);
	expect(pcp_topology.nr_nodes == 1);
	expect(!pcp_topology.cpu_node);
}

START_TEST(test_no_memory)
{
	in_child(check_no_memory, NULL);
}
END_TEST

/* --- hwloc ---------------------------------------------------------------- */

static void load_xml(const char *text)
{
	char path[] = "/tmp/pcp-topology-XXXXXX";
	int fd = mkstemp(path);

	expect(fd >= 0);
	expect(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	setenv("HWLOC_XMLFILE", path, 1);
	pcp_topology_init();
	unlink(path);
	expect_sane();
}

static void check_odd_ids(const void *arg)
{
	(void)arg;
	load_xml(xml_odd_ids);
	expect(pcp_topology.nr_nodes == 2);
	expect(pcp_cpu_node(0) == 0);
	if (pcp_topology.nr_cpus > 1)
		expect(pcp_cpu_node(1) == 1);
	/* Not this machine's nodes: nothing is bound. */
	expect(!pcp_topology.os_node);
	setenv("HWLOC_THISSYSTEM", "1", 1);
	load_xml(xml_odd_ids);
	expect(pcp_topology.nr_nodes == 2);
	expect(pcp_topology.os_node);
	expect(pcp_topology.os_node[0] == 1);
	expect(pcp_topology.os_node[1] == 3);
}

static void check_memoryless(const void *arg)
{
	(void)arg;
	load_xml(xml_memoryless);
	expect(pcp_topology.nr_nodes == 2);
	expect(pcp_cpu_node(0) == 1);
	if (pcp_topology.nr_cpus > 1)
		expect(pcp_cpu_node(1) == 0);
	if (pcp_topology.nr_cpus > 2)
		expect(pcp_cpu_node(2) == 1);
}

static void check_cpuless(const void *arg)
{
	(void)arg;
	/* To hwloc such a node is everybody's, so CPU 0 may use it. */
	load_xml(xml_cpuless);
	expect(pcp_topology.nr_nodes == 2);
	expect(pcp_cpu_node(1) == 0);
}

static void check_all_memoryless(const void *arg)
{
	(void)arg;
	load_xml(xml_all_memoryless);
	expect(pcp_topology.nr_nodes == 2);
	if (pcp_topology.nr_cpus > 1)
		expect(pcp_cpu_node(1) == 1);
}

static void check_malformed(const void *arg)
{
	(void)arg;
	/* Every beginning of a good file. */
	for (size_t len = 1; len < sizeof(xml_odd_ids) - 1; len += 37) {
		char text[sizeof(xml_odd_ids)] = "";

		memcpy(text, xml_odd_ids, len);
		load_xml(text);
		expect(pcp_topology.nr_nodes <= 2);
	}
	load_xml("this is no topology");
	expect(pcp_topology.nr_nodes == 1);
}

static void check_missing(const void *arg)
{
	(void)arg;
	setenv("HWLOC_XMLFILE", "/nonexistent/topology.xml", 1);
	pcp_topology_init();
	expect_sane();
	expect(pcp_topology.known);
}

static void check_fsroot(const void *arg)
{
	(void)arg;
	setenv("HWLOC_FSROOT", "/nonexistent", 1);
	pcp_topology_init();
	expect_sane();
	expect(pcp_topology.nr_nodes == 1);
}

static const struct synth_env {
	const char *text;
	unsigned int nodes;
} synth_envs[] = {
	{ "numa:1 pu:1", 1 },		{ "pu:1", 1 },
	{ "pack:4 numa:1 pu:1", 4 },	{ "pack:2 numa:1 pu:64", 2 },
	{ "pack:64 numa:1 pu:64", 64 }, { "pack:2000 numa:1 pu:1", 1024 },
};

static void check_synth_env(const void *arg)
{
	const struct synth_env *want = arg;
	unsigned int possible;

	pcp_topology_init();
	possible = pcp_topology.possible;
	setenv("HWLOC_SYNTHETIC", want->text, 1);
	pcp_topology_init();
	expect_sane();
	expect(pcp_topology.nr_nodes == want->nodes);
	/* CPUs are the kernel's business, whatever hwloc is made to say. */
	expect(pcp_topology.nr_cpus == possible);
}

START_TEST(test_synth_env)
{
	in_child(check_synth_env, &synth_envs[_i]);
}
END_TEST

static void check_bad_synth_env(const void *arg)
{
	setenv("HWLOC_SYNTHETIC", arg, 1);
	pcp_topology_init();
	expect_sane();
}

static const char *const bad_synth_envs[] = {
	"", "x", "numa:", "numa:0", "pu:4294967296", ":::", "numa:-1 pu:1",
};

START_TEST(test_bad_synth_env)
{
	in_child(check_bad_synth_env, bad_synth_envs[_i]);
}
END_TEST

static void check_fault_hwloc(const void *arg)
{
	(void)arg;
	setenv("HWLOC_SYNTHETIC", "pack:4 numa:1 pu:1", 1);
	setenv("HWLOC_THISSYSTEM", "1", 1);
	pcp_fault_set(PCP_FAULT_META, 1, false);
	pcp_topology_init();
	expect_sane();
	expect(pcp_topology.nr_nodes == 1);
	/* Without the kernel's numbers nodes still spread the load. */
	pcp_fault_set(PCP_FAULT_META, 2, false);
	pcp_topology_init();
	expect_sane();
	expect(pcp_topology.nr_nodes == 4);
	expect(!pcp_topology.os_node);
}

/* Emulators take RLIMIT_AS and forget it. */
static bool limit_counts(void)
{
	void *p = mmap(NULL, (size_t)1 << 30, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return true;
	munmap(p, (size_t)1 << 30);
	return false;
}

/* As little address space as is in use, and then a little more each time. */
static void check_no_room(const void *arg)
{
	struct rlimit limit;
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	(void)arg;
	if (TEST_ASAN || TEST_TSAN)
		return;
	setenv("HWLOC_SYNTHETIC", "pack:4 numa:1 pu:1", 1);
	expect(file && fscanf(file, "%ld", &pages) == 1 && pages > 0);
	getrlimit(RLIMIT_AS, &limit);
	for (long more = 0; more < 12 << 20; more += 1 << 18) {
		limit.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + more);
		if (limit.rlim_cur > limit.rlim_max)
			break;
		expect(!setrlimit(RLIMIT_AS, &limit));
		if (!limit_counts())
			return;
		pcp_topology_init();
		expect_sane();
		if (!more)
			expect(pcp_topology.nr_nodes == 1);
	}
	expect(pcp_topology.nr_nodes == 4);
}

static const struct {
	const char *name;
	void (*fn)(const void *arg);
} hwloc_cases[] = {
	{ "odd ids", check_odd_ids },
	{ "memory-less node", check_memoryless },
	{ "CPU-less node", check_cpuless },
	{ "memory-less nodes only", check_all_memoryless },
	{ "malformed XML", check_malformed },
	{ "missing file", check_missing },
	{ "no file system", check_fsroot },
	{ "no metadata", check_fault_hwloc },
	{ "no address space", check_no_room },
};

START_TEST(test_hwloc)
{
	in_child(hwloc_cases[_i].fn, NULL);
}
END_TEST

/* --- fork ----------------------------------------------------------------- */

static int stop;

static void *load_for_ever(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		pcp_topology_init();
	return arg;
}

/* A child forked in the middle of another thread's loading, perhaps with
 * hwloc's lock held, gets through. */
static void race_fork(const void *arg)
{
	pthread_t thread;

	(void)arg;
	setenv("HWLOC_SYNTHETIC", "pack:8 numa:1 pu:8", 1);
	expect(!pthread_create(&thread, NULL, load_for_ever, NULL));
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();
		int status;

		expect(pid >= 0);
		if (pid == 0) {
			kill_after(60);
			pcp_topology_init();
			expect_sane();
			_exit(0);
		}
		expect(waitpid(pid, &status, 0) == pid);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

START_TEST(test_fork)
{
	in_child(race_fork, NULL);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
	Suite *suite = suite_create("topology");
	TCase *tcase = tcase_create("all");
	SRunner *runner;
	int failed;

	unsetenv("HWLOC_SYNTHETIC");
	unsetenv("HWLOC_XMLFILE");
	unsetenv("HWLOC_FSROOT");
	unsetenv("HWLOC_THISSYSTEM");
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_list, 0, COUNT(lists));
	tcase_add_test(tcase, test_machine);
	tcase_add_test(tcase, test_affinity);
	tcase_add_test(tcase, test_errno);
	tcase_add_loop_test(tcase, test_synthetic, 0, COUNT(synthetics));
	tcase_add_test(tcase, test_slots_keep_possible);
	tcase_add_test(tcase, test_no_memory);
	tcase_add_loop_test(tcase, test_hwloc, 0, COUNT(hwloc_cases));
	tcase_add_loop_test(tcase, test_synth_env, 0, COUNT(synth_envs));
	tcase_add_loop_test(tcase, test_bad_synth_env, 0,
			    COUNT(bad_synth_envs));
	tcase_add_test(tcase, test_fork);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

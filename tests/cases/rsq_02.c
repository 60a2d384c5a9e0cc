/* SPDX-License-Identifier: MIT */
/*
 * Case RSQ-02, its part inside a process: the library never registers rseq
 * itself, so that whoever does is not in its way.
 *
 *	rsq_02 quiet    a filter installed before the library's first use traps
 *	                every rseq system call: there is none.
 *	rsq_02 second   (with the libc's registration off) after the library was
 *	                used, an area of our own is registered, which the kernel
 *	                allows once per thread; the library stays in lock mode.
 *
 * Exit status 77 where that cannot be tried.
 */
#include <config.h>

#include <pcpool/pcpool.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common.h"

#ifdef SYS_rseq
static volatile sig_atomic_t trapped;

static void on_trap(int sig)
{
	(void)sig;
	trapped++;
}

static void trap_rseq(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rseq, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = filter };
	struct sigaction action = { .sa_handler = on_trap };

	expect_eq(sigaction(SIGSYS, &action, NULL), 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		skip_test("no system call filters here");
}

/* From this thread alone, for a new thread is registered by the libc. */
static void use_library(void)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	static struct sheet sheet;
	struct pcpool_cache *cache;
	void *objs[100];
	uint64_t *counter;

	sheet = (struct sheet){ .fill = 64 };
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	cache = pcpool_cache_create("quiet", 64, &attr);
	expect(cache);
	counter = pcpool_percpu_alloc(sizeof(*counter), 0);
	expect(counter);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 100; i++) {
			objs[i] = pcpool_alloc(cache);
			expect(objs[i]);
			pcpool_this_cpu_add(counter, 1);
		}
		expect_eq(pcpool_free_bulk(cache, 100, objs), 0);
		expect_eq(pcpool_cache_shrink(cache), 0);
	}
	expect_eq(pcpool_percpu_sum_u64(counter), 100 * 100);
	pcpool_percpu_free(counter);
	expect_eq(pcpool_cache_destroy(cache), 0);
	sheet_balanced(&sheet);
}

static int quiet(void)
{
	trap_rseq();
	use_library();
	expect_eq(trapped, 0);
	/* Had there been one, it would have shown. */
	(void)syscall(SYS_rseq, NULL, 0, 0, 0);
	expect_eq(trapped, 1);
	printf("%s mode: no rseq call\n", pcpool_mode());
	return 0;
}

static int second(void)
{
	static struct {
		uint32_t words[8];
	} area __attribute__((aligned(32)));

	use_library();
	expect(!strcmp(pcpool_mode(), "lock"));
	if (syscall(SYS_rseq, &area, sizeof(area), 0, 0x53053053)) {
		if (errno == ENOSYS)
			skip_test("this kernel has no rseq");
		fail_now("somebody has registered already: errno %d", errno);
	}
	use_library();
	expect(!strcmp(pcpool_mode(), "lock"));
	expect_eq(syscall(SYS_rseq, &area, sizeof(area), 1, 0x53053053), 0);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "quiet"))
		return quiet();
	if (argc == 2 && !strcmp(argv[1], "second"))
		return second();
	fprintf(stderr, "usage: rsq_02 quiet|second\n");
	return 2;
}
#else
int main(void)
{
	skip_test("these headers know no rseq call");
}
#endif

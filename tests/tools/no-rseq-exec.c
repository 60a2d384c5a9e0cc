/* SPDX-License-Identifier: MIT */
/*
 * Run a command in a process where some system calls are refused.
 *
 *   no-rseq-exec [--errno E] [--syscall NAME]... COMMAND [ARGUMENT...]
 *
 * Without options rseq answers ENOSYS, as on an old kernel or in a sandbox.
 * Each --syscall names one to refuse instead, with the errno of the --errno
 * before it (a name or a number, ENOSYS at first):
 *
 *   no-rseq-exec --errno EPERM --syscall mbind --syscall get_mempolicy ls
 *
 * The filter is a seccomp one: it is inherited by all children and cannot be
 * taken away. Exit status: the command's; 77 when filters are not to be had;
 * 125 for a wrong call; 127 when the command cannot be run.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#elif defined(__i386__)
#define MACHINE AUDIT_ARCH_I386
#elif defined(__arm__)
#define MACHINE AUDIT_ARCH_ARM
#endif

#if defined(MACHINE) && defined(SYS_rseq)

#define REFUSED_MAX 32

struct name {
	const char *name;
	unsigned int number;
};

static const struct name calls[] = {
	{ "rseq", SYS_rseq },
	{ "membarrier", SYS_membarrier },
	{ "mbind", SYS_mbind },
	{ "set_mempolicy", SYS_set_mempolicy },
	{ "get_mempolicy", SYS_get_mempolicy },
	{ "madvise", SYS_madvise },
	{ "sched_getaffinity", SYS_sched_getaffinity },
	{ NULL, 0 },
};

static const struct name errors[] = {
	{ "ENOSYS", ENOSYS }, { "EPERM", EPERM },   { "EINVAL", EINVAL },
	{ "ENOMEM", ENOMEM }, { "EACCES", EACCES }, { NULL, 0 },
};

static int usage(const char *what)
{
	fprintf(stderr,
		"no-rseq-exec: %s\n"
		"usage: no-rseq-exec [--errno E] [--syscall NAME]... COMMAND\n",
		what);
	return 125;
}

/* A name of the table or a number; -1 for neither. */
static long look_up(const struct name *table, const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	for (; table->name; table++)
		if (!strcmp(table->name, text))
			return (long)table->number;
	return *text && !*end && number > 0 && number < 4096 ? number : -1;
}

static unsigned short add(struct sock_filter *filter, unsigned short len,
			  unsigned int number, unsigned int error)
{
	filter[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						     number, 0, 1);
	filter[len++] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K,
		SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA));
	return len;
}

int main(int argc, char **argv)
{
	struct sock_filter filter[5 + 2 * REFUSED_MAX] = {
		/* Another machine's calls have other numbers: let them be. */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { .len = 4, .filter = filter };
	long error = ENOSYS, number;
	unsigned int refused = 0;
	int i = 1;

	for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
		if (!strcmp(argv[i], "--errno")) {
			error = look_up(errors, argv[i + 1]);
			if (error < 0)
				return usage("unknown errno");
		} else if (!strcmp(argv[i], "--syscall")) {
			number = look_up(calls, argv[i + 1]);
			if (number < 0 || refused++ == REFUSED_MAX)
				return usage("unknown system call");
			program.len =
				add(filter, program.len, (unsigned int)number,
				    (unsigned int)error);
		} else {
			return usage("unknown option");
		}
	}
	if (i >= argc || !strncmp(argv[i], "--", 2))
		return usage("no command");
	if (!refused)
		program.len =
			add(filter, program.len, SYS_rseq, (unsigned int)error);
	filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							     SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("no-rseq-exec: seccomp");
		return 77;
	}
	execvp(argv[i], argv + i);
	perror(argv[i]);
	return 127;
}

#else

int main(void)
{
	fprintf(stderr, "no-rseq-exec: not written for this machine\n");
	return 77;
}

#endif

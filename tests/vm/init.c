/* SPDX-License-Identifier: MIT */
/*
 * The first and only program of the virtual machine that tests/vm/aarch64-vm
 * boots: mounts what tests look at, runs each line of /commands (words parted
 * by blanks; NAME=VALUE words in front go into its environment), prints
 * "RESULT status seconds command" after each, and switches the machine off.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 64

static void mount_at(const char *type, const char *where)
{
	mkdir(where, 0755);
	if (mount(type, where, type, 0, NULL))
		perror(where);
}

_Noreturn static void run(char *line)
{
	char *words[WORDS_MAX + 1], *rest = NULL, *word;
	int n = 0;

	for (word = strtok_r(line, " ", &rest); word && n < WORDS_MAX;
	     word = strtok_r(NULL, " ", &rest)) {
		if (n == 0 && strchr(word, '='))
			putenv(word);
		else
			words[n++] = word;
	}
	words[n] = NULL;
	if (n)
		execv(words[0], words);
	perror(n ? words[0] : "empty line");
	_exit(127);
}

static void run_line(const char *line)
{
	time_t start = time(NULL);
	char copy[1024];
	int status = -1;
	pid_t pid;

	snprintf(copy, sizeof(copy), "%s", line);
	printf("RUN %s\n", line);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run(copy);
	/* Orphans of the tests become this process's children. */
	while (pid > 0 && waitpid(-1, &status, 0) != pid)
		;
	if (WIFEXITED(status))
		status = WEXITSTATUS(status);
	else
		status = 128 + WTERMSIG(status);
	printf("RESULT %d %ld %s\n", status, (long)(time(NULL) - start), line);
	fflush(stdout);
}

int main(void)
{
	struct utsname uts;
	char line[1024];
	FILE *commands;

	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("devtmpfs", "/dev");
	mount_at("tmpfs", "/tmp");
	mount_at("tmpfs", "/dev/shm");
	setenv("PATH", "/", 1);
	uname(&uts);
	printf("BOOTED %s %s, %ld CPUs\n", uts.release, uts.machine,
	       sysconf(_SC_NPROCESSORS_ONLN));
	commands = fopen("/commands", "re");
	while (commands && fgets(line, sizeof(line), commands)) {
		line[strcspn(line, "\n")] = '\0';
		run_line(line);
	}
	printf("DONE\n");
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}

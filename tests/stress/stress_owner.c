/* SPDX-License-Identifier: MIT */
/*
 * Owner stamps under load (and case RSQ_01 with --pin-one): no object is handed
 * out twice, none is lost, and the sections of rseq mode really are aborted.
 */
#include <config.h>

#include <time.h>

#include "load.h"

/* Rounds of a default run, and the most when no abort was seen yet. */
enum { ROUNDS = 10, ROUNDS_MAX = 60 };

static void run_rounds(struct load *load, unsigned int seconds)
{
	time_t end = time(NULL) + seconds;
	unsigned int rounds = 0;

	while (seconds ? time(NULL) < end
		       : rounds < ROUNDS ||
				 (rounds < ROUNDS_MAX && rseq_mode() &&
				  load->signal_us && !load->aborts)) {
		load_round(load);
		load->seed++;
		rounds++;
	}
}

static void check_seen(const struct load *load)
{
	load_print(load);
	expect(load->drains > 0);
	expect(load->prefills > 0);
	expect(load->deferred > 0);
	/* A stress that aborts no section does not test what it is for. */
	if (rseq_mode() && load->signal_us)
		expect(load->aborts > 0);
	if (load->signal_us)
		expect(load->signals > 0);
}

static struct load fresh(void)
{
	struct load load = LOAD_INIT;

	load.ops = scaled(load.ops);
	return load;
}

int main(int argc, char **argv)
{
	struct load load = fresh();
	unsigned int seconds = 0;

	load_options(&load, &seconds, argc, argv);
	run_rounds(&load, seconds);
	check_seen(&load);
	if (argc > 1)
		return 0;
	/* As it is run by make check: also with failing constructors, with
	 * threads that are moved about, and all on one CPU. */
	load = fresh();
	load.fail_every = 7;
	load.threads = 16;
	run_rounds(&load, 0);
	check_seen(&load);
	expect(load.refused > 0);
	load = fresh();
	load.migrate = true;
	load.threads = 16;
	run_rounds(&load, 0);
	check_seen(&load);
	load = fresh();
	load.pin_one = true;
	load.threads = 8;
	load.ops = scaled(10000);
	run_rounds(&load, 0);
	check_seen(&load);
	return 0;
}

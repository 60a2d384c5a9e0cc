/* SPDX-License-Identifier: MIT */
/*
 * The load that the stress programs put on: threads that take, give, defer,
 * pass on and discard objects of several caches at random, also by prefilled
 * sheaves, each object under an owner stamp, while others shrink, wait for
 * deferred frees and read statistics all the time.
 */
#ifndef PCP_TESTS_STRESS_LOAD_H
#define PCP_TESTS_STRESS_LOAD_H

#include "../caches.h"

struct load {
	/* What is asked for. */
	unsigned int threads;  /* workers */
	unsigned int services; /* threads that shrink and look, >= 2 */
	unsigned long ops;     /* of each worker */
	uint64_t seed;
	unsigned int signal_us;	     /* timer signals, 0: none */
	unsigned int signal_threads; /* to so many of the workers */
	unsigned int fail_every;     /* constructor calls that fail, 0: none */
	bool pin_one;		     /* all on one CPU */
	bool migrate;		     /* workers change CPU all the time */

	/* What was seen. */
	unsigned long long done;    /* objects handed out */
	unsigned long long refused; /* failed calls, the constructor's doing */
	unsigned long long aborts;
	unsigned long long drains;
	unsigned long long retries;
	unsigned long long signals;
	unsigned long long prefills; /* sheaves handed out */
	unsigned long long returns;
	unsigned long long parks;
	unsigned long long deferred; /* objects given to pcpool_free_rcu() */
};

#define LOAD_INIT                                                              \
	{                                                                      \
		.threads = 64, .services = 2, .ops = 3000, .seed = 1,          \
		.signal_us = 50, .signal_threads = 8                           \
	}

/* One round: caches of random shapes come, are used, and go. Adds to what was
 * seen. Any fault ends the process. */
void load_round(struct load *load);

/* Options of the command line into *load; unknown ones, and --help, end the
 * process. seconds: 0, or for how long to run rounds. */
void load_options(struct load *load, unsigned int *seconds, int argc,
		  char **argv);

void load_print(const struct load *load);

#endif /* PCP_TESTS_STRESS_LOAD_H */

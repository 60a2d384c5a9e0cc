/* SPDX-License-Identifier: MIT */
/*
 * What the tests share: expectations that also work in threads and forked
 * children, pinned threads, a seeded generator, children under a watchdog, and
 * the balance sheet of constructor and destructor calls.
 *
 * Uses no pcpool call, so that a test decides itself when the library wakes up.
 */
#ifndef PCP_TESTS_COMMON_H
#define PCP_TESTS_COMMON_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#endif
#ifndef TEST_ASAN
#define TEST_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#endif
/* Whether an emulator runs this, which takes some limits and advice for granted
 * and does not enforce them. */
#define TEST_EMULATED (getenv("PCP_TEST_EMULATED") != NULL)

#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif

/* Exit status of a test that cannot be made here. */
#define TEST_SKIP 77

/* --- expectations ------------------------------------------------------- */

/* Prints one line and aborts: right in a thread, a child or a callback too. */
_Noreturn void test_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define fail_now(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define expect(cond)                                                           \
	do {                                                                   \
		if (!(cond))                                                   \
			fail_now("expected: %s", #cond);                       \
	} while (0)

#define expect_cmp(a, op, b)                                                   \
	do {                                                                   \
		const long long ea_ = (long long)(a);                          \
		const long long eb_ = (long long)(b);                          \
		if (!(ea_ op eb_))                                             \
			fail_now("expected: %s %s %s, got %lld and %lld", #a,  \
				 #op, #b, ea_, eb_);                           \
	} while (0)

#define expect_eq(a, b) expect_cmp(a, ==, b)

#define expect_errno(value)                                                    \
	do {                                                                   \
		const int ee_ = errno;                                         \
		if (ee_ != (value))                                            \
			fail_now("expected errno %s, got %d (%s)", #value,     \
				 ee_, strerror(ee_));                          \
	} while (0)

/* The call must return NULL and set errno to the value. */
#define expect_refused(call, value)                                            \
	do {                                                                   \
		errno = 0;                                                     \
		expect((call) == NULL);                                        \
		expect_errno(value);                                           \
	} while (0)

/* Ends the process as a skipped test. */
_Noreturn void skip_test(const char *why);

/* How much of a count to do: less where each step takes many times as long,
 * that is under a sanitizer that watches each access or a wrapper program. At
 * least 1. */
unsigned long scaled(unsigned long count);

/* --- CPUs and threads --------------------------------------------------- */

/* CPUs this process may run on. */
unsigned int allowed_cpus(void);
/* Pin the caller to the nth allowed CPU, counted round robin. */
void pin_to(unsigned int nth);
/* The same for another thread. One that has ended is no error. */
void move_to(pid_t tid, unsigned int nth);
/* Let the caller run wherever the process might when it started. */
void unpin(void);

struct worker {
	unsigned int id; /* 0 to n-1; pinned to that CPU, round robin */
	unsigned int n;
	void *arg;
};

/* Run n pinned threads from a common start to their end. */
void run_threads(unsigned int n, void (*fn)(const struct worker *), void *arg);

/* --- random numbers, seeded --------------------------------------------- */

struct rng {
	uint64_t state;
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
/* 0 to n-1; n > 0. */
uint32_t rng_below(struct rng *rng, uint32_t n);

/* --- children ----------------------------------------------------------- */

/* The calling process is killed after so many seconds, whatever its threads
 * block. Not inherited by its children, and gone with exec(2). */
void kill_after(unsigned int seconds);
/* Ended by that or by an alarm, from its status as of waitpid(2). */
bool was_hung(int status);

struct child {
	int status;	   /* as of waitpid(2) */
	size_t len;	   /* of err */
	char err[1 << 16]; /* what it wrote to stderr, terminated */
};

/* Run fn(arg) in a forked child that is killed after so many seconds. */
void run_child(void (*fn)(void *), void *arg, unsigned int seconds,
	       struct child *child);

/* Run this program again with these arguments (NULL at the end; without its
 * name) and with more PCPOOL_OPTIONS (NULL: none). */
void run_self(const char *const *args, const char *options,
	      unsigned int seconds, struct child *child);

/* Fails the test unless the child ended with this exit status. */
void expect_child_exit(const struct child *child, int status);

/* Fails the test unless the child aborted and wrote every one of the texts,
 * NULL at the end. */
void expect_child_abort(const struct child *child, ...)
	__attribute__((sentinel));

/* --- the balance sheet --------------------------------------------------- */

/*
 * The arg of sheet_ctor() and sheet_dtor(). Zero but for what is wanted.
 * With fill the constructor writes a pattern over that many bytes, which
 * depends on the object's address, and the destructor checks it; else the
 * first word (where there is room, by clear) is set to 0.
 */
struct sheet {
	atomic_ullong calls; /* constructor calls */
	atomic_ullong ok;
	atomic_ullong failed;
	atomic_ullong dtor;
	atomic_ullong reset;
	atomic_ullong fail_every; /* every k-th call fails; 0: none */
	atomic_ullong fail_from;  /* calls after the k-th fail, while > 0 */
	atomic_int error;	  /* what a failing call returns; 0: EXDEV */
	size_t fill;
	size_t clear;	     /* bytes to set to 0 */
	atomic_bool no_dtor; /* a destructor call is a failure now */
};

int sheet_ctor(void *obj, void *arg);
void sheet_dtor(void *obj, void *arg);
void sheet_reset(void *obj, void *arg);

void sheet_pattern_check(const void *obj, size_t size);

/* Fails unless every built object was destructed. */
void sheet_balanced(struct sheet *sheet);
/* ok - dtor */
unsigned long long sheet_built(struct sheet *sheet);

/* --- owners --------------------------------------------------------------- */

/* Objects that start with one word, 0 while nobody has them. id is not 0. */
void owner_take(void *obj, uint64_t id);
void owner_leave(void *obj, uint64_t id);

#endif /* PCP_TESTS_COMMON_H */

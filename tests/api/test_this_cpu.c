/* SPDX-License-Identifier: MIT */
/*
 * Operations on the caller's own copy beyond adding: by type, with each
 * argument evaluated once; exchanges that lose and double nothing among
 * threads, CPUs and signal handlers.
 */
#include <config.h>

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <pcpool/percpu.h>

#include "../common.h"
#include "../suite.h"

static void *must_region(size_t size)
{
	void *p = pcpool_percpu_alloc(size, 8);

	expect(p);
	return p;
}

/* --- by type ----------------------------------------------------------------
 */

struct both {
	uint64_t wide;
	int32_t narrow;
	uint32_t guard;
	int64_t negative;
};

START_TEST(test_types)
{
	struct both PCPOOL_PERCPU *p = must_region(sizeof(struct both));
	unsigned int five = 5;

	pin_to(0);
	pcpool_this_cpu_add(&p->wide, 10);
	/* 32 bits without a sign, taken from 64. */
	pcpool_this_cpu_sub(&p->wide, five);
	pcpool_this_cpu_sub(&p->negative, five);
	pcpool_this_cpu_inc(&p->wide);
	pcpool_this_cpu_dec(&p->narrow);
	pcpool_this_cpu_sub(&p->narrow, -3);
	pcpool_this_cpu_dec(&p->narrow);
	expect_eq(pcpool_this_cpu_read(&p->wide), 6);
	expect_eq(pcpool_this_cpu_read(&p->narrow), 1);
	pcpool_this_cpu_sub(&p->narrow, 2);
	/* The result has the type, and so the sign. */
	expect(pcpool_this_cpu_read(&p->narrow) < 0);
	expect(pcpool_this_cpu_read(&p->negative) < 0);
	expect_eq(pcpool_this_cpu_read(&p->negative), -5);

	expect(pcpool_this_cpu_xchg(&p->negative, INT64_MIN) == -5);
	expect(pcpool_this_cpu_xchg(&p->negative, 1) == INT64_MIN);
	expect(pcpool_this_cpu_xchg(&p->narrow, -7) == -1);
	expect(pcpool_this_cpu_cmpxchg(&p->narrow, 7, 1) == -7);
	expect(pcpool_this_cpu_cmpxchg(&p->narrow, -7, 1) == -7);
	expect(pcpool_this_cpu_cmpxchg(&p->narrow, 1, 2) == 1);
	expect(pcpool_this_cpu_cmpxchg(&p->wide, 6, UINT64_MAX) == 6);
	expect(pcpool_this_cpu_cmpxchg(&p->wide, 6, 0) == UINT64_MAX);
	/* Equal in the low half only. */
	pcpool_this_cpu_xchg(&p->wide, (UINT64_C(1) << 32) + 9);
	expect(pcpool_this_cpu_cmpxchg(&p->wide, 9, 0) ==
	       (UINT64_C(1) << 32) + 9);
	expect_eq(pcpool_this_cpu_read(&p->guard), 0);
	expect_eq(pcpool_percpu_sum_u32(&p->guard), 0);
	unpin();
	pcpool_percpu_free(p);
}
END_TEST

START_TEST(test_evaluated_once)
{
	uint64_t PCPOOL_PERCPU *p = must_region(64), *q = p;
	int value = 4, other = 5;

	pin_to(0);
	pcpool_this_cpu_add(q++, value++);
	pcpool_this_cpu_sub(q++, value++);
	pcpool_this_cpu_inc(q++);
	pcpool_this_cpu_dec(q++);
	expect_eq(pcpool_this_cpu_read(q++), 0);
	expect_eq(pcpool_this_cpu_xchg(q++, value++), 0);
	q--;
	expect_eq(pcpool_this_cpu_cmpxchg(q++, --value, other++), 6);
	expect_eq(value, 6);
	expect_eq(other, 6);
	expect_eq(q - p, 6);
	expect_eq(pcpool_percpu_sum_u64(&p[0]), 4);
	expect_eq((int64_t)pcpool_percpu_sum_u64(&p[1]), -5);
	expect_eq(pcpool_percpu_sum_u64(&p[2]), 1);
	expect_eq((int64_t)pcpool_percpu_sum_u64(&p[3]), -1);
	expect_eq(pcpool_percpu_sum_u64(&p[5]), 5);
	unpin();
	pcpool_percpu_free(p);
}
END_TEST

/* --- among threads ---------------------------------------------------------- */

enum { THREADS = 8, TOKENS = 8192 };

static struct {
	uint64_t *token;     /* a number, or 0 */
	uint32_t *narrow;    /* a copy of its own of the same */
	uint64_t *stepped;   /* counted up by compare and exchange */
} words;

static atomic_ullong handled, stepped;
static unsigned char seen[2][TOKENS];

static void step_up(void)
{
	uint64_t old = pcpool_this_cpu_read(words.stepped), found;

	while ((found = pcpool_this_cpu_cmpxchg(words.stepped, old, old + 1)) !=
	       old)
		old = found;
}

static void note(int which, uint64_t token)
{
	if (!token)
		return;
	expect_cmp(token, <, TOKENS);
	expect_eq(__atomic_fetch_add(&seen[which][token], 1, __ATOMIC_RELAXED),
		  0);
}

static void on_alarm(int signal)
{
	(void)signal;
	step_up();
	/* Out of play, if there is one. */
	note(0, pcpool_this_cpu_xchg(words.token, 0));
	atomic_fetch_add(&handled, 1);
}

static void exchanger(const struct worker *worker)
{
	const unsigned int n = (unsigned int)scaled(100000);
	const unsigned int share = TOKENS / THREADS;
	uint64_t mine = 0, first = worker->id * share;
	uint32_t mine_narrow = 0;
	unsigned int given = 1, given_narrow = 1;

	for (unsigned int i = 0; i < n; i++) {
		/* Now and then one more comes into play. */
		if (!mine && given < share)
			mine = first + given++;
		if (!mine_narrow && given_narrow < share)
			mine_narrow = (uint32_t)first + given_narrow++;
		mine = pcpool_this_cpu_xchg(words.token, mine);
		mine_narrow = pcpool_this_cpu_xchg(words.narrow, mine_narrow);
		step_up();
		if (i % 512 == 0)
			pin_to(worker->id + i / 512);
	}
	atomic_fetch_add(&stepped, n);
	note(0, mine);
	note(1, mine_narrow);
}

static void exchange_all(void)
{
	const struct itimerval every = { { 0, 100 }, { 0, 100 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm,
				    .sa_flags = SA_RESTART };

	words.token = must_region(8);
	words.narrow = must_region(8);
	words.stepped = must_region(8);
	expect(!sigaction(SIGALRM, &action, NULL));
	expect(!setitimer(ITIMER_REAL, &every, NULL));
	run_threads(THREADS, exchanger, NULL);
	expect(!setitimer(ITIMER_REAL, &never, NULL));
	for (unsigned int s = 0; s < pcpool_nr_slots(); s++) {
		note(0, *(uint64_t *)pcpool_percpu_ptr(words.token, s));
		note(1, *(uint32_t *)pcpool_percpu_ptr(words.narrow, s));
	}
	expect_eq(pcpool_percpu_sum_u64(words.stepped),
		  atomic_load(&stepped) + atomic_load(&handled));
	expect_cmp(atomic_load(&handled), >, 0);
	pcpool_percpu_free(words.token);
	pcpool_percpu_free(words.narrow);
	pcpool_percpu_free(words.stepped);
}

/* No number is ever in two hands, no step is lost. */
START_TEST(test_exchanges)
{
	exchange_all();
}
END_TEST

/* Nor where threads on different CPUs share a slot. */
START_TEST(test_exchanges_one_slot)
{
	static const char *const args[] = { "one-slot", NULL };
	static struct child child;

	run_self(args, "slots:1", 60, &child);
	expect_child_exit(&child, 0);
}
END_TEST

/* A value that stands for memory: who gets it sees what was written there. The
 * thread sanitizer looks on. */
struct parcel {
	uint64_t a, b;
};

static uint64_t *post;

static void poster(const struct worker *worker)
{
	const unsigned int n = (unsigned int)scaled(50000);
	struct parcel *mine = malloc(sizeof(*mine));

	expect(mine);
	for (unsigned int i = 0; i < n; i++) {
		mine->a = worker->id * (uint64_t)n + i;
		mine->b = ~mine->a;
		mine = (struct parcel *)(uintptr_t)pcpool_this_cpu_xchg(
			post, (uintptr_t)mine);
		if (!mine)
			expect(mine = malloc(sizeof(*mine)));
		else
			expect(mine->a == ~mine->b);
	}
	free(mine);
}

START_TEST(test_hand_over)
{
	post = must_region(8);
	run_threads(THREADS, poster, NULL);
	for (unsigned int s = 0; s < pcpool_nr_slots(); s++)
		free((void *)(uintptr_t)*(uint64_t *)pcpool_percpu_ptr(post,
								       s));
	pcpool_percpu_free(post);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tc;

	if (argc > 1 && !strcmp(argv[1], "one-slot")) {
		exchange_all();
		return 0;
	}
	tc = suite_case("this_cpu api", 120);
	tcase_add_test(tc, test_types);
	tcase_add_test(tc, test_evaluated_once);
	tcase_add_test(tc, test_exchanges);
	tcase_add_test(tc, test_exchanges_one_slot);
	tcase_add_test(tc, test_hand_over);
	return suite_run(tc);
}

/* SPDX-License-Identifier: MIT */
/* lib/sheaf/barn.c: limits that hold under threads, no sheaf lost or twice. */
#include <config.h>

#include <limits.h>
#include <sched.h>
#include <time.h>

#include "floors.h"

#include "sheaf/barn.h"

#define CAPACITY 4U

static struct pcp_stat stat;
static struct pcp_sheaves set;
static struct pcp_barn *barn;

static void setup(void)
{
	pcp_init();
	expect_eq(pcp_stat_init(&stat), 0);
	set = (struct pcp_sheaves){ .stat = &stat, .capacity = CAPACITY };
	barn = pcp_meta_alloc(sizeof(*barn), _Alignof(struct pcp_barn));
	expect(barn);
	pcp_barn_init(barn, &stat);
}

static uint64_t count(enum pcp_stat_id id)
{
	return pcp_stat_sum(&stat, id);
}

/* Nobody else is at it. */
static void check_barn(unsigned int full, unsigned int empty)
{
	unsigned int nodes = 0;

	expect_eq(barn->nr_full, full);
	expect_eq(barn->nr_empty, empty);
	for (const struct pcp_stack_node *link = pcp_stack_first(&barn->unused);
	     link; link = pcp_stack_next(link)) {
		const struct pcp_barn_node *node = pcp_container_of(
			link, const struct pcp_barn_node, link);

		/* One that names a sheaf still would be looked at after the
		 * sheaf is freed. */
		expect(!node->sheaf);
		nodes++;
	}
	expect_eq(nodes, pcp_barn_nodes(barn) - full - empty);
}

static void teardown(void)
{
	while (pcp_barn_get_full(barn) || pcp_barn_get_empty(barn) ||
	       pcp_barn_get_partial(barn))
		;
	check_barn(0, 0);
	pcp_sheaves_free_all(&set);
	pcp_barn_destroy(barn);
	pcp_meta_free(barn);
	pcp_stat_destroy(&stat);
}

/* A sheaf of n objects that say whose it is. */
static struct pcp_sheaf *make(uint32_t n, uintptr_t id)
{
	struct pcp_sheaf *sheaf = pcp_sheaf_new(&set);

	expect(sheaf);
	for (uint32_t i = 0; i < n; i++)
		pcp_sheaf_push(sheaf, (void *)id);
	return sheaf;
}

START_TEST(test_empty_barn)
{
	expect(!pcp_barn_get_full(barn));
	expect(!pcp_barn_get_empty(barn));
	expect(!pcp_barn_get_partial(barn));
	expect_eq(pcp_barn_objects(barn), 0);
	expect_eq(count(PCP_STAT_BARN_GET_FAIL), 1);
	expect_eq(count(PCP_STAT_BARN_GET), 0);
	check_barn(0, 0);
}
END_TEST

START_TEST(test_limits)
{
	struct pcp_sheaf *full[PCP_BARN_FULL + 1], *empty[PCP_BARN_EMPTY + 1];

	for (unsigned int round = 0; round < 3; round++) {
		uint64_t puts = count(PCP_STAT_BARN_PUT);

		for (unsigned int i = 0; i <= PCP_BARN_FULL; i++) {
			full[i] = make(CAPACITY, i + 1);
			expect_eq(pcp_barn_put_full(barn, full[i]),
				  i < PCP_BARN_FULL);
		}
		for (unsigned int i = 0; i <= PCP_BARN_EMPTY; i++) {
			empty[i] = make(0, 0);
			expect_eq(pcp_barn_put_empty(barn, empty[i]),
				  i < PCP_BARN_EMPTY);
		}
		check_barn(PCP_BARN_FULL, PCP_BARN_EMPTY);
		expect_eq(pcp_barn_objects(barn), PCP_BARN_FULL * CAPACITY);
		expect_eq(count(PCP_STAT_BARN_PUT) - puts, PCP_BARN_FULL);
		expect_eq(count(PCP_STAT_BARN_PUT_FAIL), round + 1);
		/* A refused one is still the caller's, and whole. */
		expect_eq(pcp_sheaf_size(full[PCP_BARN_FULL]), CAPACITY);
		/* The warmest comes first. */
		for (unsigned int i = PCP_BARN_FULL; i-- > 0;)
			expect(pcp_barn_get_full(barn) == full[i]);
		for (unsigned int i = PCP_BARN_EMPTY; i-- > 0;)
			expect(pcp_barn_get_empty(barn) == empty[i]);
		expect_eq(pcp_barn_objects(barn), 0);
		check_barn(0, 0);
	}
	expect_eq(count(PCP_STAT_BARN_GET), 3 * PCP_BARN_FULL);
}
END_TEST

/* One kind being full is no matter to the other. */
START_TEST(test_kinds_apart)
{
	for (unsigned int i = 0; i < PCP_BARN_EMPTY; i++)
		expect(pcp_barn_put_empty(barn, make(0, 0)));
	expect(!pcp_barn_get_full(barn));
	for (unsigned int i = 0; i < PCP_BARN_FULL; i++)
		expect(pcp_barn_put_full(barn, make(CAPACITY, 1)));
	expect_eq(pcp_sheaf_size(pcp_barn_get_empty(barn)), 0);
	expect_eq(pcp_sheaf_size(pcp_barn_get_full(barn)), CAPACITY);
}
END_TEST

START_TEST(test_partial)
{
	struct pcp_sheaf *a = make(1, 1), *b = make(3, 2);

	expect(!pcp_barn_put_partial(barn, a));
	expect_eq(pcp_barn_objects(barn), 1);
	expect(pcp_barn_put_partial(barn, b) == a);
	expect_eq(pcp_barn_objects(barn), 3);
	expect(pcp_barn_put_full(barn, make(CAPACITY, 3)));
	expect_eq(pcp_barn_objects(barn), 3 + CAPACITY);
	expect(pcp_barn_get_partial(barn) == b);
	expect(!pcp_barn_get_partial(barn));
	expect_eq(pcp_barn_objects(barn), CAPACITY);
}
END_TEST

/* --- threads -------------------------------------------------------------- */

static atomic_uint step;

static void widen(enum pcp_hook_id id)
{
	if (id == PCP_HOOK_BARN_RESERVED &&
	    atomic_fetch_add(&step, 1) % 4 == 0)
		sched_yield();
}

static atomic_uint stored;

static void fill_up(const struct worker *worker)
{
	for (unsigned int i = 0; i < 6; i++)
		if (pcp_barn_put_full(barn, make(CAPACITY, worker->id + 1)))
			atomic_fetch_add(&stored, 1);
}

/* More want to put than there is room for, all at once. */
START_TEST(test_limit_of_many)
{
	pcp_hook_set(widen);
	for (unsigned int round = 0; round < 50; round++) {
		unsigned int got = 0;

		atomic_store(&stored, 0);
		run_threads(4, fill_up, NULL);
		expect_cmp(atomic_load(&stored), <=, PCP_BARN_FULL);
		check_barn(atomic_load(&stored), 0);
		/* A thread may be refused while others reserve in vain, but
		 * what is left can be had. */
		while (atomic_load(&stored) < PCP_BARN_FULL) {
			expect(pcp_barn_put_full(barn, make(CAPACITY, 1)));
			atomic_fetch_add(&stored, 1);
		}
		expect(!pcp_barn_put_full(barn, make(CAPACITY, 1)));
		while (pcp_barn_get_full(barn))
			got++;
		expect_eq(got, PCP_BARN_FULL);
		check_barn(0, 0);
	}
	pcp_hook_set(NULL);
}
END_TEST

/* Two reserve the last place at the same moment, again and again; where each
 * waits for the other to get a CPU, for so many seconds. */
#define RACES 20000U
#define RACE_SECONDS 10

static atomic_uint race, arrived, winners;

static void race_for_one(const struct worker *worker)
{
	struct pcp_sheaf *mine = make(CAPACITY, worker->id + 1);
	const time_t start = time(NULL);

	for (unsigned int i = 1; i <= RACES; i++) {
		if (worker->id) {
			unsigned int now;

			while ((now = atomic_load(&race)) < i)
				sched_yield();
			if (now > i)
				return;
		} else {
			atomic_store(&winners, 0);
			atomic_store(&arrived, 0);
			if (time(NULL) - start > RACE_SECONDS) {
				atomic_store(&race, UINT_MAX);
				return;
			}
			atomic_store(&race, i);
		}
		if (pcp_barn_put_full(barn, mine))
			atomic_fetch_add(&winners, 1);
		atomic_fetch_add(&arrived, 1);
		while (!worker->id && atomic_load(&arrived) != 2)
			sched_yield();
		if (worker->id)
			continue;
		/* Both may have been refused, for the other had reserved. */
		expect_cmp(atomic_load(&winners), <=, 1);
		check_barn(PCP_BARN_FULL - 1 + atomic_load(&winners), 0);
		if (atomic_load(&winners))
			expect(pcp_barn_get_full(barn));
	}
}

START_TEST(test_race_for_one)
{
	for (unsigned int i = 0; i + 1 < PCP_BARN_FULL; i++)
		expect(pcp_barn_put_full(barn, make(CAPACITY, 1)));
	atomic_store(&race, 0);
	run_threads(2, race_for_one, NULL);
	expect_cmp(atomic_load(&race), >, 1);
	check_barn(PCP_BARN_FULL - 1, 0);
}
END_TEST

/* The first object of a sheaf says whose it is while a thread has it. */
static void own(struct pcp_sheaf *sheaf, uintptr_t id)
{
	void *nobody = NULL;

	expect(__atomic_compare_exchange_n(&sheaf->objects[0], &nobody,
					   (void *)id, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED));
}

static void disown(struct pcp_sheaf *sheaf, uintptr_t id)
{
	void *me = (void *)id;

	expect(__atomic_compare_exchange_n(&sheaf->objects[0], &me, NULL,
					   false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED));
}

enum kind { FULL, EMPTY, PARTIAL };

static struct pcp_sheaf *get(enum kind kind)
{
	if (kind == FULL)
		return pcp_barn_get_full(barn);
	return kind == EMPTY ? pcp_barn_get_empty(barn)
			     : pcp_barn_get_partial(barn);
}

/* Returns what the caller still or newly has. */
static struct pcp_sheaf *put(enum kind kind, struct pcp_sheaf *sheaf)
{
	bool done;

	if (kind == PARTIAL)
		return pcp_barn_put_partial(barn, sheaf);
	done = kind == FULL ? pcp_barn_put_full(barn, sheaf)
			    : pcp_barn_put_empty(barn, sheaf);
	return done ? NULL : sheaf;
}

#define SHEAVES 30U

static struct pcp_sheaf *leftover[4][SHEAVES];

static void exchange(const struct worker *worker)
{
	struct pcp_sheaf **mine = leftover[worker->id];
	uintptr_t id = worker->id + 1;
	uint32_t n = 0;
	struct rng rng;

	rng_seed(&rng, id);
	for (unsigned int i = 0; i < 100000; i++) {
		enum kind kind = (enum kind)rng_below(&rng, 3);
		struct pcp_sheaf *sheaf;

		if (rng_below(&rng, 2) && n) {
			sheaf = mine[--n];
			disown(sheaf, id);
			sheaf = put(kind, sheaf);
		} else {
			sheaf = get(kind);
		}
		if (sheaf) {
			own(sheaf, id);
			mine[n++] = sheaf;
		}
		if (i % 512 == 0)
			expect_cmp(pcp_barn_objects(barn), <=,
				   SHEAVES * CAPACITY);
	}
}

static uint32_t count_left(void)
{
	uint32_t n = 0;

	for (unsigned int t = 0; t < 4; t++)
		for (unsigned int i = 0; i < SHEAVES; i++)
			if (leftover[t][i] && leftover[t][i]->objects[0]) {
				leftover[t][i]->objects[0] = NULL;
				n++;
			}
	return n;
}

START_TEST(test_exchange)
{
	uint32_t inside = 0, left;

	/* Sheaves go round as all kinds; what they hold is no matter here. */
	for (unsigned int i = 0; i < PCP_BARN_FULL; i++)
		expect(pcp_barn_put_full(barn, make(0, 0)));
	for (unsigned int i = 0; i < PCP_BARN_EMPTY; i++)
		expect(pcp_barn_put_empty(barn, make(0, 0)));
	expect(!pcp_barn_put_partial(barn, make(0, 0)));
	pcp_hook_set(widen);
	run_threads(4, exchange, NULL);
	pcp_hook_set(NULL);
	check_barn(barn->nr_full, barn->nr_empty);
	for (enum kind kind = FULL; kind <= PARTIAL; kind++) {
		struct pcp_sheaf *sheaf;
		uint32_t n = 0;

		while ((sheaf = get(kind))) {
			expect(!sheaf->objects[0]);
			n++;
		}
		expect_cmp(n, <=, kind == PARTIAL ? 1 : PCP_BARN_FULL);
		inside += n;
	}
	left = count_left();
	expect_eq(inside + left, PCP_BARN_FULL + PCP_BARN_EMPTY + 1);
}
END_TEST

/* --- more places than at first -------------------------------------------- */

enum { MANY = 100 };

static void raise_to(uint32_t most)
{
	barn->limit = barn->most = most;
}

static void drop(struct pcp_sheaf *sheaf)
{
	pcp_sheaf_set_size(sheaf, 0);
	pcp_sheaf_retire(&set, sheaf);
}

static uint32_t put_until(uint32_t most)
{
	uint32_t n = 0;

	while (n < most) {
		struct pcp_sheaf *sheaf = make(CAPACITY, 1);

		if (!pcp_barn_put_full(barn, sheaf)) {
			drop(sheaf);
			break;
		}
		n++;
	}
	return n;
}

/* Nodes come as they are needed; without memory the sheaf is refused. */
START_TEST(test_more_nodes)
{
	struct pcp_sheaf *sheaf = make(CAPACITY, 1);
	size_t nodes = pcp_barn_nodes(barn), bytes = pcp_barn_bytes(barn);

	raise_to(MANY);
	expect_eq(put_until((uint32_t)nodes), nodes);
	pcp_fault_set(PCP_FAULT_META, 1, true);
	errno = 4711;
	expect(!pcp_barn_put_full(barn, sheaf));
	expect_eq(errno, 4711);
	pcp_fault_set(PCP_FAULT_META, 0, false);
	expect(pcp_barn_put_full(barn, sheaf));
	check_barn((unsigned int)nodes + 1, 0);
	expect_eq(put_until(MANY), MANY - nodes - 1);
	check_barn(MANY, 0);
	expect_cmp(pcp_barn_nodes(barn), >=, MANY);
	expect_cmp(pcp_barn_nodes(barn), <, MANY + PCP_BARN_NODES);
	expect_cmp(pcp_barn_bytes(barn), >, bytes);
	expect_eq(pcp_barn_objects(barn), MANY * CAPACITY);
	/* They stay, and serve again. */
	nodes = pcp_barn_nodes(barn);
	for (int round = 0; round < 3; round++) {
		while ((sheaf = pcp_barn_get_full(barn)))
			drop(sheaf);
		check_barn(0, 0);
		expect_eq(put_until(MANY + 1), MANY);
	}
	expect_eq(pcp_barn_nodes(barn), nodes);
}
END_TEST

/* --- a stack for each CPU, or some of them -------------------------------- */

static unsigned int stack_on(unsigned int cpu)
{
	pin_to(cpu);
	return pcp_this_slot() % PCP_BARN_STACKS;
}

/* What a CPU gave comes back to it; what another gave when there is no more.
 * A slot may follow the thread, not the CPU: then there is nothing to see. */
START_TEST(test_own_first)
{
	struct pcp_sheaf *a[2], *b[2];
	unsigned int own = stack_on(0), other = 1;

	while (other < allowed_cpus() && stack_on(other) == own)
		other++;
	if (other >= allowed_cpus())
		return;
	for (int i = 0; i < 2; i++) {
		if (stack_on(0) != own)
			return;
		a[i] = make(CAPACITY, 1);
		expect(pcp_barn_put_full(barn, a[i]));
		if (stack_on(other) == own)
			return;
		b[i] = make(CAPACITY, 2);
		expect(pcp_barn_put_full(barn, b[i]));
	}
	check_barn(4, 0);
	expect_eq(pcp_barn_objects(barn), 4 * CAPACITY);
	if (stack_on(0) != own)
		return;
	expect(pcp_barn_get_full(barn) == a[1]);
	expect(pcp_barn_get_full(barn) == a[0]);
	expect(pcp_barn_get_full(barn) == b[1]);
	expect_eq(count(PCP_STAT_BARN_GET_FAIL), 0);
	pin_to(other);
	expect(pcp_barn_get_full(barn) == b[0]);
	expect(!pcp_barn_get_full(barn));
	expect_eq(count(PCP_STAT_BARN_GET_FAIL), 1);
	check_barn(0, 0);
}
END_TEST

enum { EACH = 30, THREADS = 4 };

static void put_each(const struct worker *w)
{
	(void)w;
	expect_eq(put_until(EACH), EACH);
}

/* Several at once find that there is no node. */
START_TEST(test_more_nodes_of_many)
{
	for (unsigned long round = scaled(20); round; round--) {
		raise_to(EACH * THREADS);
		pcp_hook_set(widen);
		run_threads(THREADS, put_each, NULL);
		pcp_hook_set(NULL);
		check_barn(EACH * THREADS, 0);
		expect_eq(pcp_barn_objects(barn), EACH * THREADS * CAPACITY);
		expect_eq(put_until(1), 0);
		teardown();
		setup();
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("barn", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_empty_barn);
	tcase_add_test(tc, test_limits);
	tcase_add_test(tc, test_kinds_apart);
	tcase_add_test(tc, test_partial);
	tcase_add_test(tc, test_limit_of_many);
	tcase_add_test(tc, test_race_for_one);
	tcase_add_test(tc, test_exchange);
	tcase_add_test(tc, test_own_first);
	tcase_add_test(tc, test_more_nodes);
	tcase_add_test(tc, test_more_nodes_of_many);
	return suite_run(tc);
}

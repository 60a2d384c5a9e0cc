/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees under load: writers publish objects, take them down again and
 * give them up by pcpool_free_rcu(), readers follow what is published and fail
 * when it changes under them. Beside them barriers, shrinks, plain frees, and
 * typesafe caches, whose objects may change but not vanish.
 *
 *   stress_rcu [SECONDS [SEED]]     default 3 s, or PCP_STRESS_SECONDS
 */
#include <config.h>

#include <sched.h>
#include <time.h>

#include "../caches.h"
#include "../rcu.h"

enum { PLACES = 128, READERS = 3, WRITERS = 3, SERVICES = 1, HELD = 32 };

/* What every object starts with. All by atomics: the thread sanitizer does not
 * see what liburcu orders. */
struct object {
	uint64_t owner; /* 0: nobody's, or published */
	uint64_t magic; /* as long as it is built */
	uint64_t generation; /* changes when it is given up */
	uint64_t published;
};

enum { MAGIC = 0x6f626a };

struct board {
	struct pcpool_cache *cache;
	const struct rcu_flavor_struct *flavor;
	bool typesafe;
	_Atomic(struct object *) place[PLACES];
	atomic_ullong built, destructed;
	atomic_ullong reads, deferred, barriers;
};

struct round {
	struct board board[3];
	atomic_uint writing;
	unsigned long ops; /* of a writer */
	uint64_t seed;
};

enum { BOARDS = sizeof(((struct round *)0)->board) / sizeof(struct board) };

static uint64_t get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static int ctor(void *p, void *arg)
{
	struct object *obj = p;

	set(&obj->owner, 0);
	set(&obj->magic, MAGIC);
	set(&obj->generation, 0);
	set(&obj->published, 0);
	atomic_fetch_add(&((struct board *)arg)->built, 1);
	return 0;
}

static void dtor(void *p, void *arg)
{
	struct object *obj = p;

	expect_eq(get(&obj->magic), MAGIC);
	expect_eq(get(&obj->published), 0);
	set(&obj->magic, 0);
	atomic_fetch_add(&((struct board *)arg)->destructed, 1);
}

/* --- readers ---------------------------------------------------------------- */

static void follow(struct board *board, struct rng *rng)
{
	struct object *obj;

	board->flavor->read_lock();
	obj = atomic_load(&board->place[rng_below(rng, PLACES)]);
	if (obj) {
		uint64_t generation = get(&obj->generation);
		uint32_t looks = rng_below(rng, 40);

		for (uint32_t i = 0; i <= looks; i++) {
			if (get(&obj->magic) != MAGIC)
				fail_now("destructed under a reader");
			if (!board->typesafe &&
			    get(&obj->generation) != generation)
				fail_now("handed out under a reader");
			if (i % 16 == 15)
				sched_yield();
		}
		atomic_fetch_add_explicit(&board->reads, 1,
					  memory_order_relaxed);
	}
	board->flavor->read_unlock();
	if (is_qsbr(board->flavor))
		board->flavor->read_quiescent_state();
}

static void read_on(struct round *round, struct rng *rng)
{
	for (int b = 0; b < BOARDS; b++)
		if (!b || round->board[b].flavor != round->board[0].flavor)
			round->board[b].flavor->register_thread();
	while (atomic_load(&round->writing))
		follow(&round->board[rng_below(rng, BOARDS)], rng);
	for (int b = 0; b < BOARDS; b++)
		if (!b || round->board[b].flavor != round->board[0].flavor)
			round->board[b].flavor->unregister_thread();
}

/* --- writers ---------------------------------------------------------------- */

/* Only its owner changes it, from the hand-out on: what a reader still holds
 * must not have come here. */
static void publish(struct board *board, struct object *obj, struct rng *rng)
{
	owner_take(&obj->owner, rng_next(rng) | 1);
	if (get(&obj->magic) != MAGIC)
		fail_now("handed out unbuilt");
	set(&obj->generation, rng_next(rng));
	set(&obj->published, 1);
	/* Whose it was does not matter while it stands there. */
	set(&obj->owner, 0);
	obj = atomic_exchange(&board->place[rng_below(rng, PLACES)], obj);
	if (!obj)
		return;
	set(&obj->published, 0);
	atomic_fetch_add_explicit(&board->deferred, 1, memory_order_relaxed);
	if (!board->typesafe || rng_below(rng, 4) == 0)
		pcpool_free_rcu(board->cache, obj);
	else if (rng_below(rng, 16))
		pcpool_free(board->cache, obj);
	else
		expect_eq(pcpool_discard(board->cache, obj), 0);
}

/* Objects that were never published are free at once. */
static void take_and_give(struct board *board, struct rng *rng)
{
	uint32_t n = 1 + rng_below(rng, HELD);
	uint64_t id = rng_next(rng) | 1;
	void *objs[HELD];

	expect_eq(pcpool_alloc_bulk(board->cache, n, objs), 0);
	for (uint32_t i = 0; i < n; i++) {
		owner_take(objs[i], id);
		set(&((struct object *)objs[i])->generation, id);
	}
	for (uint32_t i = 0; i < n; i++) {
		owner_leave(objs[i], id);
		if (rng_below(rng, 2))
			pcpool_free(board->cache, objs[i]);
		else
			pcpool_free_rcu(board->cache, objs[i]);
	}
}

static void write_on(struct round *round, struct rng *rng)
{
	for (unsigned long op = round->ops; op; op--) {
		struct board *board = &round->board[rng_below(rng, BOARDS)];

		if (rng_below(rng, 8))
			publish(board, must_alloc(board->cache), rng);
		else
			take_and_give(board, rng);
		if (op % 64 == 0)
			expect_eq(pcpool_rcu_wait(board->cache, 0, -1), 0);
		if (op % 1024 == 0)
			expect_eq(pcpool_rcu_barrier(board->cache), 0);
	}
	atomic_fetch_sub(&round->writing, 1);
}

static void serve(struct round *round, struct rng *rng)
{
	const struct timespec pause = { 0, 300000 };

	while (atomic_load(&round->writing)) {
		struct board *board = &round->board[rng_below(rng, BOARDS)];

		if (rng_below(rng, 2))
			expect_eq(pcpool_cache_shrink(board->cache), 0);
		else
			expect_eq(pcpool_rcu_barrier(board->cache), 0);
		atomic_fetch_add(&board->barriers, 1);
		stats_of(board->cache);
		nanosleep(&pause, NULL);
	}
}

static void thread(const struct worker *w)
{
	struct round *round = w->arg;
	struct rng rng;

	rng_seed(&rng, round->seed * 1009 + w->id);
	if (w->id < READERS)
		read_on(round, &rng);
	else if (w->id < READERS + WRITERS)
		write_on(round, &rng);
	else
		serve(round, &rng);
}

/* --- rounds ----------------------------------------------------------------- */

static void make_boards(struct round *round)
{
	static const unsigned int capacities[] = { 1, 3, 8, 30, 100 };
	struct rng rng;

	rng_seed(&rng, round->seed);
	for (int b = 0; b < BOARDS; b++) {
		struct board *board = &round->board[b];
		struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;

		board->typesafe = b == 1;
		/* Mostly the library's own, and another beside it. */
		board->flavor = b < 2 ? flavors[0]
				      : flavors[rng_below(&rng, FLAVORS)];
		attr.ctor = ctor;
		attr.dtor = dtor;
		attr.arg = board;
		attr.rcu = board->flavor;
		attr.rcu_backlog = 1000;
		attr.sheaf_capacity = capacities[rng_below(&rng, 5)];
		attr.flags = board->typesafe ? PCPOOL_TYPESAFE_BY_RCU : 0;
		if (rng_below(&rng, 6) == 0)
			attr.flags |= PCPOOL_CHECK;
		board->cache = pcpool_cache_create(
			"board",
			sizeof(struct object) + 8 * rng_below(&rng, 125),
			&attr);
		expect(board->cache);
	}
}

static void end_board(struct board *board)
{
	struct pcpool_cache_stats stats;

	for (int i = 0; i < PLACES; i++) {
		struct object *obj = atomic_load(&board->place[i]);

		if (!obj)
			continue;
		set(&obj->published, 0);
		pcpool_free_rcu(board->cache, obj);
	}
	expect_eq(pcpool_rcu_barrier(board->cache), 0);
	stats = stats_of(board->cache);
	expect_eq(stats.live, 0);
	expect_eq(stats.rcu_backlog, 0);
	expect_eq(stats.objects, stats.cached);
	expect_eq(stats.built, atomic_load(&board->built) -
				       atomic_load(&board->destructed));
	must_destroy(board->cache);
	expect_eq(atomic_load(&board->built), atomic_load(&board->destructed));
}

static unsigned long long reads, deferred, barriers;

static void run_round(uint64_t seed)
{
	struct round *round = calloc(1, sizeof(*round));

	expect(round);
	round->seed = seed;
	round->ops = scaled(8000);
	atomic_store(&round->writing, WRITERS);
	make_boards(round);
	run_threads(READERS + WRITERS + SERVICES, thread, round);
	for (int b = 0; b < BOARDS; b++) {
		end_board(&round->board[b]);
		reads += round->board[b].reads;
		deferred += round->board[b].deferred;
		barriers += round->board[b].barriers;
	}
	free(round);
}

int main(int argc, char **argv)
{
	const char *given = getenv("PCP_STRESS_SECONDS");
	long seconds = argc > 1 ? atol(argv[1]) : given ? atol(given) : 3;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	time_t end = time(NULL) + seconds;
	unsigned int rounds = 0;

	do {
		run_round(seed++);
		rounds++;
	} while (time(NULL) < end);
	printf("%s mode: %u rounds, %llu reads, %llu objects taken down, "
	       "%llu barriers and shrinks\n",
	       pcpool_mode(), rounds, reads, deferred, barriers);
	expect(reads > 0 && deferred > 0 && barriers > 0);
	return 0;
}

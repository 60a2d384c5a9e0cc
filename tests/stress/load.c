/* SPDX-License-Identifier: MIT */
/* See load.h. */
#include <config.h>

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

enum { CACHES = 5, HELD = 96, BOXES = 64, MOVED = 16 };

struct shape {
	struct pcpool_cache *cache;
	struct sheet sheet;
	size_t size;
	/* Objects, and a sheaf, on their way from one thread to another. */
	_Atomic(void *) box[BOXES];
	_Atomic(struct pcpool_sheaf *) sheaf;
};

struct round {
	struct load *load;
	struct shape shape[CACHES];
	atomic_uint working;
	atomic_ullong done, refused;
	_Atomic(pid_t) tid[MOVED]; /* of the first workers */
};

static atomic_ullong signals_seen;

struct holding {
	struct round *round;
	uint64_t id;
	struct rng rng;
	unsigned int n[CACHES];
	void *objs[CACHES][HELD];
	struct pcpool_sheaf *sheaf[CACHES];
	/* What cannot fail to be in it. */
	unsigned int promised[CACHES];
	unsigned long long done, refused;
};

/* --- objects under an owner's stamp --------------------------------------- */

/* Plain words behind the stamp: written by each owner, so that a race between
 * two of them is one to the thread sanitizer too. */
static void take(struct holding *h, unsigned int c, void *obj)
{
	size_t words = h->round->shape[c].size / sizeof(uint64_t);
	uint64_t *word = obj;

	owner_take(obj, h->id);
	if (words > 1)
		word[1] = h->id ^ (uintptr_t)obj;
	word[words - 1] = words > 1 ? h->id ^ (uintptr_t)obj : h->id;
	h->objs[c][h->n[c]++] = obj;
	h->done++;
}

static void *leave(struct holding *h, unsigned int c, unsigned int i)
{
	size_t words = h->round->shape[c].size / sizeof(uint64_t);
	void *obj = h->objs[c][i];
	uint64_t *word = obj;

	if (words > 1 &&
	    (word[1] != (h->id ^ (uintptr_t)obj) || word[words - 1] != word[1]))
		fail_now("object %p: written by somebody else", obj);
	owner_leave(obj, h->id);
	h->objs[c][i] = h->objs[c][--h->n[c]];
	return obj;
}

static void refused(struct holding *h, int err)
{
	if (!h->round->load->fail_every || err != EXDEV)
		fail_now("refused: %s", strerror(err));
	h->refused++;
}

static void op_alloc(struct holding *h, unsigned int c)
{
	struct pcpool_cache *cache = h->round->shape[c].cache;
	void *obj;

	if (h->n[c] == HELD)
		return;
	obj = rng_below(&h->rng, 32) ? pcpool_alloc(cache)
				     : pcpool_alloc_node(cache, 0);
	if (obj)
		take(h, c, obj);
	else
		refused(h, errno);
}

static void op_free(struct holding *h, unsigned int c)
{
	if (h->n[c])
		pcpool_free(h->round->shape[c].cache,
			    leave(h, c, rng_below(&h->rng, h->n[c])));
}

static void op_free_rcu(struct holding *h, unsigned int c)
{
	struct pcpool_cache *cache = h->round->shape[c].cache;

	if (!h->n[c])
		return;
	pcpool_free_rcu(cache, leave(h, c, rng_below(&h->rng, h->n[c])));
	/* Or grace periods would never be outrun. */
	if (rng_below(&h->rng, 512) == 0)
		expect_eq(pcpool_rcu_wait(cache, 0, -1), 0);
}

static void op_pair(struct holding *h, unsigned int c)
{
	op_alloc(h, c);
	if (h->n[c])
		pcpool_free(h->round->shape[c].cache, leave(h, c, h->n[c] - 1));
}

static void op_alloc_bulk(struct holding *h, unsigned int c)
{
	uint32_t room = HELD - h->n[c], n;
	void *objs[HELD];
	int err;

	if (!room)
		return;
	n = 1 + rng_below(&h->rng, room);
	err = pcpool_alloc_bulk(h->round->shape[c].cache, n, objs);
	if (err)
		refused(h, err);
	for (uint32_t i = 0; i < n && !err; i++)
		take(h, c, objs[i]);
}

static void op_free_bulk(struct holding *h, unsigned int c)
{
	void *objs[HELD];
	uint32_t n;

	if (!h->n[c])
		return;
	n = 1 + rng_below(&h->rng, h->n[c]);
	for (uint32_t i = 0; i < n; i++)
		objs[i] = leave(h, c, h->n[c] - 1);
	expect_eq(pcpool_free_bulk(h->round->shape[c].cache, n, objs), 0);
}

static void op_discard(struct holding *h, unsigned int c)
{
	if (h->n[c])
		expect_eq(pcpool_discard(h->round->shape[c].cache,
					 leave(h, c, h->n[c] - 1)),
			  0);
}

/* Leave an object for whoever comes by, take what lies there. */
static void op_pass_on(struct holding *h, unsigned int c)
{
	struct shape *shape = &h->round->shape[c];
	void *obj;

	if (!h->n[c])
		return;
	obj = leave(h, c, rng_below(&h->rng, h->n[c]));
	obj = atomic_exchange(&shape->box[rng_below(&h->rng, BOXES)], obj);
	if (obj)
		take(h, c, obj);
}

/* --- prefilled sheaves ---------------------------------------------------------- */

/* Mostly what a sheaf holds anyway, now and then far more. */
static unsigned int some_number(struct holding *h)
{
	return rng_below(&h->rng, rng_below(&h->rng, 32) ? 24 : 260);
}

static void op_prefill(struct holding *h, unsigned int c)
{
	unsigned int n = some_number(h);

	if (h->sheaf[c])
		return;
	h->sheaf[c] = pcpool_sheaf_prefill(h->round->shape[c].cache, n);
	if (!h->sheaf[c]) {
		refused(h, errno);
		return;
	}
	expect_cmp(pcpool_sheaf_size(h->sheaf[c]), >=, n);
	h->promised[c] = n;
}

static void op_sheaf_refill(struct holding *h, unsigned int c)
{
	unsigned int n = some_number(h), size;
	int err;

	if (!h->sheaf[c])
		return;
	size = pcpool_sheaf_size(h->sheaf[c]);
	err = pcpool_sheaf_refill(h->round->shape[c].cache, &h->sheaf[c], n);
	expect_cmp(pcpool_sheaf_size(h->sheaf[c]), >=, size);
	if (err) {
		refused(h, err);
		return;
	}
	expect_cmp(pcpool_sheaf_size(h->sheaf[c]), >=, n);
	if (h->promised[c] < n)
		h->promised[c] = n;
}

static void op_sheaf_alloc(struct holding *h, unsigned int c)
{
	void *obj;

	if (!h->sheaf[c] || h->n[c] == HELD)
		return;
	obj = pcpool_sheaf_alloc(h->round->shape[c].cache, h->sheaf[c]);
	if (obj) {
		take(h, c, obj);
		h->promised[c] -= h->promised[c] > 0;
	} else {
		expect_errno(ENOENT);
		expect_eq(h->promised[c], 0);
	}
}

static void op_sheaf_return(struct holding *h, unsigned int c)
{
	pcpool_sheaf_return(h->round->shape[c].cache, h->sheaf[c]);
	h->sheaf[c] = NULL;
}

/* Swap sheaves with whoever comes by; to have none is fine. */
static void op_sheaf_pass_on(struct holding *h, unsigned int c)
{
	h->sheaf[c] = atomic_exchange(&h->round->shape[c].sheaf, h->sheaf[c]);
	h->promised[c] = pcpool_sheaf_size(h->sheaf[c]);
}

static void (*const ops[])(struct holding *, unsigned int) = {
	op_alloc,	op_alloc,	op_free,	 op_free,
	op_pair,	op_pair,	op_pair,	 op_pair,
	op_alloc_bulk,	op_free_bulk,	op_pass_on,	 op_pass_on,
	op_prefill,	op_sheaf_alloc, op_sheaf_alloc,	 op_sheaf_refill,
	op_sheaf_return, op_sheaf_pass_on, op_free_rcu,	 op_free_rcu,
};

/* --- signals -------------------------------------------------------------- */

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add_explicit(&signals_seen, 1, memory_order_relaxed);
}

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static timer_t start_signals(unsigned int us)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIGUSR2 };
	struct itimerspec every = { { 0, us * 1000L }, { 0, us * 1000L } };
	timer_t timer;

	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	expect(!timer_create(CLOCK_MONOTONIC, &event, &timer));
	expect(!timer_settime(timer, 0, &every, NULL));
	return timer;
}

/* --- a round
 * ---------------------------------------------------------------------------
 */

static void work(struct round *round, unsigned int id)
{
	struct holding *h = calloc(1, sizeof(*h));

	expect(h);
	h->round = round;
	h->id = id + 1;
	if (id < MOVED)
		atomic_store(&round->tid[id], (pid_t)syscall(SYS_gettid));
	rng_seed(&h->rng, round->load->seed * 1000003 + id);
	for (unsigned long op = 0; op < round->load->ops; op++) {
		unsigned int c = rng_below(&h->rng, CACHES);
		uint32_t which = rng_below(&h->rng, 97);

		/* Others pull it along in the middle of a call as well. */
		if (round->load->migrate && op % 16 == 0)
			pin_to(rng_below(&h->rng, 64));
		if (which == 96)
			op_discard(h, c);
		else
			ops[which % (sizeof(ops) / sizeof(ops[0]))](h, c);
	}
	if (id < MOVED)
		atomic_store(&round->tid[id], 0);
	for (unsigned int c = 0; c < CACHES; c++) {
		op_sheaf_return(h, c);
		while (h->n[c])
			op_free_bulk(h, c);
	}
	atomic_fetch_add(&round->done, h->done);
	atomic_fetch_add(&round->refused, h->refused);
	free(h);
}

/* Move a worker to another CPU, wherever in its work it is. */
static void move_someone(struct round *round, struct rng *rng)
{
	unsigned int who = rng_below(rng, round->load->threads);
	pid_t tid = atomic_load(&round->tid[who % MOVED]);

	if (tid)
		move_to(tid, rng_below(rng, 64));
}

static void serve(struct round *round, unsigned int id)
{
	int null = open("/dev/null", O_WRONLY);
	struct rng rng;

	expect(null >= 0);
	rng_seed(&rng, round->load->seed + id);
	while (atomic_load(&round->working)) {
		struct pcpool_cache *cache =
			round->shape[rng_below(&rng, CACHES)].cache;

		if (round->load->migrate)
			move_someone(round, &rng);

		if (rng_below(&rng, 8) == 0)
			expect_eq(pcpool_rcu_barrier(cache), 0);
		else if (id % 2 == 0 || rng_below(&rng, 4) == 0)
			expect_eq(pcpool_cache_shrink(cache), 0);
		else if (rng_below(&rng, 16))
			stats_of(cache);
		else
			expect_eq(pcpool_print(null), 0);
	}
	close(null);
}

static void load_thread(const struct worker *w)
{
	struct round *round = w->arg;
	struct load *load = round->load;
	bool timed = load->signal_us && w->id < load->signal_threads;
	timer_t timer;

	if (load->pin_one)
		pin_to(0);
	if (w->id >= load->threads) {
		serve(round, w->id - load->threads);
		return;
	}
	if (timed)
		timer = start_signals(load->signal_us);
	work(round, w->id);
	if (timed)
		timer_delete(timer);
	atomic_fetch_sub(&round->working, 1);
}

static void make_shapes(struct round *round)
{
	static const unsigned int flags[] = {
		0, 0, PCPOOL_DTOR_ON_FREE, PCPOOL_CHECK, PCPOOL_TYPESAFE_BY_RCU,
		PCPOOL_TYPESAFE_BY_RCU | PCPOOL_CHECK,
	};
	static const unsigned int capacities[] = { 0, 0, 1, 2, 5, 30, 200 };
	struct rng rng;

	rng_seed(&rng, round->load->seed);
	for (int c = 0; c < CACHES; c++) {
		struct shape *shape = &round->shape[c];
		uint32_t most = rng_below(&rng, 8) ? 400 : 6000;

		shape->size = 8 * (size_t)(1 + rng_below(&rng, most / 8));
		shape->sheet.clear = 8;
		shape->sheet.fail_every = round->load->fail_every;
		/* The first is always a plain one. */
		shape->cache =
			sheet_cache_of("stress", shape->size, &shape->sheet,
				       c ? flags[rng_below(&rng, 6)] : 0,
				       c ? capacities[rng_below(&rng, 7)] : 0);
	}
}

static void end_shape(struct round *round, struct shape *shape)
{
	struct pcpool_cache_stats stats;

	for (int i = 0; i < BOXES; i++)
		pcpool_free(shape->cache, atomic_load(&shape->box[i]));
	pcpool_sheaf_return(shape->cache, atomic_load(&shape->sheaf));
	expect_eq(stats_of(shape->cache).live, 0);
	expect_eq(pcpool_rcu_barrier(shape->cache), 0);
	stats = stats_of(shape->cache);
	expect_eq(stats.live, 0);
	expect_eq(stats.rcu_backlog, 0);
	expect_eq(stats.objects, stats.cached);
	expect_eq(stats.ctor_ok, shape->sheet.ok);
	expect_eq(stats.dtor, shape->sheet.dtor);
	round->load->aborts += stats.rseq_abort;
	round->load->retries += stats.drain_retry;
	round->load->drains += stats.drain;
	expect_eq(stats.drain_fail, 0);
	round->load->prefills += stats.sheaf_prefill_fast +
				 stats.sheaf_prefill_slow +
				 stats.sheaf_prefill_oversize;
	round->load->returns +=
		stats.sheaf_return_fast + stats.sheaf_return_slow;
	expect_eq(round->load->prefills, round->load->returns);
	round->load->deferred +=
		stats.free_rcu_sheaf + stats.free_rcu_sheaf_fail;
	round->load->parks += stats.park_slab;
	if (round->load->seed % 2) {
		expect_eq(pcpool_cache_shrink(shape->cache), 0);
		stats = stats_of(shape->cache);
		expect_eq(stats.slabs, 0);
		expect_eq(stats.park_slab, stats.unpark_slab);
		sheet_balanced(&shape->sheet);
	}
	destroy_balanced(shape->cache, &shape->sheet);
}

void load_round(struct load *load)
{
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = SA_RESTART };
	struct round *round = calloc(1, sizeof(*round));

	expect(round);
	sigemptyset(&action.sa_mask);
	expect(!sigaction(SIGUSR2, &action, NULL));
	round->load = load;
	atomic_store(&round->working, load->threads);
	make_shapes(round);
	run_threads(load->threads + load->services, load_thread, round);
	for (int c = 0; c < CACHES; c++)
		end_shape(round, &round->shape[c]);
	load->done += atomic_load(&round->done);
	load->refused += atomic_load(&round->refused);
	load->signals = atomic_load(&signals_seen);
	free(round);
}

/* --- the command line ----------------------------------------------------- */

static const struct option options[] = {
	{ "threads", required_argument, NULL, 't' },
	{ "ops", required_argument, NULL, 'o' },
	{ "seconds", required_argument, NULL, 'S' },
	{ "seed", required_argument, NULL, 's' },
	{ "signals", required_argument, NULL, 'u' },
	{ "signal-threads", required_argument, NULL, 'n' },
	{ "fail-every", required_argument, NULL, 'f' },
	{ "pin-one", no_argument, NULL, '1' },
	{ "migrate", no_argument, NULL, 'm' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
	"  --threads N         workers, pinned round robin (64)\n"
	"  --ops N             operations of each in a round (3000)\n"
	"  --seconds N         rounds until so long has passed\n"
	"  --seed N            of the first round; counts up (1)\n"
	"  --signals US        timer signals at that interval, 0: none (50)\n"
	"  --signal-threads N  to so many of the workers (8)\n"
	"  --fail-every K      every K-th constructor call fails (none)\n"
	"  --pin-one           all threads on one CPU\n"
	"  --migrate           threads change their CPU all the time\n";

static unsigned long number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);

	if (*end || end == text) {
		fprintf(stderr, "not a number: %s\n", text);
		exit(2);
	}
	return n;
}

void load_options(struct load *load, unsigned int *seconds, int argc,
		  char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 't':
			load->threads = (unsigned int)number(optarg);
			break;
		case 'o':
			load->ops = number(optarg);
			break;
		case 'S':
			*seconds = (unsigned int)number(optarg);
			break;
		case 's':
			load->seed = number(optarg);
			break;
		case 'u':
			load->signal_us = (unsigned int)number(optarg);
			break;
		case 'n':
			load->signal_threads = (unsigned int)number(optarg);
			break;
		case 'f':
			load->fail_every = (unsigned int)number(optarg);
			break;
		case '1':
			load->pin_one = true;
			break;
		case 'm':
			load->migrate = true;
			break;
		case 'h':
			printf("usage: %s [options]\n%s", argv[0], help);
			exit(0);
		default:
			exit(2);
		}
	}
	if (optind != argc || !load->threads || load->signal_us >= 1000000) {
		fprintf(stderr, "bad arguments; see --help\n");
		exit(2);
	}
}

void load_print(const struct load *load)
{
	printf("%s mode: %llu objects handed out, %llu refused, %llu drains, "
	       "%llu slots closed again, %llu sections aborted, %llu signals, "
	       "%llu sheaves prefilled, %llu slabs parked, "
	       "%llu frees deferred\n",
	       pcpool_mode(), load->done, load->refused, load->drains,
	       load->retries, load->aborts, load->signals, load->prefills,
	       load->parks, load->deferred);
}

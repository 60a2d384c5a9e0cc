/* SPDX-License-Identifier: MIT */
/*
 * Actions at work: some threads insert and remove filters while others classify
 * made-up packets by them and count, first with regions that a constructor
 * allocates, then with declared ones. Prints what was counted, which must be
 * what the threads that counted say, whether every built object was torn down,
 * and how often the region allocator's locks were taken.
 *
 *   tc_action [-w WRITERS] [-c CLASSIFIERS] [-n CHANGES] [-s SEED]
 *
 * Exit status: 0, 1 when a sum or the balance is off or a call failed, 2 for
 * bad arguments.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "tc_action.h"
#include "tc_table.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <urcu.h>

/* Filters there can be; about half of them are there at a time. */
#define KEYS 1024U
/* Packets a classifier takes at a time, within one reader. */
#define BURST 32U
/* Bursts of each at the least, however fast the writers are. */
#define BURSTS_MIN 100U
/* Removals between two looks at how many await their grace period, and how many
 * may. 0 would be the cache's own bound, which more than all fit into here: the
 * example wants to see actions used again. */
#define INTERVAL 64U
#define BACKLOG 256U

struct settings {
	unsigned long writers;
	unsigned long classifiers;
	unsigned long changes;
	unsigned long seed;
};

/* What the threads of one run share. */
struct shared {
	struct pcpool_cache *cache;
	struct tc_table *table;
	unsigned long changes;
	atomic_bool stop;
};

/* One thread. */
struct worker {
	pthread_t thread;
	struct shared *shared;
	uint64_t random;
	/* Results. */
	unsigned long inserted;
	unsigned long removed;
	unsigned long missed;
	uint64_t count[TC_COUNTS];
	int error;
};

/* What one run did. */
struct outcome {
	unsigned long inserted;
	unsigned long removed;
	unsigned long missed;
	uint64_t count[TC_COUNTS]; /* by the threads' own account */
	uint64_t mutex;
	uint64_t map_lock;
	uint64_t regions_left;
	struct tc_env env;
};

/* xorshift: the same packets for the same seed. */
static uint32_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (uint32_t)(w->random >> 32);
}

/* Insert a filter that is not there, remove one that is. */
static int change(struct worker *w)
{
	struct tc_table *table = w->shared->table;
	uint32_t key = next_random(w) % KEYS;
	uint32_t kind = next_random(w);
	int err = tc_table_insert(table, key, kind & 1 ? TC_DROP : TC_PASS,
				  kind & 2);

	if (!err)
		w->inserted++;
	if (err != EEXIST)
		return err;
	/* Perhaps another writer was faster: as well. */
	if (tc_table_remove(table, key))
		return 0;
	w->removed++;
	/* Whoever removes faster than grace periods pass has to wait at some
	 * point, or memory would have no bound. */
	if (w->removed % INTERVAL == 0)
		return pcpool_rcu_wait(w->shared->cache, BACKLOG, -1);
	return 0;
}

static void *write_filters(void *arg)
{
	struct worker *w = arg;

	/* Writers are no readers and need not be registered. */
	for (unsigned long i = 0; i < w->shared->changes && !w->error; i++)
		w->error = change(w);
	return NULL;
}

/* One made-up packet. */
static void classify(struct worker *w)
{
	uint32_t key = next_random(w) % KEYS;
	uint32_t bytes = 60 + next_random(w) % 1455;
	struct tc_action *action = tc_table_find(w->shared->table, key);

	if (!action) {
		w->missed++;
		return;
	}
	tc_action_count(action, bytes);
	w->count[TC_PACKETS]++;
	w->count[TC_BYTES] += bytes;
	if (action->hardware) {
		w->count[TC_HW_PACKETS]++;
		w->count[TC_HW_BYTES] += bytes;
	}
	if (action->verdict == TC_DROP)
		w->count[TC_DROPS]++;
}

static void *classify_packets(void *arg)
{
	struct worker *w = arg;
	unsigned long bursts = 0;

	rcu_register_thread();
	do {
		rcu_read_lock();
		for (unsigned int i = 0; i < BURST; i++)
			classify(w);
		rcu_read_unlock();
	} while (++bursts < BURSTS_MIN || !atomic_load(&w->shared->stop));
	rcu_unregister_thread();
	return NULL;
}

static int start(struct worker *w, unsigned long n, void *(*work)(void *),
		 unsigned long *started)
{
	int err = 0;

	for (*started = 0; *started < n && !err; *started += !err)
		err = pthread_create(&w[*started].thread, NULL, work,
				     &w[*started]);
	return err;
}

/* Wait for threads and gather. Returns 0 or the errno value of one. */
static int gather(struct worker *w, unsigned long n, struct outcome *out)
{
	int err = 0;

	for (unsigned long i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		out->inserted += w[i].inserted;
		out->removed += w[i].removed;
		out->missed += w[i].missed;
		for (int c = 0; c < TC_COUNTS; c++)
			out->count[c] += w[i].count[c];
		if (!err)
			err = w[i].error;
	}
	return err;
}

/* Classifiers run for as long as writers do. Returns 0 or an errno value. */
static int run_threads(const struct settings *s, struct shared *shared,
		       struct outcome *out)
{
	unsigned long n = s->writers + s->classifiers, classifiers, writers = 0;
	struct worker *w = calloc(n, sizeof(*w));
	int err, failed;

	if (!w)
		return ENOMEM;
	for (unsigned long i = 0; i < n; i++) {
		w[i].shared = shared;
		/* Never zero, where xorshift would stay. */
		w[i].random = (s->seed + i) * 2 + 1;
		for (int warm = 0; warm < 16; warm++)
			next_random(&w[i]);
	}
	err = start(w, s->classifiers, classify_packets, &classifiers);
	if (!err)
		err = start(w + s->classifiers, s->writers, write_filters,
			    &writers);
	failed = gather(w + s->classifiers, writers, out);
	atomic_store(&shared->stop, true);
	gather(w, classifiers, out);
	free(w);
	return err ? err : failed;
}

/* One run. Returns 0 or an errno value. */
static int run(const struct settings *s, enum tc_regions regions,
	       struct outcome *out)
{
	struct pcpool_percpu_stats before = { .stats_size = sizeof(before) };
	struct pcpool_percpu_stats after = { .stats_size = sizeof(after) };
	struct shared shared = { .changes = s->changes };
	int err = 0, destroyed;

	memset(out, 0, sizeof(*out));
	pcpool_percpu_get_stats(&before);
	shared.cache = tc_cache_create(regions, &out->env);
	if (!shared.cache)
		return errno;
	shared.table = tc_table_create(shared.cache);
	if (!shared.table)
		err = errno;
	if (!err) {
		err = run_threads(s, &shared, out);
		out->removed += tc_table_destroy(shared.table);
	}
	/* Waits for the grace period of what was removed last. */
	destroyed = pcpool_cache_destroy(shared.cache);
	pcpool_percpu_get_stats(&after);
	out->mutex = after.mutex - before.mutex;
	out->map_lock = after.map_lock - before.map_lock;
	out->regions_left = after.regions - before.regions;
	return err ? err : destroyed;
}

static bool adds_up(const struct outcome *o)
{
	bool right = o->inserted == o->removed && !o->regions_left &&
		     atomic_load(&o->env.ctor_ok) == atomic_load(&o->env.dtor);

	for (int i = 0; i < TC_COUNTS; i++)
		right &= atomic_load(&o->env.total[i]) == o->count[i];
	return right;
}

static void print_both(const char *name, uint64_t ctor, uint64_t declared)
{
	printf("%-24s %16" PRIu64 " %16" PRIu64 "\n", name, ctor, declared);
}

static void print(const struct outcome *a, const struct outcome *b)
{
	static const char *const count[] = { "packets", "bytes",
					     "hardware packets",
					     "hardware bytes", "drops" };

	printf("%-24s %16s %16s\n", "regions", "by constructor", "declared");
	print_both("filters inserted", a->inserted, b->inserted);
	print_both("filters removed", a->removed, b->removed);
	print_both("packets without filter", a->missed, b->missed);
	for (int i = 0; i < TC_COUNTS; i++) {
		print_both(count[i], atomic_load(&a->env.total[i]),
			   atomic_load(&b->env.total[i]));
		print_both("  as the threads say", a->count[i], b->count[i]);
	}
	print_both("actions built", atomic_load(&a->env.ctor_ok),
		   atomic_load(&b->env.ctor_ok));
	print_both("actions torn down", atomic_load(&a->env.dtor),
		   atomic_load(&b->env.dtor));
	print_both("regions left", a->regions_left, b->regions_left);
	print_both("region mutex holds", a->mutex, b->mutex);
	print_both("region map lock holds", a->map_lock, b->map_lock);
}

/* A number above 0 and not above max. Exits with 2 for anything else. */
static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || !value ||
	    value > max) {
		fprintf(stderr, "tc_action: bad number: %s\n", text);
		exit(2);
	}
	return value;
}

static void parse(int argc, char **argv, struct settings *s)
{
	int opt;

	while ((opt = getopt(argc, argv, "w:c:n:s:")) != -1) {
		if (opt == 'w')
			s->writers = number(optarg, 1024);
		else if (opt == 'c')
			s->classifiers = number(optarg, 1024);
		else if (opt == 'n')
			s->changes = number(optarg, ULONG_MAX);
		else if (opt == 's')
			s->seed = number(optarg, ULONG_MAX / 4);
		else
			break;
	}
	if (opt != -1 || optind != argc) {
		fprintf(stderr, "usage: tc_action [-w WRITERS] "
				"[-c CLASSIFIERS] [-n CHANGES] [-s SEED]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct settings s = {
		.writers = 2, .classifiers = 2, .changes = 5000, .seed = 1
	};
	struct outcome ctor, declared;
	int err;

	parse(argc, argv, &s);
	err = run(&s, TC_CTOR, &ctor);
	if (!err)
		err = run(&s, TC_DECLARED, &declared);
	if (err) {
		fprintf(stderr, "tc_action: %s\n", strerror(err));
		return 1;
	}
	printf("%lu writers x %lu changes, %lu classifiers, %u copies of each "
	       "region, %s mode\n\n",
	       s.writers, s.changes, s.classifiers, pcpool_nr_slots(),
	       pcpool_mode());
	print(&ctor, &declared);
	if (!adds_up(&ctor) || !adds_up(&declared)) {
		printf("\nIt does not add up.\n");
		return 1;
	}
	printf("\nThe sums are exact, and every built action was torn down.\n");
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Forks while a thread is inside a callback: what it held is lost to the child
 * and counted there, so that the child's balance is ctor_ok == dtor + lost, and
 * the parent's stays exact.
 */
#include <config.h>

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../caches.h"
#include "../suite.h"

enum { CHILD_SECONDS = 20 };

/* --- a thread inside a constructor at the fork ---------------------------- */

struct gate {
	struct sheet sheet;
	sem_t reached, go;
	atomic_uint block_at; /* this call blocks; 0: none */
	struct pcpool_cache *cache;
	size_t bulk;
	void *objs[200];
};

static int gate_ctor(void *obj, void *arg)
{
	struct gate *gate = arg;

	if (atomic_load(&gate->sheet.calls) + 1 ==
	    atomic_load(&gate->block_at)) {
		atomic_store(&gate->block_at, 0);
		sem_post(&gate->reached);
		while (sem_wait(&gate->go))
			;
	}
	return sheet_ctor(obj, &gate->sheet);
}

static void gate_dtor(void *obj, void *arg)
{
	sheet_dtor(obj, &((struct gate *)arg)->sheet);
}

static void *gate_thread(void *arg)
{
	struct gate *gate = arg;

	pin_to(1);
	expect_eq(pcpool_alloc_bulk(gate->cache, gate->bulk, gate->objs), 0);
	return NULL;
}

static void gate_child(void *arg)
{
	struct gate *gate = arg;
	unsigned long long ok = gate->sheet.ok, lost;
	void *objs[50];

	atomic_store(&gate->block_at, 0);
	lost = stats_of(gate->cache).lost_in_fork;
	expect_eq(stats_of(gate->cache).live, 0);
	expect_eq(pcpool_alloc_bulk(gate->cache, 50, objs), 0);
	for (int i = 0; i < 50; i++)
		sheet_pattern_check(objs[i], 64);
	expect_eq(pcpool_free_bulk(gate->cache, 50, objs), 0);
	expect_eq(pcpool_cache_shrink(gate->cache), 0);
	expect_eq(stats_of(gate->cache).lost_in_fork, lost);
	must_destroy(gate->cache);
	expect_eq(gate->sheet.ok, gate->sheet.dtor + lost);
	expect_cmp(lost, <=, ok);
}

static void fork_beside_blocked(unsigned int block_at, size_t bulk)
{
	struct gate gate = { .sheet = { .fill = 64 }, .bulk = bulk };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	static struct child child;
	pthread_t thread;

	sem_init(&gate.reached, 0, 0);
	sem_init(&gate.go, 0, 0);
	atomic_store(&gate.block_at, block_at);
	attr.ctor = gate_ctor;
	attr.dtor = gate_dtor;
	attr.arg = &gate;
	gate.cache = pcpool_cache_create("gate", 64, &attr);
	expect(!pthread_create(&thread, NULL, gate_thread, &gate));
	while (sem_wait(&gate.reached))
		;
	run_child(gate_child, &gate, 20, &child);
	sem_post(&gate.go);
	expect(!pthread_join(thread, NULL));
	expect_child_exit(&child, 0);
	expect_eq(stats_of(gate.cache).lost_in_fork, 0);
	for (size_t i = 0; i < bulk; i++)
		sheet_pattern_check(gate.objs[i], 64);
	expect_eq(pcpool_free_bulk(gate.cache, bulk, gate.objs), 0);
	destroy_balanced(gate.cache, &gate.sheet);
}

START_TEST(test_balance_with_a_thread_in_a_ctor)
{
	static const unsigned int at[] = { 1, 2, 3, 10, 40, 150 };

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		fork_beside_blocked(at[i], 200);
	fork_beside_blocked(1, 1);
}
END_TEST

/* --- a thread inside a destructor at the fork ----------------------------- */

enum way { BY_SHRINK, BY_DISCARD };

struct exit_gate {
	struct sheet sheet;
	sem_t reached, go;
	atomic_bool block; /* the next destructor call does */
	bool counted;	   /* before it blocks */
	enum way way;
	struct pcpool_cache *cache;
	void *obj;
};

static void exit_dtor(void *obj, void *arg)
{
	struct exit_gate *gate = arg;
	bool block = atomic_exchange(&gate->block, false);

	if (!block || gate->counted)
		sheet_dtor(obj, &gate->sheet);
	if (!block)
		return;
	sem_post(&gate->reached);
	while (sem_wait(&gate->go))
		;
	if (!gate->counted)
		sheet_dtor(obj, &gate->sheet);
}

static int exit_ctor(void *obj, void *arg)
{
	return sheet_ctor(obj, &((struct exit_gate *)arg)->sheet);
}

static void *exit_thread(void *arg)
{
	struct exit_gate *gate = arg;

	pin_to(1);
	if (gate->way == BY_SHRINK)
		expect_eq(pcpool_cache_shrink(gate->cache), 0);
	else
		expect_eq(pcpool_discard(gate->cache, gate->obj), 0);
	return NULL;
}

/* Nothing is out any more: the object in the destructor's hands was given up.
 * The one that it was is torn down or lost, never both and never neither. */
static void exit_child(void *arg)
{
	struct exit_gate *gate = arg;
	unsigned long long lost = stats_of(gate->cache).lost_in_fork;
	void *objs[50];

	expect_eq(pcpool_alloc_bulk(gate->cache, 50, objs), 0);
	expect_eq(pcpool_free_bulk(gate->cache, 50, objs), 0);
	expect_eq(pcpool_cache_shrink(gate->cache), 0);
	expect_eq(pcpool_cache_destroy(gate->cache), 0);
	/* Whether this destructor's work was done before the fork nobody can
	 * know but its author. */
	expect_eq(gate->sheet.ok,
		  gate->sheet.dtor + lost + (gate->counted ? 0 : 1 - !!lost));
}

static void fork_beside_dtor(enum way way, bool counted)
{
	struct exit_gate gate = { .sheet = { .fill = 64 },
				  .way = way,
				  .counted = counted };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	static struct child child;
	pthread_t thread;
	void *objs[30];

	sem_init(&gate.reached, 0, 0);
	sem_init(&gate.go, 0, 0);
	attr.ctor = exit_ctor;
	attr.dtor = exit_dtor;
	attr.arg = &gate;
	gate.cache = pcpool_cache_create("exit", 64, &attr);
	expect_eq(pcpool_alloc_bulk(gate.cache, 30, objs), 0);
	gate.obj = objs[0];
	expect_eq(pcpool_free_bulk(gate.cache, 29, objs + 1), 0);
	if (way == BY_SHRINK)
		pcpool_free(gate.cache, gate.obj);
	atomic_store(&gate.block, true);
	expect(!pthread_create(&thread, NULL, exit_thread, &gate));
	while (sem_wait(&gate.reached))
		;
	run_child(exit_child, &gate, 20, &child);
	sem_post(&gate.go);
	expect(!pthread_join(thread, NULL));
	if (child.status)
		fprintf(stderr, "way %d, counted %d:\n", (int)way, counted);
	expect_child_exit(&child, 0);
	expect_eq(stats_of(gate.cache).lost_in_fork, 0);
	destroy_balanced(gate.cache, &gate.sheet);
}

START_TEST(test_balance_with_a_thread_in_a_dtor)
{
	fork_beside_dtor(BY_SHRINK, true);
	fork_beside_dtor(BY_SHRINK, false);
	fork_beside_dtor(BY_DISCARD, true);
	fork_beside_dtor(BY_DISCARD, false);
}
END_TEST

/* The forking thread itself is inside a constructor: nothing is lost. */
struct forker {
	struct sheet sheet;
	unsigned int fork_at;
	pid_t pid;
};

static int forking_ctor(void *obj, void *arg)
{
	struct forker *f = arg;

	if (atomic_load(&f->sheet.calls) + 1 == f->fork_at) {
		f->fork_at = 0;
		f->pid = fork();
		expect(f->pid >= 0);
		if (!f->pid)
			kill_after(CHILD_SECONDS);
	}
	return sheet_ctor(obj, &f->sheet);
}

static void forking_dtor(void *obj, void *arg)
{
	sheet_dtor(obj, &((struct forker *)arg)->sheet);
}

START_TEST(test_fork_inside_a_ctor)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct forker f = { .sheet = { .fill = 64 } };
	struct pcpool_cache *cache;
	void *objs[60];
	int status;

	attr.ctor = forking_ctor;
	attr.dtor = forking_dtor;
	attr.arg = &f;
	for (unsigned int at = 1; at < 60; at += 7) {
		f.sheet = (struct sheet){ .fill = 64 };
		f.fork_at = at;
		cache = pcpool_cache_create("forker", 64, &attr);
		expect_eq(pcpool_alloc_bulk(cache, 60, objs), 0);
		for (int i = 0; i < 60; i++)
			sheet_pattern_check(objs[i], 64);
		expect_eq(pcpool_free_bulk(cache, 60, objs), 0);
		expect_eq(stats_of(cache).lost_in_fork, 0);
		destroy_balanced(cache, &f.sheet);
		if (!f.pid)
			_exit(0);
		expect_eq(waitpid(f.pid, &status, 0), f.pid);
		expect_eq(status, 0);
	}
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("fork-balance", 100);

	if (TEST_TSAN)
		skip_test("the thread sanitizer has no threads after a fork");
	tcase_add_test(tc, test_balance_with_a_thread_in_a_ctor);
	tcase_add_test(tc, test_balance_with_a_thread_in_a_dtor);
	tcase_add_test(tc, test_fork_inside_a_ctor);
	return suite_run(tc);
}

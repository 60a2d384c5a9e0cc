/* SPDX-License-Identifier: MIT */
/*
 * A small user of everything, for the scripts that make its surroundings odd:
 * prints how the library sees the machine, then uses caches, regions and nodes
 * on every CPU it may run on, and checks the books.
 *
 *	probe [THREADS]
 *
 * Prints "mode M index I slots N nodes N possible-by-affinity N", then "fine".
 * Exit status: 0; 3 when memory was refused, which some surroundings mean to;
 * anything else is a fault.
 */
#include <config.h>

#include <pcpool/pcpool.h>

#include <pthread.h>
#include <sched.h>

#include "../common.h"

#define CPUS_MAX 4096
#define OBJECT_SIZE 100
#define BULK 40

static struct sheet sheet = { .fill = OBJECT_SIZE };
static struct pcpool_cache *cache;
static uint64_t *counter;
static atomic_ullong added;
static cpu_set_t *cpus;
static size_t cpus_size;

_Noreturn static void refused(const char *what)
{
	if (errno != ENOMEM)
		fail_now("%s: errno %d", what, errno);
	printf("refused: %s: no memory\n", what);
	exit(3);
}

/* Every CPU this process may be given, also those it was not started on. */
static unsigned int widen(void)
{
	unsigned int top = 0;

	cpus = CPU_ALLOC(CPUS_MAX);
	cpus_size = CPU_ALLOC_SIZE(CPUS_MAX);
	expect(cpus);
	memset(cpus, 0xff, cpus_size);
	(void)sched_setaffinity(0, cpus_size, cpus);
	CPU_ZERO_S(cpus_size, cpus);
	expect_eq(sched_getaffinity(0, cpus_size, cpus), 0);
	for (unsigned int cpu = 0; cpu < CPUS_MAX; cpu++)
		if (CPU_ISSET_S(cpu, cpus_size, cpus))
			top = cpu + 1;
	return top;
}

static void pin(unsigned int cpu)
{
	cpu_set_t *one = CPU_ALLOC(CPUS_MAX);

	expect(one);
	CPU_ZERO_S(cpus_size, one);
	CPU_SET_S(cpu, cpus_size, one);
	expect_eq(sched_setaffinity(0, cpus_size, one), 0);
	CPU_FREE(one);
}

static void add(uint64_t value)
{
	pcpool_this_cpu_add(counter, value);
	atomic_fetch_add(&added, value);
}

static void use_cache(void)
{
	void *objs[BULK + 3] = { NULL };
	int err;

	for (int i = 0; i < 3; i++) {
		objs[i] = pcpool_alloc(cache);
		if (!objs[i])
			refused("pcpool_alloc");
	}
	err = pcpool_alloc_bulk(cache, BULK, objs + 3);
	if (err) {
		errno = err;
		refused("pcpool_alloc_bulk");
	}
	for (int i = 0; i < BULK + 3; i++)
		sheet_pattern_check(objs[i], OBJECT_SIZE);
	expect_eq(pcpool_free_bulk(cache, BULK + 3, objs), 0);
}

static void use_cpu(unsigned int cpu)
{
	bool exact = !strcmp(pcpool_index(), "cpu");
	unsigned int slot;

	pin(cpu);
	slot = pcpool_this_slot();
	expect(slot < pcpool_nr_slots());
	if (exact)
		expect_eq(slot, cpu);
	use_cache();
	add(1000 + cpu);
	if (exact)
		expect(*(uint64_t *)pcpool_percpu_ptr(counter, slot) >=
		       1000 + cpu);
}

static void *hammer(void *arg)
{
	unsigned int id = *(unsigned int *)arg, n = 0;

	for (unsigned int cpu = 0; cpu < CPUS_MAX; cpu++) {
		if (!CPU_ISSET_S(cpu, cpus_size, cpus) || n++ % 4 != id % 4)
			continue;
		pin(cpu);
		break;
	}
	for (int i = 0; i < 200; i++) {
		use_cache();
		add(1);
	}
	return NULL;
}

static void use_nodes(void)
{
	unsigned int nodes = pcpool_nr_nodes();

	for (unsigned int node = 0; node < nodes; node++) {
		void *obj = pcpool_alloc_node(cache, (int)node);

		if (!obj)
			refused("pcpool_alloc_node");
		sheet_pattern_check(obj, OBJECT_SIZE);
		pcpool_free(cache, obj);
	}
	expect_refused(pcpool_alloc_node(cache, (int)nodes), EINVAL);
}

static void check_books(void)
{
	struct pcpool_cache_stats stats = { .stats_size = sizeof(stats) };
	struct pcpool_percpu_stats percpu = { .stats_size = sizeof(percpu) };

	expect_eq(pcpool_percpu_sum_u64(counter), atomic_load(&added));
	expect_eq(pcpool_percpu_get_stats(&percpu), 0);
	expect_eq(percpu.slots, pcpool_nr_slots());
	expect_eq(pcpool_cache_get_stats(cache, &stats), 0);
	expect_eq(stats.live, 0);
	expect_eq(stats.built, sheet_built(&sheet));
	expect_eq(pcpool_cache_shrink(cache), 0);
	pcpool_percpu_free(counter);
	expect_eq(pcpool_cache_destroy(cache), 0);
	sheet_balanced(&sheet);
}

int main(int argc, char **argv)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	unsigned int threads = argc > 1 ? (unsigned int)atoi(argv[1]) : 4;
	unsigned int slots = pcpool_nr_slots(), top;
	pthread_t thread[64];
	unsigned int id[64];

	expect(threads <= 64);
	top = widen();
	printf("mode %s index %s slots %u nodes %u possible-by-affinity %u\n",
	       pcpool_mode(), pcpool_index(), slots, pcpool_nr_nodes(), top);
	printf("reason: %s\n", pcpool_mode_reason());
	fflush(stdout);
	attr.ctor = sheet_ctor;
	attr.dtor = sheet_dtor;
	attr.arg = &sheet;
	cache = pcpool_cache_create("probe", OBJECT_SIZE, &attr);
	if (!cache)
		refused("pcpool_cache_create");
	counter = pcpool_percpu_alloc(sizeof(*counter), 0);
	if (!counter)
		refused("pcpool_percpu_alloc");
	for (unsigned int cpu = 0; cpu < top; cpu++)
		if (CPU_ISSET_S(cpu, cpus_size, cpus))
			use_cpu(cpu);
	use_nodes();
	for (unsigned int i = 0; i < threads; i++) {
		id[i] = i;
		errno = pthread_create(&thread[i], NULL, hammer, &id[i]);
		if (errno == EAGAIN)
			errno = ENOMEM;
		if (errno)
			refused("pthread_create");
	}
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	expect_eq(pcpool_nr_slots(), slots);
	check_books();
	printf("fine\n");
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * An outside program as a user would write it, in the part of C that is C++
 * too: it calls each public function once, checks what came back, and is built
 * with nothing but what pkg-config says about the installed library.
 */
#include <pcpool/fast.h>
#include <pcpool/pcpool.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct session {
	int ready;
	uint64_t *hits;
};

static int built, torn_down;

static int session_ctor(void *obj, void *arg)
{
	struct session *session = (struct session *)obj;

	(void)arg;
	session->hits =
		(uint64_t *)pcpool_percpu_alloc(sizeof(*session->hits), 0);
	if (session->hits == NULL)
		return errno;
	session->ready = 1;
	built++;
	return 0;
}

static void session_dtor(void *obj, void *arg)
{
	struct session *session = (struct session *)obj;

	(void)arg;
	pcpool_percpu_free(session->hits);
	torn_down++;
}

static int failures;

static void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "consumer: %s\n", what);
	failures++;
}

static void use_cache(void)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache_stats stats;
	struct pcpool_cache *cache;
	struct session *one, *two;
	void *many[40];

	pcpool_cache_attr_init(&attr);
	attr.ctor = session_ctor;
	attr.dtor = session_dtor;
	cache = pcpool_cache_create("session", sizeof(struct session), &attr);
	check(cache != NULL, "create");
	if (cache == NULL)
		return;
	check(pcpool_cache_size(cache) == sizeof(struct session), "size");
	check(strcmp(pcpool_cache_name(cache), "session") == 0, "name");

	one = (struct session *)pcpool_alloc(cache);
	two = (struct session *)pcpool_alloc_node(cache, 0);
	check(one != NULL && one->ready == 1, "alloc");
	check(two != NULL && two->ready == 1, "alloc_node");
	check(pcpool_cache_destroy(cache) == EBUSY, "destroy while in use");
	if (one != NULL)
		pcpool_this_cpu_inc(one->hits);
	pcpool_free(cache, one);
	one = (struct session *)pcpool_fast_alloc(cache);
	check(one != NULL && one->ready == 1, "fast_alloc");
	pcpool_fast_free(cache, one);
	check(pcpool_discard(cache, two) == 0, "discard");

	check(pcpool_alloc_bulk(cache, 40, many) == 0, "alloc_bulk");
	memset(&stats, 0, sizeof(stats));
	stats.stats_size = sizeof(stats);
	check(pcpool_cache_get_stats(cache, &stats) == 0, "cache_stats");
	check(stats.live == 40, "40 objects are live");
	check(pcpool_free_bulk(cache, 40, many) == 0, "free_bulk");
	check(pcpool_cache_shrink(cache) == 0, "shrink");
	check(pcpool_cache_destroy(cache) == 0, "destroy");
	check(built > 0 && built == torn_down, "each ctor has its dtor");
}

/* Deferred frees by the flavour the library takes by itself: this program knows
 * nothing of liburcu. */
static void use_accounts(void)
{
	struct pcpool_percpu_field field = { 0, 64, 0 };
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_account_stats stats;
	struct pcpool_account *account;
	struct pcpool_sheaf *sheaf;
	struct pcpool_cache *cache;
	void *objs[2], *obj;

	attr.flags = PCPOOL_ACCOUNT;
	attr.fields = &field;
	attr.nr_fields = 1;
	cache = pcpool_cache_create("accounted", 100, &attr);
	check(cache != NULL, "create with accounts and fields");
	account = pcpool_account_create(NULL, PCPOOL_NO_LIMIT);
	check(account != NULL, "account_create");
	check(pcpool_account_set_limit(account, 1 << 20) == 0, "set_limit");
	check(pcpool_account_charge(account, pcpool_percpu_cost(64)) == 0,
	      "account_charge");
	pcpool_account_uncharge(account, pcpool_percpu_cost(64));
	check(pcpool_cache_charge(cache) >= 100, "cache_charge");
	obj = pcpool_alloc_charged(cache, account);
	check(obj != NULL, "alloc_charged");
	pcpool_free(cache, obj);
	check(pcpool_alloc_bulk_charged(cache, account, 2, objs) == 0,
	      "alloc_bulk_charged");
	check(pcpool_free_bulk(cache, 2, objs) == 0, "free_bulk of charged");
	sheaf = pcpool_sheaf_prefill(cache, 2);
	check(sheaf != NULL, "prefill of accounted");
	objs[0] = pcpool_sheaf_alloc_charged(cache, sheaf, account);
	objs[1] = pcpool_sheaf_alloc_precharged(cache, sheaf, NULL);
	check(objs[0] && objs[1], "sheaf_alloc_charged and _precharged");
	pcpool_sheaf_return(cache, sheaf);
	pcpool_free_bulk(cache, 2, objs);
	memset(&stats, 0, sizeof(stats));
	stats.stats_size = sizeof(stats);
	check(pcpool_account_get_stats(account, &stats) == 0 && !stats.used,
	      "account_get_stats");
	pcpool_account_release(account);
	check(pcpool_cache_destroy(cache) == 0, "destroy of accounted");
}

static void use_rcu(void)
{
	struct pcpool_cache_attr attr = PCPOOL_CACHE_ATTR_INIT;
	struct pcpool_cache *cache;
	void *obj;
	int i;

	attr.flags = PCPOOL_TYPESAFE_BY_RCU;
	attr.rcu_backlog = 10;
	cache = pcpool_cache_create("deferred", 40, &attr);
	check(cache != NULL, "create with flags for rcu");
	if (cache == NULL)
		return;
	for (i = 0; i < 100; i++) {
		obj = pcpool_alloc(cache);
		check(obj != NULL, "alloc");
		pcpool_free_rcu(cache, obj);
		check(pcpool_rcu_wait(cache, 0, -1) == 0, "rcu_wait");
	}
	check(pcpool_rcu_backlog(cache) <= 100, "rcu_backlog");
	check(pcpool_rcu_barrier(cache) == 0, "rcu_barrier");
	check(pcpool_rcu_backlog(cache) == 0, "nothing is deferred any more");
	check(pcpool_maintain(0) == 0, "maintain");
	check(pcpool_cache_destroy(cache) == 0, "destroy after free_rcu");
}

static void use_percpu(void)
{
	struct pcpool_percpu_stats stats;
	uint32_t *narrow;
	uint64_t *wide;
	void *many[3];

	wide = (uint64_t *)pcpool_percpu_alloc(sizeof(*wide), 0);
	narrow = (uint32_t *)pcpool_percpu_alloc(sizeof(*narrow), 0);
	check(wide != NULL && narrow != NULL, "percpu_alloc");
	if (wide == NULL || narrow == NULL)
		return;
	pcpool_this_cpu_add_u64(wide, 5);
	pcpool_this_cpu_add_u32(narrow, 7);
	check(pcpool_percpu_sum_u64(wide) == 5, "sum_u64");
	check(pcpool_percpu_sum_u32(narrow) == 7, "sum_u32");
	check(pcpool_this_cpu_read_u64(wide) <= 5, "read_u64");
	check(pcpool_this_cpu_read_u32(narrow) <= 7, "read_u32");
	check(pcpool_this_cpu_xchg_u64(wide, 0) <= 5, "xchg_u64");
	check(pcpool_this_cpu_xchg_u32(narrow, 0) <= 7, "xchg_u32");
	check(pcpool_this_cpu_cmpxchg_u64(wide, 9, 1) <= 5, "cmpxchg_u64");
	check(pcpool_this_cpu_cmpxchg_u32(narrow, 9, 1) <= 7, "cmpxchg_u32");
	check(pcpool_percpu_ptr(wide, pcpool_nr_slots() - 1) != NULL, "ptr");
	check(pcpool_percpu_ptr(wide, pcpool_nr_slots()) == NULL, "ptr beyond");
	pcpool_percpu_free(wide);
	pcpool_percpu_free(narrow);

	check(pcpool_percpu_alloc_bulk(3, 64, 64, many) == 0, "percpu bulk");
	memset(&stats, 0, sizeof(stats));
	stats.stats_size = sizeof(stats);
	check(pcpool_percpu_get_stats(&stats) == 0, "percpu_stats");
	check(stats.regions == 3, "3 regions are live");
	check(pcpool_percpu_free_bulk(3, many) == 0, "percpu free bulk");
}

static void use_counters(void)
{
	struct pcpool_counter own, placed, many[4];
	int64_t *region;

	region = (int64_t *)pcpool_percpu_alloc(sizeof(*region), 0);
	check(region != NULL, "a region for a counter");
	check(pcpool_counter_init(&own, 10) == 0, "counter_init");
	check(pcpool_counter_init_many(many, 4, 0) == 0, "counter_init_many");
	check(pcpool_counter_init_at(&placed, region, 0) == 0,
	      "counter_init_at");
	pcpool_fast_counter_add(&own, 3);
	pcpool_counter_add(&own, 2);
	pcpool_counter_sub(&own, 2);
	pcpool_counter_inc(&placed);
	pcpool_counter_dec(&many[3]);
	pcpool_counter_add_batch(&placed, 4095, 4096);
	check(pcpool_counter_sum(&own) == 13, "counter_sum");
	check(pcpool_counter_read(&own) == 10, "counter_read");
	check(pcpool_counter_read_positive(&many[3]) == 0, "read_positive");
	check(pcpool_counter_compare(&placed, 4096, 0) == 0, "compare");
	check(pcpool_counter_limited_add(&own, 14, 1), "limited_add");
	check(!pcpool_counter_limited_add(&own, 14, 1), "limit");
	pcpool_counter_set(&own, 1);
	check(pcpool_counter_sum(&own) == 1, "counter_set");
	pcpool_counter_destroy(&own);
	pcpool_counter_destroy(&placed);
	pcpool_counter_destroy_many(many, 4);
	pcpool_percpu_free(region);
}

static void use_memory_stats(void)
{
	struct pcpool_memory_stats stats;

	memset(&stats, 0, sizeof(stats));
	stats.stats_size = sizeof(stats);
	check(pcpool_memory_get_stats(&stats) == 0, "memory_stats");
}

int main(void)
{
	check(pcpool_nr_slots() > 0, "nr_slots");
	check(pcpool_nr_nodes() > 0, "nr_nodes");
	check(pcpool_this_slot() < pcpool_nr_slots(), "this_slot");
	use_percpu();
	use_counters();
	use_cache();
	use_accounts();
	use_rcu();
	use_memory_stats();
	check(pcpool_print(2) == 0, "print");
	printf("pcpool %s, mode %s by %s (%s)\n", pcpool_version(),
	       pcpool_mode(), pcpool_index(), pcpool_mode_reason());
	return failures != 0;
}

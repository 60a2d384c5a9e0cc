/* SPDX-License-Identifier: MIT */
/* Accounts: limits, trees, who gets back what, released ledgers (ACC-01). */
#include <config.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../caches.h"
#include "../suite.h"

static struct pcpool_account_stats account_stats(struct pcpool_account *account)
{
	struct pcpool_account_stats stats = { .stats_size = sizeof(stats) };

	expect_eq(pcpool_account_get_stats(account, &stats), 0);
	return stats;
}

static uint64_t used(struct pcpool_account *account)
{
	return account_stats(account).used;
}

static struct pcpool_account *account_of(struct pcpool_account *parent,
					 uint64_t limit)
{
	struct pcpool_account *account = pcpool_account_create(parent, limit);

	expect(account);
	return account;
}

static struct pcpool_cache *accounted(size_t size, struct sheet *sheet,
				      unsigned int flags)
{
	return sheet_cache_of("accounted", size, sheet, PCPOOL_ACCOUNT | flags,
			      0);
}

START_TEST(test_charge)
{
	struct pcpool_account *a = account_of(NULL, 1000);

	expect_eq(pcpool_account_charge(a, 0), 0);
	expect_eq(pcpool_account_charge(a, 600), 0);
	expect_eq(used(a), 600);
	expect_eq(pcpool_account_charge(a, 401), EDQUOT);
	expect_eq(pcpool_account_charge(a, UINT64_MAX), EDQUOT);
	expect_eq(account_stats(a).fails, 2);
	expect_eq(pcpool_account_charge(a, 400), 0);
	expect_eq(used(a), 1000);
	expect_eq(account_stats(a).peak, 1000);
	pcpool_account_uncharge(a, 1000);
	expect_eq(used(a), 0);
	expect_eq(pcpool_account_set_limit(a, PCPOOL_NO_LIMIT), 0);
	expect_eq(pcpool_account_charge(a, UINT64_MAX / 2), 0);
	expect_eq(pcpool_account_charge(a, UINT64_MAX / 2 + 2), EDQUOT);
	pcpool_account_uncharge(a, UINT64_MAX / 2);
	pcpool_account_release(a);
}
END_TEST

/* A limit that is lowered holds at once, whatever CPUs have set aside, and while
 * more is used than it allows. */
START_TEST(test_lowered)
{
	struct pcpool_account *root = account_of(NULL, PCPOOL_NO_LIMIT);
	struct pcpool_account *a = account_of(root, PCPOOL_NO_LIMIT);

	expect_eq(pcpool_account_charge(a, 100), 0);
	expect_eq(pcpool_account_set_limit(root, 100), 0);
	expect_eq(pcpool_account_charge(a, 1), EDQUOT);
	expect_eq(pcpool_account_set_limit(root, 1000), 0);
	expect_eq(pcpool_account_charge(a, 400), 0);
	expect_eq(pcpool_account_set_limit(root, 60), 0);
	expect_eq(used(root), 500);
	pcpool_account_uncharge(a, 450);
	expect_eq(pcpool_account_charge(a, 11), EDQUOT);
	expect_eq(pcpool_account_charge(a, 10), 0);
	pcpool_account_uncharge(a, 60);
	expect_eq(account_stats(root).fails, 2);
	/* CPUs set aside again what fits. */
	expect_eq(pcpool_account_set_limit(root, 1 << 20), 0);
	expect_eq(pcpool_account_charge(a, 1), 0);
	expect_cmp(account_stats(root).set_aside, >, 0);
	pcpool_account_uncharge(a, 1);
	expect_eq(pcpool_account_set_limit(root, 0), 0);
	expect_eq(pcpool_account_charge(a, 1), EDQUOT);
	expect_eq(pcpool_account_charge(root, 1), EDQUOT);
	expect_eq(account_stats(root).set_aside, 0);
	pcpool_account_release(a);
	pcpool_account_release(root);
}
END_TEST

START_TEST(test_arguments)
{
	struct pcpool_account *a = account_of(NULL, 10);
	struct pcpool_account_stats stats = { 0 };
	struct sheet sheet = { 0 };
	struct pcpool_cache *plain = sheet_cache("plain", 64, &sheet);
	struct pcpool_cache *cache = accounted(64, &sheet, 0);
	void *objs[2] = { &stats, &stats };

	expect_eq(pcpool_account_charge(NULL, 1), EINVAL);
	expect_eq(pcpool_account_set_limit(NULL, 1), EINVAL);
	expect_eq(pcpool_account_get_stats(a, &stats), EINVAL);
	expect_eq(pcpool_account_get_stats(NULL, &stats), EINVAL);
	pcpool_account_uncharge(NULL, 1);
	pcpool_account_release(NULL);
	expect_eq(pcpool_cache_charge(NULL), 0);
	expect_refused(pcpool_alloc_charged(NULL, a), EINVAL);
	expect_refused(pcpool_alloc_charged(plain, a), EINVAL);
	expect_eq(pcpool_alloc_bulk_charged(plain, a, 2, objs), EINVAL);
	expect(!objs[0] && !objs[1]);
	objs[0] = &stats;
	expect_eq(pcpool_alloc_bulk_charged(plain, a, SIZE_MAX / 4, objs),
		  EINVAL);
	expect_eq(pcpool_alloc_bulk_charged(cache, a, SIZE_MAX / 4, objs),
		  ENOMEM);
	expect_eq(pcpool_alloc_bulk_charged(cache, NULL, SIZE_MAX / 8 + 2,
					    objs),
		  ENOMEM);
	expect(objs[0] == &stats);
	expect_refused(pcpool_sheaf_alloc_charged(plain, NULL, a), EINVAL);
	expect_eq(used(a), 0);
	must_destroy(cache);
	destroy_balanced(plain, &sheet);
	pcpool_account_release(a);
}
END_TEST

/* What a limit up in the tree refuses is charged nowhere. */
START_TEST(test_tree)
{
	struct pcpool_account *root = account_of(NULL, 1 << 20);
	struct pcpool_account *mid = account_of(root, PCPOOL_NO_LIMIT);
	struct pcpool_account *a = account_of(mid, 700 << 10);
	struct pcpool_account *b = account_of(mid, PCPOOL_NO_LIMIT);

	expect_eq(pcpool_account_charge(a, 600 << 10), 0);
	expect_eq(pcpool_account_charge(a, 200 << 10), EDQUOT);
	expect_eq(account_stats(a).fails, 1);
	/* What a's CPU has set aside has to be called in for this. */
	expect_eq(pcpool_account_charge(b, (1 << 20) - (600 << 10)), 0);
	expect_eq(pcpool_account_charge(b, 1), EDQUOT);
	expect_eq(account_stats(root).fails, 1);
	expect_eq(account_stats(b).fails, 0);
	expect_eq(used(root), 1 << 20);
	expect_eq(used(mid), 1 << 20);
	pcpool_account_uncharge(a, 600 << 10);
	expect_eq(used(b), (1 << 20) - (600 << 10));
	expect_eq(used(root), (1 << 20) - (600 << 10));
	/* Parents stay as long as their children, whoever gives them up. */
	pcpool_account_release(root);
	pcpool_account_release(mid);
	expect_eq(pcpool_account_charge(b, 8), 0);
	pcpool_account_uncharge(b, (1 << 20) - (600 << 10) + 8);
	pcpool_account_release(a);
	pcpool_account_release(b);
}
END_TEST

START_TEST(test_depth)
{
	struct pcpool_account *chain[64];
	unsigned int n = 0;

	chain[n++] = account_of(NULL, PCPOOL_NO_LIMIT);
	while (n < 64) {
		errno = 0;
		chain[n] = pcpool_account_create(chain[n - 1], 1 << 20);
		if (!chain[n])
			break;
		n++;
	}
	expect_errno(EINVAL);
	expect_eq(n, 16);
	expect_eq(pcpool_account_charge(chain[n - 1], 4096), 0);
	for (unsigned int i = 0; i < n; i++)
		expect_eq(used(chain[i]), 4096);
	pcpool_account_uncharge(chain[n - 1], 4096);
	while (n)
		pcpool_account_release(chain[--n]);
}
END_TEST

enum { MANY = 500 };

/* Every way out and every way back, charged and even. */
START_TEST(test_ways)
{
	static void *objs[MANY];
	const unsigned int flags[] = { 0, PCPOOL_CHECK,
				       PCPOOL_TYPESAFE_BY_RCU };

	for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
		struct sheet sheet = { 0 };
		struct pcpool_cache *cache = accounted(100, &sheet, flags[f]);
		uint64_t each = pcpool_cache_charge(cache);
		struct pcpool_account *a = account_of(NULL, MANY * each);
		struct pcpool_sheaf *sheaf;

		expect_cmp(each, >=, 100);
		expect_eq(pcpool_alloc_bulk_charged(cache, a, MANY, objs), 0);
		expect_eq(used(a), MANY * each);
		expect_refused(pcpool_alloc_charged(cache, a), EDQUOT);
		pcpool_free(cache, objs[0]);
		expect_eq(used(a), (MANY - 1) * each);
		/* Free objects are nobody's: plain ones, and NULL accounts. */
		objs[0] = pcpool_alloc_charged(cache, NULL);
		expect(objs[0]);
		pcpool_free(cache, objs[0]);
		objs[0] = must_alloc(cache);
		pcpool_free(cache, objs[0]);
		expect_eq(used(a), (MANY - 1) * each);
		expect_eq(pcpool_discard(cache, objs[1]), 0);
		pcpool_free_rcu(cache, objs[2]);
		expect_eq(used(a), (MANY - 3) * each);
		sheaf = pcpool_sheaf_prefill(cache, 4);
		expect(sheaf);
		for (int i = 0; i < 3; i++) {
			objs[i] = pcpool_sheaf_alloc_charged(cache, sheaf, a);
			expect(objs[i]);
		}
		expect_refused(pcpool_sheaf_alloc_charged(cache, sheaf, a),
			       EDQUOT);
		pcpool_free(cache, objs[2]);
		expect_eq(pcpool_account_charge(a, each), 0);
		objs[2] = pcpool_sheaf_alloc_precharged(cache, sheaf, a);
		expect(objs[2]);
		pcpool_sheaf_return(cache, sheaf);
		expect_eq(used(a), MANY * each);
		expect_eq(pcpool_free_bulk(cache, MANY, objs), 0);
		expect_eq(used(a), 0);
		pcpool_account_release(a);
		destroy_balanced(cache, &sheet);
	}
}
END_TEST

/* A constructor that fails is charged to nobody, and neither is a refused bulk. */
START_TEST(test_undone)
{
	static void *objs[MANY];
	struct sheet sheet = { .fail_from = 101 };
	struct pcpool_cache *cache = accounted(64, &sheet, 0);
	uint64_t each = pcpool_cache_charge(cache);
	struct pcpool_account *a = account_of(NULL, 200 * each);

	expect_eq(pcpool_alloc_bulk_charged(cache, a, MANY, objs), EDQUOT);
	expect_eq(atomic_load(&sheet.calls), 0);
	expect_eq(pcpool_alloc_bulk_charged(cache, a, 150, objs), EXDEV);
	for (int i = 0; i < 150; i++)
		expect(!objs[i]);
	expect_eq(used(a), 0);
	expect_eq(pcpool_alloc_bulk_charged(cache, a, 100, objs), 0);
	expect_refused(pcpool_alloc_charged(cache, a), EXDEV);
	expect_eq(used(a), 100 * each);
	expect_eq(pcpool_free_bulk(cache, 100, objs), 0);
	expect_eq(used(a), 0);
	pcpool_account_release(a);
	destroy_balanced(cache, &sheet);
}
END_TEST

/* --- ACC-01 ----------------------------------------------------------------- */

enum { ROUNDS = 100, HANDED = 200 };

struct cross {
	struct pcpool_cache *cache;
	struct pcpool_account *accounts[2];
	void *objs[2][HANDED];
	pthread_barrier_t barrier;
};

static void cross_thread(const struct worker *w)
{
	struct cross *x = w->arg;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < HANDED; i++) {
			x->objs[w->id][i] = pcpool_alloc_charged(
				x->cache, x->accounts[w->id]);
			expect(x->objs[w->id][i]);
		}
		pthread_barrier_wait(&x->barrier);
		/* The other's, by every way back. */
		for (int i = 0; i < HANDED; i++) {
			void *obj = x->objs[!w->id][i];

			if (i % 4 == 0)
				pcpool_free_rcu(x->cache, obj);
			else if (i % 4 == 1)
				expect_eq(pcpool_free_bulk(x->cache, 1, &obj),
					  0);
			else
				pcpool_free(x->cache, obj);
		}
		pthread_barrier_wait(&x->barrier);
	}
}

/* ACC-01: what one allocates and another frees comes back to the one. */
START_TEST(test_acc_01_cross)
{
	static struct cross x;
	struct sheet sheet = { 0 };

	x.cache = accounted(48, &sheet, 0);
	for (int i = 0; i < 2; i++)
		x.accounts[i] = account_of(NULL, 1 << 20);
	pthread_barrier_init(&x.barrier, NULL, 2);
	run_threads(2, cross_thread, &x);
	for (int i = 0; i < 2; i++) {
		expect_eq(used(x.accounts[i]), 0);
		pcpool_account_release(x.accounts[i]);
	}
	destroy_balanced(x.cache, &sheet);
}
END_TEST

/* ACC-01: released while objects live; its ledger goes with the last of them,
 * and serves again. */
START_TEST(test_acc_01_released)
{
	static void *objs[MANY];
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = accounted(64, &sheet, 0);
	uint64_t each = pcpool_cache_charge(cache);
	struct pcpool_account *root = account_of(NULL, PCPOOL_NO_LIMIT);
	struct pcpool_account *a = account_of(root, PCPOOL_NO_LIMIT), *b;
	uint64_t regions = percpu_stats_of().regions;

	expect_eq(pcpool_alloc_bulk_charged(cache, a, MANY, objs), 0);
	pcpool_account_release(a);
	expect_eq(used(root), MANY * each);
	b = account_of(root, PCPOOL_NO_LIMIT);
	expect(b != a);
	expect_eq(pcpool_free_bulk(cache, MANY, objs), 0);
	expect_eq(account_stats(root).used, 0);
	expect_eq(account_stats(root).set_aside, 0);
	for (int i = 0; i < 100; i++) {
		a = account_of(root, PCPOOL_NO_LIMIT);
		objs[0] = pcpool_alloc_charged(cache, a);
		pcpool_account_release(a);
		pcpool_free(cache, objs[0]);
	}
	expect_cmp(percpu_stats_of().regions, <=, regions + 1);
	pcpool_account_release(b);
	pcpool_account_release(root);
	destroy_balanced(cache, &sheet);
}
END_TEST

enum { EDGE_THREADS = 8, EDGE_OPS = 4000, EDGE_OBJECT = 64 };

struct edge {
	struct pcpool_cache *cache;
	struct pcpool_account *account;
	uint64_t limit;
	atomic_bool over;
};

static void edge_thread(const struct worker *w)
{
	struct edge *e = w->arg;
	int n = (int)scaled(EDGE_OPS);

	for (int i = 0; i < n; i++) {
		void *obj;

		if (!w->id) {
			/* Never to be had, and nobody's harm. */
			expect_eq(pcpool_account_charge(e->account,
							2 * e->limit),
				  EDQUOT);
			continue;
		}
		obj = pcpool_alloc_charged(e->cache, e->account);
		if (!obj)
			fail_now("a small charge was refused: %s",
				 strerror(errno));
		if (account_stats(e->account).peak > e->limit)
			atomic_store(&e->over, true);
		pcpool_free(e->cache, obj);
	}
}

/* ACC-01: one asks for twice the limit while others, together below half of it,
 * ask for one object each. */
START_TEST(test_acc_01_edge)
{
	struct sheet sheet = { 0 };
	struct edge e = { .cache = accounted(EDGE_OBJECT, &sheet, 0) };

	e.limit = 2 * EDGE_THREADS * pcpool_cache_charge(e.cache);
	e.account = account_of(NULL, e.limit);
	run_threads(EDGE_THREADS, edge_thread, &e);
	expect(!atomic_load(&e.over));
	expect_eq(used(e.account), 0);
	pcpool_account_release(e.account);
	destroy_balanced(e.cache, &sheet);
}
END_TEST

static void release_thread(const struct worker *w)
{
	struct edge *e = w->arg;
	int n = (int)scaled(EDGE_OPS);

	/* Close and last uncharge race for the end of the ledger. */
	for (int i = 0; i < n; i++) {
		struct pcpool_account *a = account_of(e->account, 1 << 20);
		void *obj = pcpool_alloc_charged(e->cache, a);

		expect(obj);
		if ((i + w->id) & 1) {
			pcpool_account_release(a);
			pcpool_free(e->cache, obj);
		} else {
			pcpool_free(e->cache, obj);
			pcpool_account_release(a);
		}
	}
}

START_TEST(test_release_races)
{
	struct sheet sheet = { 0 };
	struct edge e = { .cache = accounted(EDGE_OBJECT, &sheet, 0) };

	e.account = account_of(NULL, PCPOOL_NO_LIMIT);
	run_threads(4, release_thread, &e);
	expect_eq(used(e.account), 0);
	expect_eq(account_stats(e.account).set_aside, 0);
	pcpool_account_release(e.account);
	destroy_balanced(e.cache, &sheet);
}
END_TEST

START_TEST(test_fork)
{
	struct sheet sheet = { 0 };
	struct pcpool_cache *cache = accounted(64, &sheet, 0);
	struct pcpool_account *a = account_of(NULL, 1 << 20);
	void *obj = pcpool_alloc_charged(cache, a);
	int status;
	pid_t pid;

	expect(obj);
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		expect_eq(used(a), pcpool_cache_charge(cache));
		pcpool_free(cache, obj);
		expect_eq(used(a), 0);
		expect_eq(pcpool_account_charge(a, 1 << 20), 0);
		_exit(0);
	}
	expect_eq(waitpid(pid, &status, 0), pid);
	expect_eq(status, 0);
	expect_eq(used(a), pcpool_cache_charge(cache));
	pcpool_free(cache, obj);
	pcpool_account_release(a);
	destroy_balanced(cache, &sheet);
}
END_TEST

static void uncharge_too_much(void *arg)
{
	pcpool_account_uncharge(arg, 4096);
	pcpool_account_release(arg);
}

START_TEST(test_too_much)
{
	static struct child child;
	struct pcpool_account *a = account_of(NULL, 1 << 20);

	run_child(uncharge_too_much, a, 10, &child);
	expect_child_abort(&child, "account", NULL);
	pcpool_account_release(a);
}
END_TEST

START_TEST(test_cost)
{
	uint64_t last = 0;

	for (size_t size = 8; size <= PCPOOL_PERCPU_SIZE_MAX; size *= 2) {
		expect_cmp(pcpool_percpu_cost(size), >=,
			   (uint64_t)size * pcpool_nr_slots());
		expect_cmp(pcpool_percpu_cost(size), >, last);
		last = pcpool_percpu_cost(size);
	}
	expect_eq(pcpool_percpu_cost(PCPOOL_PERCPU_SIZE_MAX + 1), UINT64_MAX);
	expect_eq(pcpool_percpu_cost(SIZE_MAX), UINT64_MAX);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("account", 60);

	tcase_add_test(tc, test_charge);
	tcase_add_test(tc, test_lowered);
	tcase_add_test(tc, test_arguments);
	tcase_add_test(tc, test_tree);
	tcase_add_test(tc, test_depth);
	tcase_add_test(tc, test_ways);
	tcase_add_test(tc, test_undone);
	tcase_add_test(tc, test_acc_01_cross);
	tcase_add_test(tc, test_acc_01_released);
	tcase_add_test(tc, test_acc_01_edge);
	tcase_add_test(tc, test_release_races);
	tcase_add_test(tc, test_fork);
	tcase_add_test(tc, test_too_much);
	tcase_add_test(tc, test_cost);
	return suite_run(tc);
}

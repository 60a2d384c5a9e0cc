/* SPDX-License-Identifier: MIT */
/*
 * The list of all caches, and what a fork does to them: their locks are taken
 * in rank order (each rank for all caches before the next) and released after.
 */
#include <config.h>

#include "base/fork.h"
#include "base/grace.h"
#include "base/lock.h"
#include "cache/cache.h"
#include "slab/arena.h"

/* Rank PCP_RANK_REGISTRY. Guards first and the links of every cache. */
static struct pcp_lock registry_lock = PCP_LOCK_INIT(PCP_RANK_REGISTRY);
static struct pcpool_cache *first;

/* The same guards who tends, which cache it has pinned, which keeps that from
 * being destroyed, and where the round goes on. */
static struct pcpool_cache *pinned, *last_tended;
static uint64_t tend_round = 1;
static bool tending;
static pthread_t tender;
static pthread_cond_t unpinned = PTHREAD_COND_INITIALIZER;

/* Forks between the program's start and this process. */
static uint64_t generation;

uint64_t pcp_fork_generation(void)
{
	return pcp_load(&generation);
}

bool pcp_cache_forked(const struct pcpool_cache *cache)
{
	return cache->generation != pcp_fork_generation();
}

enum action { TAKE, GIVE, RENEW };

PCP_NO_TSA static void act(struct pcp_lock *lock, enum action action)
{
	if (action == TAKE)
		pcp_lock_nested(lock);
	else if (action == GIVE)
		pcp_unlock(lock);
	else
		pcp_lock_reinit(lock);
}

static void act_on_drains(enum action action)
{
	for (struct pcpool_cache *c = first; c; c = c->next)
		act(&c->stock.drain_lock, action);
}

static void act_on_lists(enum action action)
{
	for (struct pcpool_cache *c = first; c; c = c->next)
		for (unsigned int i = 0; i < c->stock.nr_nodes; i++)
			act(&c->stock.nodes[i].list_lock, action);
}

static void act_on_deaths(enum action action)
{
	for (struct pcpool_cache *c = first; c; c = c->next)
		for (unsigned int i = 0; i < c->stock.nr_nodes; i++)
			act(&c->stock.nodes[i].death_lock, action);
}

static void act_on_slabs(enum action action)
{
	for (struct pcpool_cache *c = first; c; c = c->next)
		act(&c->stock.kind.slabs_lock, action);
}

PCP_NO_TSA static void fork_prepare(void)
{
	pcp_lock(&registry_lock);
	act_on_drains(TAKE);
	act_on_lists(TAKE);
	act_on_deaths(TAKE);
	act_on_slabs(TAKE);
}

static void fork_release(enum action action)
{
	act_on_slabs(action);
	act_on_deaths(action);
	act_on_lists(action);
	act_on_drains(action);
	act(&registry_lock, action);
}

static void fork_parent(void)
{
	fork_release(GIVE);
}

static void fork_child(void)
{
	pcp_store(&generation, generation + 1);
	for (struct pcpool_cache *c = first; c; c = c->next) {
		pcp_stock_fork_child(&c->stock);
		pcp_kind_fork_child(&c->stock.kind);
		/* Whoever destroyed it does not exist, or goes on regardless. */
		c->leaving = false;
	}
	/* A tender that forks, in a destructor, goes on. */
	if (tending && !pthread_equal(tender, pthread_self())) {
		tending = false;
		pinned = NULL;
	}
	pthread_cond_init(&unpinned, NULL);
	fork_release(RENEW);
}

static void init_once(void)
{
	static const struct pcp_fork_ops ops = {
		.prepare = fork_prepare,
		.parent = fork_parent,
		.child = fork_child,
	};

	pcp_grace_init();
	pcp_arena_init();
	pcp_fork_register(PCP_FORK_CACHE, &ops);
}

void pcp_registry_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
}

void pcp_registry_add(struct pcpool_cache *cache)
{
	pcp_registry_init();
	pcp_lock(&registry_lock);
	cache->generation = pcp_fork_generation();
	cache->prev = NULL;
	cache->next = first;
	if (first)
		first->prev = cache;
	first = cache;
	pcp_unlock(&registry_lock);
}

bool pcp_registry_del(struct pcpool_cache *cache)
{
	bool last;

	pcp_lock(&registry_lock);
	if (last_tended == cache)
		last_tended = cache->prev;
	if (cache->prev)
		cache->prev->next = cache->next;
	else
		first = cache->next;
	if (cache->next)
		cache->next->prev = cache->prev;
	last = !first;
	pcp_unlock(&registry_lock);
	return last;
}

void pcp_registry_each(void (*visit)(struct pcpool_cache *cache, void *arg),
		       void *arg)
{
	pcp_registry_init();
	pcp_lock(&registry_lock);
	for (struct pcpool_cache *c = first; c; c = c->next)
		visit(c, arg);
	pcp_unlock(&registry_lock);
}

bool pcp_registry_tend_begin(void)
{
	bool mine;

	pcp_registry_init();
	pcp_lock(&registry_lock);
	mine = !tending;
	if (mine) {
		tending = true;
		tender = pthread_self();
	}
	pcp_unlock(&registry_lock);
	return mine;
}

/* CONTEXT: registry lock held. */
static bool wants_tending(const struct pcpool_cache *cache)
{
	/* One that is being destroyed is gone or usable again the next time. */
	return !cache->leaving &&
	       (cache->looked != tend_round || cache->unfinished);
}

struct pcpool_cache *pcp_registry_tend_next(bool *anew)
{
	struct pcpool_cache *cache;

	pcp_lock(&registry_lock);
	cache = last_tended ? last_tended->next : first;
	while (cache && !wants_tending(cache))
		cache = cache->next;
	/* Around the end, up to the last one itself. */
	if (!cache && last_tended) {
		cache = first;
		while (cache != last_tended && !wants_tending(cache))
			cache = cache->next;
		if (!wants_tending(cache))
			cache = NULL;
	}
	pinned = cache;
	if (cache) {
		*anew = cache->looked != tend_round;
		cache->looked = tend_round;
		last_tended = cache;
	}
	pcp_unlock(&registry_lock);
	return cache;
}

void pcp_registry_tend_done(bool done)
{
	pcp_lock(&registry_lock);
	pinned->unfinished = !done;
	pinned = NULL;
	pthread_cond_broadcast(&unpinned);
	pcp_unlock(&registry_lock);
}

void pcp_registry_tend_end(bool all)
{
	pcp_lock(&registry_lock);
	if (all)
		tend_round++;
	tending = false;
	pcp_unlock(&registry_lock);
}

bool pcp_registry_leave(struct pcpool_cache *cache)
{
	int cancel;
	bool ok;

	/* Waiting is a cancellation point, and the lock is held there. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pcp_lock(&registry_lock);
	ok = !cache->leaving;
	if (ok) {
		cache->leaving = true;
		while (pinned == cache && !pthread_equal(tender, pthread_self()))
			pthread_cond_wait(&unpinned, &registry_lock.mutex);
		/* From a destructor that tending it runs. */
		ok = pinned != cache;
		cache->leaving = ok;
	}
	pcp_unlock(&registry_lock);
	pthread_setcancelstate(cancel, NULL);
	return ok;
}

void pcp_registry_stay(struct pcpool_cache *cache)
{
	pcp_lock(&registry_lock);
	cache->leaving = false;
	pcp_unlock(&registry_lock);
}

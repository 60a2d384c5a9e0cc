/* SPDX-License-Identifier: MIT */
/*
 * The mm-like object: how to write a constructor, a destructor and the two
 * functions around each use. Read mm_struct.h first.
 *
 * To use the pattern in a daemon, sort the fields of your object into three:
 *
 *   1. dear to make, the same for each use (mutexes, buffers, per-CPU regions,
 *      file descriptors, parser tables): make them in the constructor;
 *   2. different for each use, cheap to set (user, peer address, time stamps):
 *      set them in your get function, every one of them, every time;
 *   3. changed by a use but back at their first value when it ends (lists that
 *      are empty again, counters that sum to zero again): make them in the
 *      constructor and see to it in your put function.
 *
 * The third kind is the one to be careful with. Ending a use has to restore
 * such fields on *every* path, errors included, since the next user trusts them
 * blindly. That is why mm_put() itself unmaps what the caller left mapped.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "mm_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The areas of an exec(): code, heap, stack. */
static const struct {
	size_t pages;
	enum mm_rss kind;
} mm_exec_areas[] = {
	{ 8, MM_RSS_FILE },
	{ 6, MM_RSS_ANON },
	{ 2, MM_RSS_ANON },
};

#define MM_EXEC_AREAS (sizeof(mm_exec_areas) / sizeof(mm_exec_areas[0]))

static void mm_list_init(struct mm_list *head)
{
	head->next = head;
	head->prev = head;
}

static bool mm_list_is_empty(const struct mm_list *head)
{
	return head->next == head;
}

static void mm_list_del(struct mm_list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

static void mm_list_add(struct mm_list *head, struct mm_list *link)
{
	link->next = head->next;
	link->prev = head;
	head->next->prev = link;
	head->next = link;
}

/* A link is the first member of its area. */
static struct mm_area *mm_area_of(struct mm_list *link)
{
	return (struct mm_area *)(void *)link;
}

/* Whether this construction is one that is to fail, see mm_env.fail_every. */
static bool mm_must_fail(struct mm_env *env)
{
	unsigned long long nth;

	if (!env || !env->fail_every)
		return false;
	nth = 1 + atomic_load_explicit(&env->ctor_ok, memory_order_relaxed) +
	      atomic_load_explicit(&env->ctor_failed, memory_order_relaxed);
	return nth % env->fail_every == 0;
}

/*
 * Build an object.
 *
 * Each step that can fail has a label of its own below, and the labels stand in
 * the reverse order of the steps: a failure jumps to the label that undoes the
 * step *before* it and falls through the rest. A step added later gets its
 * label in the same place, and no existing line has to change.
 *
 * Return the errno value you have; pcpool_alloc() passes it on to the caller
 * who could not be served. There is no need to zero the object first (and it is
 * not zeroed for you), but every field of kinds 1 and 3 has to be set here.
 *
 * pcpool holds no lock while this runs: it may allocate, block, take your own
 * locks, or use other caches.
 */
int mm_ctor(void *obj, void *arg)
{
	struct mm_struct *mm = obj;
	struct mm_env *env = arg;
	int err;

	mm->cid =
		pcpool_percpu_alloc(sizeof(*mm->cid), _Alignof(struct mm_cid));
	if (!mm->cid) {
		err = errno;
		goto fail;
	}
	mm->rss_stat = pcpool_percpu_alloc(sizeof(*mm->rss_stat),
					   _Alignof(struct mm_rss_stat));
	if (!mm->rss_stat) {
		err = errno;
		goto fail_cid;
	}
	err = pthread_mutex_init(&mm->lock, NULL);
	if (err)
		goto fail_rss_stat;
	if (mm_must_fail(env)) {
		err = EAGAIN;
		goto fail_lock;
	}

	mm_list_init(&mm->areas);
	mm_list_init(&mm->spare);
	for (unsigned int i = 0; i < MM_AREAS; i++)
		mm_list_add(&mm->spare, &mm->area[i].link);
	if (env)
		atomic_fetch_add_explicit(&env->ctor_ok, 1,
					  memory_order_relaxed);
	return 0;

fail_lock:
	pthread_mutex_destroy(&mm->lock);
fail_rss_stat:
	pcpool_percpu_free(mm->rss_stat);
fail_cid:
	pcpool_percpu_free(mm->cid);
fail:
	if (env)
		atomic_fetch_add_explicit(&env->ctor_failed, 1,
					  memory_order_relaxed);
	return err;
}

/*
 * Tear an object down: the constructor's steps in reverse. It runs in whichever
 * thread destroys or shrinks the cache, never in one that merely calls
 * mm_put(), and it cannot fail.
 */
void mm_dtor(void *obj, void *arg)
{
	struct mm_struct *mm = obj;
	struct mm_env *env = arg;

	pthread_mutex_destroy(&mm->lock);
	pcpool_percpu_free(mm->rss_stat);
	pcpool_percpu_free(mm->cid);
	if (env)
		atomic_fetch_add_explicit(&env->dtor, 1, memory_order_relaxed);
}

struct pcpool_cache *mm_cache_create(struct mm_env *env)
{
	struct pcpool_cache_attr attr;

	/* Always start from the defaults: fields that a later release adds then
	 * keep theirs. */
	pcpool_cache_attr_init(&attr);
	attr.align = _Alignof(struct mm_struct);
	attr.ctor = mm_ctor;
	attr.dtor = mm_dtor;
	attr.arg = env;
	return pcpool_cache_create("mm_struct", sizeof(struct mm_struct),
				   &attr);
}

void mm_begin(struct mm_struct *mm, void *mmap_base)
{
	mm->users = 1;
	mm->mmap_base = mmap_base;
	mm->mmap_next = mmap_base;
}

void mm_end(struct mm_struct *mm)
{
	/* Reading the list without the lock is sound: with the last user gone
	 * nobody else can reach the object. */
	if (!mm_list_is_empty(&mm->areas))
		mm_unmap_all(mm);
	mm->users = 0;
}

struct mm_struct *mm_get(struct pcpool_cache *cache, void *mmap_base)
{
	struct mm_struct *mm = pcpool_alloc(cache);

	if (mm)
		mm_begin(mm, mmap_base);
	return mm;
}

void mm_put(struct pcpool_cache *cache, struct mm_struct *mm)
{
	mm_end(mm);
	pcpool_free(cache, mm);
}

/* Take a spare area for mapping; NULL when there is none. */
static struct mm_area *mm_area_take(struct mm_struct *mm)
{
	struct mm_list *link = NULL;

	pthread_mutex_lock(&mm->lock);
	if (!mm_list_is_empty(&mm->spare)) {
		link = mm->spare.next;
		mm_list_del(link);
	}
	pthread_mutex_unlock(&mm->lock);
	return link ? mm_area_of(link) : NULL;
}

static void mm_area_put(struct mm_struct *mm, struct mm_list *list,
			struct mm_area *area)
{
	pthread_mutex_lock(&mm->lock);
	mm_list_add(list, &area->link);
	pthread_mutex_unlock(&mm->lock);
}

static size_t mm_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int mm_map(struct mm_struct *mm, size_t pages, enum mm_rss kind)
{
	size_t page = mm_page_size();
	struct mm_area *area;
	int err;

	area = mm_area_take(mm);
	if (!area)
		return ENOSPC;
	area->start = mmap(mm->mmap_next, pages * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area->start == MAP_FAILED) {
		err = errno;
		mm_area_put(mm, &mm->spare, area);
		return err;
	}
	if (mm->mmap_next)
		mm->mmap_next += pages * page;
	area->pages = pages;
	area->kind = kind;
	/* volatile: nobody needs the contents, yet they must be faulted in. */
	for (size_t i = 0; i < pages; i++) {
		volatile char *byte = (char *)area->start + i * page;

		if (kind == MM_RSS_FILE)
			(void)*byte;
		else
			*byte = 1;
	}
	/* The point of a per-CPU counter: no lock and no shared cache line,
	 * however many threads count into this address space. */
	pcpool_this_cpu_add(&mm->rss_stat->pages[kind], pages);
	mm_area_put(mm, &mm->areas, area);
	return 0;
}

/*
 * Give a range back to the system. The pages go first: that is work which many
 * threads can do at a time, while munmap() has the address space to itself, and
 * now finds nothing left to do but to forget the range.
 */
static void mm_unmap_range(char *start, size_t bytes)
{
	madvise(start, bytes, MADV_DONTNEED);
	/* Cannot fail for what mmap() returned, except where the kernel runs
	 * out of memory for its own list of areas; to leak address space
	 * quietly would be the worse answer. */
	if (munmap(start, bytes))
		abort();
}

void mm_unmap_all(struct mm_struct *mm)
{
	size_t page = mm_page_size();
	char *start = NULL;
	size_t bytes = 0;

	pthread_mutex_lock(&mm->lock);
	while (!mm_list_is_empty(&mm->areas)) {
		struct mm_area *area = mm_area_of(mm->areas.next);

		/* The areas come last one first. Those that lie side by side
		 * are unmapped in one call. */
		if ((char *)area->start + area->pages * page != start) {
			if (start)
				mm_unmap_range(start, bytes);
			bytes = 0;
		}
		start = area->start;
		bytes += area->pages * page;
		pcpool_this_cpu_add(&mm->rss_stat->pages[area->kind],
				    0 - area->pages);
		mm_list_del(&area->link);
		mm_list_add(&mm->spare, &area->link);
	}
	if (start)
		mm_unmap_range(start, bytes);
	mm->mmap_next = mm->mmap_base;
	pthread_mutex_unlock(&mm->lock);
}

int mm_exec(struct mm_struct *mm)
{
	int err = 0;

	pcpool_this_cpu_inc(&mm->cid->running);
	for (size_t i = 0; i < MM_EXEC_AREAS && !err; i++)
		err = mm_map(mm, mm_exec_areas[i].pages, mm_exec_areas[i].kind);
	mm_unmap_all(mm);
	/* Perhaps on another CPU than above: the sum is what counts. */
	pcpool_this_cpu_add(&mm->cid->running, -1);
	return err;
}

uint64_t mm_rss(const struct mm_struct *mm, enum mm_rss kind)
{
	return pcpool_percpu_sum_u64(&mm->rss_stat->pages[kind]);
}

bool mm_is_built_state(struct mm_struct *mm)
{
	unsigned int spare = 0;

	for (struct mm_list *l = mm->spare.next; l != &mm->spare; l = l->next)
		spare++;
	if (spare != MM_AREAS || !mm_list_is_empty(&mm->areas))
		return false;
	for (int kind = 0; kind < MM_RSS_KINDS; kind++)
		if (mm_rss(mm, (enum mm_rss)kind))
			return false;
	if (pcpool_percpu_sum_u64(&mm->cid->running))
		return false;
	if (pthread_mutex_trylock(&mm->lock))
		return false;
	pthread_mutex_unlock(&mm->lock);
	return true;
}

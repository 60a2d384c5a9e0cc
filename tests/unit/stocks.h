/* SPDX-License-Identifier: MIT */
/* A stock made by hand, its books, and a helper thread on a CPU of choice that
 * runs what a test asks it to in between. */
#ifndef TESTS_UNIT_STOCKS_H
#define TESTS_UNIT_STOCKS_H

#include <pthread.h>
#include <semaphore.h>

#include "floors.h"

#include "slab/arena.h"
#include "slot/book.h"
#include "slot/ops.h"
#include "slot/stock.h"

#define STOCK_OBJECT 200U

static inline struct pcp_stock *stock_make_of(size_t size, struct sheet *sheet,
					      unsigned int flags,
					      uint32_t capacity)
{
	struct pcp_stock *stock;

	pcp_init();
	stock = pcp_meta_alloc(sizeof(*stock) + pcp_index.nr_ids *
							sizeof(struct pcp_slot),
			       128);
	expect(stock);
	stock->kind.name = "unit";
	stock->kind.flags = flags;
	stock->kind.arg = sheet;
	if (sheet) {
		stock->kind.ctor = sheet_ctor;
		stock->kind.dtor = sheet_dtor;
	}
	expect_eq(pcp_stock_init(stock, size, 0, capacity, 2), 0);
	pcp_grace_init();
	pcp_defer_init(stock, NULL, 0);
	return stock;
}

static inline struct pcp_stock *stock_make(struct sheet *sheet,
					   uint32_t capacity)
{
	return stock_make_of(STOCK_OBJECT, sheet, 0, capacity);
}

static inline uint64_t stock_stat(struct pcp_stock *stock, enum pcp_stat_id id)
{
	return pcp_stat_sum(&stock->kind.stat, id);
}

/* Nobody else uses it: everything is where it should be, `live` objects are
 * handed out. */
static inline struct pcp_book book_check(struct pcp_stock *stock,
					 uint64_t live)
{
	struct pcp_kind *kind = &stock->kind;
	struct pcp_book book;
	uint64_t built = stock_stat(stock, PCP_STAT_CTOR_OK) -
			 stock_stat(stock, PCP_STAT_DTOR);
	uint32_t partial = 0, waiting = 0, chained = 0;

	pcp_stock_book(stock, &book, true);
	expect_eq(book.live, live);
	expect_eq(book.live + book.cached + book.deferred, book.inuse);
	expect_eq(book.inuse, pcp_kind_inuse(kind));
	expect_eq(book.slabs, stock_stat(stock, PCP_STAT_ALLOC_SLAB) -
				      stock_stat(stock, PCP_STAT_FREE_SLAB));
	expect_eq(book.sheaves, stock_stat(stock, PCP_STAT_SHEAF_ALLOC) -
					stock_stat(stock, PCP_STAT_SHEAF_FREE));
	expect_eq(book.partial, stock_stat(stock, PCP_STAT_ADD_PARTIAL) -
					stock_stat(stock,
						   PCP_STAT_REMOVE_PARTIAL));
	for (unsigned int i = 0; i < stock->nr_nodes; i++) {
		partial += links(&stock->nodes[i].partial);
		waiting += links(&stock->nodes[i].waiting);
	}
	expect_eq(book.partial, partial);
	expect_eq(book.waiting, waiting);
	for (struct pcp_slab_link *link = kind->all.next; link != &kind->all;
	     link = link->next) {
		struct pcp_slab *slab =
			pcp_container_of(link, struct pcp_slab, all);

		slab_verify(slab);
		chained += slab_chained(slab);
	}
	expect_cmp(chained, <=, book.deferred);
	if (kind->layout.built) {
		/* What is out is built, and nothing is lost. Chained objects
		 * are not marked as out, whether or not that field has them. */
		if (book.out != book.inuse)
			expect_eq(book.out + chained, book.inuse);
		expect_cmp(built, >=, book.inuse);
		expect_cmp(built, <=, book.slabs * kind->layout.objects);
	}
	expect_eq(pcp_book_lost(&book), 0);
	return book;
}

/* Nothing deferred is left, and the library's thread is done with the stock: it
 * was idle before a barrier. */
static inline void stock_settle(struct pcp_stock *stock)
{
	struct pcp_defer *defer = &stock->defer;
	bool done = false;

	expect_eq(pcp_stock_hand_over(stock), 0);
	while (!done) {
		done = pcp_defer_idle(defer);
		pcp_defer_kick(defer);
		expect_eq(pcp_grace_barrier(defer->grace.flavor), 0);
	}
	expect_eq(pcp_stock_deferred(stock), 0);
}

/* All objects are back: shrinks to nothing and frees the stock. */
static inline void stock_drop(struct pcp_stock *stock)
{
	struct pcp_slab_link dead;

	pcp_slabs_init(&dead);
	if (book_check(stock, 0).deferred || stock->defer.used ||
	    stock_stat(stock, PCP_STAT_FREE_RCU_SHEAF))
		stock_settle(stock);
	book_check(stock, 0);
	expect_eq(pcp_stock_drain(stock, &dead), 0);
	pcp_stock_empty_barns(stock, &dead);
	for (unsigned int i = 0; i < stock->nr_nodes; i++)
		pcp_node_trim(&stock->nodes[i], 0, &dead);
	pcp_stock_bury(stock, &dead, true);
	expect_eq(book_check(stock, 0).slabs, 0);
	expect_eq(stock_stat(stock, PCP_STAT_CTOR_OK),
		  stock_stat(stock, PCP_STAT_DTOR));
	expect_eq(book_check(stock, 0).sheaves, 0);
	pcp_stock_destroy(stock);
	pcp_meta_free(stock);
}

/* As the cache layer does: a fast try, then the slow path. */
static inline void *stock_alloc(struct pcp_stock *stock)
{
	int err = 0;
	void *obj;

	if (!pcp_slot_pop(stock, &obj))
		obj = pcp_slot_alloc_slow(stock, &err);
	if (!obj)
		fail_now("no object: %s", strerror(err));
	return obj;
}

static inline void stock_free(struct pcp_stock *stock, void *obj)
{
	if (!pcp_slot_push(stock, obj))
		pcp_slot_free_slow(stock, obj);
}

/* The word that names the main, whatever the mode. */
static inline struct pcp_sheaf **main_word(struct pcp_stock *stock, long index)
{
	struct pcp_slot *slot = &stock->slots[index];

	return pcp_index.rseq ? &slot->main : &slot->local;
}

/* --- a helper thread ------------------------------------------------------ */

struct helper {
	pthread_t thread;
	unsigned int cpu;
	sem_t asked, done;
	void (*fn)(void *arg);
	void *arg;
	bool end;
};

static inline void *helper_run(void *p)
{
	struct helper *helper = p;

	pin_to(helper->cpu);
	for (;;) {
		while (sem_wait(&helper->asked))
			;
		if (helper->end)
			return NULL;
		helper->fn(helper->arg);
		sem_post(&helper->done);
	}
}

static inline void helper_start(struct helper *helper, unsigned int cpu)
{
	helper->cpu = cpu;
	helper->end = false;
	expect(!sem_init(&helper->asked, 0, 0));
	expect(!sem_init(&helper->done, 0, 0));
	expect(!pthread_create(&helper->thread, NULL, helper_run, helper));
}

/* Run it there, and wait for its end. */
static inline void helper_call(struct helper *helper, void (*fn)(void *),
			       void *arg)
{
	helper->fn = fn;
	helper->arg = arg;
	sem_post(&helper->asked);
	while (sem_wait(&helper->done))
		;
}

static inline void helper_stop(struct helper *helper)
{
	helper->end = true;
	sem_post(&helper->asked);
	expect(!pthread_join(helper->thread, NULL));
}

#endif /* TESTS_UNIT_STOCKS_H */

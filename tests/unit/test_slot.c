/* SPDX-License-Identifier: MIT */
/* lib/slot/ops.c, hook.c: each operation on the caller's slot, what is refused
 * and what becomes of it then; and events between the steps of slow paths. */
#include <config.h>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "slot_fixture.h"

#include "base/options.h"

#if PCP_HAVE_RSEQ
#include <sys/rseq.h>
#endif

/* --- pop and push --------------------------------------------------------- */

START_TEST(test_fresh_slot)
{
	void *objs[2] = { NULL, NULL }, *obj = &objs;

	expect(peek(PCP_MAIN) == PCP_EMPTY);
	expect(!peek(PCP_SPARE) && !peek(PCP_RCU));
	expect(pcp_slot_usable(stock, here));
	expect(!pcp_slot_pop(stock, &obj));
	expect(!pcp_slot_push(stock, obj));
	expect_eq(pcp_slot_pop_many(stock, 2, objs), 0);
	expect_eq(pcp_slot_push_many(stock, 2, objs), 0);
	expect(!pcp_slot_push_rcu(stock, obj));
	expect_eq(book_check(stock, 0).slabs, 0);
	/* Sections of lock mode find no slot at all. */
	if (!pcp_index.rseq)
		expect(stock->slots[here].main == PCP_CLOSED);
}
END_TEST

START_TEST(test_pop_and_push)
{
	struct pcp_sheaf *sheaf = stocked(CAPACITY);
	void *expected[CAPACITY], *objs[CAPACITY], *obj = NULL;

	memcpy(expected, sheaf->objects, sizeof(expected));
	pcp_slot_install(stock, here, 0, sheaf, PCP_HOOK_ALLOC_HOOK_MAIN,
			 &dead);
	expect(peek(PCP_MAIN) == sheaf);
	expect(!pcp_slot_push(stock, &obj));
	for (uint32_t i = 0; i < CAPACITY; i++) {
		expect(pcp_slot_pop(stock, &objs[i]));
		expect(objs[i] == expected[CAPACITY - 1 - i]);
		book_check(stock, i + 1);
	}
	expect(!pcp_slot_pop(stock, &obj));
	for (uint32_t i = 0; i < CAPACITY; i++) {
		expect(pcp_slot_push(stock, objs[i]));
		book_check(stock, CAPACITY - 1 - i);
	}
	expect(!pcp_slot_push(stock, &obj));
	expect_eq(book_check(stock, 0).alloc_fast, CAPACITY);
	expect_eq(book_check(stock, 0).free_fast, CAPACITY);
}
END_TEST

START_TEST(test_many)
{
	struct pcp_sheaf *sheaf = stocked(CAPACITY);
	void *expected[CAPACITY], *objs[2 * CAPACITY];

	memcpy(expected, sheaf->objects, sizeof(expected));
	pcp_slot_install(stock, here, 0, sheaf, PCP_HOOK_ALLOC_HOOK_MAIN,
			 &dead);
	expect_eq(pcp_slot_push_many(stock, 1, objs), 0);
	expect_eq(pcp_slot_pop_many(stock, 2, objs), 2);
	book_check(stock, 2);
	/* As many as there are. */
	expect_eq(pcp_slot_pop_many(stock, 2 * CAPACITY, objs + 2),
		  CAPACITY - 2);
	expect_eq(pcp_slot_pop_many(stock, 1, objs + CAPACITY), 0);
	book_check(stock, CAPACITY);
	for (uint32_t i = 0; i < CAPACITY; i++)
		expect(objs[i] == expected[CAPACITY - 1 - i]);
	expect_eq(pcp_slot_push_many(stock, 1, objs), 1);
	/* As many as there is room for; here by a wish for too many. */
	memcpy(objs + CAPACITY, objs, sizeof(*objs));
	expect_eq(pcp_slot_push_many(stock, CAPACITY, objs + 1), CAPACITY - 1);
	book_check(stock, 0);
	for (uint32_t i = 0; i < CAPACITY; i++)
		expect(sheaf->objects[i] == objs[i]);
}
END_TEST

/* --- commits -------------------------------------------------------------- */

/* Objects at rest; the books cannot know of a sheaf in a test's hands. */
static uint64_t hidden;

static void check(void)
{
	struct pcp_book book;

	pcp_stock_book(stock, &book, true);
	expect_eq(book.live + book.cached + book.deferred + hidden, book.inuse);
}

START_TEST(test_commit)
{
	struct pcp_sheaf *a = stocked(1), *b = stocked(2), *c = stocked(3);

	expect(pcp_slot_commit(stock, here, PCP_SPARE, NULL, a));
	expect(peek(PCP_SPARE) == a && peek(PCP_MAIN) == PCP_EMPTY);
	/* Changed meanwhile. */
	expect(!pcp_slot_commit(stock, here, PCP_SPARE, NULL, b));
	expect(!pcp_slot_commit(stock, here, PCP_SPARE, c, b));
	expect(peek(PCP_SPARE) == a);
	expect(pcp_slot_commit(stock, here, PCP_SPARE, a, b));
	expect(peek(PCP_SPARE) == b);
	expect(pcp_slot_commit(stock, here, PCP_RCU, NULL, c));
	expect(!pcp_slot_commit(stock, here, PCP_RCU, NULL, a));
	expect(peek(PCP_RCU) == c);
	expect(!pcp_slot_commit(stock, here, PCP_MAIN, a, a));
	hidden = 1;
	check();
	empty_sheaf(a);
	expect_eq(book_check(stock, 0).cached, 2);
	expect_eq(book_check(stock, 0).deferred, 3);
	expect(pcp_slot_unhook(stock, here, PCP_RCU) == c);
	expect(!peek(PCP_RCU));
	empty_sheaf(c);
}
END_TEST

/* The caller is on another CPU by now. */
START_TEST(test_commit_elsewhere)
{
	struct pcp_sheaf *a = stocked(1);
	long other = (here + 1) % (long)pcp_index.nr_ids;

	hidden = 1;
	if (pcp_index.rseq && pcp_index.nr_ids > 1) {
		expect(!pcp_slot_commit(stock, other, PCP_SPARE, NULL, a));
		expect(!pcp_slot_commit(stock, other, PCP_MAIN, PCP_EMPTY, a));
		expect(!pcp_slot_peek(stock, other, PCP_SPARE));
		expect(pcp_slot_peek(stock, other, PCP_MAIN) == PCP_EMPTY);
		stock->slots[other].spare = a;
		expect(!pcp_slot_unhook(stock, other, PCP_SPARE));
		stock->slots[other].spare = NULL;
		/* Installed nowhere, so it goes to the barn. */
		pcp_slot_install(stock, other, 0, a, PCP_HOOK_ALLOC_HOOK_MAIN,
				 &dead);
		expect(pcp_slot_peek(stock, other, PCP_MAIN) == PCP_EMPTY);
		expect(!pcp_slot_peek(stock, other, PCP_SPARE));
		expect(pcp_barn_get_partial(&stock->barns[0]) == a);
		expect_eq(a->base, -1);
	}
	check();
	empty_sheaf(a);
}
END_TEST

/* A drain has the slot. */
START_TEST(test_closed)
{
	struct pcp_sheaf *main = stocked(2), *spare = stocked(1), *a;
	void *obj = NULL, *objs[2];
	int err = 0;

	expect(pcp_slot_commit(stock, here, PCP_SPARE, NULL, spare));
	pcp_slot_install(stock, here, 0, main, PCP_HOOK_ALLOC_HOOK_MAIN, &dead);
	*main_word(stock, here) = PCP_CLOSED;
	hidden = 2;
	expect(!pcp_slot_usable(stock, here));
	expect(!pcp_slot_pop(stock, &obj));
	expect(!pcp_slot_push(stock, obj));
	expect_eq(pcp_slot_pop_many(stock, 2, objs), 0);
	expect_eq(pcp_slot_push_many(stock, 2, objs), 0);
	expect(!pcp_slot_push_rcu(stock, &obj));
	a = stocked(1);
	expect(!pcp_slot_commit(stock, here, PCP_MAIN, PCP_CLOSED, a));
	expect(!pcp_slot_commit(stock, here, PCP_SPARE, spare, a));
	expect(!pcp_slot_commit(stock, here, PCP_RCU, NULL, a));
	expect(!pcp_slot_unhook(stock, here, PCP_MAIN));
	expect(!pcp_slot_unhook(stock, here, PCP_SPARE));
	pcp_slot_install(stock, here, 0, a, PCP_HOOK_FREE_HOOK_MAIN, &dead);
	expect(pcp_barn_get_partial(&stock->barns[0]) == a);
	empty_sheaf(a);
	check();
	/* Calls go past it. */
	obj = pcp_slot_alloc_slow(stock, &err);
	expect(obj);
	expect_cmp(count(PCP_STAT_BYPASS), >, 0);
	pcp_slot_free_slow(stock, obj);
	check();
	expect(peek(PCP_SPARE) == spare && peek(PCP_MAIN) == PCP_CLOSED);
	*main_word(stock, here) = main;
}
END_TEST

START_TEST(test_unhook)
{
	struct pcp_sheaf *sheaf = stocked(3);
	void *obj;

	expect(!pcp_slot_unhook(stock, here, PCP_MAIN));
	expect(!pcp_slot_unhook(stock, here, PCP_SPARE));
	expect(!pcp_slot_unhook(stock, here, PCP_RCU));
	pcp_slot_install(stock, here, 0, sheaf, PCP_HOOK_ALLOC_HOOK_MAIN,
			 &dead);
	expect(pcp_slot_pop(stock, &obj));
	expect(pcp_slot_push(stock, obj));
	expect(pcp_slot_pop(stock, &obj));
	expect_eq(count(PCP_STAT_FAST_ALLOC), 0);
	expect(pcp_slot_unhook(stock, here, PCP_MAIN) == sheaf);
	expect(peek(PCP_MAIN) == PCP_EMPTY);
	/* What sections counted is in the books now. */
	expect_eq(count(PCP_STAT_FAST_ALLOC), 2);
	expect_eq(count(PCP_STAT_FAST_FREE), 1);
	expect_eq(sheaf->base, -1);
	expect_eq(sheaf->word, 2);
	empty_sheaf(sheaf);
	book_check(stock, 1);
	stock_free(stock, obj);
}
END_TEST

/* --- install -------------------------------------------------------------- */

START_TEST(test_install)
{
	struct pcp_barn *barn = &stock->barns[0];
	struct pcp_sheaf *s[4];

	for (unsigned int i = 0; i < 4; i++)
		s[i] = stocked(i == 2 ? CAPACITY : 2);
	/* Over the sentinel; then the old main becomes the spare; then the
	 * barn gets it. */
	pcp_slot_install(stock, here, 0, s[0], PCP_HOOK_FREE_HOOK_MAIN, &dead);
	expect(peek(PCP_MAIN) == s[0] && !peek(PCP_SPARE));
	expect_eq(s[0]->base, 2);
	pcp_slot_install(stock, here, 0, s[1], PCP_HOOK_FREE_HOOK_MAIN, &dead);
	expect(peek(PCP_MAIN) == s[1] && peek(PCP_SPARE) == s[0]);
	expect_eq(s[0]->base, -1);
	pcp_slot_install(stock, here, 0, s[2], PCP_HOOK_FREE_HOOK_MAIN, &dead);
	expect(peek(PCP_MAIN) == s[2] && peek(PCP_SPARE) == s[0]);
	expect(barn->partial == s[1]);
	/* A full one to the full ones. */
	pcp_slot_install(stock, here, 0, s[3], PCP_HOOK_FREE_HOOK_MAIN, &dead);
	expect(peek(PCP_MAIN) == s[3]);
	expect_eq(barn->nr_full, 1);
	expect_eq(book_check(stock, 0).cached, 6 + CAPACITY);
}
END_TEST

START_TEST(test_put_sheaf)
{
	struct pcp_barn *barn = &stock->barns[0];
	struct pcp_sheaf *a = stocked(1), *b = stocked(2);

	pcp_stock_put_sheaf(stock, 0, a, &dead);
	expect(barn->partial == a);
	/* The one that lay there joins it, and is kept as an empty one. */
	pcp_stock_put_sheaf(stock, 0, b, &dead);
	expect(barn->partial == b);
	expect_eq(pcp_sheaf_size(b), 3);
	expect_eq(pcp_sheaf_size(a), 0);
	expect_eq(barn->nr_empty, 1);
	expect_eq(count(PCP_STAT_SHEAF_FLUSH), 0);
	for (unsigned int i = 0; i < PCP_BARN_FULL + 3; i++)
		pcp_stock_put_sheaf(stock, 0, stocked(CAPACITY), &dead);
	expect_eq(barn->nr_full, PCP_BARN_FULL);
	/* No room: emptied into the slabs. */
	expect_eq(barn->nr_empty, 4);
	expect_eq(book_check(stock, 0).cached, 3 + PCP_BARN_FULL * CAPACITY);
	for (unsigned int i = 0; i < PCP_BARN_EMPTY; i++)
		pcp_stock_put_sheaf(stock, 0, stocked(0), &dead);
	expect_eq(barn->nr_empty, PCP_BARN_EMPTY);
	pcp_stock_empty_barns(stock, &dead);
	expect_eq(barn->nr_full + barn->nr_empty, 0);
	expect_eq(book_check(stock, 0).cached, 0);
	expect_eq(book_check(stock, 0).sheaves, 0);
}
END_TEST

/* Two part-filled sheaves of every size make one part-filled, or a full one and
 * a rest; no object goes to the slabs while there is room. */
START_TEST(test_put_partials)
{
	struct pcp_barn *barn = &stock->barns[0];
	uint32_t first = (uint32_t)_i;

	for (uint32_t second = 1; second < CAPACITY; second++) {
		uint32_t sum = first + second;
		uint64_t flushes = count(PCP_STAT_SHEAF_FLUSH);

		pcp_stock_put_sheaf(stock, 0, stocked(first), &dead);
		pcp_stock_put_sheaf(stock, 0, stocked(second), &dead);
		expect_eq(barn->nr_full, sum / CAPACITY);
		expect_eq(barn->nr_empty, sum > CAPACITY ? 0 : 1);
		expect_eq(!barn->partial, sum == CAPACITY);
		if (barn->partial)
			expect_eq(pcp_sheaf_size(barn->partial),
				  sum % CAPACITY);
		expect_eq(book_check(stock, 0).cached, sum);
		expect_eq(book_check(stock, 0).sheaves, 2);
		expect_eq(count(PCP_STAT_SHEAF_FLUSH), flushes);
		pcp_stock_empty_barns(stock, &dead);
		expect_eq(book_check(stock, 0).sheaves, 0);
	}
}
END_TEST

/* With a barn full of full sheaves, what became full goes to the slabs. */
START_TEST(test_put_partials_no_room)
{
	struct pcp_barn *barn = &stock->barns[0];

	for (unsigned int i = 0; i < PCP_BARN_FULL; i++)
		pcp_stock_put_sheaf(stock, 0, stocked(CAPACITY), &dead);
	pcp_stock_put_sheaf(stock, 0, stocked(CAPACITY - 1), &dead);
	pcp_stock_put_sheaf(stock, 0, stocked(2), &dead);
	expect_eq(count(PCP_STAT_SHEAF_FLUSH), 1);
	expect_eq(barn->nr_full, PCP_BARN_FULL);
	expect_eq(barn->nr_empty, 1);
	expect_eq(pcp_sheaf_size(barn->partial), 1);
	expect_eq(book_check(stock, 0).cached, PCP_BARN_FULL * CAPACITY + 1);
	pcp_stock_empty_barns(stock, &dead);
}
END_TEST

/* barn_refill:off: the one that lay there is emptied. */
START_TEST(test_put_partials_apart)
{
	struct pcp_barn *barn = &stock->barns[0];
	struct pcp_sheaf *a = stocked(1), *b = stocked(2);

	pcp_options.no_barn_refill = 1;
	pcp_stock_put_sheaf(stock, 0, a, &dead);
	pcp_stock_put_sheaf(stock, 0, b, &dead);
	pcp_options.no_barn_refill = 0;
	expect(barn->partial == b);
	expect_eq(pcp_sheaf_size(b), 2);
	expect_eq(pcp_sheaf_size(a), 0);
	expect_eq(barn->nr_empty, 1);
	expect_eq(count(PCP_STAT_SHEAF_FLUSH), 1);
	book_check(stock, 0);
}
END_TEST

/* While two sheaves become one, another thread puts a third. */
static void overtake(enum pcp_hook_id id)
{
	if (id != PCP_HOOK_BARN_RESERVED)
		return;
	pcp_hook_set(NULL);
	expect(!pcp_barn_put_partial(&stock->barns[0], stocked(4)));
}

START_TEST(test_put_partials_overtaken)
{
	struct pcp_barn *barn = &stock->barns[0];
	struct pcp_sheaf *a = stocked(1), *b = stocked(2);

	pcp_stock_put_sheaf(stock, 0, a, &dead);
	pcp_hook_set(overtake);
	pcp_stock_put_sheaf(stock, 0, b, &dead);
	expect(barn->partial == b);
	expect_eq(pcp_sheaf_size(b), 3);
	/* a is empty, and the third was emptied. */
	expect_eq(barn->nr_empty, 2);
	expect_eq(count(PCP_STAT_SHEAF_FLUSH), 1);
	expect_eq(book_check(stock, 0).cached, 3);
	expect_eq(book_check(stock, 0).sheaves, 3);
}
END_TEST

static void put_and_get(const struct worker *w)
{
	struct pcp_barn *barn = &stock->barns[0];
	struct pcp_slab_link mine;
	struct rng rng;

	pcp_slabs_init(&mine);
	rng_seed(&rng, w->id + 1);
	for (unsigned int i = 0; i < 3000; i++) {
		struct pcp_sheaf *sheaf = pcp_barn_get_partial(barn);
		int err = 0;

		if (!sheaf)
			sheaf = pcp_barn_get_full(barn);
		if (!sheaf)
			sheaf = pcp_sheaf_new(&stock->sheaves);
		expect(sheaf);
		/* Some to the slabs or from there, so that all sizes come. */
		for (uint32_t n = rng_below(&rng, CAPACITY);
		     n < pcp_sheaf_size(sheaf);) {
			void *obj = pcp_sheaf_pop(sheaf);

			pcp_stock_give(stock, 1, &obj, &mine);
		}
		if (pcp_sheaf_room(sheaf) && rng_below(&rng, 2)) {
			uint32_t size = pcp_sheaf_size(sheaf);
			uint32_t n = 1 + rng_below(&rng, CAPACITY - size);

			n = pcp_stock_fill(stock, 0, n, sheaf->objects + size,
					   &err);
			expect(n);
			pcp_sheaf_set_size(sheaf, size + n);
		}
		pcp_stock_put_sheaf(stock, 0, sheaf, &mine);
		pcp_stock_bury(stock, &mine, false);
	}
}

/* Nothing is lost or doubled between them, and one part-filled is left. */
START_TEST(test_put_partials_together)
{
	struct pcp_barn *barn = &stock->barns[0];
	uint64_t objects;

	run_threads(4, put_and_get, NULL);
	expect_cmp(barn->nr_full, <=, PCP_BARN_FULL);
	expect_cmp(barn->nr_empty, <=, PCP_BARN_EMPTY);
	objects = barn->nr_full * CAPACITY;
	if (barn->partial) {
		expect_cmp(pcp_sheaf_size(barn->partial), >, 0);
		expect_cmp(pcp_sheaf_size(barn->partial), <, CAPACITY);
		objects += pcp_sheaf_size(barn->partial);
	}
	expect_eq(book_check(stock, 0).cached, objects);
}
END_TEST

/* --- in between --------------------------------------------------------------------------- */

/* What happens between two steps of a slow path. */
enum event { MIGRATE, USE_HERE, DRAIN_FROM_THERE, EVENTS };

static enum pcp_hook_id at;
static enum event event;
static unsigned int events;
static struct helper same, far;

static void use_here(void *arg)
{
	void *objs[2 * CAPACITY + 2];

	(void)arg;
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++)
		objs[i] = stock_alloc(stock);
	for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++)
		stock_free(stock, objs[i]);
}

static void intervene(enum pcp_hook_id id)
{
	static bool inside;

	if (id != at || inside)
		return;
	inside = true;
	events++;
	if (event == MIGRATE)
		pin_to(events);
	else if (event == USE_HERE)
		helper_call(&same, use_here, NULL);
	else
		helper_call(&far, drain_there, NULL);
	inside = false;
}

static void alloc_and_free_all(void)
{
	void *objs[3 * CAPACITY];

	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++) {
			objs[i] = stock_alloc(stock);
			sheet_pattern_check(objs[i], STOCK_OBJECT);
			for (unsigned int j = 0; j < i; j++)
				expect(objs[i] != objs[j]);
		}
		book_check(stock, PCP_ARRAY_SIZE(objs));
		for (unsigned int i = 0; i < PCP_ARRAY_SIZE(objs); i++)
			stock_free(stock, objs[i]);
		book_check(stock, 0);
	}
}

START_TEST(test_in_between)
{
	helper_start(&same, 0);
	helper_start(&far, 1);
	for (int id = PCP_HOOK_ALLOC_UNHOOKED_SPARE;
	     id <= PCP_HOOK_FREE_PUT_OLD; id++)
		for (event = 0; event < EVENTS; event++) {
			at = (enum pcp_hook_id)id;
			events = 0;
			pin_to(0);
			pcp_hook_set(intervene);
			alloc_and_free_all();
			pcp_hook_set(NULL);
			expect_cmp(events, >, 0);
		}
	pin_to(0);
	helper_stop(&same);
	helper_stop(&far);
}
END_TEST

/* --- strays and locks ----------------------------------------------------- */

#if PCP_HAVE_RSEQ
static bool unregister(void)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	for (unsigned int size = 20; size <= 256; size++)
		if (!syscall(SYS_rseq, area, size, RSEQ_FLAG_UNREGISTER,
			     RSEQ_SIG))
			return true;
	return false;
}

static void stray(void *arg)
{
	void *objs[3 * CAPACITY], *obj = NULL;

	(void)arg;
	expect(unregister());
	expect_eq(pcp_this_index(), -1);
	expect(!pcp_slot_usable(stock, -1));
	expect(!pcp_slot_pop(stock, &obj));
	expect(!pcp_slot_push(stock, obj));
	for (unsigned int i = 0; i < 3 * CAPACITY; i++)
		objs[i] = stock_alloc(stock);
	for (unsigned int i = 0; i < 3 * CAPACITY; i++)
		stock_free(stock, objs[i]);
}
#endif

/* A thread that rseq does not know works, past the slots. */
START_TEST(test_unregistered)
{
#if PCP_HAVE_RSEQ
	struct helper helper = { 0 };

	if (!pcp_index.rseq)
		return;
	helper_start(&helper, 0);
	helper_call(&helper, stray, NULL);
	helper_stop(&helper);
	for (unsigned int i = 0; i < pcp_index.nr_ids; i++) {
		expect(pcp_slot_peek(stock, (long)i, PCP_MAIN) == PCP_EMPTY);
		expect(!pcp_slot_peek(stock, (long)i, PCP_SPARE));
	}
	expect_eq(count(PCP_STAT_BYPASS), 6 * CAPACITY);
	book_check(stock, 0);
#endif
}
END_TEST

static atomic_bool unlocking;

static void lock_it(void *arg)
{
	struct pcp_slot *slot = arg;

	pcp_slot_lock(slot);
	expect(atomic_load(&unlocking));
	pcp_slot_unlock(slot);
}

/* Lock mode: alloc and free only try the lock. */
START_TEST(test_locked_slot)
{
	struct pcp_slot *slot = &stock->slots[here];
	struct pcp_sheaf *sheaf;
	struct helper helper = { 0 };
	void *objs[4], *obj = NULL;

	if (pcp_index.rseq)
		return;
	for (unsigned int i = 0; i < 4; i++)
		objs[i] = stock_alloc(stock);
	stock_free(stock, objs[3]);
	sheaf = peek(PCP_MAIN);
	pcp_slot_lock(slot);
	expect(!pcp_slot_pop(stock, &obj));
	expect(!pcp_slot_push(stock, objs[2]));
	expect(!pcp_slot_commit(stock, here, PCP_SPARE, NULL, sheaf));
	objs[3] = stock_alloc(stock);
	stock_free(stock, objs[2]);
	expect(peek(PCP_MAIN) == sheaf);
	helper_start(&helper, 1);
	helper.fn = lock_it;
	helper.arg = slot;
	sem_post(&helper.asked);
	for (unsigned int i = 0; i < 100; i++)
		sched_yield();
	atomic_store(&unlocking, true);
	pcp_slot_unlock(slot);
	sem_wait(&helper.done);
	helper_stop(&helper);
	stock_free(stock, objs[0]);
	stock_free(stock, objs[1]);
	stock_free(stock, objs[3]);
	book_check(stock, 0);
	/* A child that was forked while somebody had it. */
	pcp_slot_lock(slot);
	pcp_stock_fork_child(stock);
	expect(pcp_slot_pop(stock, &obj));
	expect(pcp_slot_push(stock, obj));
}
END_TEST

/* --- threads -------------------------------------------------------------- */

static void churn(const struct worker *worker)
{
	enum { HELD = 5 * CAPACITY };
	void *held[HELD] = { NULL };
	struct rng rng;

	rng_seed(&rng, worker->id);
	for (unsigned int i = 0; i < 20000; i++) {
		void **it = &held[rng_below(&rng, HELD)];

		if (*it) {
			owner_leave(*it, worker->id + 1);
			stock_free(stock, *it);
			*it = NULL;
		} else {
			*it = stock_alloc(stock);
			owner_take(*it, worker->id + 1);
		}
	}
	for (unsigned int i = 0; i < HELD; i++)
		if (held[i]) {
			owner_leave(held[i], worker->id + 1);
			stock_free(stock, held[i]);
		}
}

START_TEST(test_threads)
{
	stock_drop(stock);
	sheet = (struct sheet){ .clear = STOCK_OBJECT };
	stock = stock_make(&sheet, CAPACITY);
	run_threads(6, churn, NULL);
	book_check(stock, 0);
}
END_TEST

int main(void)
{
	TCase *tc = suite_case("slot", 60);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_fresh_slot);
	tcase_add_test(tc, test_pop_and_push);
	tcase_add_test(tc, test_many);
	tcase_add_test(tc, test_commit);
	tcase_add_test(tc, test_commit_elsewhere);
	tcase_add_test(tc, test_closed);
	tcase_add_test(tc, test_unhook);
	tcase_add_test(tc, test_install);
	tcase_add_test(tc, test_put_sheaf);
	tcase_add_loop_test(tc, test_put_partials, 1, CAPACITY);
	tcase_add_test(tc, test_put_partials_no_room);
	tcase_add_test(tc, test_put_partials_apart);
	tcase_add_test(tc, test_put_partials_overtaken);
	tcase_add_test(tc, test_put_partials_together);
	tcase_add_test(tc, test_in_between);
	tcase_add_test(tc, test_unregistered);
	tcase_add_test(tc, test_locked_slot);
	tcase_add_test(tc, test_threads);
	return suite_run(tc);
}

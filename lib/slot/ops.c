/* SPDX-License-Identifier: MIT */
/* The operations on the caller's slot. See ops.h. */
#include <config.h>

#include "slot/ops.h"

/* Run a section until it is not restarted, within reason. */
#define RUN_SECTION(stock, section)                                           \
	__extension__({                                                       \
		enum pcp_section result_ = PCP_ABORTED;                       \
		unsigned int aborts_ = 0;                                     \
                                                                              \
		while (aborts_ < PCP_ABORTS_MAX) {                            \
			result_ = (section);                                  \
			if (pcp_likely(result_ != PCP_ABORTED))               \
				break;                                        \
			aborts_++;                                            \
		}                                                             \
		if (pcp_unlikely(aborts_))                                    \
			pcp_stat_add(&(stock)->kind.stat,                     \
				     PCP_STAT_RSEQ_ABORT, aborts_);           \
		result_ == PCP_DONE;                                          \
	})

static bool slot_trylock(struct pcp_slot *slot)
{
	uint32_t unlocked = 0;

	return __atomic_compare_exchange_n(&slot->lock, &unlocked, 1U, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void pcp_slot_unlock(struct pcp_slot *slot)
{
	pcp_store_release(&slot->lock, 0U);
}

void pcp_slot_lock(struct pcp_slot *slot)
{
	for (unsigned int i = 0; !slot_trylock(slot); i++)
		pcp_back_off(i);
}

/* Lock mode: the caller's slot, locked; NULL: somebody has it, go past it. */
static struct pcp_slot *enter(struct pcp_stock *stock)
{
	struct pcp_slot *slot;

	if (stock->bypass)
		return NULL;
	slot = &stock->slots[pcp_this_index()];
	return slot_trylock(slot) ? slot : NULL;
}

static size_t locked_pop(struct pcp_stock *stock, size_t n, void **objs)
{
	struct pcp_slot *slot = enter(stock);
	struct pcp_sheaf *sheaf;
	uint64_t word;
	size_t size, done;

	if (!slot)
		return 0;
	sheaf = slot->local;
	word = pcp_load(&sheaf->word);
	size = word & PCP_SHEAF_SIZE_MASK;
	done = n < size ? n : size;
	for (size_t i = 0; i < done; i++)
		objs[i] = sheaf->objects[size - 1 - i];
	if (done)
		pcp_store(&sheaf->word,
			  word - done + ((uint64_t)done
					 << PCP_SHEAF_ALLOC_SHIFT));
	pcp_slot_unlock(slot);
	return done;
}

static size_t locked_push(struct pcp_stock *stock, size_t n,
			  void *const *objs)
{
	struct pcp_slot *slot = enter(stock);
	struct pcp_sheaf *sheaf;
	uint64_t word;
	size_t size, room, done;

	if (!slot)
		return 0;
	sheaf = slot->local;
	word = pcp_load(&sheaf->word);
	size = word & PCP_SHEAF_SIZE_MASK;
	room = sheaf->capacity - size;
	done = n < room ? n : room;
	for (size_t i = 0; i < done; i++)
		sheaf->objects[size + i] = objs[i];
	/* A child forked here must not see the size without the objects. */
	__atomic_signal_fence(__ATOMIC_RELEASE);
	if (done)
		pcp_store(&sheaf->word, word + done);
	pcp_slot_unlock(slot);
	return done;
}

static bool locked_push_rcu(struct pcp_stock *stock, void *obj)
{
	struct pcp_slot *slot = enter(stock);
	struct pcp_sheaf *sheaf;
	bool done;

	if (!slot)
		return false;
	sheaf = slot->local == PCP_CLOSED ? NULL : slot->rcu;
	done = sheaf && !pcp_sheaf_full(sheaf);
	if (done)
		pcp_sheaf_push(sheaf, obj);
	pcp_slot_unlock(slot);
	return done;
}

bool pcp_slot_push_rcu(struct pcp_stock *stock, void *obj)
{
	if (!pcp_index.rseq)
		return locked_push_rcu(stock, obj);
	return RUN_SECTION(stock,
			   pcp_rseq_push_at(stock->slots,
					    offsetof(struct pcp_slot, rcu), obj,
					    PCP_CLOSED));
}

bool pcp_slot_pop(struct pcp_stock *stock, void **obj)
{
	if (!pcp_index.rseq)
		return locked_pop(stock, 1, obj);
	return RUN_SECTION(stock, pcp_rseq_pop(stock->slots, obj));
}

bool pcp_slot_push(struct pcp_stock *stock, void *obj)
{
	if (!pcp_index.rseq)
		return locked_push(stock, 1, &obj);
	return RUN_SECTION(stock, pcp_rseq_push(stock->slots, obj));
}

size_t pcp_slot_pop_many(struct pcp_stock *stock, size_t n, void **objs)
{
	size_t done = 0;

	if (!pcp_index.rseq)
		return locked_pop(stock, n, objs);
	return RUN_SECTION(stock, pcp_rseq_pop_many(stock->slots, n, objs,
						    &done))
		       ? done
		       : 0;
}

size_t pcp_slot_push_many(struct pcp_stock *stock, size_t n,
			  void *const *objs)
{
	size_t done = 0;

	if (!pcp_index.rseq)
		return locked_push(stock, n, objs);
	return RUN_SECTION(stock, pcp_rseq_push_many(stock->slots, n, objs,
						     &done))
		       ? done
		       : 0;
}

static struct pcp_sheaf **word_of(struct pcp_slot *slot,
				  enum pcp_slot_word word)
{
	switch (word) {
	case PCP_SPARE:
		return &slot->spare;
	case PCP_RCU:
		return &slot->rcu;
	default:
		return pcp_index.rseq ? &slot->main : &slot->local;
	}
}

struct pcp_sheaf *pcp_slot_peek(struct pcp_stock *stock, long index,
				enum pcp_slot_word word)
{
	/* Pairs with the commit that hooked the sheaf: the books read its
	 * fields. */
	return pcp_load_acquire(word_of(&stock->slots[index], word));
}

static bool locked_commit(struct pcp_slot *slot, struct pcp_sheaf **word,
			  struct pcp_sheaf *expect, struct pcp_sheaf *desired)
{
	bool done;

	if (!slot_trylock(slot))
		return false;
	done = slot->local != PCP_CLOSED && *word == expect;
	if (done)
		pcp_store_release(word, desired);
	pcp_slot_unlock(slot);
	return done;
}

bool pcp_slot_commit(struct pcp_stock *stock, long index,
		     enum pcp_slot_word word, struct pcp_sheaf *expect,
		     struct pcp_sheaf *desired)
{
	struct pcp_slot *slot = &stock->slots[index];
	struct pcp_sheaf **place = word_of(slot, word);

	if (!pcp_index.rseq)
		return locked_commit(slot, place, expect, desired);
	return RUN_SECTION(stock,
			   pcp_rseq_commit(stock->slots, index,
					   (size_t)((char *)place -
						    (char *)slot),
					   expect, desired, PCP_CLOSED));
}

/* SPDX-License-Identifier: MIT */
/*
 * Atomics, and the lock-free stack of concurrencykit behind a few functions.
 *
 * Plain words use the compiler's builtins, which the thread sanitizer
 * understands. ck's stack is inline assembly to it, so every hand-over through
 * a stack is annotated here: what was written before a push happens before what
 * is read after the pop or take that returns the node. No other file includes
 * ck.
 */
#ifndef PCP_BASE_ATOMIC_H
#define PCP_BASE_ATOMIC_H

#include <stdbool.h>

#include <ck_pr.h>
#include <ck_stack.h>

#include "base/compiler.h"

#define pcp_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define pcp_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define pcp_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define pcp_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define pcp_xchg(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define pcp_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define pcp_sub(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define pcp_or(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)
#define pcp_and(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELAXED)

/* Acquire and release on success; on failure *expected is what was found, with
 * acquire, for it is a pointer or a list head that will be followed. */
#define pcp_cas(p, expected, desired)                                         \
	__atomic_compare_exchange_n((p), (expected), (desired), false,        \
				    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#if PCP_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define pcp_tsan_acquire(p) __tsan_acquire(p)
#define pcp_tsan_release(p) __tsan_release(p)
/* Around ck: its plain accesses to a node's link race by design (a pop reads
 * the link of a node that another may have taken; its swap then fails). */
static inline void pcp_tsan_blind(void)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void pcp_tsan_see(void)
{
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static inline void pcp_tsan_blind(void)
{
}
static inline void pcp_tsan_see(void)
{
}
#define pcp_tsan_acquire(p) ((void)(p))
#define pcp_tsan_release(p) ((void)(p))
#endif

#if defined(CK_F_STACK_POP_MPMC)
#define PCP_STACK_LOCKFREE 1
#else
/* No double-word compare-and-swap on this machine: a leaf lock serves. */
#define PCP_STACK_LOCKFREE 0
#include <pthread.h>
#endif

/* A node must stay mapped while any thread may pop from its stack. The entry
 * comes first, so that no node is no entry. */
struct pcp_stack_node {
	ck_stack_entry_t entry;
};

_Static_assert(offsetof(struct pcp_stack_node, entry) == 0, "casts below");

/* 16-byte head: pointer and generation are swapped together, which is what
 * keeps a pop safe when the node it saw was popped and pushed meanwhile. */
struct pcp_stack {
	ck_stack_t head PCP_ALIGNED(16);
#if !PCP_STACK_LOCKFREE
	pthread_mutex_t lock; /* guards head; leaf, taken under any other */
#endif
};

static inline void pcp_stack_init(struct pcp_stack *stack)
{
	ck_stack_init(&stack->head);
	/* Any start will do, and counting up from a null pointer upsets the
	 * undefined-behaviour sanitizer. */
	stack->head.generation = (char *)stack;
#if !PCP_STACK_LOCKFREE
	pthread_mutex_init(&stack->lock, NULL);
#endif
}

/* Pairs with the acquire in pcp_stack_pop(). */
static inline void pcp_stack_push(struct pcp_stack *stack,
				  struct pcp_stack_node *node)
{
	pcp_tsan_release(node);
#if PCP_STACK_LOCKFREE
	pcp_tsan_blind();
	ck_stack_push_mpmc(&stack->head, &node->entry);
	pcp_tsan_see();
#else
	pthread_mutex_lock(&stack->lock);
	ck_stack_push_spnc(&stack->head, &node->entry);
	pthread_mutex_unlock(&stack->lock);
#endif
}

/* Pairs with the release in pcp_stack_push(). NULL when empty. */
static inline struct pcp_stack_node *pcp_stack_pop(struct pcp_stack *stack)
{
	ck_stack_entry_t *entry;
	struct pcp_stack_node *node;

#if PCP_STACK_LOCKFREE
	pcp_tsan_blind();
	entry = ck_stack_pop_mpmc(&stack->head);
	pcp_tsan_see();
#else
	pthread_mutex_lock(&stack->lock);
	entry = ck_stack_pop_npsc(&stack->head);
	pthread_mutex_unlock(&stack->lock);
#endif
	if (!entry)
		return NULL;
	node = (struct pcp_stack_node *)(void *)entry;
	pcp_tsan_acquire(node);
	return node;
}

/* Take every node at once. No link of a node that others hold is read, so a node
 * may be unmapped by whoever took it. The caller walks with
 * pcp_stack_next_taken(), which also reads what came with a node. */
static inline struct pcp_stack_node *pcp_stack_take_all(struct pcp_stack *stack)
{
	ck_stack_entry_t *entry;

#if PCP_STACK_LOCKFREE
	entry = ck_stack_batch_pop_upmc(&stack->head);
#else
	pthread_mutex_lock(&stack->lock);
	entry = ck_stack_batch_pop_npsc(&stack->head);
	pthread_mutex_unlock(&stack->lock);
#endif
	if (entry)
		pcp_tsan_acquire(entry);
	return (struct pcp_stack_node *)(void *)entry;
}

/* The node after one that was taken with all others; NULL: it was the last.
 * To be called before the node is used otherwise. */
static inline struct pcp_stack_node *
pcp_stack_next_taken(struct pcp_stack_node *node)
{
	ck_stack_entry_t *entry = node->entry.next;

	if (entry)
		pcp_tsan_acquire(entry);
	return (struct pcp_stack_node *)(void *)entry;
}

/* A racy look: good for "worth trying", never for "empty". */
static inline bool pcp_stack_seems_empty(const struct pcp_stack *stack)
{
	return ck_pr_load_ptr(&stack->head.head) == NULL;
}

/* Look at the nodes of a stack without popping: what others do meanwhile may
 * make the walk skip or repeat nodes, so bound it. */
static inline const struct pcp_stack_node *
pcp_stack_first(const struct pcp_stack *stack)
{
	return (const struct pcp_stack_node *)ck_pr_load_ptr(&stack->head.head);
}

static inline const struct pcp_stack_node *
pcp_stack_next(const struct pcp_stack_node *node)
{
	return (const struct pcp_stack_node *)ck_pr_load_ptr(&node->entry.next);
}

#endif /* PCP_BASE_ATOMIC_H */

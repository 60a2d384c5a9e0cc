/* SPDX-License-Identifier: MIT */
/*
 * The loop all exec variants share: take a constructed mm, work with it, give
 * it back. See pair.h for how take, give and ctx come to cost nothing.
 */
#ifndef BENCH_EXEC_H
#define BENCH_EXEC_H

#include <errno.h>
#include <stddef.h>

#include "../examples/mm_struct.h"
#include "core.h"
#include "touch.h"

/* The touch writes the first and last byte of the object: they have to belong
 * to a use, not to the constructed state. */
_Static_assert(offsetof(struct mm_struct, users) == 0, "first line is touched");
_Static_assert(offsetof(struct mm_struct, mmap_base) + sizeof(char *) ==
		       sizeof(struct mm_struct),
	       "last line is touched");

BENCH_INLINE int bench_exec_loop(const struct bench_thread *t, unsigned int n,
				 const void *ctx,
				 struct mm_struct *(*take)(const void *ctx),
				 void (*give)(const void *ctx,
					      struct mm_struct *mm))
{
	const uint32_t work = t->params->work;
	const size_t size = t->params->size;
	int err = 0;

	for (unsigned int i = 0; i < n && !err; i++) {
		struct mm_struct *mm = take(ctx);

		if (__builtin_expect(!mm, 0))
			return errno ? errno : ENOMEM;
		bench_touch(mm, size);
		if (work) {
			mm_begin(mm, t->own);
			for (uint32_t w = 0; w < work && !err; w++)
				err = mm_exec(mm);
			mm_end(mm);
		}
		give(ctx, mm);
		bench_forget();
	}
	return err;
}

/* The enter() and leave() of all exec variants, see job_exec.c. */
int bench_exec_enter(struct bench_thread *t);
void bench_exec_leave(struct bench_thread *t);

/* open(), close() and cache() of all pcpool variants, see exec_pcpool.c. */
int bench_exec_open(const struct bench_params *params,
		    const struct bench_malloc *peer, void **shared);
int bench_exec_close(void *shared);
struct pcpool_cache *bench_exec_cache(void *shared);

/* What a close() of this job checks: every built object was torn down. */
static inline int bench_exec_balance(struct mm_env *env)
{
	return atomic_load(&env->ctor_ok) == atomic_load(&env->dtor) ? 0
								     : EPROTO;
}

#endif /* BENCH_EXEC_H */

#!/bin/sh
# SPDX-License-Identifier: MIT
# PCPOOL_PERCPU does what its comment says: with clang (and sparse, where it is
# installed) each wrong use of a marked pointer is told, no right use is, marked
# or not, and a misfit of size or kind does not compile anywhere.
. "${top_srcdir:?}/tests/meta/lib.sh"

cat >"$tmp/right.c" <<'END'
#include <pcpool/pcpool.h>
struct counts { uint64_t hits; int32_t level; };
struct user { struct counts PCPOOL_PERCPU *counts; };
uint64_t use(struct user *user);
uint64_t use(struct user *user)
{
	struct counts PCPOOL_PERCPU *counts =
		(struct counts PCPOOL_PERCPU *)pcpool_percpu_alloc(16, 0);
	uint64_t *bare = (uint64_t *)pcpool_percpu_alloc(8, 0);
	uint64_t PCPOOL_PERCPU *hits = &counts->hits;
	const struct counts *copy;
	struct pcpool_counter counter;

	user->counts = counts;
	pcpool_this_cpu_inc(&user->counts->hits);
	pcpool_this_cpu_sub(hits, pcpool_this_cpu_read(bare));
	pcpool_this_cpu_add(&counts->level, pcpool_this_cpu_read(hits));
	pcpool_this_cpu_xchg(hits + 0, 3);
	pcpool_this_cpu_cmpxchg(&counts->level, 3, -4);
	if (pcpool_counter_init_at(&counter, hits, 0))
		return 0;
	copy = (const struct counts *)pcpool_percpu_ptr(counts, 0);
	pcpool_percpu_free(bare);
	return copy->hits + pcpool_percpu_sum_u64(hits);
}
END
# One wrong use each; the last three no compiler takes.
cat >"$tmp/wrong" <<'END'
return *hits;
return hits[2];
counts->level = 3; return 0;
bare = hits; return *bare;
return (uint64_t)counts->level;
END
cat >"$tmp/misfits" <<'END'
pcpool_this_cpu_inc(narrow); return 0;
return pcpool_this_cpu_read(real);
return pcpool_this_cpu_xchg(pointers, 0) != 0;
END

wrong_c()
{
	cat <<END
#include <pcpool/pcpool.h>
struct counts { uint64_t hits; int32_t level; };
uint64_t use(struct counts PCPOOL_PERCPU *counts, uint64_t PCPOOL_PERCPU *hits,
	     uint64_t *bare, uint16_t *narrow, double *real, char **pointers);
uint64_t use(struct counts PCPOOL_PERCPU *counts, uint64_t PCPOOL_PERCPU *hits,
	     uint64_t *bare, uint16_t *narrow, double *real, char **pointers)
{
	(void)counts; (void)hits; (void)bare; (void)narrow; (void)real;
	(void)pointers;
	$1
}
END
}

# compiles LANGUAGE FLAGS… FILE
compiles()
{
	language=$1
	shift
	"$cc" -x "$language" -Wall -Wextra -Werror -fsyntax-only \
		-I "$top/include" "$@" 2>"$tmp/said"
}

tried=0
for pair in gcc:c gcc:c++ clang:c clang:c++; do
	cc=${pair%:*} language=${pair#*:}
	command -v "$cc" >/dev/null || continue
	tried=$((tried + 1))
	compiles "$language" "$tmp/right.c" || {
		cat "$tmp/said"
		bad "$cc takes a right use for wrong ($language)"
	}
	while read -r line; do
		wrong_c "$line" >"$tmp/wrong.c"
		compiles "$language" "$tmp/wrong.c" &&
			bad "$cc compiles as $language: $line"
	done <"$tmp/misfits"
	[ "$cc" = clang ] || continue
	while read -r line; do
		wrong_c "$line" >"$tmp/wrong.c"
		compiles "$language" "$tmp/wrong.c"
		grep -q -e -Wnoderef "$tmp/said" ||
			bad "clang does not tell ($language): $line"
	done <"$tmp/wrong"
done
if command -v sparse >/dev/null; then
	tried=$((tried + 1))
	sparse -Wall -I "$top/include" "$tmp/right.c" >"$tmp/said" 2>&1
	if grep 'noderef\|modifiers' "$tmp/said"; then
		bad "sparse takes a right use for wrong"
	fi
	wrong_c 'bare = hits; return *bare;' >"$tmp/wrong.c"
	sparse -Wall -I "$top/include" "$tmp/wrong.c" >"$tmp/said" 2>&1
	grep -q noderef "$tmp/said" || bad "sparse does not tell"
fi
echo "$tried compilers and checkers"
[ "$tried" -gt 0 ] || exit 77

finish

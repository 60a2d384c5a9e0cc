#!/bin/sh
# SPDX-License-Identifier: MIT
# The layers of this tree look down only, and tools/check-layers sees each kind
# of mistake when it is planted in a small tree of its own.
. "${top_srcdir:?}/tests/meta/lib.sh"

"$top/tools/check-layers" "$top" || bad "the tree itself has mistakes"

# A small tree that is fine.
fresh()
{
	rm -rf "$tmp/t"
	mkdir -p "$tmp/t/lib/base" "$tmp/t/lib/cpu" "$tmp/t/lib/slab" \
		"$tmp/t/include/pcpool" "$tmp/t/tests/api" "$tmp/t/tests/unit" \
		"$tmp/t/examples"
	echo '#include <ck_stack.h>' >"$tmp/t/lib/base/atomic.h"
	echo '#include <hwloc.h>' >"$tmp/t/lib/cpu/index.h"
	printf '%s\n' '#include <config.h>' '#include "slab/slab.h"' \
		'#include "cpu/index.h"' '#include <pcpool/cache.h>' \
		>"$tmp/t/lib/slab/slab.c"
	echo '#include "base/atomic.h"' >"$tmp/t/lib/slab/slab.h"
	echo '#include <stddef.h>' >"$tmp/t/include/pcpool/cache.h"
	echo '#include "slab/slab.h"' >"$tmp/t/tests/unit/slab_test.c"
	echo '#include <pcpool/cache.h>' >"$tmp/t/tests/api/alloc_test.c"
}

fresh
"$top/tools/check-layers" "$tmp/t" >"$tmp/out" 2>&1 ||
	{ cat "$tmp/out"; bad "a correct tree was refused"; }

# FILE LINE-TO-ADD EXPECTED-WORDS
planted()
{
	fresh
	mkdir -p "$(dirname "$tmp/t/$1")"
	printf '%s\n' "$2" >>"$tmp/t/$1"
	if "$top/tools/check-layers" "$tmp/t" >"$tmp/out" 2>&1; then
		bad "not seen: $2 in $1"
	elif ! grep -q "^$1:[0-9]*: .*$3" "$tmp/out"; then
		cat "$tmp/out"
		bad "$2 in $1 was reported otherwise than as '$3'"
	fi
}

planted lib/base/atomic.h '#include "slab/slab.h"' 'must not look up to slab'
planted lib/base/atomic.h '  #  include "cpu/index.h"' 'must not look up to cpu'
planted lib/slab/slab.h '#include "atomic.h"' 'write "folder/file.h"'
planted lib/slab/slab.h '#include "../base/atomic.h"' 'write "folder/file.h"'
planted lib/slab/slab.h '#include "base/gone.h"' 'does not exist'
planted lib/slab/slab.h '#include <base/atomic.h>' 'with quotes'
planted lib/slab/slab.h '#include "pcpool/cache.h"' 'with angles'
planted lib/slab/slab.h '#include <ck_pr.h>' 'in lib/base only'
planted lib/slab/slab.h '#include <hwloc.h>' 'in lib/cpu only'
planted lib/slab/slab.h '#include "slab/slab.c"' 'only headers'
planted lib/slab/life.c '#include "slab/slab.h"' 'must be the first include'
planted lib/other/life.h '#include <stddef.h>' 'is no layer'
planted include/pcpool/cache.h '#include "base/atomic.h"' 'public header'
planted tests/api/alloc_test.c '#include "base/atomic.h"' 'public headers only'
planted tests/unit/slab_test.c '#include <ck_pr.h>' 'in lib/base only'
planted examples/mm.c '#include "slab/slab.h"' 'public headers only'

"$top/tools/check-layers" "$tmp" >/dev/null 2>&1
[ $? -eq 2 ] || bad "a folder without sources must be refused with status 2"

finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# One set of names: what the public headers declare is what libpcpool.map lists,
# what the shared library exports, and what the manual pages name.
. "${top_srcdir:?}/tests/meta/lib.sh"

"$top/tests/tools/public-names" "$top" >"$tmp/declared" || exit 99
[ -s "$tmp/declared" ] || bad "no declared name was found"

# All but comments of the version script.
sed -e 's,/\*.*\*/,,' -e '/\/\*/,/\*\//d' "$top/libpcpool.map" |
	grep -o 'pcpool_[a-z0-9_*]*;' | tr -d ';' | sort >"$tmp/mapped"
if ! diff "$tmp/declared" "$tmp/mapped"; then
	bad "headers (<) and libpcpool.map (>) differ"
fi

lib=$top_builddir/.libs/libpcpool.so
if [ -e "$lib" ]; then
	# Not the version node's own name.
	${NM:-nm} -D --defined-only "$lib" |
		awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
		sort >"$tmp/exported"
	if ! diff "$tmp/declared" "$tmp/exported"; then
		bad "headers (<) and exports (>) differ"
	fi
else
	echo "note: no shared library in this build"
fi

# A static library cannot hide names: all global ones must carry a prefix.
lib=$top_builddir/.libs/libpcpool.a
if [ -e "$lib" ]; then
	${NM:-nm} -g --defined-only "$lib" 2>/dev/null |
		awk 'NF == 3 && $3 !~ /^(__)?pcp(ool)?_/ { print $3 }' |
		grep -Ev '^(__asan|__odr_asan|__tsan|__ubsan|___asan)' >"$tmp/stray"
	if [ -s "$tmp/stray" ]; then
		cat "$tmp/stray"
		bad "names without prefix in libpcpool.a"
	fi
fi

# Manual pages: the list in man/Makefile.inc and the folder agree, and each
# call stands in some page's NAME section.
(cd "$top" && find man -name '*.[1-9]' | sort) >"$tmp/pages"
# shellcheck disable=SC2086 # a list of plain words
printf '%s\n' ${MAN_PAGES:?} | sort >"$tmp/listed"
if ! diff "$tmp/pages" "$tmp/listed"; then
	bad "folder man (<) and man/Makefile.inc (>) differ"
fi
while read -r name; do
	if ! (cd "$top" && cat man/*.3) 2>/dev/null | awk -v name="$name" '
		/^\.S[Hh] / { inside = ($2 ~ /^"?NAME"?$/) }
		inside && index($0, name) {
			gsub(/\\/, "")
			if ($0 ~ "(^|[^a-z0-9_])" name "([^a-z0-9_]|$)") {
				found = 1
			}
		}
		END { exit !found }'
	then
		bad "no manual page has $name under NAME"
	fi
done <"$tmp/declared"

finish

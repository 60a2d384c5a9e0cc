#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header as the only include of a file, for each compiler and
# language standard, without one diagnostic (PKG-02). Compilers that are not
# installed are named and left out.
. "${top_srcdir:?}/tests/meta/lib.sh"

warnings="-Wall -Wextra -Wundef -Wshadow -Werror"
tried=0

# alone COMPILER LANGUAGE FLAGS…
alone()
{
	compiler=$1 language=$2
	shift 2
	for header in ${PUBLIC_HEADERS:?}; do
		header=${header#include/}
		printf '#include <%s>\n' "$header" >"$tmp/alone.c"
		tried=$((tried + 1))
		# shellcheck disable=SC2086 # lists of plain words
		"$compiler" -x "$language" "$@" $warnings -fsyntax-only \
			-I "$top/include" "$tmp/alone.c" 2>"$tmp/said" && continue
		bad "<$header> with $compiler $*"
		# The first few times it is told what is wrong.
		[ "$failures" -gt 3 ] || cat "$tmp/said"
	done
}

for pair in gcc:g++ clang:clang++; do
	cc=${pair%:*} cxx=${pair#*:}
	if command -v "$cc" >/dev/null; then
		alone "$cc" c -std=c99 -pedantic-errors
		alone "$cc" c -std=c11
		alone "$cc" c -std=c11 -pedantic-errors
		alone "$cc" c -std=gnu17
		alone "$cc" c -std=gnu17 -Wconversion -Wstrict-prototypes
	else
		echo "note: $cc is not installed, not tried"
	fi
	if command -v "$cxx" >/dev/null; then
		for std in c++11 c++17 c++20; do
			alone "$cxx" c++ -std=$std
			alone "$cxx" c++ -std=$std -pedantic-errors
		done
		alone "$cxx" c++ -std=c++17 -Wconversion -Wold-style-cast
	else
		echo "note: $cxx is not installed, not tried"
	fi
done

echo "$tried compilations"
[ "$tried" -gt 0 ] || exit 77

# The list is the folder.
(cd "$top" && find include/pcpool -name '*.h' | sort) >"$tmp/folder"
# shellcheck disable=SC2086 # a list of plain words
printf '%s\n' $PUBLIC_HEADERS | sort >"$tmp/listed"
diff "$tmp/folder" "$tmp/listed" ||
	bad "include/pcpool (<) and include/Makefile.inc (>) differ"

finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# The documents: manual pages are well formed; each example in a manual page or
# a Markdown file compiles without a warning and, when it is a program, runs in
# each mode and in checking mode; each file a Markdown page links to exists.
#
# An example is the text between .EX and .EE, or between ```c and ``` at the
# start of a line. Those without an #include are excerpts and are left out; a
# document says so by not fencing them as c.
. "${top_srcdir:?}/tests/meta/lib.sh"

markdown="README.md CONTRIBUTING.md bench/*.md doc/*.md examples/*/*.md"

# --- manual pages, laid out as they will be installed ------------------------

mkdir -p "$tmp/man/man3" "$tmp/man/man7"
cp "$top"/man/*.3 "$tmp/man/man3/"
cp "$top"/man/*.7 "$tmp/man/man7/"
(cd "$top" && sh tools/man-links --install "$tmp/man/man3" man/*.3) ||
	bad "tools/man-links fails"
cd "$tmp/man" || exit 99
for page in man3/*.3 man7/*.7; do
	if command -v mandoc >/dev/null; then
		# Redirections are .so lines on purpose.
		mandoc -T lint -W warning "$page" 2>&1 |
			grep -v 'WARNING: .so is fragile' >"$tmp/lint"
		[ ! -s "$tmp/lint" ] || { cat "$tmp/lint"; bad "$page: mandoc"; }
	fi
	if command -v groff >/dev/null; then
		groff -man -ww -Tutf8 -z "$page" >"$tmp/lint" 2>&1
		[ ! -s "$tmp/lint" ] || { cat "$tmp/lint"; bad "$page: groff"; }
	fi
	# Every page that is referred to is a page here, or the system's.
	grep -o '^\.BR [a-z_]*pcpool[a-z0-9_]* ([37])' "$page" |
		sed 's/^\.BR \([a-z0-9_]*\) (\([37]\))/man\2\/\1.\2/' | sort -u |
		while read -r other; do
			[ -e "$other" ] || echo "$page refers to $other"
		done >"$tmp/refs"
	[ ! -s "$tmp/refs" ] || { cat "$tmp/refs"; bad "$page: references"; }
done
cd "$top" || exit 99

# described PAGE FILE PATTERN: each word that the sed expression finds in the file
# is the tag of a paragraph in the page.
described()
{
	sed -n "$3" "$2" | sort -u | while read -r word; do
		grep -A1 -E '^\.TP' "$1" | grep -qE "^\.(I|B|BR) $word( |\$)" ||
			echo "$1 does not describe $word of $2"
	done >"$tmp/lacking"
	[ ! -s "$tmp/lacking" ] || { cat "$tmp/lacking"; bad "$1"; }
}
described man/pcpool_cache_get_stats.3 include/pcpool/stats.h \
	's/^\tuint64_t \([a-z_]*\);.*/\1/p'
described man/pcpool_cache_create.3 include/pcpool/cache.h \
	's/^\t[a-z_ ]*[ *]\([a-z_]*\);$/\1/p'
described man/pcpool.7 lib/base/options.c 's/^\t{ "\([a-z_]*\)",.*/\1/p'

# --- examples ----------------------------------------------------------------

mkdir -p "$tmp/ex"
for page in man/*.[37]; do
	awk -v out="$tmp/ex/$(basename "$page")" '
		/^\.EX$/ { file = out "-" ++n ".c"; next }
		/^\.EE$/ { close(file); file = ""; next }
		file != "" {
			gsub(/\\-/, "-")
			gsub(/\\\(aq/, "\047")
			gsub(/\\e/, "\\")
			print > file
		}' "$page"
done
# shellcheck disable=SC2086 # a list of patterns
for page in $markdown; do
	[ -e "$page" ] || continue
	awk -v out="$tmp/ex/$(basename "$page")" '
		/^```c$/ { file = out "-" ++n ".c"; next }
		/^```$/ { if (file != "") close(file); file = ""; next }
		file != "" { print > file }' "$page"
	# Links to files of the tree.
	grep -o '](\([^):#]*\)[^):]*)' "$page" | sed 's/^](\([^)#]*\).*)$/\1/' |
		while read -r link; do
			[ -z "$link" ] ||
				[ -e "$(dirname "$page")/$link" ] ||
				echo "$page links to $link"
		done >"$tmp/links"
	[ ! -s "$tmp/links" ] || { cat "$tmp/links"; bad "$page: links"; }
done

lib=$top_builddir/.libs
link=yes
[ -e "$lib/libpcpool.so" ] && [ "${CROSS_COMPILING-no}" != yes ] || link=no
compiled=0
ran=0

# run PROGRAM OPTIONS
run()
{
	ran=$((ran + 1))
	PCPOOL_OPTIONS=$2 LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
		timeout 120 "$1" >"$tmp/out" 2>&1 </dev/null || {
		cat "$tmp/out"
		bad "$(basename "$1") fails with PCPOOL_OPTIONS=$2"
	}
}

for source in "$tmp"/ex/*.c; do
	name=$(basename "$source" .c)
	grep -q '^#include' "$source" || continue
	compiled=$((compiled + 1))
	# shellcheck disable=SC2086 # lists of plain words
	${CC:-cc} -std=gnu11 -O1 -Wall -Wextra -Wshadow -Wconversion -Werror \
		${SAN_FLAGS-} -I "$top/include" -c -o "$tmp/ex/$name.o" \
		"$source" || { bad "$name does not compile"; continue; }
	grep -q '^int main' "$source" || continue
	[ $link = yes ] || continue
	# shellcheck disable=SC2086 # lists of plain words
	${CC:-cc} ${SAN_FLAGS-} -o "$tmp/ex/$name" "$tmp/ex/$name.o" \
		-L "$lib" -lpcpool -lpthread || { bad "$name: link"; continue; }
	for options in mode:auto mode:lock debug:on; do
		run "$tmp/ex/$name" $options
	done
done
# --- the table that is the same on every machine ----------------------------

show=$top_builddir/tools/show-memory
if [ -x "$show" ] && [ "${CROSS_COMPILING-no}" != yes ]; then
	PCPOOL_OPTIONS='' "$show" sizes >"$tmp/sizes" ||
		bad "show-memory sizes: a slab loses too much"
	grep '^|' "$tmp/sizes" | while read -r line; do
		grep -qxF -e "$line" doc/memory.md || echo "$line"
	done >"$tmp/missing"
	if [ -s "$tmp/missing" ]; then
		cat "$tmp/missing"
		bad "doc/memory.md lacks these lines of $show sizes"
	fi
fi

echo "$compiled examples compiled, $ran runs"
[ "$compiled" -ge 10 ] || bad "only $compiled examples were found"

finish

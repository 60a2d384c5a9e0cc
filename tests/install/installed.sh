#!/bin/sh
# SPDX-License-Identifier: MIT
# make install into a staging folder, moved elsewhere; outside programs built
# there with pkg-config alone; make uninstall leaves nothing (PKG-01).
. "${top_srcdir:?}/tests/meta/lib.sh"

if [ -n "${SAN_FLAGS-}" ]; then
	echo "a sanitizer build is not for installing"
	exit 77
fi
[ -e "$top_builddir/.libs/libpcpool.so" ] || { echo "no shared library"; exit 77; }
if [ "${CROSS_COMPILING-no}" = yes ]; then
	echo "the programs could not find the other machine's libraries"
	exit 77
fi

# This runs inside another make.
unset MAKEFLAGS MFLAGS MAKELEVEL
run_make()
{
	(cd "$top_builddir" && ${MAKE:-make} "$@") >"$tmp/make.out" 2>&1 || {
		tail -n 30 "$tmp/make.out"
		bad "make $* fails"
	}
}

run_make install DESTDIR="$tmp/stage"
(cd "$tmp/stage" && find . -type f -o -type l | sort) >"$tmp/installed"
pc=$(find "$tmp/stage" -name pcpool.pc)
[ -n "$pc" ] || { bad "pcpool.pc was not installed"; finish; }

# What must be there, wherever the folders are.
for header in ${PUBLIC_HEADERS:?}; do
	grep -q "/$header\$" "$tmp/installed" || bad "$header was not installed"
done
# shellcheck disable=SC2086 # a list of plain words
for page in ${MAN_PAGES?}; do
	grep -q "/man${page##*.}/${page##*/}\$" "$tmp/installed" ||
		bad "$page was not installed"
done
# man looks a page up by its file name.
for name in $("$top/tests/tools/public-names" "$top"); do
	grep -q "/man3/$name\.3\$" "$tmp/installed" ||
		bad "no page or link $name.3 was installed"
done

# No installed text may know where it was built. (make distcheck has its prefix
# inside the build folder, and of that it may tell.)
set_prefix=$(sed -n 's/^prefix=//p' "$pc")
find "$tmp/stage" -type f ! -name '*.so*' ! -name '*.a' >"$tmp/texts"
while read -r text; do
	if sed "s|$set_prefix||g" "$text" |
		grep -qF -e "$top" -e "$top_builddir" -e "$tmp"; then
		bad "${text#"$tmp/stage"} names the place where it was built"
	fi
done <"$tmp/texts"

# The shared object: its name, no way back from dlopen, no text relocation.
so=$(find "$tmp/stage" -name 'libpcpool.so' | head -n 1)
readelf -d "$so" >"$tmp/dynamic"
grep -q 'SONAME.*\[libpcpool\.so\.[0-9]*\]' "$tmp/dynamic" || bad "no SONAME"
grep -q 'NODELETE' "$tmp/dynamic" || bad "it could be unloaded: no NODELETE"
grep -q 'TEXTREL' "$tmp/dynamic" && bad "it has text relocations"
grep -Eq 'R(UN)?PATH' "$tmp/dynamic" && bad "it has a run path"

# Elsewhere, with a space in the name.
libdir=$(dirname "$(dirname "$pc")")
prefix=${libdir%/lib*}
moved="$tmp/moved here"
mv "$prefix" "$moved"
mkdir -p "$tmp/work"
PKG_CONFIG_PATH='' "$top/tests/install/consumers" "$top" \
	"$moved${libdir#"$prefix"}" "$tmp/work" --define-prefix ||
	bad "consumers of the moved prefix"
mv "$moved" "$prefix"

run_make uninstall DESTDIR="$tmp/stage"
(cd "$tmp/stage" && find . ! -type d) >"$tmp/left"
find "$tmp/stage$set_prefix" -type d -name 'pcpool*' >>"$tmp/left"
if [ -s "$tmp/left" ]; then
	cat "$tmp/left"
	bad "make uninstall leaves these"
fi

finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# pcpool/fast.h compiled as others compile theirs: each compiler, C and C++,
# without optimisation and with all of it, position-independent or not, at link
# time. Two units that have the same inline functions are linked, their
# descriptors verified, and the program runs in each mode.
. "${top_srcdir:?}/tests/meta/lib.sh"

lib=$top_builddir/.libs
[ -e "$lib/libpcpool.so" ] || { echo "no shared library"; exit 77; }
if [ "${CROSS_COMPILING-no}" = yes ]; then
	echo "the compilers here are for another machine than the library"
	exit 77
fi
warnings="-Wall -Wextra -Wundef -Wshadow -Wconversion -Werror"
tried=0

# fast COMPILER LANGUAGE FLAGS…
fast()
{
	compiler=$1 language=$2
	shift 2
	# One set of flags does for compiling and linking.
	case $compiler in
	clang*) set -- "$@" -Wno-unused-command-line-argument ;;
	esac
	tried=$((tried + 1))
	rm -f "$tmp"/*.o "$tmp/prog"
	# shellcheck disable=SC2086 # lists of plain words
	if ! (
		cd "$tmp" &&
			$compiler -x $language "$@" $warnings -I "$top/include" \
				-DUNIT=unit_one -c -o one.o \
				"$top/tests/headers/fast.c" &&
			$compiler -x $language "$@" $warnings -I "$top/include" \
				-DUNIT=unit_two -DLAST -c -o two.o \
				"$top/tests/headers/fast.c" &&
			$compiler "$@" -o prog one.o two.o -L "$lib" -lpcpool
	); then
		bad "$compiler $*: does not build"
		return
	fi
	if [ "${HAVE_RSEQ-no}" = yes ]; then
		"$tmp/check-rseq" "$tmp/prog" >"$tmp/said" ||
			{ cat "$tmp/said"; bad "$compiler $*: descriptors"; }
		# Those that are there are right, but there must be some.
		grep -q ': [1-9][0-9]* descriptors' "$tmp/said" ||
			bad "$compiler $*: nothing is inline"
	fi
	for options in mode:auto mode:lock; do
		PCPOOL_OPTIONS=$options LD_LIBRARY_PATH=$lib \
			"$tmp/prog" >"$tmp/said" 2>&1 ||
			{ cat "$tmp/said"; bad "$compiler $*: fails, $options"; }
	done
}

# As tools/check-rseq does, once for all.
${CC:-cc} -O1 -o "$tmp/check-rseq" "$top/tools/check-rseq.c" || exit 99

# A sanitizer's run time must be that of the compiler which built the library.
[ -z "${SAN_FLAGS-}" ] || { echo "left to the other builds"; exit 77; }
for pair in gcc:g++ clang:clang++; do
	cc=${pair%:*} cxx=${pair#*:}
	if command -v "$cc" >/dev/null; then
		fast "$cc" c -std=c99 -pedantic-errors -O0
		fast "$cc" c -std=c11 -pedantic-errors -O1 -fPIE -pie
		fast "$cc" c -std=gnu17 -O2 -fPIC
		fast "$cc" c -std=c17 -O3 -fno-pie -no-pie
		fast "$cc" c -std=gnu11 -Os -DPCPOOL_FAST_RESIDENT
		fast "$cc" c -std=gnu99 -O2 -g -ffunction-sections \
			-Wl,--gc-sections
	fi
	if command -v "$cxx" >/dev/null; then
		fast "$cxx" c++ -std=c++11 -pedantic-errors -O0
		fast "$cxx" c++ -std=c++14 -O1 -fPIC
		fast "$cxx" c++ -std=c++17 -Wold-style-cast -O2
		fast "$cxx" c++ -std=c++20 -pedantic-errors -O3 -fno-pie -no-pie
		fast "$cxx" c++ -std=gnu++17 -O2 -DPCPOOL_FAST_RESIDENT \
			-ffunction-sections -Wl,--gc-sections
	fi
done
# At link time; clang's needs a plug-in of the linker, which may be missing.
if command -v gcc >/dev/null; then
	fast gcc c -std=gnu17 -O2 -flto
	fast g++ c++ -std=c++17 -O2 -flto
fi
echo "$tried builds"
[ "$tried" -gt 0 ] || exit 77
finish

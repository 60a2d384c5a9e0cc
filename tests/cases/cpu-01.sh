#!/bin/sh
# SPDX-License-Identifier: MIT
# Case CPU-01: CPU numbers larger than what the process is told there are, and a
# number of CPUs that cannot be learned.
. "${top_srcdir:?}/tests/meta/lib.sh"
. "$top/tests/cases/lib.sh"

run "as it is" "$probe"
mode=$(value auto mode)
slots=$(value auto slots)
top_cpu=$(($(value auto possible-by-affinity) - 1))

run "on the last CPU only" taskset -c "$top_cpu" "$probe"
says "on the last CPU only" auto mode "$mode"
says "on the last CPU only" auto slots "$slots"

shim one-cpu
run "told of one CPU" env LD_PRELOAD="$tmp/one-cpu.so" "$probe"
says "told of one CPU" auto mode "$mode"
says "told of one CPU" auto slots "$slots"

shim slow-read
run "interrupted reads" env LD_PRELOAD="$tmp/slow-read.so" "$probe"
says "interrupted reads" auto mode "$mode"
says "interrupted reads" auto slots "$slots"

if [ -z "$own_mounts" ]; then
	echo "skipped: no mounts can be made here, so /sys stays as it is"
	finish
fi

run "no /sys" $own_mounts sh -c \
	'mount -t tmpfs none /sys && exec "$@"' sh "$probe"
# /proc tells an upper bound.
says "no /sys" auto mode "$mode"
[ "$(value auto slots)" -ge "$slots" ] ||
	bad "no /sys: only $(value auto slots) slots"

if [ $sanitized = yes ]; then
	echo "skipped: a sanitizer needs /proc"
else
	run "no /sys and no /proc" $own_mounts sh -c 'mount -t tmpfs none /sys &&
		mount -t tmpfs none /proc && exec "$@"' sh "$probe"
	says "no /sys and no /proc" auto mode lock
	grep -q '^reason: the number of possible CPUs is not known' \
		"$tmp/out.auto" || bad "no /sys and no /proc: wrong reason"
fi

# possible TEXT: the machine with that list of possible CPUs.
possible()
{
	printf '%s' "$1" >"$tmp/possible"
	run "possible CPUs '$1'" $own_mounts sh -c \
		'mount --bind "$0" /sys/devices/system/cpu/possible &&
		exec "$@"' "$tmp/possible" "$probe"
}

if [ "$top_cpu" -lt 9 ]; then
	possible '0,2-3,8'
	says "0,2-3,8" auto mode "$mode"
	# The index 8 is the last; rseq mode has one more, for strays.
	case $mode in
	rseq) says "0,2-3,8" auto slots 10 ;;
	*) says "0,2-3,8" auto slots 9 ;;
	esac
	says "0,2-3,8" lock slots 9
fi
# Garbage is no list: the next source speaks.
for text in '' '0-' 'all' '4294967295' '0-99999999999999999999'; do
	possible "$text"
	says "'$text'" auto mode "$mode"
done
# A list that is too short for the CPUs this process may use is not believed.
if [ "$(nproc)" -gt 1 ]; then
	possible '0'
	says "too short a list" auto mode lock
fi
finish

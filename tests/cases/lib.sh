# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034
# For the scripts here: run the probe in odd surroundings. Sourced after
# tests/meta/lib.sh, by make check.

if [ "${CROSS_COMPILING-no}" = yes ]; then
	echo "the surroundings of an emulated program are not ours to change"
	exit 77
fi

case $top_builddir$PWD in
*' '*)
	echo "a preload's path cannot have a blank"
	exit 77
	;;
esac

# libtool knows the program behind its wrapper script, so that a preload does
# not meet a shell first.
probe=$top_builddir/tests/cases/probe
execute="$top_builddir/libtool --silent --mode=execute"
# A preload comes before the sanitizer's own library, and that is fine.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
export ASAN_OPTIONS
# The environment's own topology must not mix with the tests'.
unset HWLOC_SYNTHETIC HWLOC_XMLFILE HWLOC_FSROOT HWLOC_THISSYSTEM

sanitized=no
[ -z "${SAN_FLAGS-}" ] || sanitized=yes

# shim NAME: compile tests/tools/shim-NAME.c, once.
shim()
{
	[ -e "$tmp/$1.so" ] && return
	# shellcheck disable=SC2086 # compiler and flags are lists
	$CC -std=gnu11 -D_GNU_SOURCE -O1 -shared -fPIC -o "$tmp/$1.so" \
		"$top/tests/tools/shim-$1.c" -ldl || bad "shim-$1.c"
}

# run WHAT COMMAND...: the probe by way of COMMAND, in both modes. The output of
# the last run is in $tmp/out. Fails unless the status is 0 (or 3: no memory,
# with may_refuse=yes) and all modes are what they are without COMMAND.
may_refuse=no
run()
{
	what=$1
	shift
	for run_mode in auto lock; do
		status=0
		# shellcheck disable=SC2086 # a command with arguments
		PCPOOL_OPTIONS=mode:$run_mode timeout 60 $execute "$@" \
			>"$tmp/out.$run_mode" 2>&1 || status=$?
		case $may_refuse:$status in
		*:0) grep -q '^fine$' "$tmp/out.$run_mode" ||
			bad "$what, mode:$run_mode: did not come to its end" ;;
		yes:3) ;;
		*)
			cat "$tmp/out.$run_mode"
			bad "$what, mode:$run_mode: exit status $status"
			;;
		esac
		[ $run_mode = auto ] || says "$what" lock mode lock
	done
}

# value MODE KEY: what the probe of the last run said.
value()
{
	sed -n "s/^mode .*/& /; s/.*$2 \\([^ ]*\\) .*/\\1/p" "$tmp/out.$1" |
		head -n 1
}

# says WHAT MODE KEY VALUE: it must be so.
says()
{
	[ "$(value "$2" "$3")" = "$4" ] ||
		bad "$1, mode:$2: $3 is '$(value "$2" "$3")', not '$4'"
}

# A command that runs its arguments where mounts can be made, or nothing.
for candidate in 'unshare -Urm' 'unshare -m'; do
	# shellcheck disable=SC2086
	if $candidate mount -t tmpfs none /sys 2>/dev/null; then
		own_mounts=$candidate
		break
	fi
done
own_mounts=${own_mounts-}

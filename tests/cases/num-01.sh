#!/bin/sh
# SPDX-License-Identifier: MIT
# Case NUM-01: odd topologies. Whatever is told about nodes, the library starts,
# with one node at worst, and memory that cannot be bound is used unbound.
. "${top_srcdir:?}/tests/meta/lib.sh"
. "$top/tests/cases/lib.sh"

run "as it is" "$probe"
mode=$(value auto mode)
slots=$(value auto slots)

# with WHAT NODES ASSIGNMENT...: probe in that environment; '-': any number.
with()
{
	what=$1
	nodes=$2
	shift 2
	run "$what" env "$@" "$probe"
	for m in auto lock; do
		[ "$nodes" = - ] || says "$what" $m nodes "$nodes"
	done
	# Nodes change nothing about CPUs.
	says "$what" auto mode "$mode"
	says "$what" auto slots "$slots"
}

xml=$top/tests/cases/odd-nodes.xml
with "one CPU, one node" 1 HWLOC_SYNTHETIC='numa:1 pu:1'
with "fewer CPUs than there are" 1 HWLOC_SYNTHETIC='pu:1'
with "four nodes" 4 HWLOC_SYNTHETIC='pack:4 numa:1 pu:1'
with "64 nodes" 64 HWLOC_SYNTHETIC='pack:64 numa:1 pu:4'
with "holes in the numbers" 3 HWLOC_XMLFILE="$xml"
with "holes in the numbers, bound" 3 HWLOC_XMLFILE="$xml" HWLOC_THISSYSTEM=1
head -c 900 "$xml" >"$tmp/malformed.xml"
with "malformed XML" 1 HWLOC_XMLFILE="$tmp/malformed.xml"
with "a missing file" - HWLOC_XMLFILE="$tmp/missing.xml"
with "no description" - HWLOC_SYNTHETIC='numa:'
with "no file system" - HWLOC_FSROOT="$tmp"

# Binding refused, as containers do.
no_exec=$top_builddir/tests/tools/no-rseq-exec
deny="--errno EPERM --syscall mbind --syscall set_mempolicy
	--syscall get_mempolicy"
# shellcheck disable=SC2086
if "$no_exec" $deny true; then
	run "binding refused" env HWLOC_XMLFILE="$xml" HWLOC_THISSYSTEM=1 \
		"$no_exec" $deny "$probe"
	says "binding refused" auto nodes 3
	says "binding refused" auto mode "$mode"
else
	echo "skipped: no system call filters here"
fi

# Less and less address space: it may refuse memory, never crash.
if [ $sanitized = yes ]; then
	echo "skipped: a sanitizer needs its address space"
else
	may_refuse=yes
	for kib in 400000 60000 30000 20000 16000 12000; do
		run "RLIMIT_AS $kib KiB" sh -c 'ulimit -v "$0" && exec "$@"' \
			$kib env HWLOC_XMLFILE="$xml" HWLOC_THISSYSTEM=1 \
			"$probe" 1
	done
	may_refuse=no
fi
finish

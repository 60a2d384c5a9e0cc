# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034
# For the shell tests: a place for files, counting of failures, and the end.
# Sourced with top_srcdir and top_builddir set, as make check does.
set -u

: "${top_srcdir:?is set by make check}"
: "${top_builddir:?is set by make check}"
top=$(CDPATH='' cd -- "$top_srcdir" && pwd)
tmp=$(mktemp -d) || exit 99
trap 'chmod -R u+w "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT
failures=0

bad()
{
	echo "WRONG: $*"
	failures=$((failures + 1))
}

finish()
{
	if [ "$failures" -ne 0 ]; then
		echo "$failures wrong"
		exit 1
	fi
	exit 0
}

#!/bin/sh
# SPDX-License-Identifier: MIT
# What no file of the project may hold: whose it is or on which machine it was
# made, a file without a licence line, stray white space, oversized files.
. "${top_srcdir:?}/tests/meta/lib.sh"
cd "$top" || exit 99

# All text files of the project, by folder, so that build folders stay out, and
# without what a build in the source tree makes.
find include lib examples tests bench tools doc man m4 .ci -type f \
	! -name '*.png' ! -name 'libtool.m4' ! -name 'lt*.m4' \
	! -name '*.o' ! -name '*~' ! -name '*.log' ! -name '*.trs' ! -path '*/__pycache__/*' >"$tmp/files"
for file in configure.ac Makefile.am libpcpool.map pcpool.pc.in quickstart \
	README.md NEWS CONTRIBUTING.md LICENSE; do
	[ ! -e "$file" ] || echo "$file" >>"$tmp/files"
done

# never PATTERN WHAT
never()
{
	# This file names the patterns itself.
	if grep -v '^tests/meta/sources\.sh$' "$tmp/files" |
		tr '\n' '\0' | xargs -0 grep -nIE -e "$1" >"$tmp/hits"; then
		cat "$tmp/hits"
		bad "$2"
	fi
}
never '(^|[^[:alnum:]_.$}])/(work|root|home|Users)/' "a path of one machine"
never '[[:alnum:]._-]+@[[:alnum:]-]+\.(com|org|net|de|io|dev)([^[:alnum:]]|$)' \
	"an e-mail address"
never '(^|[^[:alpha:]])([Aa]uthor|[Ww]ritten by|[Cc]opyright \([Cc]\)) *:? *[A-Z][a-z]+ [A-Z]' \
	"a person's name"

# Licence line near the top of all code.
while read -r file; do
	case $file in
	*.c | *.h | *.S | *.sh | *.inc | *.ac | *.am | *.m4 | *.map | *.pml)
		head -n 3 "$file" | grep -q 'SPDX-License-Identifier: MIT' ||
			bad "$file has no SPDX line" ;;
	esac
	case $file in
	lib/*.[ch])
		lines=$(wc -l <"$file")
		[ "$lines" -le 600 ] || bad "$file has $lines lines, over 600" ;;
	esac
done <"$tmp/files"

if tr '\n' '\0' <"$tmp/files" | xargs -0 grep -nIE '[[:blank:]]+$' >"$tmp/hits"
then
	head -n 20 "$tmp/hits"
	bad "white space at a line's end"
fi

finish

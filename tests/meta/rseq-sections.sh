#!/bin/sh
# SPDX-License-Identifier: MIT
# The descriptors and signatures of the sections in the library as built: a wrong
# one would show only when the kernel aborts a section, as a killed process.
. "${top_srcdir:?}/tests/meta/lib.sh"

if [ "${HAVE_RSEQ-no}" != yes ]; then
	echo "built without sections"
	exit 77
fi
found=0
file=$top_builddir/.libs/libpcpool.so
if [ -e "$file" ]; then
	found=1
	readelf -SW "$file" | grep -q ' __rseq_cs ' ||
		bad "$file has no section __rseq_cs"
	"$top/tools/check-rseq" "$file" || bad "$file: see above"
fi
# The static library's objects, before any linker saw them.
for file in "$top_builddir"/lib/*/*.o "$top_builddir"/lib/*/.libs/*.o; do
	[ -e "$file" ] || continue
	readelf -SW "$file" | grep -q ' __rseq_cs ' || continue
	found=1
	"$top/tools/check-rseq" "$file" || bad "$file: see above"
done
[ "$found" -eq 1 ] || bad "no object with sections was found"
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# Case RSQ-01, its static part: tools/check-rseq accepts the library as built
# and refuses each kind of damage to it. (That the sections stand aborts is
# tests/unit/test_rseq_aborts and tests/stress/stress_owner --pin-one.)
. "${top_srcdir:?}/tests/meta/lib.sh"

if [ "${HAVE_RSEQ-no}" != yes ]; then
	echo "built without sections"
	exit 77
fi
object=
for file in "$top_builddir/.libs/libpcpool.so" \
	"$top_builddir"/tests/unit/test_rseq; do
	if [ -e "$file" ] && readelf -SW "$file" 2>/dev/null |
		grep -q ' __rseq_cs '; then
		object=$file
		break
	fi
done
if [ -z "$object" ]; then
	echo "no linked object here has sections in it"
	exit 77
fi
check=$top/tools/check-rseq

"$check" "$object" >"$tmp/out" 2>&1 || {
	cat "$tmp/out"
	bad "$object is refused"
}

# Where the descriptors are in the file, and the length of all.
offset=$(($(readelf -SW "$object" | sed -n \
	's/.* __rseq_cs  *[A-Z]*  *[0-9a-f]*  *\([0-9a-f]*\) .*/0x\1/p')))
size=$(($(readelf -SW "$object" | sed -n \
	's/.* __rseq_cs  *[A-Z]*  *[0-9a-f]*  *[0-9a-f]*  *\([0-9a-f]*\) .*/0x\1/p')))
[ $offset -gt 0 ] && [ $size -ge 32 ] || bad "__rseq_cs not found by readelf"
last=$((offset + size - 32))

# damaged WHAT AT BYTES: a copy with those bytes there must be refused.
damaged()
{
	cp "$object" "$tmp/copy"
	chmod u+w "$tmp/copy"
	# shellcheck disable=SC2059 # the bytes are a format
	printf "$3" | dd of="$tmp/copy" bs=1 seek="$2" conv=notrunc 2>/dev/null
	if cmp -s "$object" "$tmp/copy"; then
		bad "$1: the copy was not damaged"
	fi
	"$check" "$tmp/copy" >"$tmp/out" 2>&1 && {
		cat "$tmp/out"
		bad "$1 is accepted"
	}
	grep -q '[1-9][0-9]* wrong' "$tmp/out" || {
		cat "$tmp/out"
		bad "$1: not refused for what is wrong"
	}
}
damaged "a version" "$offset" '\001'
damaged "a flag" $((offset + 4)) '\001'
damaged "an empty section" $((last + 16)) '\000\000\000\000\000\000\000\000'
damaged "a section beyond the code" $((last + 16)) '\377\377\377\377\377\377'
damaged "a section around everything" $((offset + 18)) '\377\377'

# The signatures: every place in the file that holds one.
case $(readelf -hW "$object") in
*X86-64*) bytes='\x53\x30\x05\x53' ;;
*AArch64*) bytes='\x00\xbc\x28\xd4' ;;
esac
found=0
for at in $(LC_ALL=C grep -obUaP "$bytes" "$object" | cut -d: -f1); do
	found=$((found + 1))
	damaged "signature $found" "$at" '\125'
	[ $found -lt 3 ] || break
done
[ $found -gt 0 ] || bad "no signature found"

# No descriptor at all is no success either.
cat >"$tmp/empty.c" <<'EOF'
int nothing;
EOF
# shellcheck disable=SC2086 # compiler and flags are lists
$CC -c -o "$tmp/empty.o" "$tmp/empty.c" || bad "cannot compile"
"$check" "$tmp/empty.o" >/dev/null 2>&1 && bad "an empty object is accepted"
"$check" "$tmp/empty.c" >/dev/null 2>&1 && bad "a text is accepted"
"$check" >/dev/null 2>&1 && bad "no object is accepted"
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# Two translation units with all headers, linked with the library and nothing
# else: no duplicate definition, in C and in C++, whichever compiler built the
# library; and every declared function can be linked by its name (PKG-02).
. "${top_srcdir:?}/tests/meta/lib.sh"

lib=$top_builddir/.libs
[ -e "$lib/libpcpool.so" ] || { echo "no shared library"; exit 77; }
if [ "${CROSS_COMPILING-no}" = yes ]; then
	echo "the compilers here are for another machine than the library"
	exit 77
fi
flags="-Wall -Wextra -Wundef -Wshadow -Werror ${SAN_FLAGS-}"

{
	echo '#include <pcpool/pcpool.h>'
	echo '#include <stdio.h>'
	echo 'typedef void (*any)(void);'
	echo 'static const struct { const char *name; any fn; } all[] = {'
	"$top/tests/tools/public-names" "$top" |
		sed 's/.*/	{ "&", (any)& },/'
	echo '};'
	cat <<'EOF'
#ifdef __cplusplus
extern "C" {
#endif
int unit_one(uint64_t *wide, uint32_t *narrow);
int unit_two(uint64_t *wide, uint32_t *narrow);
#ifdef __cplusplus
}
#endif
int main(void)
{
	unsigned int i, wrong = 0;
	uint64_t *wide = (uint64_t *)pcpool_percpu_alloc(8, 8);
	uint32_t *narrow = (uint32_t *)pcpool_percpu_alloc(8, 8);

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].fn == NULL) {
			printf("%s is NULL\n", all[i].name);
			wrong = 1;
		}
	if (wide == NULL || narrow == NULL)
		return 1;
	if (!unit_one(wide, narrow) || !unit_two(wide, narrow))
		wrong = 1;
	if (pcpool_percpu_sum_u64(wide) != 6 ||
	    pcpool_percpu_sum_u32(narrow) != 2)
		wrong = 1;
	pcpool_percpu_free(wide);
	pcpool_percpu_free(narrow);
	return (int)wrong;
}
EOF
} >"$tmp/main.c"

# linked COMPILER LANGUAGE FLAGS…
linked()
{
	compiler=$1 language=$2
	shift 2
	# shellcheck disable=SC2086 # lists of plain words
	if ! (
		cd "$tmp" &&
			$compiler -x $language "$@" $flags -I "$top/include" \
				-DUNIT=unit_one -c -o one.o \
				"$top/tests/headers/unit.c" &&
			$compiler -x $language "$@" $flags -I "$top/include" \
				-DUNIT=unit_two -c -o two.o \
				"$top/tests/headers/unit.c" &&
			$compiler -x $language "$@" $flags -I "$top/include" \
				-c -o main.o main.c &&
			$compiler $flags -o prog main.o one.o two.o \
				-Wl,--no-undefined -Wl,--no-copy-dt-needed-entries \
				-Wl,--as-needed -L "$lib" -lpcpool
	); then
		bad "$compiler $* does not link"
		return
	fi
	LD_LIBRARY_PATH=$lib "$tmp/prog" || bad "$compiler $*: prog fails"
}

tried=0
# A sanitizer's run time must be that of the compiler which built the library.
if [ -n "${SAN_FLAGS-}" ]; then
	set -- "$CC"
else
	set -- gcc clang
fi
for cc; do
	command -v "${cc%% *}" >/dev/null || continue
	linked "$cc" c -std=c99 -pedantic-errors
	linked "$cc" c -std=gnu17
	tried=$((tried + 1))
done
if [ -z "${SAN_FLAGS-}" ]; then
	for cxx in g++ clang++; do
		command -v "$cxx" >/dev/null || continue
		linked "$cxx" c++ -std=c++11
		linked "$cxx" c++ -std=c++20
		tried=$((tried + 1))
	done
fi
echo "$tried compilers"
[ "$tried" -gt 0 ] || exit 77

finish

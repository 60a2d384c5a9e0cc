#!/bin/sh
# SPDX-License-Identifier: MIT
# Case RSQ-02: no rseq in this process, for one reason or another; and the
# library never registers it itself. (The whole suite in such processes is the
# business of .ci/run.)
. "${top_srcdir:?}/tests/meta/lib.sh"
. "$top/tests/cases/lib.sh"

no_exec=$top_builddir/tests/tools/no-rseq-exec
off=GLIBC_TUNABLES=glibc.pthread.rseq=0

# lock_mode WHAT REASON COMMAND...
lock_mode()
{
	what=$1
	reason=$2
	shift 2
	run "$what" "$@" "$probe"
	says "$what" auto mode lock
	says "$what" auto index hint
	if [ "${HAVE_RSEQ-no}" = yes ] && [ $sanitized = no ]; then
		grep -q "^reason: $reason" "$tmp/out.auto" ||
			bad "$what: not for the reason '$reason'"
	fi
	# Asking for it does not make it work, and is answered.
	# shellcheck disable=SC2086 # a command with arguments
	PCPOOL_OPTIONS=mode:rseq $execute "$@" "$probe" >"$tmp/out.rseq" 2>&1 ||
		bad "$what, mode:rseq: failed"
	says "$what" rseq mode lock
	grep -q 'mode:rseq: ' "$tmp/out.rseq" ||
		bad "$what, mode:rseq: no warning"
}

run "as it is" "$probe"
echo "as it is: $(value auto mode) mode"

lock_mode "tunable" "the libc has not registered rseq" env "$off"
if "$no_exec" true; then
	for error in ENOSYS EPERM EINVAL; do
		lock_mode "rseq answers $error" \
			"the libc has not registered rseq" \
			"$no_exec" --errno $error --syscall rseq
	done
	lock_mode "no membarrier" "membarrier cannot fence sections" \
		"$no_exec" --syscall membarrier
else
	echo "skipped: no system call filters here"
fi

# inner WHAT COMMAND...: rsq_02 by way of it; 77 is a skip.
inner()
{
	what=$1
	shift
	status=0
	# shellcheck disable=SC2086 # a command with arguments
	$execute "$@" >"$tmp/out" 2>&1 || status=$?
	cat "$tmp/out"
	case $status in
	0) ;;
	77) echo "skipped: $what" ;;
	*) bad "$what: exit status $status" ;;
	esac
}
inner "no call of ours" "$top_builddir/tests/cases/rsq_02" quiet
inner "no call of ours, lock mode" env PCPOOL_OPTIONS=mode:lock \
	"$top_builddir/tests/cases/rsq_02" quiet
inner "no call of ours, registration off" env "$off" \
	"$top_builddir/tests/cases/rsq_02" quiet
inner "a second registrant" env "$off" \
	"$top_builddir/tests/cases/rsq_02" second
finish

#!/bin/sh
# SPDX-License-Identifier: MIT
# The test driver itself: a failing, hanging or crashing program must never count
# as passed, in whichever mode it fails, and each mode must reach the program.
. "${top_srcdir:?}/tests/meta/lib.sh"
unset PCP_TEST_MODES PCP_TEST_WRAPPER PCP_TEST_TIMEOUT PCPOOL_OPTIONS

# run COMMAND…: leaves the report in $tmp/trs, the log in $tmp/log.
run()
{
	sh "$top/tests/run-modes" --test-name t --log-file "$tmp/log" \
		--trs-file "$tmp/trs" --color-tests no --enable-hard-errors yes \
		--expect-failure no -- "$@" >"$tmp/out" 2>&1 ||
		bad "the driver itself failed for: $*"
}

# expect GLOBAL AUTO LOCK: the three results of the last run.
expect()
{
	for want in ":global-test-result: $1" ":test-result: $2 t (auto)" \
		":test-result: $3 t (lock)"; do
		grep -qxF "$want" "$tmp/trs" || {
			cat "$tmp/trs"
			bad "no '$want'"
		}
	done
}

cat >"$tmp/as-told" <<'EOF'
#!/bin/sh
# exit status for auto, exit status for lock
case $PCPOOL_OPTIONS in
mode:auto*) exit "$1" ;;
mode:lock*) exit "$2" ;;
esac
exit 3
EOF
chmod +x "$tmp/as-told"

run "$tmp/as-told" 0 0; expect PASS PASS PASS
run "$tmp/as-told" 1 0; expect FAIL FAIL PASS
run "$tmp/as-told" 0 1; expect FAIL PASS FAIL
run "$tmp/as-told" 77 0; expect PASS SKIP PASS
run "$tmp/as-told" 77 77; expect SKIP SKIP SKIP
run "$tmp/as-told" 77 1; expect FAIL SKIP FAIL
run "$tmp/as-told" 139 0; expect FAIL FAIL PASS
# shellcheck disable=SC2016 # for the inner shell
run sh -c 'kill -SEGV $$'; expect FAIL FAIL FAIL
run "$tmp/does-not-exist"; expect FAIL FAIL FAIL
grep -q '^:recheck: yes$' "$tmp/trs" || bad "a failure must be run again"

PCP_TEST_TIMEOUT=1; export PCP_TEST_TIMEOUT
run sleep 30; expect FAIL FAIL FAIL
grep -q 'hung' "$tmp/log" || bad "the log does not say that it hung"
unset PCP_TEST_TIMEOUT

PCPOOL_OPTIONS=debug:on; export PCPOOL_OPTIONS
# shellcheck disable=SC2016 # for the inner shell
run sh -c 'echo "told $PCPOOL_OPTIONS"'; expect PASS PASS PASS
grep -qx 'told mode:auto,debug:on' "$tmp/log" || bad "auto lost an option"
grep -qx 'told mode:lock,debug:on' "$tmp/log" || bad "lock lost an option"

finish

#!/usr/bin/env bash
# Runs inside a guest, for test-guest.sh: the tests of a plan file, a line `PACKAGE BINARY TEST`
# each (TEST may be part of a name, or empty for all; behind a `=` it must be there). Ends with `guest-tests: PASSED FAILED SKIPPED`.
source "$(dirname "$0")/lib.sh"

export STRATA_SKIP_LOG=/run/skips
: >$STRATA_SKIP_LOG
passed=0 failed=0
while read -r package binary test; do
    status=0
    [ -x "$binary" ] || { echo "FAILED: $binary $test"; failed=$((failed + 1)); continue; }
    printf '\n-- %s %s\n' "${binary##*/}" "$test"
    run_logged /run/log env -C "$package" timeout -k 10 900 "$binary" --test-threads=1 ${test:+"${test#=}"} || status=$?
    read -r p f < <(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' /run/log | tail -n 1)
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
    # A crash, or a test that is gone, must not look like success.
    if [ "$status" != 0 ] && [ "${f:-0}" = 0 ] || { [[ $test = =* ]] && [ "${p:-0}${f:-0}" = 00 ]; }; then
        echo "FAILED: $binary $test (status $status)"
        failed=$((failed + 1))
    fi
done <"$1"
while read -r line; do
    echo "  skipped: in the guest ($(uname -r)): $line"
    passed=$((passed - 1))
done <$STRATA_SKIP_LOG
echo "guest-tests: $passed $failed $(wc -l <$STRATA_SKIP_LOG)"

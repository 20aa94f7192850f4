#!/usr/bin/env bash
# Runs inside a guest, for test-guest.sh: the tests of a plan file, a line `PACKAGE BINARY TEST`
# each (TEST may be part of a name, or empty for all; behind a `=` it must be there). Ends with `guest-tests: PASSED FAILED SKIPPED`.
source "$(dirname "$0")/lib.sh"

export STRATA_SKIP_LOG=/run/skips
# A disk: files on it can be swapped to, and written back (see guest-init.sh).
! grep -q '^/dev/ram0 /mnt ' /proc/mounts || export STRATA_TEST_DISK=/mnt TMPDIR=/mnt
: >$STRATA_SKIP_LOG
kernel=$(uname -r)
passed=0 failed=0 failures=()
flunk() { failed=$((failed + 1)); failures+=("$1"); }
while read -r package binary test; do
    status=0 name=${binary##*/}
    [ -x "$binary" ] || { flunk "$binary $test: there is no such binary"; continue; }
    printf '\n-- %s %s (%s s)\n' "$name" "$test" "$SECONDS"
    run_logged /run/log env -C "$package" timeout -k 10 "${BINARY_LIMIT_S:-900}" "$binary" --test-threads=1 ${test:+"${test#=}"} || status=$?
    # Nothing is found when the binary died on the way.
    read -r p f < <(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' /run/log | tail -n 1) || p=0 f=0
    passed=$((passed + p)) failed=$((failed + f))
    [ "$f" = 0 ] || while read -r what; do failures+=("${name%-*}: $what"); done < <(failed_tests /run/log)
    # A crash, or a test that is gone, must not look like success.
    if [ "$status" != 0 ] && [ "$f" = 0 ]; then
        flunk "${name%-*} $test: ended with status $status"
    elif [[ $test = =* ]] && [ "$p$f" = 00 ]; then
        flunk "${name%-*}: has no test ${test#=}"
    fi
done <"$1"
while read -r line; do
    echo "  skipped: in the guest ($kernel): $line"
    passed=$((passed - 1))
done <$STRATA_SKIP_LOG
for line in "${failures[@]}"; do echo "  FAILED: in the guest ($kernel): $line"; done
echo "guest-tests: $passed $failed $(wc -l <$STRATA_SKIP_LOG)"

#!/usr/bin/env bash
# `make test`: lints and tests, and as the very last line `N passed, N failed, N skipped`.
#   test.sh           what runs on this machine
#   test.sh --rest    (`make test-rest`) rustdoc, the wheel for Python, and tests in guests with other kernels
# Live tests run three at a time (scripts/live-tests.sh). They mostly wait, so everything that disturbs nobody (lints, other
# tests) runs beside them and is shown when they have ended. Those that can tell nothing where others want the
# processors come last, alone. A test that looks at the machine (of the binary or the host crate) and failed runs
# once more at the end, alone, and both are told: others take processors, memory and the disk meanwhile. A test of the engine,
# the loop, the simulator or the traces has one try. A stage counts as one test. A test that can't run here is skipped with its
# reason (see crates/cli/tests/support/skip.rs). Exit 1 when anything failed or could not be run.
source "$(dirname "$0")/lib.sh"

export CARGO_TERM_COLOR=never RUST_BACKTRACE=${RUST_BACKTRACE:-1}
passed=0 failed=0 skipped=0
failures=() skips=() second=()
work=$target_dir/test
rm -rf "$work"
mkdir -p "$work"
export STRATA_SKIP_LOG=$work/skips
log=$work/log
: >"$STRATA_SKIP_LOG"
# One binary that takes longer than this hangs, and must not hold up the rest.
BINARY_LIMIT_S=${BINARY_LIMIT_S:-600}

heading() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }
pass() { passed=$((passed + 1)); }
flunk() { failed=$((failed + 1)); failures+=("$1"); }
skip() { skipped=$((skipped + 1)); skips+=("$1"); }

# A stage that is one test: it passes if the command does.
stage() {
    local name=$1
    shift
    heading "$name"
    if "$@"; then pass; else flunk "$name: $*"; fi
}

# Adds up the last $4 `test result:` lines of a log: one for a binary, whose tests may show the output
# of others. $2 is how the run ended: libtest says 101 for failed tests, and anything else that is not
# 0 means that it did not get that far.
count_results() {
    local log=$1 status=$2 name=$3 lines=$4 p f
    read -r p f < <(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$log" |
        tail -n "$lines" | awk '{p += $1; f += $2} END {print p + 0, f + 0}')
    passed=$((passed + p))
    failed=$((failed + f))
    [ "$f" = 0 ] || while read -r test; do failures+=("$name: $test"); done < <(failed_tests "$log")
    if [ "$status" != 0 ] && [ "$f" = 0 ]; then
        flunk "$name: ended with status $status (124: took longer than $BINARY_LIMIT_S s)"
    elif [ "$status" = 0 ] && ! grep -q '^test result:' "$log"; then
        flunk "$name: said nothing about its tests"
    fi
}

# Runs test binaries, each from its package's directory as cargo would: lines `SOURCE BINARY` from stdin.
run_binaries() {
    local source binary name package status
    heading "$1"
    while read -r source binary; do
        package=$(package_of "$source")
        name=$(basename "$package")/${source#"$package"/}
        status=0
        printf '\n-- %s\n' "$name"
        run_logged "$log" env -C "$package" CARGO_MANIFEST_DIR="$package" \
            timeout -k 10 "$BINARY_LIMIT_S" "$binary" </dev/null || status=$?
        count_results "$log" "$status" "$name" 1
    done
}

# Runs live tests (`--beside`, `--alone`), and counts them.
live_tests() {
    local verdict name status=0
    heading "live tests $1"
    scripts/live-tests.sh "$@" || status=$?
    [ "$status" -le 1 ] || flunk "the live tests: status $status"
    while read -r verdict _ name; do
        if [ "$verdict" = ok ]; then pass; else flunk "live: $name"; fi
    done <"$target_dir/live/results"
}

# Live tests that failed run once more, one after another.
live_again() {
    local first=("${failures[@]}") failure
    printf '%s\n' "${first[@]}" | sed -n 's/^live: //p' >"$work/live_again"
    [ -s "$work/live_again" ] || return 0
    failures=()
    heading "once more, alone: live tests"
    scripts/live-tests.sh --again "$work/live_again" || true
    for failure in "${first[@]}"; do
        if grep -q "^ok [^ ]* ${failure#live: }$" "$target_dir/live/results"; then
            failed=$((failed - 1)) passed=$((passed + 1))
            second+=("$failure")
        else
            failures+=("$failure")
        fi
    done
}

# Runs the other tests of the binary and the host crate that failed once more, each by itself: all of a binary that did not come
# to its end. Other failures stay.
run_again() {
    local binaries=$1 first=("${failures[@]}") failure source binary test package name status words passes
    failures=()
    for failure in "${first[@]}"; do
        test=${failure#*: } name=${failure%%: *} status=1
        case $test in
        "ended with status "*) words=(--test-threads=1) ;;
        *) words=(--exact "$test") ;;
        esac
        read -r source binary < <(grep -E "/crates/(cli|host)/" "$binaries" | grep -F "/crates/$name ") || source=
        if [ -n "$source" ]; then
            status=0
            package=$(package_of "$source")
            heading "once more, alone: $failure"
            run_logged "$log" env -C "$package" CARGO_MANIFEST_DIR="$package" \
                timeout -k 10 "$BINARY_LIMIT_S" "$binary" "${words[@]}" </dev/null || status=$?
            passes=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$log" | tail -n 1)
            [ "${passes:-0}" != 0 ] || status=1
        fi
        if [ "$status" = 0 ]; then
            failed=$((failed - 1)) passed=$((passed + passes))
            second+=("$failure")
        else
            failures+=("$failure")
        fi
    done
}

doc_tests() {
    local status=0
    heading "doc tests"
    run_logged "$log" cargo test --workspace --doc --no-fail-fast || status=$?
    count_results "$log" "$status" "doc tests" 100
}

# Counts what a script has counted for itself and says in its last line: $2 is how it ended.
count_last_line() {
    local name=$1 status=$2 last reason
    last=$(tail -n 1 "$log")
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        skipped=$((skipped + BASH_REMATCH[3]))
        while read -r reason; do failures+=("$reason"); done < <(sed -n 's/^  FAILED: //p' "$log")
        while read -r reason; do skips+=("$reason"); done < <(sed -n 's/^  skipped: //p' "$log")
        [ "$status" = 0 ] || [ "${BASH_REMATCH[2]}" != 0 ] || flunk "$name: status $status"
    else
        flunk "$name: did not finish (status $status)"
    fi
}

python_tests() {
    local status=0
    heading "python"
    run_logged "$log" scripts/python.sh || status=$?
    count_last_line python "$status"
}

# The runner in the guest counts for itself. A guest with a failure starts once more.
guest_tests() {
    local status=0
    heading "in a guest"
    run_logged "$log" scripts/test-guest.sh --short || status=$?
    if [ "$status" != 0 ]; then
        while read -r line; do second+=("$line"); done < <(sed -n 's/^  FAILED: //p' "$log")
        heading "once more: in a guest"
        status=0
        run_logged "$log" scripts/test-guest.sh --short || status=$?
        [ "$status" = 0 ] || second=()
    fi
    count_last_line "in a guest" "$status"
}

# What runs beside the live tests. Ends by writing what it counted, for `add_counts`.
beside() {
    stage clippy cargo clippy --workspace --all-targets --quiet -- -D warnings
    test_binaries --workspace --lib --bins --tests >"$work/all" || flunk "some tests do not compile"
    is_live -v <"$work/all" >"$work/others" || flunk "cargo built no test but live ones"
    run_binaries "other tests" <"$work/others"
    doc_tests
    {
        printf 'counts %s %s %s\n' "$passed" "$failed" "$skipped"
        printf 'failure %s\n' "${failures[@]}"
        printf 'skip %s\n' "${skips[@]}"
    } >"$work/beside.counts"
}

add_counts() {
    local kind rest p f s
    [ -s "$1" ] || { flunk "what runs beside the live tests did not come to its end"; return; }
    while read -r kind rest; do
        case $kind in
        counts)
            read -r p f s <<<"$rest"
            passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
            ;;
        failure) [ -z "$rest" ] || failures+=("$rest") ;;
        skip) [ -z "$rest" ] || skips+=("$rest") ;;
        esac
    done <"$1"
}

heading setup
if ! scripts/setup.sh test; then
    flunk "setup"
elif [ "${1:-}" = --rest ]; then
    stage rustdoc env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
    python_tests
    guest_tests
else
    stage "cargo fmt" cargo fmt --all --check
    heading "build of the live tests"
    test_binaries -p strata --test live >/dev/null || flunk "some live tests do not compile"
    # A process group of its own, so that all of it ends with us.
    set -m
    (passed=0 failed=0 skipped=0 failures=() skips=() log=$work/beside.log; beside) >"$work/beside.out" 2>&1 &
    beside_pid=$!
    set +m
    trap 'kill -- "-$beside_pid" 2>/dev/null || true' EXIT
    live_tests --beside
    wait "$beside_pid" || true
    trap - EXIT
    cat "$work/beside.out"
    add_counts "$work/beside.counts"
    live_tests --alone
    live_again
    run_again "$work/all"
fi

# What a test skipped from inside was counted by libtest as passed.
while read -r line; do
    passed=$((passed - 1))
    skip "$line"
done <"$STRATA_SKIP_LOG"

heading "the end"
for line in "${skips[@]}"; do echo "  skipped: $line"; done
for line in "${second[@]}"; do echo "  passed when it ran once more, failed at first: $line"; done
for line in "${failures[@]}"; do echo "  FAILED: $line"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

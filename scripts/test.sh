#!/usr/bin/env bash
# `make test`: every stage and every test, and as the very last line `N passed, N failed, N skipped`.
# A stage counts as one test. A test that can't run here is skipped with its reason (see
# crates/cli/tests/support/skip.rs). Exit 1 when anything failed or could not be run.
source "$(dirname "$0")/lib.sh"

export CARGO_TERM_COLOR=never RUST_BACKTRACE=${RUST_BACKTRACE:-1}
passed=0 failed=0 skipped=0
failures=() skips=()
work=$target_dir/test
rm -rf "$work"
mkdir -p "$work"
export STRATA_SKIP_LOG=$work/skips
: >"$STRATA_SKIP_LOG"
# One binary that takes longer than this hangs, and must not hold up the rest.
BINARY_LIMIT_S=${BINARY_LIMIT_S:-420}

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

# Runs one test binary from its package's directory, as cargo would.
run_binary() {
    local source=$1 binary=$2 name package threads=() status=0
    package=$(package_of "$source")
    name=$(basename "$package")/${source#"$package"/}
    # Live tests share the machine: cgroups, swap, memory, time. One after the other.
    ! is_live <<<"$source" || threads=(--test-threads=1)
    printf '\n-- %s\n' "$name"
    run_logged "$work/log" env -C "$package" CARGO_MANIFEST_DIR="$package" \
        timeout -k 10 "$BINARY_LIMIT_S" "$binary" "${threads[@]}" || status=$?
    count_results "$work/log" "$status" "$name" 1
}

run_binaries() {
    heading "cargo test"
    test_binaries >"$work/binaries" || flunk "some tests do not compile"
    [ -s "$work/binaries" ] || flunk "cargo built no test"
    # Those that disturb nobody first, the live ones after them.
    while read -r source binary; do
        run_binary "$source" "$binary"
    done < <(is_live -v <"$work/binaries" || true; is_live <"$work/binaries")
}

doc_tests() {
    local status=0
    heading "doc tests"
    run_logged "$work/log" cargo test --workspace --doc --no-fail-fast || status=$?
    count_results "$work/log" "$status" "doc tests" 100
}

# The runner in the guest counts for itself and says so in its last line.
guest_tests() {
    local status=0 last
    heading "in a guest"
    run_logged "$work/log" scripts/test-guest.sh --short || status=$?
    last=$(tail -n 1 "$work/log")
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        skipped=$((skipped + BASH_REMATCH[3]))
        while read -r reason; do failures+=("$reason"); done < <(sed -n 's/^  FAILED: //p' "$work/log")
        while read -r reason; do skips+=("$reason"); done < <(sed -n 's/^  skipped: //p' "$work/log")
        [ "$status" = 0 ] || [ "${BASH_REMATCH[2]}" != 0 ] || flunk "in a guest: status $status"
    else
        flunk "in a guest: did not finish (status $status)"
    fi
}

heading setup
if scripts/setup.sh test; then
    stage "cargo fmt" cargo fmt --all --check
    stage clippy cargo clippy --workspace --all-targets --quiet -- -D warnings
    stage rustdoc env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
    run_binaries
    doc_tests
    guest_tests
else
    flunk "setup"
fi

# What a test skipped from inside was counted by libtest as passed.
while read -r line; do
    passed=$((passed - 1))
    skip "$line"
done <"$STRATA_SKIP_LOG"

heading "the end"
for line in "${skips[@]}"; do echo "  skipped: $line"; done
for line in "${failures[@]}"; do echo "  FAILED: $line"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

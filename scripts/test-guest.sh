#!/usr/bin/env bash
# `make test-guest`: the live tests under Debian's 6.1 and 6.12 kernels, with MGLRU on and off.
#   test-guest.sh [--short] [FILTER]
# Tests of memory tiers (modules `tiers`, `tiers_luck`) run in a guest of their own, whose memory has two nodes.
# --short: only those named in scripts/guest-short.txt, on one kernel (part of `make test-rest`).
# FILTER: only tests whose name contains it. GUEST_KERNELS and GUEST_MGLRU: less than all of them.
# Last line: `N passed, N failed, N skipped`.
source "$(dirname "$0")/lib.sh"

short=''
[ "${1:-}" != --short ] || { short=yes; shift; }
filter=${1:-}
log=$target_dir/test-guest
mkdir -p "$log"
passed=0 failed=0 skipped=0
# What is quick on the machine takes long on an emulated processor; time limits are stretched by this.
export STRATA_TEST_PATIENCE=${STRATA_TEST_PATIENCE:-20}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}

test_binaries -p strata --test live >"$log/binaries" || { echo "  FAILED: some tests do not compile"; failed=1; }
binaries=$(cat "$log/binaries")
[ -n "$binaries" ] || { echo "  FAILED: no live tests were built"; failed=1; finish; }
# The workloads are compiled here once and not in every guest.
for source in tests/programs/*.c; do scripts/program.sh "$(basename "$source" .c)" >/dev/null; done

# A line `PACKAGE BINARY TEST` for each module of tests to run, which is a process, or for each test that was asked for.
plan() {
    local source binary name test
    if [ -z "$short" ]; then
        while read -r source binary; do
            if [ -z "$filter" ]; then tests_of "$binary" | sed 's/[^:]*$//' | sort -u
            else tests_of "$binary" | { grep -F "$filter" || true; } | sed 's/^/=/'; fi | sed "s,^,$(package_of "$source") $binary ,"
        done <<<"$binaries"
        return
    fi
    while read -r name test; do
        read -r source binary < <(grep "/crates/$name/" <<<"$binaries" || echo "no-source-of no-binary-of-$name")
        echo "$(package_of "$source") $binary =$test"
    done < <(grep -v '^#' scripts/guest-short.txt)
}
plan >"$log/plan.all"
grep -E '=?tiers(_luck)?::' "$log/plan.all" >"$log/plan.2" || true
grep -vE '=?tiers(_luck)?::' "$log/plan.all" >"$log/plan.1" || true

boot() {
    local append=''
    # This kernel moves no page that it has hidden to see who uses it.
    [ "$2-$4" != 6.1-2 ] || append=numa_balancing=disable
    run_logged "$1" scripts/guest.sh --kernel "$2" --mglru "$3" --nodes "$4" --mem 3072 --append "$append" \
        --timeout "${GUEST_LIMIT_S:-3600}" -- scripts/guest-tests.sh "$log/plan.$4"
}

# A kernel patches its own code while it runs, and an emulated processor now and then executes the
# breakpoint of such a patch after it is gone. That panic is the emulator's and says nothing about us.
is_emulators_fault() { grep -aqE '(Oops: )?int3: 0000' "$1"; }

run_guest() {
    local kernel=$1 mglru=$2 nodes=$3 status=0 counts
    local output=$log/$kernel-$mglru-$nodes
    [ -s "$log/plan.$nodes" ] || return 0
    printf '\n== kernel %s, lru_gen/enabled %s, memory nodes %s\n' "$kernel" "$mglru" "$nodes"
    boot "$output" "$kernel" "$mglru" "$nodes" || status=$?
    if [ "$status" = 124 ] && is_emulators_fault "$output"; then
        echo "the emulated processors tripped over a code patch of the kernel: once more"
        status=0
        boot "$output" "$kernel" "$mglru" "$nodes" || status=$?
    fi
    if [ "$status" = 125 ]; then
        echo "  skipped: tests in a guest (kernel $kernel): $(tail -n 1 "$output")"
        skipped=$((skipped + 1))
    elif counts=$(grep -a '^guest-tests: [0-9]* [0-9]* [0-9]*$' "$output"); then
        read -r _ p f s <<<"$counts"
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
        echo "kernel $kernel, lru_gen/enabled $mglru: $p passed, $f failed, $s skipped ($SECONDS s)"
    else
        echo "  FAILED: in the guest ($kernel, lru_gen/enabled $mglru): the tests did not finish (status $status)"
        failed=$((failed + 1))
    fi
}

if [ -n "$short" ]; then
    for nodes in 1 2; do run_guest 6.12 0 $nodes; done
else
    for kernel in ${GUEST_KERNELS:-6.1 6.12}; do for mglru in ${GUEST_MGLRU:-0 7}; do for nodes in 1 2; do run_guest "$kernel" "$mglru" $nodes; done; done; done
fi
finish

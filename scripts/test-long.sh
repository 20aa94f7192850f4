#!/usr/bin/env bash
# `make test-long`: the tests that take too long for every day (ignored by default, named long_*), and those of the wheel.
#   test-long.sh [FILTER]       FILTER python: only the wheel's
# Their output goes to docs/validation/test-long.txt, under its date, machine and command.
source "$(dirname "$0")/lib.sh"
scripts/setup.sh test
command=(cargo test --workspace --no-fail-fast -- --ignored --test-threads=1 --nocapture "${1:-long_}")
mkdir -p docs "$target_dir"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit="$commit with changes"
# What the compiler says, and binaries without such tests, say nothing about them.
noise='^ *(Compiling|Blocking|Downloading|Downloaded|Finished|Running|Doc-tests) |^running 0 tests$|^test result: ok\. 0 passed|^all doctests ran|^$'
{
    echo "$(date -u +%Y-%m-%d), commit $commit, $(uname -sr), $(nproc) cores, $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
    echo "\$ ${command[*]}"
    status=0
    CARGO_TERM_COLOR=never "${command[@]}" 2>&1 | grep -vE "$noise" || status=${PIPESTATUS[0]}
    case ${1:-python} in
    *python*)
        echo "\$ scripts/python.sh --long"
        scripts/python.sh --long 2>&1 | grep -vE "$noise" || status=${PIPESTATUS[0]}
        ;;
    esac
    echo "status $status, $SECONDS s"
} | tee "$target_dir/test-long.txt"
[ -n "${1:-}" ] || cp "$target_dir/test-long.txt" docs/validation/test-long.txt
[[ $(tail -n 1 "$target_dir/test-long.txt") = "status 0, "* ]]

#!/usr/bin/env bash
# `make test-long`: the tests that take too long for every day (ignored by default, named long_*).
#   test-long.sh [FILTER]
# Their output goes to docs/test-long.txt, under its date, machine and command.
source "$(dirname "$0")/lib.sh"
scripts/setup.sh test
command=(cargo test --workspace --no-fail-fast -- --ignored --test-threads=1 --nocapture "${1:-long_}")
mkdir -p docs "$target_dir"
{
    echo "$(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(uname -sr), $(nproc) cores"
    echo "\$ ${command[*]}"
    status=0
    # The compiler's progress says nothing about the tests.
    CARGO_TERM_COLOR=never "${command[@]}" 2>&1 | grep -vE '^ *(Compiling|Blocking|Downloaded|Finished) ' || status=${PIPESTATUS[0]}
    echo "status $status"
} | tee "$target_dir/test-long.txt"
[ -n "${1:-}" ] || cp "$target_dir/test-long.txt" docs/test-long.txt
[ "$(tail -n 1 "$target_dir/test-long.txt")" = "status 0" ]

#!/usr/bin/env bash
# Who is killed for lack of memory although swap is nearly empty? A program fills its memory fast and then uses it by a Zipf law, held at
# 82 and 90 % of its footprint: by the kernel's limit alone and by Strata, in turns. A run that is killed counts in no other figure.
# BENCH_RUNS, default 30, is the number of rounds.
source "$(dirname "$0")/lib.sh"
runs=${BENCH_RUNS:-30}
status=0
# Every killed run is a warning of its own; the table counts them.
"$strata" compare --runs "$runs" --memory 246M,270M --swap zram:512M -- "$programs/zipf" --size 300M --seconds 2 \
    >"$work/table" 2>"$work/errors" || status=$?
# Status 1 is that of killed runs, too; what else goes wrong is to be seen.
grep -v 'the kernel killed the command: out of memory$\|: compare: ' "$work/errors" >&2 && exit 1
[ $status -le 1 ] && cat "$work/table"

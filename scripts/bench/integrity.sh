#!/usr/bin/env bash
# Is every page right? checksum at 40 % of its footprint for 60 s under random reads and writes, each
# page carrying its index, version and checksum. BENCH_SECONDS shortens it.
source "$(dirname "$0")/lib.sh"
seconds=${BENCH_SECONDS:-60}
echo "| actuator | pages | accesses | pages verified | wrong | major faults | seconds |"
echo "|---|---:|---:|---:|---:|---:|---:|"
for actuator in pageout reclaim; do
    "$strata" run --quiet --memory 205M --swap zram:1G --actuator $actuator -- \
        "$programs/checksum" --size 512M --seconds "$seconds" --threads 2 >"$work/checksum" ||
        fail "$actuator: status $? $(cat "$work/checksum")"
    echo "| $actuator | $(field pages "$work/checksum") |" \
        "$(($(field reads "$work/checksum") + $(field writes "$work/checksum"))) |" \
        "$(field verified "$work/checksum") | $(field bad "$work/checksum") |" \
        "$(field major_faults "$work/checksum") | $(field seconds "$work/checksum") |"
    [ "$(field bad "$work/checksum")" = 0 ] || fail "$actuator: wrong pages"
done

#!/usr/bin/env bash
# What does Strata cost while its program idles? CPU, wakeups and memory of Strata and its keeper over
# 60 s, for a program that sleeps on 512 MiB within its budget. BENCH_SECONDS shortens it.
source "$(dirname "$0")/lib.sh"
seconds=${BENCH_SECONDS:-60}
"$strata" run --quiet --memory 1G -- "$programs/idle" --size 512M --seconds $((seconds + 10)) >"$work/idle" &
main=$!
wait_for_program idle $main >/dev/null
sleep 5

# CPU in ticks and context switches, over all threads of those processes.
count() {
    local pid ticks=0 switches=0
    for pid in "$@"; do
        ticks=$((ticks + $(sed 's/.*) //' "/proc/$pid/stat" | awk '{print $12 + $13}')))
        switches=$((switches + $(cat /proc/"$pid"/task/*/status | awk '/ctxt_switches/ {s += $2} END {print s + 0}')))
    done
    echo "$ticks $switches"
}
ours=("$main")
for pid in $(descendants $main); do [ "$(cat "/proc/$pid/comm")" = idle ] || ours+=("$pid"); done
read -r ticks_before switches_before < <(count "${ours[@]}")
sleep "$seconds"
read -r ticks switches < <(count "${ours[@]}")
memory=0
for pid in "${ours[@]}"; do
    memory=$((memory + $(awk '/^Pss:/ {print $2}' "/proc/$pid/smaps_rollup")))
done
echo "| CPU, % of a core | wakeups a second | memory (PSS), MiB | processes |"
echo "|---:|---:|---:|---:|"
echo "| $(percent $((ticks - ticks_before)) $((seconds * $(getconf CLK_TCK)))) |" \
    "$(awk -v n=$((switches - switches_before)) -v s="$seconds" 'BEGIN {printf "%.2f", n / s}') |" \
    "$(awk -v k=$memory 'BEGIN {printf "%.1f", k / 1024}') | ${#ours[@]} |"
wait $main

# What the benchmark scripts share; sourced, not run. A benchmark prints Markdown on stdout.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
strata=$target_dir/release/strata
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in tests/programs/*.c; do scripts/program.sh "$(basename "$program" .c)" >/dev/null; done
programs=$target_dir/test-programs

# A busy loop on each processor, and their end.
spinners=()
spin() {
    local i
    for ((i = 0; i < $(nproc); i++)); do
        (while :; do :; done) &
        spinners+=($!)
    done
}
rest() {
    [ ${#spinners[@]} = 0 ] || kill "${spinners[@]}"
    [ ${#spinners[@]} = 0 ] || wait "${spinners[@]}" 2>/dev/null || true
    spinners=()
}

# The value of a field in the last JSON line of a file: field NAME FILE.
field() { tac "$2" | sed -nE "/\"$1\":/ { s/.*\"$1\":\"?([^,\"}]*).*/\1/p; q }"; }
mib() { awk -v b="$1" 'BEGIN {printf "%.0f", b / 1048576}'; }
percent() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", b ? 100 * a / b : 0}'; }
median() { sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# The first process below PID whose name is NAME, once it is there.
wait_for_program() {
    local name=$1 below=$2 pid
    for _ in $(seq 200); do
        for pid in $(descendants "$below"); do
            [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$name" ] || { echo "$pid"; return; }
        done
        sleep 0.05
    done
    return 1
}
descendants() {
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        echo "$child"
        descendants "$child"
    done
}

# The table of loads that `strata compare` ran, from the JSON in $work/LOAD.json: compared_table LOAD...
compared_table() {
    python3 - "$work" "$@" <<'PYTHON'
import json, sys

print("| load | from the disk, kernel | Strata | ratio | worst | operations/s | worst | operations/CPU s | worst |")
print("|---" * 9 + "|")
for load in sys.argv[2:]:
    with open(f"{sys.argv[1]}/{load}.json") as file:
        report = json.loads(file.readlines()[-1])
    read = {of["arm"]: of["figures"]["disk_read_bytes"]["median"] / 2**20 for of in report["summaries"]}
    cells = [f"{read[arm]:,.0f} MiB" for arm in ("kernel", "strata")]
    ratios = report["ratios"][0]["ratios"]
    for name in ("disk_read_bytes", "throughput_per_s", "operations_per_cpu_s"):
        cells += [f"{ratios[name]['median']:.2f}", f"{ratios[name]['worst']:.2f}"]
    print(f"| {load} | " + " | ".join(cells) + " |")
PYTHON
}

# A tree of real files so many times as large as memory, counted in pages: make_tree TIMES MEMORY_KIB DIRECTORY
make_tree() {
    local wanted_kib at=$3 copy
    mkdir -p "$at"
    if [ -n "${BENCH_TREES:-}" ]; then
        tar -xf "$BENCH_TREES/tree-$1.tar" -C "$at"
        return
    fi
    wanted_kib=$(awk -v all="$2" -v times="$1" 'BEGIN {printf "%d", all * times}')
    for copy in $(seq 40); do
        find /usr/include /usr/share /usr/lib -xdev -type f -size -256k -printf '%s %p\n' 2>/dev/null | LC_ALL=C sort -k 2 |
            awk -v left="$((wanted_kib - $(in_pages_kib "$at")))" \
                'left > 0 {left -= int(($1 + 4095) / 4096) * 4; sub(/^[0-9]+ /, ""); print}' |
            cpio --quiet -pdm "$at/$copy" 2>/dev/null
        [ "$(in_pages_kib "$at")" -lt "$wanted_kib" ] || break
    done
}
in_pages_kib() { find "$1" -type f -printf '%s\n' 2>/dev/null | awk '{kib += int(($1 + 4095) / 4096) * 4} END {print kib + 0}'; }

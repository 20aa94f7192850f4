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

#!/usr/bin/env bash
# `make fuzz`: runs each fuzz target for a while, from small traces that hold what it reads, and writes
# docs/develop/fuzz.md. What was found is kept in target/fuzz/found/, to be made a test; then it fails.
#   fuzz.sh [TARGET...]       all when none is named; FUZZ_SECONDS is the time for each (60)
source "$(dirname "$0")/lib.sh"
seconds=${FUZZ_SECONDS:-60}
# Seconds of wall time for one input, which takes milliseconds: a busy machine is no finding.
timeout=1800
have cargo-fuzz || fail "needs cargo-fuzz and a nightly compiler: cargo install cargo-fuzz; rustup toolchain install nightly"
dir=$target_dir/fuzz
mkdir -p "$dir/found"
[ $# -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
[ $# = 0 ] || targets=("$@")
cargo +nightly fuzz build --target-dir "$dir" >&2

# The first byte of an input says how it is read.
seed() { # TARGET NAME, content on stdin
    mkdir -p "$dir/corpus/$1"
    { printf '\0'; head -c 6000; } >"$dir/corpus/$1/$2"
}
seeds() {
    local at
    for at in {1..200}; do echo "$((at * 37 % 50 + 7))"; done >"$dir/numbers"
    seed txt numbers <"$dir/numbers"
    seed lirs numbers < <(sed 's/^9$/*/' "$dir/numbers")
    seed csv table < <(echo "time,id,op,size"; awk '{print NR "," $1 ",R,4096"}' "$dir/numbers")
    seed lis numbers < <(awk '{print $1, $1 % 9 + 1, 0, NR}' "$dir/numbers")
    seed memsim numbers < <(awk '{printf "%08x %s\n", $1 * 4096, $1 % 2 ? "R" : "W"}' "$dir/numbers")
    seed ucsd numbers < <(awk '{printf "%s 0x%x %d\n", $1 % 2 ? "l" : "s", $1 * 4096, $1}' "$dir/numbers")
    seed lackey numbers < <(awk '{printf " %s %x,8\n", $1 % 2 ? "L" : "S", $1 * 4096}' "$dir/numbers")
    seed fio log < <(echo "fio version 2 iolog"; echo "/a add"; echo "/a open"
        awk '{print "/a", $1 % 2 ? "read" : "write", $1 * 4096, 4096}' "$dir/numbers"; echo "/a close")
    for at in u32le u32be u64le u64be tlb vscsi oracle_general oracle_general_opns recording strata; do
        seed "$at" numbers < <(awk '{printf "%c%c%c%c%c%c%c%c", $1, 0, 0, 0, 0, 0, 0, 0}' "$dir/numbers")
    done
    if [ -x "$target_dir/release/strata" ]; then
        seed strata trace < <("$target_dir/release/strata" trace convert gen:mixed,accesses=300,groups=2 -)
    fi
}
seeds

# The last number behind a word of the log.
last() { sed -nE "s/.*$1 *([0-9]+).*/\1/p" "$dir/log" | tail -n 1; }
failed=0
rows='' nr_inputs=0 found_in=''
for target in "${targets[@]}"; do
    say "$target, $seconds s"
    mkdir -p "$dir/corpus/$target"
    found='nothing'
    cargo +nightly fuzz run --target-dir "$dir" "$target" "$dir/corpus/$target" -- -max_total_time="$seconds" \
        -max_len=65536 -rss_limit_mb=2048 -timeout=$timeout -report_slow_units=$timeout -print_final_stats=1 \
        -artifact_prefix="$dir/found/$target-" >"$dir/log" 2>&1 || { found='**a failure**'; found_in+="${found_in:+, }\`$target\`"; failed=1; tail -n 40 "$dir/log" >&2; }
    nr=$(last 'number_of_executed_units:')
    nr_inputs=$((nr_inputs + ${nr:-0}))
    rows+="| \`$target\` | $nr | $(last 'cov:') | $found |"$'\n'
done
rmdir fuzz/artifacts/* fuzz/artifacts fuzz/corpus/* fuzz/corpus 2>/dev/null || true
[ $# = 0 ] || { printf '%s' "$rows"; exit $failed; }
cat >docs/develop/fuzz.md <<END
# Fuzzing: what reads bytes that others wrote

$(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown); $seconds seconds for each target, one process, address sanitizer and overflow checks on.

    make fuzz FUZZ_SECONDS=$seconds

A target is one input format or one peer: a trace format each (\`guessed\` guesses it, \`recording\` reads blocks of recordings), the kernel's
\`lru_gen\` text and commands, and clients of the control socket and the metrics port (\`remote\`). An input may not panic,
overflow, leak, take more than 2 GiB or half an hour, or read differently once written in Strata's own format.

Found: ${found_in:-nothing}, in ${#targets[@]} targets and $nr_inputs inputs.
END
exit $failed

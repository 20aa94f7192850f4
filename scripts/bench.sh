#!/usr/bin/env bash
# `make bench`: runs benchmarks and writes a page for each to docs/validation/benchmarks/: date, machine, command,
# output. docs/validation/benchmarks.md has a line for each, and the goals beside their figures, by hand.
#   bench.sh [NAME...]        the usual ones when none is named; `all` is every one but `kernels`, `guests` and `cache_guests`
# A benchmark is a script of scripts/bench/ or an example of a crate; it says at its top what it
# measures, and prints Markdown or plain tables.
source "$(dirname "$0")/lib.sh"

benchmarks=(walk_cost census page_cache one_budget wss tick_cost stall budget speed scan_cost integrity kills idle no_pressure oom tiering_cost engine_ops ablation distance sim steered watch policies)
# When none is named: what the product promises beside the kernel's limit alone, in an hour and a half.
usual=(speed scan_cost oom)

describe() { # the first comment of a source, as paragraphs
    awk 'NR == 1 && /^#!/ {next} !/^(\/\/!|#)/ {exit} {sub(/^(\/\/!|#) ?/, "")}
        /^```/ {is_code = !is_code; next} !is_code' "$1"
}

run_one() {
    local name=$1 source command output
    source=$(compgen -G "crates/*/examples/$name.rs" || compgen -G "scripts/bench/$name.sh") ||
        { say "no benchmark called $name"; return 1; }
    say "$name"
    case $source in
    *.sh) command=("$source") ;;
    *) command=(cargo run --release --quiet -p "$(sed -n 's/^name = "\(.*\)"/\1/p' "${source%/examples/*}/Cargo.toml" | head -n 1)" --example "$name") ;;
    esac
    output=$("${command[@]}") || { say "$name failed"; return 1; }
    case $output in *'|---'*) ;; *) output=$(sed 's/^/    /' <<<"$output") ;; esac
    printf '# %s\n\n%s\n\n%s, commit %s; %s.\n\n    make bench NAME=%s\n\n%s\n' "$name" "$(describe "$source")" \
        "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" "$machine" "$name$settings" \
        "$output" >"docs/validation/benchmarks/$name.md"
    cat "docs/validation/benchmarks/$name.md"
}

scripts/setup.sh
cargo build --release --quiet -p strata
mkdir -p docs/validation/benchmarks
machine="$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(
    awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), kernel $(uname -r)"
# What was shortened is part of the command.
settings=$(env | sed -n 's/^BENCH_[A-Z]*=.*/ &/p' | sort | tr -d '\n')
[ $# -gt 0 ] || set -- "${usual[@]}"
[ "$*" != all ] || set -- "${benchmarks[@]}"
failed=0
for name in "$@"; do run_one "$name" || failed=1; done
exit $failed

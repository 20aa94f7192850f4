#!/usr/bin/env bash
# `make bench`: runs the benchmarks and writes docs/benchmarks/NAME.md for each: date, machine,
# command, output.
#   bench.sh [NAME...]        all when none is named
# A benchmark is an example called bench_* of a crate, built in release mode; it says at its top what
# it measures and prints Markdown.
source "$(dirname "$0")/lib.sh"
scripts/setup.sh
mkdir -p docs/benchmarks
cpu=$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1)
machine="$cpu, $(nproc) cores, $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), kernel $(uname -r)"
failed=0
for source in crates/*/examples/bench_*.rs; do
    [ -e "$source" ] || fail "no benchmarks in this checkout"
    example=$(basename "$source" .rs)
    name=${example#bench_}
    [ $# = 0 ] || [[ " $* " = *" $name "* ]] || continue
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${source%/examples/*}/Cargo.toml" | head -n 1)
    say "$name"
    cargo build --release --quiet -p "$package" --example "$example"
    if output=$("$target_dir/release/examples/$example"); then
        printf '# %s\n\n%s, commit %s; %s.\n\n    make bench NAME=%s\n\n%s\n' "$name" "$(date -u +%Y-%m-%d)" \
            "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" "$machine" "$name" "$output" |
            tee "docs/benchmarks/$name.md"
    else
        say "$name failed"
        failed=1
    fi
done
exit $failed

#!/usr/bin/env bash
# `make coverage`: which lines of the engine (crates/lru) its own tests run, by cargo llvm-cov.
#   coverage.sh [CRATE]      strata-lru when none is named
# Installs cargo-llvm-cov and the llvm-tools component into the user's cargo and rustup when they are
# missing. Exit 1 below COVERAGE_MIN percent of lines (90).
source "$(dirname "$0")/lib.sh"
crate=${1:-strata-lru}
scripts/setup.sh
rustup component list --installed 2>/dev/null | grep -q ^llvm-tools ||
    { say "installing llvm-tools through rustup"; rustup component add llvm-tools >/dev/null; } ||
    fail "no llvm-tools: rustup component add llvm-tools"
cargo llvm-cov --version >/dev/null 2>&1 ||
    { say "installing cargo-llvm-cov"; cargo install --quiet --locked cargo-llvm-cov; } ||
    fail "no cargo-llvm-cov: cargo install cargo-llvm-cov"

mkdir -p "$target_dir"
report=$target_dir/coverage.json
# Only the crate's own files count, and not its tests.
cargo llvm-cov --package "$crate" --json --summary-only --ignore-filename-regex '(^|/)tests?(/|\.rs)' \
    --output-path "$report" >&2

python3 - "$report" "$crate" "${COVERAGE_MIN:-90}" <<'EOF'
import json, os, sys
report, crate, least = sys.argv[1], sys.argv[2], float(sys.argv[3])
root = f"crates/{crate.removeprefix('strata-')}/src"
data = json.load(open(report))["data"][0]
total = data["totals"]["lines"]
print(f"Lines of {crate} that its tests run: {total['covered']:,} of {total['count']:,}, {total['percent']:.1f} %.")
share = lambda file: file["summary"]["lines"]["percent"]
least_run = sorted(data["files"], key=share)[:5]
print("Least of: " + ", ".join(f"`{os.path.relpath(file['filename'], root)}` ({share(file):.0f} %)" for file in least_run) + ".")
sys.exit(total["percent"] < least)
EOF

#!/usr/bin/env bash
# `make evaluate`: how close the simulator is to real kernels, and the policies to the best known ones.
# Rewrites the tables of docs/validation/fidelity.md and docs/develop/evaluation.md; the words around them stay.
#   evaluate.sh               all of it
#   evaluate.sh --one TRACE   computes what the tables need of one trace, as CSV below target/evaluate
# Traces are looked for in STRATA_SHARED (../shared beside the checkout); few of them may be part of
# this repository, and without them there is nothing to do. The policies of libCacheSim come
# from PyPI; where that can't be reached their columns are left out, and the page says so.
#
# What was computed once is not computed again as long as the binary is the same. EVALUATE_JOBS traces
# (2) are worked on at a time. Takes about 8 minutes of CPU, and some more for libCacheSim the first time.
source "$(dirname "$0")/lib.sh"

shared=${STRATA_SHARED:-$PWD/../shared}
strata=$target_dir/release/strata
results=$target_dir/evaluate
venv=$target_dir/bench-venv
policies=mglru,mglru:v6.1,two-list,lru,fifo,clock,sieve,s3-fifo,opt
mapped=mglru,mglru:v6.1,two-list
zoo=(ARC LIRS TwoQ WTinyLFU S3FIFO Sieve)
sizes=1%,5%,20%

# Nothing was ever fitted to these: other skews, sizes, scans, loops, phases and mixtures than those of
# any trace, the kernels' sequences with another memory.
held_out=(
    gen:zipf,pages=40000,exponent=0.7,accesses=1500000,seed=1
    gen:zipf,pages=25000,exponent=1.2,accesses=1000000,seed=2
    gen:uniform,pages=9000,accesses=600000,seed=3
    gen:loop,pages=7000,accesses=500000
    gen:hotscan,hot=3000,scan=30000,period=20000,run=5000,exponent=0.8,accesses=1200000,seed=4
    gen:hotscan,hot=800,scan=4000,period=6000,run=2500,exponent=1.1,accesses=700000,seed=5
    gen:phases,pages=6000,phases=7,exponent=0.9,accesses=1400000,seed=6
    gen:phases,pages=20000,phases=3,exponent=0.6,accesses=1500000,seed=7
    gen:mixed,anon=5000,file=22000,exponent=0.85,accesses=1200000,seed=8
    oracle:fdread/zipf,memory=5000
    oracle:fdread/hotscan,memory=7000
    oracle:fdread/phase,memory=6000
)

# The name of a trace in tables and, without what file names can't have, of its files.
label() { case $1 in gen:* | oracle:*) echo "$1" ;; *) basename "$1" | sed 's/\..*//' ;; esac; }
file_name() { label "$1" | tr ':/,=' '-'; }

format_of() {
    # Its keys fit either byte order.
    case $1 in *cache2k-orm-night*) echo "--trace-format u32be" ;; esac
}

# Writes a file only when all of it is there: made FILE COMMAND...
made() {
    local file=$1
    shift
    [ -e "$file" ] || { "$@" >"$file.new" && mv "$file.new" "$file"; }
}

sim() { # VIA TRACE POLICIES
    # shellcheck disable=SC2046
    "$strata" sim "$2" $(format_of "$2") --via "$1" --memory $sizes --policy "$3" --format csv
}

run_zoo() { # TRACE-FILE CSV-WITH-SIZES
    local pages policy
    echo "policy,memory_pages,miss_ratio"
    for pages in $(scripts/evaluate.py sizes "$2"); do
        for policy in "${zoo[@]}"; do
            # Some end in a failed assertion, or not at all, when there is room for a few pages only.
            echo "$policy,$pages,$(timeout 300 "$venv/bin/python" scripts/zoo.py run "$1" "$pages" "$policy" \
                2>/dev/null | cut -f3)"
        done
    done
}

one() {
    local trace=$1 name expanded
    name=$(file_name "$trace")
    say "$name"
    made "$fresh/$name.fd.csv" sim fd "$trace" "$policies"
    made "$fresh/$name.mmap.csv" sim mmap "$trace" $mapped
    if [ -e "$venv/ready" ] && [ ! -e "$results/zoo/$name.csv" ]; then
        expanded=$results/$name.oracleGeneral
        # shellcheck disable=SC2046
        "$strata" trace convert "$trace" $(format_of "$trace") - --to csv |
            "$venv/bin/python" scripts/zoo.py expand "$expanded"
        made "$results/zoo/$name.csv" run_zoo "$expanded" "$fresh/$name.fd.csv"
        rm "$expanded"
    fi
}

if [ "${1:-}" = --one ]; then
    fresh=$results/$(sha256sum "$strata" | cut -c1-16)
    one "$2"
    exit
fi

[ -d "$shared/traces" ] || { say "skipped: no traces in $shared (see STRATA_SHARED)"; exit 0; }
scripts/setup.sh
cargo build --release --quiet -p strata
cargo build --release --quiet -p strata-sim --example fidelity
scripts/zoo.sh || say "libCacheSim can't be had from PyPI: its columns are left out"

fresh=$results/$(sha256sum "$strata" | cut -c1-16)
mkdir -p "$fresh" "$results/zoo"
traces=()
for trace in "$shared"/traces/*; do
    # The one in csv is another's twin, to test readers with.
    case $trace in *README* | *.csv.zst) ;; *) traces+=("$trace") ;; esac
done
printf '%s\0' "${traces[@]}" "${held_out[@]}" | xargs -0 -n 1 -P "${EVALUATE_JOBS:-2}" scripts/evaluate.sh --one

say "the kernels' sequences"
for what in kernels measured; do
    "$target_dir/release/examples/fidelity" $what >"$fresh/$what.md"
done
scripts/evaluate.py splice docs/validation/fidelity.md kernels <"$fresh/kernels.md"
scripts/evaluate.py splice docs/validation/fidelity.md measured <"$fresh/measured.md"
names() { for trace in "$@"; do echo "$(file_name "$trace")=$(label "$trace")"; done; }
mapfile -t shared_names < <(names "${traces[@]}")
mapfile -t held_names < <(names "${held_out[@]}")
for section in relative mapped; do
    scripts/evaluate.py $section "$fresh" "$results/zoo" "${shared_names[@]}" |
        scripts/evaluate.py splice docs/develop/evaluation.md $section
done
scripts/evaluate.py relative "$fresh" "$results/zoo" "${held_names[@]}" |
    scripts/evaluate.py splice docs/develop/evaluation.md held-out-relative
{
    scripts/evaluate.py ratios "$fresh" "$results/zoo" "${shared_names[@]}"
    scripts/evaluate.py ratios "$fresh" "$results/zoo" "${held_names[@]}" | tail -n +2
} >docs/develop/miss_ratios.csv
printf '%s, commit %s, by\n\n    make evaluate\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)" |
    scripts/evaluate.py splice docs/develop/evaluation.md made

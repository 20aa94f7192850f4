#!/usr/bin/env bash
# `make evaluate`: miss ratios of the simulator's policies on real traces, written to
# docs/evaluation.md. The traces lie in STRATA_SHARED/traces (../shared beside the checkout if that is
# not set); they are not part of this repository.
source "$(dirname "$0")/lib.sh"

traces=${STRATA_SHARED:-../shared}/traces
[ -d "$traces" ] || { say "skipped: no traces in $traces (see STRATA_SHARED)"; exit 0; }
policies=strata,mglru,mglru:v6.1,two-list,lru,fifo,clock,sieve,s3-fifo,opt
command="strata sim TRACE --via fd --memory 1%,5%,20% --policy $policies --format csv"

scripts/setup.sh
cargo build --release --quiet -p strata

rows() {
    local trace format
    for trace in "$traces"/*; do
        case $trace in
        *README* | *.csv.zst) continue ;;
        *orm-night*) format=(--trace-format u32be) ;; # its keys fit either byte order
        *) format=() ;;
        esac
        say "$(basename "$trace")"
        "$target_dir/release/strata" sim "$trace" "${format[@]}" --via fd --memory 1%,5%,20% \
            --policy "$policies" --format csv | awk -F, -v policies="$policies" '
            NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
            { pages = $column["memory_pages"]; if (!(pages in seen)) { seen[pages]; order[++n] = pages }
              trace = $column["trace"]; ratio[pages, $column["policy"]] = $column["miss_ratio"] }
            END { sub(/.*\//, "", trace); sub(/\..*/, "", trace); count = split(policies, name, ",")
                for (i = 1; i <= n; i++) { line = "| " trace " | " order[i]
                    for (j = 1; j <= count; j++) line = line " | " ratio[order[i], name[j]]
                    print line " |" } }'
    done
}

{
    printf '# Miss ratios on real traces\n\n'
    printf 'Memory of 1, 5 and 20 %% of the footprint, in pages; cold start, every request counted, accesses through\n'
    printf 'descriptors. The traces and their sources: ARC (Megiddo and Modha, FAST 2003), LIRS, cache2k (CC BY 4.0,\n'
    printf 'headissue GmbH, Jens Wilke), CloudPhysics (by way of libCacheSim), SPEC references. `strata` was fitted\n'
    printf 'while looking at these very traces, so its figures say little about others.\n\n'
    printf '%s, commit %s, by `make evaluate`, which runs\n\n    %s\n\n' \
        "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)" "$command"
    tr , '|' <<<"| trace | pages | $policies |"
    sed 's/[^,]*/---:/g; s/,/|/g; s/.*/|---|---:|&|/' <<<"$policies"
    rows
} >docs/evaluation.md.new
mv docs/evaluation.md.new docs/evaluation.md

#!/usr/bin/env bash
# What does judging refaults by distance come to? Misses of `+distance`, which is tried in small before a
# group is judged by it, over those of the kernel's own test (the window), for four kernels' generations and
# for the two lists, and of `mglru+distance=always` beside: first of files read round and round, which are
# what the series of 2023 is about, then of everything else: the shared traces if they are there, the
# generators, the sequences that kernels replayed, each in 1, 5 and 20 % of its pages. The same figures on
# any machine.
source "$(dirname "$0")/../lib.sh"
strata=$target_dir/release/strata
shared=${STRATA_SHARED:-$PWD/../shared}/traces
# Each column's policy over that of the window.
columns=(mglru+distance mglru+distance=always mglru:v6.1+distance mglru:v7.2+distance mglru:v2022+distance
    two-list+distance)
windows=("${columns[@]%%+*}")
policies=$(printf '%s\n' "${columns[@]}" "${windows[@]}" | sort -u | paste -sd,)
header=$(printf ' `%s` |' "${columns[@]}") line=$(printf '%s---:|' "${columns[@]/*/}")

rounds=gen:loop,pages=12288,accesses=491520
others=(gen:uniform gen:zipf gen:hotscan gen:hotscan,via=mmap gen:phases gen:phases,via=mmap gen:mixed
    gen:mixed,writes=30 oracle:{fdread,mmapread,anon}/{uniform,zipf,hotscan,phase} oracle:mixed/mixed)
for file in "$shared"/*.{zst,xz,gz}; do
    # The lirs loop is of the first kind; the csv is the same trace as its oracleGeneral.
    case $file in *'*'* | *lirs-loop* | *.csv.*) ;; *) others+=("$file") ;; esac
done
have_shared() { compgen -G "$shared/*.zst" >/dev/null; }

sim() { "$strata" sim "$1" --policy $policies --memory "$2" --format csv |
    sed -E 's/^("[^"]*"|[^,]*)/trace/' | awk -F, 'NR > 1 {print $2, $3, $4, $7}'; } # policy pages accesses misses
# Ratios of a trace at sizes, a line a size: pages, share of misses under the window, three ratios.
ratios() {
    sim "$@" | awk '{misses[$1, $2] = $4; accesses = $3; if (!($2 in seen)) {seen[$2]; order[++n] = $2}}
        END {for (i = 1; i <= n; i++) {p = order[i]
            printf "%d %.3f", p, misses["mglru", p] / accesses
            nr = split(columns, column, " ")
            for (k = 1; k <= nr; k++) {window = column[k]; sub(/[+].*/, "", window)
                printf " %.3f", misses[column[k], p] / misses[window, p]}
            print ""}}' columns="${columns[*]}"
}

echo "Files read round and round; what is missed at best is what does not fit."
echo
echo "| the file over memory | at best | window misses |$header"
echo "|---:|---:|---:|$line"
for over in 12:10240 15:8192 20:6144 30:4096; do
    read -r pages window ratios < <(ratios $rounds ${over#*:})
    awk -v over="${over%:*}" -v pages="$pages" -v window="$window" -v ratios="$ratios" 'BEGIN {
        gsub(/ /, " | ", ratios)
        printf "| %.1f | %.3f | %s | %s |\n", over / 10, (12288 - pages) / 12288, window, ratios}'
done
echo
have_shared || echo "The shared traces are not there ($shared)."
echo "Everything else."
echo
echo "| trace | pages | window misses |$header"
echo "|---|---:|---:|$line"
for trace in "${others[@]}"; do
    label=$(basename "$trace" | sed 's/\.[a-zA-Z].*//')
    case $trace in gen:* | oracle:*) label=$trace ;; esac
    ratios "$trace" 1%,5%,20% | awk -v label="$label" '{print label, $0}'
done | awk '
    function row(name, values) {printf "| %s | | |%s\n", name, values}
    {
        printf "| %s | %d | %s |", $1, $2, $3
        for (k = 4; k <= NF; k++) {printf " %s |", $k; sum[k] += log($k); over[k] += $k > 1.02
            if ($k > worst[k]) {worst[k] = $k; at[k] = $1 " in " $2 " pages"}}
        n++; nr = NF
        print ""
    }
    END {
        for (k = 4; k <= nr; k++) {mean = mean sprintf(" %.3f |", exp(sum[k] / n)); beyond = beyond " " over[k] " |"
            farthest = farthest sprintf(" %.3f (%s) |", worst[k], at[k])}
        row("geometric mean of " n, mean); row("beyond 1.02", beyond); row("farthest", farthest)}'

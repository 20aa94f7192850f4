#!/usr/bin/env bash
# What is judging refaults by distance worth? Misses of `+distance`, which is tried in small before it judges a group, over those of the kernel's own
# test (the window), for four kernels' generations and for the two lists; beside them `+distance=always` and `+distance=series`.
#
# - Files read round and round, which the series of 2023 is about.
# - Everything else: the shared traces if they are there, the generators, the sequences that kernels replayed, each in 1, 5 and 20 % of its pages,
#   and with little stress in 50, 80 and 95 %.
# - One trace that turns from one pattern to the next, a stretch at a time.
#
# The same figures on any machine.
source "$(dirname "$0")/../lib.sh"
strata=$target_dir/release/strata
shared=${STRATA_SHARED:-$PWD/../shared}/traces
# Each column's policy over that of the window.
columns=(mglru+distance mglru+distance=always mglru+distance=series mglru:v6.1+distance mglru:v7.2+distance mglru:v2022+distance
    two-list+distance two-list+distance=always two-list+distance=series)
windows=("${columns[@]%%+*}")
policies=$(printf '%s\n' "${columns[@]}" "${windows[@]}" | sort -u | paste -sd,)
header=$(printf ' `%s` |' "${columns[@]}") line=$(printf '%s---:|' "${columns[@]/*/}")

rounds=gen:loop,pages=12288,accesses=491520
# In memory for 5/6 of the pages that are read again. The other end is a hot set that a scan goes through.
turning=(gen:loop-zipf-loop-scan,accesses=20000000 gen:loop-zipf-loop-hotscan,accesses=20000000)
turning_pages=13653 stretch=5000000
others=(gen:uniform gen:zipf gen:hotscan gen:hotscan,via=mmap gen:phases gen:phases,via=mmap gen:mixed
    gen:mixed,writes=30 oracle:{fdread,mmapread,anon}/{uniform,zipf,hotscan,phase} oracle:mixed/mixed)
for file in "$shared"/*.{zst,xz,gz}; do
    # The lirs loop is of the first kind; the csv is the same trace as its oracleGeneral.
    case $file in *'*'* | *lirs-loop* | *.csv.*) ;; *) others+=("$file") ;; esac
done
have_shared() { compgen -G "$shared/*.zst" >/dev/null; }

sim() { "$strata" sim "$1" --policy $policies --memory "$2" --format csv |
    sed -E 's/^("[^"]*"|[^,]*)/trace/' | awk -F, 'NR > 1 {print $2, $3, $4, $7}'; } # policy pages accesses misses
# Ratios of a trace at sizes, a line a size: pages, share of misses under both windows, the ratios.
ratios() {
    sim "$@" | awk '{misses[$1, $2] = $4; accesses = $3; if (!($2 in seen)) {seen[$2]; order[++n] = $2}}
        END {for (i = 1; i <= n; i++) {p = order[i]
            printf "%d %.3f %.3f", p, misses["mglru", p] / accesses, misses["two-list", p] / accesses
            nr = split(columns, column, " ")
            for (k = 1; k <= nr; k++) {window = column[k]; sub(/[+].*/, "", window)
                printf " %.3f", misses[column[k], p] / misses[window, p]}
            print ""}}' columns="${columns[*]}"
}
# Lines of `label pages ratios`, as a table and what is the worst of it.
table() {
    echo "| trace | pages | window misses | of the two lists |$header"
    echo "|---|---:|---:|---:|$line"
    awk -v most="$1" '
        function row(name, values) {printf "| %s | | | |%s\n", name, values}
        {
            printf "| %s | %d | %s | %s |", $1, $2, $3, $4
            for (k = 5; k <= NF; k++) {printf " %s |", $k; sum[k] += log($k); over[k] += $k > most + 0.0005
                if ($k > worst[k]) {worst[k] = $k; at[k] = $1 " in " $2 " pages"}}
            n++; nr = NF
            print ""
        }
        END {
            for (k = 5; k <= nr; k++) {mean = mean sprintf(" %.3f |", exp(sum[k] / n)); beyond = beyond " " over[k] " |"
                farthest = farthest sprintf(" %.3f (%s) |", worst[k], at[k])}
            row("geometric mean of " n, mean); row("beyond " most, beyond); row("farthest", farthest)}'
}
# Misses of each stretch of the turning trace, a line a policy: whole, and after its first tenth.
stretches() {
    "$strata" sim "$1" --policy $policies --memory $turning_pages --format json | awk -v stretch=$stretch '
        {gsub(/[",]/, "")}
        $1 == "policy:" {policy = $2; before = 0}
        $1 == "at_access:" {at = $2; is_sample = 1; next}
        $1 == "misses:" && is_sample {is_sample = 0
            if (at % stretch == stretch / 10) tenth = $2
            if (at % stretch == 0) {print policy, at / stretch, $2 - before, $2 - tenth; before = $2}}'
}

echo "Files read round and round; what is missed at best is what does not fit."
echo
echo "| the file over memory | at best | window misses | of the two lists |$header"
echo "|---:|---:|---:|---:|$line"
for over in 12:10240 15:8192 20:6144 30:4096; do
    read -r pages window two_lists ratios < <(ratios $rounds ${over#*:})
    awk -v over="${over%:*}" -v pages="$pages" -v window="$window | $two_lists" -v ratios="$ratios" 'BEGIN {
        gsub(/ /, " | ", ratios)
        printf "| %.1f | %.3f | %s | %s |\n", over / 10, (12288 - pages) / 12288, window, ratios}'
done
echo
have_shared || echo "The shared traces are not there ($shared)."
cells=$(for trace in "${others[@]}"; do
    label=$(basename "$trace" | sed 's/\.[a-zA-Z].*//')
    case $trace in gen:* | oracle:*) label=$trace ;; esac
    ratios "$trace" 1%,5%,20%,50%,80%,95% | awk -v label="$label" '{print (NR <= 3 ? "much" : "little"), label, $0}'
done)
echo "Everything else."
echo
sed -n 's/^much //p' <<<"$cells" | table 1.02
echo
echo "The same in 50, 80 and 95 % of its pages, where there is less to miss."
echo
sed -n 's/^little //p' <<<"$cells" | table 1.01
echo
echo "A trace that turns, $stretch accesses a stretch, in $turning_pages pages: \`${turning[0]}\`, and with another end" \
    "\`${turning[1]}\`. Each stretch, and each after its first tenth."
echo
echo "| stretch | window misses | of the two lists |$header"
echo "|---|---:|---:|$line"
{
    stretches "${turning[0]}"
    stretches "${turning[1]}" | awk '$2 == 4 {$2 = 5; print}'
} | awk -v columns="${columns[*]}" -v stretch=$stretch '
    {whole[$1, $2] = $3; later[$1, $2] = $4}
    function share(misses, length_) {return sprintf(" %.3f |", misses / length_)}
    function row(name, part, n, length_,   k, window, text) {
        text = "| " name " |" share(part["mglru", n], length_) share(part["two-list", n], length_)
        for (k = 1; k <= nr; k++) {window = column[k]; sub(/[+].*/, "", window)
            text = text sprintf(" %.3f |", part[column[k], n] / part[window, n])}
        print text
    }
    END {
        nr = split(columns, column, " ")
        split("loop zipf loop,_again scan or_hotscan", name, " ")
        for (n = 1; n <= 5; n++) {gsub(/_/, " ", name[n])
            row(name[n], whole, n, stretch); row(name[n] ", after its first tenth", later, n, stretch * 9 / 10)}}'

#!/usr/bin/env bash
# What is each rule of the multi-generational LRU worth? Miss ratios of generated traces in a quarter of the pages they touch.
#
# - Every kernel model; then `v6.14` with one rule as in `v6.1` (in `v7.2` where those two are alike), with other numbers of generations and
#   tiers, and with refaults judged by distance.
# - A rule that changes nothing on a trace has nothing to decide there: accesses through descriptors show no promotion, clean pages no
#   handling of dirty ones. With fewer tiers fewer accesses are a full count, which is spared whatever its tier.
# - Then the tiers alone, on the reads through descriptors that kernels replayed: pages read back with one, two, four and five tiers, by each
#   kernel as it is, and with the sparing of full counts (from 6.7 on) as in `v2022`.
#
# The same figures on any machine.
source "$(dirname "$0")/../lib.sh"
traces=(gen:zipf gen:phases gen:hotscan,via=mmap gen:mixed gen:mixed,writes=30)
policies=mglru:v2021,mglru:v2022,mglru:v6.1,mglru:v6.14,mglru:v7.2
for rule in placement counting promotion ageing coupling selection gains protection survivors \
    refault aborting walk; do
    policies+=,mglru:v6.14+$rule=v6.1
done
for rule in dirty scanning; do policies+=,mglru:v6.14+$rule=v7.2; done
for number in 5 8 16; do policies+=,mglru:v6.14+nr_gens=$number; done
for number in 1 2 3 5; do policies+=,mglru:v6.14+nr_tiers=$number; done
policies+=,mglru:v6.14+distance
echo "| policy | $(sed 's/ / | /g' <<<"${traces[*]}") |"
echo "|---|$(printf -- '---:|%.0s' "${traces[@]}")"
"$target_dir/release/strata" sim "${traces[@]}" --policy $policies --memory 25% --format csv |
    sed 's/^"[^"]*"/trace/' | awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        { policy = $column["policy"]; if (!(policy in row)) order[++n] = policy
          row[policy] = row[policy] " | " $column["miss_ratio"] }
        END { for (i = 1; i <= n; i++) print "| `" order[i] "`" row[order[i]] " |" }'

echo
echo "| kernel | rules | trace | 1 tier | 2 tiers | 4 tiers | 5 tiers | 4 read back the least of 1, 2 and 4 |"
echo "|---|---|---|---:|---:|---:|---:|---|"
tiers=''
for kernel in v2021 v2022 v6.1 v6.14 v7.2; do
    for rule in '' +protection=v2022; do
        case $kernel$rule in v202*+*) continue ;; esac
        for number in 1 2 4 5; do tiers+=,mglru:$kernel$rule+nr_tiers=$number; done
    done
done
"$target_dir/release/strata" sim oracle:fdread/{zipf,phase} --policy "${tiers#,}" --memory 16160 --format csv |
    awk -F, 'NR > 1 {
        trace = $1; policy = $2; back[++n] = $9
        if (n < 4) next
        n = 0; sub(/\+nr_tiers=.*/, "", policy)
        split(policy, part, "+"); sub(/mglru:/, "", part[1])
        least = back[3] < back[1] && back[3] < back[2] ? "yes" : "no"
        printf "| `%s` | %s | %s | %d | %d | %d | %d | %s |\n", part[1], part[2] == "" ? "its own" : "`" part[2] "`",
            trace, back[1], back[2], back[3], back[4], least}'

#!/usr/bin/env bash
# What does each rule of the multi-generational LRU come to? Miss ratios of generated traces, whose
# seeds are fixed, in a quarter of the pages they touch: every kernel model, then `v6.14` with one
# rule as in `v6.1` (in `v7.2` where those two are alike), with other numbers of generations and tiers,
# and with refaults judged by distance.
# A rule that changes nothing on a trace has nothing to decide there: accesses through descriptors
# show no promotion, clean pages no handling of dirty ones. With fewer tiers fewer accesses are a full
# count, which is spared whatever its tier. The same figures on any machine.
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

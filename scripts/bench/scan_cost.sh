#!/usr/bin/env bash
# What does it cost to free a page? zipf over 300 MiB of single pages within 180 MiB.
#
# - `scanned per freed`: pages that the kernel scanned (/proc/vmstat of the machine) and Strata tried, for each page freed.
# - `walk entries per freed`: page-table entries that Strata's walks read.
# - `us per freed page`: time of all processors, split by samples (`perf record -e cpu-clock -a`). A sample belongs to reclaim if its call
#   chain passes through it, and to the innermost named part: `rmap` finds and unmaps page-table entries, `TLB` has other processors
#   forget them, `compression` is zram's, `swap` slots and I/O, `lists` the LRU lists and their locks, `walk` reads and clears accessed
#   bits, `other` is the rest.
# - `busy`: a busy loop on each processor. `quarter`: the program works for a quarter of the time.
#
# A run that the kernel's OOM killer ended is tried three times. BENCH_SECONDS is the length of a run (15: while a program fills its memory
# more pages are looked at for each that goes). BENCH_ACTUATORS are further actuators for the rows with zram, as "reclaim pageout".
source "$(dirname "$0")/lib.sh"
have perf || { scripts/servers.sh perf && PATH=$target_dir/servers/bin:$PATH; }
seconds=${BENCH_SECONDS:-15} hertz=999 tries=3
trap 'rest; rm -rf "$work"' EXIT
parts=(rmap TLB compression swap lists walk other)

# A number of the report, 0 where the run had none.
reported() { local value; value=$(field "$1" "$work/report" | tr -d " ") && [[ $value =~ ^[0-9]+$ ]] && echo "$value" || echo 0; }
# Pages that reclaim scanned or freed on the whole machine so far: counted PREFIX
counted() { awk -v prefix="$1" '$1 == prefix "_anon" || $1 == prefix "_file" {sum += $2} END {printf "%.0f", sum}' /proc/vmstat; }

classify() { # perf script on stdin -> `PART SAMPLES` lines
    awk '
        function flush(  i, part, name, is_reclaim) {
            part = ""; is_reclaim = 0
            for (i = 1; i <= depth; i++) {
                name = stack[i]
                if (part == "") {
                    if (name ~ /flush_tlb|smp_call_function|try_to_unmap_flush|arch_tlbbatch/) part = "TLB"
                    else if (name ~ /^(lzo|lz4|ZSTD|zstd|zcomp|zs_|zram_|LZ4|lzorle)/) part = "compression"
                    else if (name ~ /rmap_walk|try_to_unmap|folio_referenced|page_vma_mapped|ptep_clear|folio_remove_rmap|pageout_pte|pageout_or_cold/) part = "rmap"
                    else if (name ~ /swap|submit_bio|bio_|blk_|writepage|add_to_swap|end_page_writeback|folio_end_writeback|ext4_/) part = "swap"
                    else if (name ~ /isolate_lru|move_folios|shrink_active|lru_|spin_lock|folio_putback|folio_batch|release_pages|folios_put|__remove_mapping|shrink_(inactive|folio)_list|free_unref/) part = "lists"
                }
                if (name ~ /try_to_free_mem_cgroup_pages|shrink_node|shrink_lruvec|reclaim_pages|madvise_pageout|reclaim_folio_list/) is_reclaim = 1
                if (name ~ /bpf_iter|bpf_seq_read|bpf_prog_.*walk|clear_refs|madvise_cold|pagemap_read|show_smap/) { walk = 1 }
            }
            if (is_reclaim) count[part == "" ? "other" : part]++
            else if (walk) count["walk"]++
            depth = 0; walk = 0
        }
        /^[[:space:]]*$/ {flush(); next}
        {sub(/^[[:space:]]*/, ""); stack[++depth] = $2}
        END {flush(); for (part in count) print part, count[part]}'
}

echo "| swap | who | freed, 1000 pages | scanned per freed | walk entries per freed | us per freed page | $(printf '%s | ' "${parts[@]}")"
echo "|---|---|---:|---:|---:|---:|$(printf -- '---:|%.0s' "${parts[@]}")"
for swap in zram:1G "file:$target_dir/bench.swap:1G"; do
    read -ra actuators <<<"${BENCH_ACTUATORS:-}"
    [[ $swap = zram* ]] || actuators=()
    for who in none auto "${actuators[@]}" none,busy auto,busy none,quarter auto,quarter; do
        how=(--actuator "${who%,*}") load=(--size 300M --seconds "$seconds")
        [ "${who%,*}" != none ] || how=(--policy none)
        [[ $who != *,quarter ]] || load+=(--work-percent 25)
        [[ $who != *,busy ]] || spin
        for ((try = 1; try <= tries; try++)); do
            scanned=$(counted pgscan) freed=$(counted pgsteal)
            perf record -q -o "$work/perf" -e cpu-clock -a -g -F $hertz -- \
                "$strata" run --quiet --memory 180M --swap "$swap" "${how[@]}" --report "$work/report" -- \
                "$programs/zipf" "${load[@]}" >"$work/zipf" 2>"$work/errors" && break
        done
        rest
        [ $try -le $tries ] ||
            { echo "| ${swap%%:*} | $who | killed or failed, $tries times: $(tail -n 1 "$work/errors") |"; continue; }
        perf script -i "$work/perf" -F ip,sym 2>/dev/null | classify >"$work/parts"
        # Pages that exact pageout took do not pass through the kernel's counters.
        scanned=$(($(counted pgscan) - scanned + $(reported nr_tried_pages)))
        gone=$(($(counted pgsteal) - freed + $(reported nr_applied_pages)))
        awk -v swap="${swap%%:*}" -v who="$who" -v gone="$gone" -v scanned="$scanned" -v hz=$hertz \
            -v entries="$(reported nr_entries)" -v names="${parts[*]}" '
            {count[$1] = $2; total += $2}
            END {
                n = split(names, name, " ")
                printf "| %s | %s | %.0f | %.2f | %.1f | %.1f |", swap, who, gone / 1000,
                    gone ? scanned / gone : 0, gone ? entries / gone : 0, gone ? total / hz * 1e6 / gone : 0
                for (i = 1; i <= n; i++) printf " %.1f |", gone ? count[name[i]] / hz * 1e6 / gone : 0
                print ""
            }' "$work/parts"
    done
done

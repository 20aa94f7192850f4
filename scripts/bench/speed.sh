#!/usr/bin/env bash
# How fast is a program under its budget, what does that cost, and who pays? Every load runs at 60 % of its footprint (memcached at 89 %), under
# Strata and under the kernel's limit alone at the same memory, in turns (`strata compare --match-memory`): once with a processor free, once
# with a busy loop on each.
#
# - In each round Strata runs first. The kernel's limit is then the mean memory of that run, once it was full.
# - Each cell has the median over rounds for the kernel's limit alone and for Strata. A ratio is Strata over the kernel within a round: the
#   median, and in parentheses the worst round. A machine that gets slower meanwhile slows both.
# - Operations a second are of wall time. Operations a CPU second are those for each second of user and system time of everything together:
#   the program, Strata and all kernel threads, the filling included. Faults are major faults. Neighbours are the busy loops: their
#   iterations a second are what Strata leaves to others.
# - A run that the kernel's OOM killer ended is told under `killed`, and its round is left out of the ratio, which then says of how many
#   rounds it is.
# - Two processes begin together 2 s after their start, and the slower one's operations a second count.
# - `noise` is memory that does not compress. `db_bench` is RocksDB: random reads by an exponential law, direct I/O, and a block cache that
#   would hold all data; the first of two equal runs fills the cache, and its faults
#   and CPU time count with those of the second. Servers are asked for 16 keys at a time by a client in the same group. `memcached` is as Debian starts it: its
#   housekeeping takes most of a second processor. `memcached_plain` has none. `quarter_time` works for a quarter of the time. A mapped
#   file is as fast as the disk.
#
# BENCH_SECONDS is the length of a run (5; 10 for `zipf_0.99`, `zipf_1.2`, `noise`, `scan`, `mapped_file`, `two_threads` and `db_bench`:
# docs/decisions/22-limits-of-the-gain.md says why), BENCH_RUNS the rounds (5), BENCH_LOADS the loads (all but `huge_pages` and
# `quarter_time`, which have to be named), BENCH_PROCESSORS what the processors are ("free busy"), BENCH_CPU a cap on Strata's processor time
# ("10%"; none).
source "$(dirname "$0")/lib.sh"
seconds=${BENCH_SECONDS:-5} longer_seconds=${BENCH_SECONDS:-10}
rounds=${BENCH_RUNS:-5}
capped=()
[ -z "${BENCH_CPU:-}" ] || capped=(--cpu "$BENCH_CPU")
loads=${BENCH_LOADS:-zipf_0.99 zipf_1.2 noise scan phases mapped_file two_threads two_processes redis memcached memcached_plain db_bench}
bin=$target_dir/servers/bin mapped=$target_dir/bench.mapped
db=$target_dir/bench.db
trap 'rm -rf "$work" "$mapped" "$db"' EXIT
cargo build --release --quiet -p strata-host --example compared

# A load: `command` is what is run, `prepare` a line for the shell before each run, `speed` and `count` find operations a second and in all.
zipf() { command=("$programs/zipf" --size 300M --theta 0.99 --seconds "$@"); }
# shellcheck disable=SC2016 # for the shell that runs it
two='for seed in 1 2; do "$0" --after 2 --size 150M --theta 0.99 --seed $seed --seconds "$1" >"$2.$seed" & done
    wait
    # The kernel kills one of the two: what the other does then says nothing.
    grep -q "program" "$2.1" && grep -q "program" "$2.2" || kill -KILL $$
    cat "$2.1" "$2.2" | sed -nE "s/.*\"program\".*\"ops\":([0-9]+),\"ops_per_s\":([0-9]+).*/\1 \2/p" |
        awk "{n++; ops += \$1; if (n == 1 || \$2 < slower) slower = \$2}
            END {printf \"{\\\"program\\\":\\\"two\\\",\\\"ops\\\":%d,\\\"ops_per_s\\\":%d}\\n\", ops, slower}"'
served() { # PROTOCOL THETA SERVER [ARGUMENT...]
    command=(scripts/served.sh "$work/kv.sock" "$programs/kv" --socket "$work/kv.sock" --protocol "$1" --theta "$2"
        --keys 200000 --seconds "$seconds" -- "$bin/$3" "${@:4}")
}
memcached() { served memcached 0 memcached -s "$work/kv.sock" -m 1024 -u "$(id -un)" -t 2 "$@"; }
# Fails where the load can't be had, with the reason on stderr.
choose() { # LOAD
    prepare=: speed='"program".*"ops_per_s":([0-9]+)' count='"program".*"ops":([0-9]+)'
    case $1 in
    zipf_0.99) zipf "$longer_seconds" ;;
    zipf_1.2) zipf "$longer_seconds" --theta 1.2 ;;
    noise) zipf "$longer_seconds" --noise ;;
    scan) zipf "$longer_seconds" --scan-pages 1800 --scan-every 100000 ;;
    phases) zipf "$seconds" --phase-every 2 ;;
    huge_pages) zipf "$seconds" --thp ;;
    quarter_time) zipf "$seconds" --work-percent 25 ;;
    two_threads) zipf "$longer_seconds" --threads 2 ;;
    mapped_file)
        zipf "$longer_seconds" --file "$mapped" --populate --random
        # Pages that an earlier run read in would be charged to its group.
        prepare="[ ! -e $mapped ] || { sync $mapped && dd of=$mapped oflag=nocache conv=notrunc,fdatasync count=0 status=none; }"
        ;;
    two_processes) command=(sh -c "$two" "$programs/zipf" "$seconds" "$work/two") ;;
    redis)
        scripts/servers.sh redis || return
        served redis 0.99 redis-server --port 0 --unixsocket "$work/kv.sock" --save '' --appendonly no --dir "$work" --loglevel warning
        ;;
    memcached) scripts/servers.sh memcached && memcached ;;
    memcached_plain) scripts/servers.sh memcached && memcached -o no_lru_maintainer,no_lru_crawler,hashpower=18 ;;
    db_bench)
        scripts/servers.sh rocksdb || return
        local of=(--num=250000 --value_size=1000 --compression_type=none)
        of+=(--db="$db" --use_direct_reads=true --cache_size=1073741824 --threads=1)
        [ -e "$db/CURRENT" ] || "$bin/db_bench" "${of[@]}" --benchmarks=fillseq,compact >"$work/db" 2>&1 || { tail -n 1 "$work/db" >&2; return 1; }
        command=("$bin/db_bench" "${of[@]}" --use_existing_db=true --benchmarks=readrandom,readrandom --reads=100000000
            --duration="$longer_seconds" --read_random_exp_range=12)
        speed='readrandom .* ([0-9]+) ops/sec' count='readrandom .* ([0-9]+) operations'
        ;;
    *) say "unknown load $1"; return 1 ;;
    esac
}
compare() { # OPTION...
    "$strata" compare --format json --prepare "$prepare" --throughput "$speed" --operations "$count" "$@" -- "${command[@]}"
}
# What a load takes without a limit, bytes.
footprint_of() { # LOAD
    local of
    # A block cache is filled by what is read, the others before their first operation.
    (seconds=2 && { [ "$1" = db_bench ] || longer_seconds=2; } && choose "$1" && compare --arms none --memory 2G --runs 1 >"$work/free") || return
    of=$(field peak_bytes "$work/free")
    [[ $of =~ ^[0-9]+$ ]] && echo "$of"
}

declare -A budget
for crowd in ${BENCH_PROCESSORS:-free busy}; do
    neighbours=0
    [ "$crowd" = free ] || neighbours=$(nproc)
    for load in $loads; do
        percent=60
        [[ $load != memcached* ]] || percent=89
        printf '%s|%s\t' "$crowd" "$load"
        if ! choose "$load" 2>"$work/why" ||
            { [ -z "${budget[$load]:-}" ] && ! free=$(footprint_of "$load" 2>"$work/why"); }; then
            say "SKIPPED: $load: $(cat "$work/why")"
            echo "skipped: $(tail -n 1 "$work/why")"
            continue
        fi
        [ -n "${budget[$load]:-}" ] || budget[$load]=$((free * percent / 100))
        # A run that failed is in the table.
        compare --match-memory --memory "${budget[$load]}" --swap zram:1G --runs "$rounds" --neighbours $neighbours \
            "${capped[@]}" >"$work/compared" || true
        grep . "$work/compared" || echo "failed"
    done
done >"$work/lines"
"$target_dir/release/examples/compared" 'processors|load' operations operations_per_cpu faults neighbours memory <"$work/lines"
echo
echo "$rounds rounds of $seconds s each (zipf_0.99, zipf_1.2, noise, scan, mapped_file, two_threads and db_bench $longer_seconds s). Budgets, MiB: $(
    for load in $loads; do [ -z "${budget[$load]:-}" ] || printf '%s %s, ' "$load" "$(mib "${budget[$load]}")"; done | sed 's/, $/./')"
! grep -q $'\tfailed$' "$work/lines" || fail "a load could not be compared"

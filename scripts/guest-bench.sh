#!/usr/bin/env bash
# Runs inside a guest, for scripts/bench/guests.sh: compares each load under the kernel alone and under Strata.
#   guest-bench.sh RUNS SECONDS LOAD/POLICY...
# A line `compared LOAD {...}` for each, with what `strata compare --format json` prints.
source "$(dirname "$0")/lib.sh"
strata=$target_dir/release/strata zipf=$target_dir/test-programs/zipf
runs=$1 seconds=$2
shift 2

# Files below the layer of RAM can't be reclaimed: a mapped file lies on the disk of RAM (see guest-init.sh).
file=/mnt/bench.mapped
for load in "$@"; do
    options=(--theta 0.99)
    name=${load%%/*}
    case $name in
    zipf_0.99) ;;
    zipf_1.2) options=(--theta 1.2) ;;
    scan) options+=(--scan-pages 1800 --scan-every 100000) ;;
    phases) options+=(--phase-every 2) ;;
    uniform) options=(--theta 0) ;;
    mapped_file) options+=(--file $file --populate --random) ;;
    mixed) options+=(--file $file --file-percent 50 --populate --random) ;;
    *) fail "unknown load $load" ;;
    esac
    # The file is made before, and pages that an earlier run read in would be charged to its group.
    prepare="[ ! -e $file ] || { sync $file && dd of=$file oflag=nocache conv=notrunc,fdatasync count=0 status=none; }"
    case $name in mapped_file | mixed) "$zipf" --size 128M --file $file --seconds 0 >/dev/null ;; esac
    status=0
    "$strata" compare --memory 77M --swap zram:512M --runs "$runs" --prepare "$prepare" --format json \
        $([ "${load#*/}" = auto ] || echo "--policy ${load#*/}") \
        --operations '"program".*"ops":([0-9]+)' \
        -- "$zipf" --size 128M --seconds "$seconds" "${options[@]}" >/run/compared 2>/run/said || status=$?
    sed 's/^/said /' /run/said
    [ -s /run/compared ] || { echo "said $load: strata compare ended with status $status"; continue; }
    echo "compared $load $(cat /run/compared)"
done

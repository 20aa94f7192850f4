#!/usr/bin/env bash
# Makes the kept traces of the control loop (tests/control-traces/) anew, one load after the other.
#   control-traces.sh [NAME...]     all, or those named: the names are those of the files, without .jsonl.gz
# Two are recorded in guests (guest_zipf, guest_phases: cgroup v2, MGLRU), which takes some minutes each. The loads are those of
# scripts/bench/speed.sh, smaller; a run takes 5 to 10 s. A trace depends on the machine and on what else runs on it, so look at
# what has changed before you keep it: cargo test -p strata --test cli control_traces::.
source "$(dirname "$0")/lib.sh"
kept=tests/control-traces
work=$(mktemp -d)
trap 'rm -rf "$work" "$target_dir/control-traces.mapped"' EXIT
for program in zipf idle kv; do scripts/program.sh $program >/dev/null; done
programs=$target_dir/test-programs bin=$target_dir/servers/bin
strata=${STRATA:-$target_dir/debug/strata}
[ -x "$strata" ] || fail "build it first: cargo build -p strata (or name another: STRATA=FILE)"

run() { # MEMORY COMMAND...
    "$strata" run --quiet --memory "$1" --swap zram:512M ${exact:+--policy mglru} --trace "$work/trace" -- "${@:2}" >"$work/out"
}
zipf() { run "$1" "$programs/zipf" --size 180M --theta 0.99 --seconds 6 "${@:2}"; }

load_zipf() { run 24M "$programs/zipf" --size 40M --theta 1.2 --work-percent 25 --seconds 6; }
load_scan() { zipf 108M --scan-pages 1800 --scan-every 100000; }
# Page by page; in all others the kernel chooses.
load_phases() { exact=1 zipf 108M --phase-every 2; }
load_mapped_file() { zipf 108M --file "$target_dir/control-traces.mapped" --populate --random; }
load_two_threads() { zipf 108M --threads 2; }
load_many_threads() { zipf 108M --threads 12; }
load_two_processes() {
    run 108M sh -c '"$0" --size 90M --theta 0.99 --seconds 6 & "$0" --size 90M --theta 0.99 --seed 2 --seconds 6; wait' \
        "$programs/zipf"
}
load_growth_bursts() { run 108M "$programs/zipf" --size 90M --theta 0.99 --seconds 8 --burst 40M --burst-every 2; }
load_idle() { run 108M "$programs/idle" --size 64M --seconds 12; }
# A server, asked for 16 keys at a time; it ends by the signal that it is sent when its client is done.
server() { # MEMORY PROTOCOL SERVER...
    local socket=$work/kv.sock client pid
    (
        until [ -S "$socket" ]; do sleep 0.05; done
        "$programs/kv" --socket "$socket" --protocol "$2" --theta 0.99 --keys 60000 --seconds 6 >"$work/kv" 2>&1
        pid=$(pgrep -f "^[^ ]*/$(basename "$3") .*$socket" | head -n 1)
        [ -z "$pid" ] || kill "$pid"
    ) &
    client=$!
    run "$1" "${@:3}" || true
    wait $client
    rm -f "$socket"
}
load_redis() {
    scripts/servers.sh redis
    server "${REDIS_MEMORY:-42M}" redis "$bin/redis-server" --port 0 --unixsocket "$work/kv.sock" --save '' --appendonly no \
        --dir "$work" --loglevel warning
}
load_memcached() {
    scripts/servers.sh memcached
    server "${MEMCACHED_MEMORY:-62M}" memcached "$bin/memcached" -s "$work/kv.sock" -m 1024 -u "$(id -un)" -t 2
}
# In a guest nothing that is written stays, so the trace comes out on its output.
guest() { # COMMAND...
    scripts/guest.sh --kernel 6.12 --mglru 7 -- sh -c '
        "$0" run --quiet --memory 54M --swap zram:256M --trace /tmp/trace -- "$@" >/dev/null
        echo TRACE; gzip -9 -n -c /tmp/trace | base64' "$PWD/${strata#"$PWD/"}" "$@" >"$work/guest"
    sed -n '/^TRACE/,$p' "$work/guest" | tail -n +2 | tr -d '\r' | base64 -d | gzip -d >"$work/trace"
}
# Of the simulator: the same on any machine.
steered() { # POLICY TRACE MORE...
    "$strata" sim "$2" --policy "$1" --memory 60% --steered "${@:3}" --trace "$work/trace" >"$work/out"
}
load_steered_zipf() { steered two-list gen:zipf,pages=46080,accesses=1600000,backing=anon,via=mmap --cgroup v1; }
load_steered_phases() { steered mglru:v6.1 gen:zipf-loop-zipf,pages=18432,accesses=600000,backing=anon,via=mmap; }
load_steered_files() { steered two-list gen:loop,pages=12288,accesses=140000; }
load_guest_zipf() { guest "$programs/zipf" --size 90M --theta 0.99 --seconds 10; }
load_guest_phases() { guest "$programs/zipf" --size 90M --theta 0.99 --seconds 10 --phase-every 3; }

mkdir -p $kept
all=$(declare -F | sed -n 's/^declare -f load_//p')
for name in ${*:-$all}; do
    name=${name//-/_}
    declare -F "load_$name" >/dev/null || fail "no trace $name; there are: ${all//$'\n'/ }"
    say "$name"
    rm -f "$work/trace"
    "load_$name"
    tail -n 1 "$work/trace" | grep -q '^{"end"' || fail "$name: the trace has no end"
    gzip -9 -n -c "$work/trace" >"$kept/${name//_/-}.jsonl.gz"
done

#!/usr/bin/env bash
# The screen of `strata top` that the documents show, docs/images/top.svg: a redis of which keys are read more and less
# often, in a cgroup with a limit, watched for SCREENS_SECONDS (150, at least 62). Needs root.
source "$(dirname "$0")/lib.sh"
seconds=${SCREENS_SECONDS:-150}
[ "$(id -u)" = 0 ] || fail "needs root, to make cgroups"
scripts/servers.sh redis
PATH=$target_dir/servers/bin:$PATH
strata=${STRATA:-$target_dir/release/strata}
[ -x "$strata" ] || cargo build --release --quiet -p strata
work=$(mktemp -d)
chmod 755 "$work"
pids=()
groups=()
finish() {
    kill "${pids[@]}" 2>/dev/null || true
    wait
    for group in "${groups[@]}"; do rmdir "$group" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

# group NAME LIMIT COMMAND...: runs COMMAND in a new cgroup /NAME.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    hierarchy=/sys/fs/cgroup limit_file=memory.max
    echo +memory >$hierarchy/cgroup.subtree_control 2>/dev/null || true
else
    hierarchy=/sys/fs/cgroup/memory limit_file=memory.limit_in_bytes
fi
group() {
    local directory=$hierarchy/$1 limit=$2
    shift 2
    mkdir "$directory"
    groups+=("$directory")
    echo "$limit" >"$directory/$limit_file"
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$directory" "$@" >>"$work/servers.log" 2>&1 &
    pids+=($!)
}
wait_until() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
    cat "$work"/*.log >&2
    fail "$* does not succeed"
}

socket=$work/redis.sock keys=400000
group redis 640M redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$work"
wait_until redis-cli -s "$socket" ping
redis-benchmark -s "$socket" -t set -r $keys -n $((3 * keys)) -P 64 -d 1024 -q >/dev/null

# A fifth of the keys is read all the time, half of them every few seconds, any of them now and then.
read_keys() {
    local part=$1 pause_s=$2
    while sleep "$pause_s"; do
        redis-benchmark -s "$socket" -t get -r $((keys / part)) -n $((keys / part / 10)) -c 2 -q >/dev/null 2>&1
    done
}
read_keys 20 0.2 &
pids+=($!)
read_keys 6 3 &
pids+=($!)
read_keys 2 20 &
pids+=($!)

say "redis for $seconds s"
"$strata" top --once --for "${seconds}s" --format svg --cgroup /redis >"$work/top.svg" 2>"$work/top.log"

# A path of this machine says nothing. A column of the picture is 9 wide.
DIR=$target_dir perl -pe 's{textLength="\d+"([^>]*)>\Q$ENV{DIR}\E([^<]*)<}
    {my $path = "/usr/local/strata$2"; "textLength=\"" . 9 * length($path) . "\"$1>$path<"}ex' "$work/top.svg" >docs/images/top.svg

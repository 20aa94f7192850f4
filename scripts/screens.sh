#!/usr/bin/env bash
# The screens of `strata top` that the documents show: a redis of which keys are read more and less often
# and a postgres with pgbench, each in a cgroup with a limit, watched for SCREENS_SECONDS (150, at least 62) each time.
# Needs root. Captures what stands on a terminal of 24 lines, and what `strata files` prints, into docs/guide/see.md,
# between its marks, and draws docs/images/top.svg.
source "$(dirname "$0")/lib.sh"
seconds=${SCREENS_SECONDS:-150}
[ "$(id -u)" = 0 ] || fail "needs root, to make cgroups"
have tmux || scripts/servers.sh tmux
scripts/servers.sh redis postgresql
PATH=$target_dir/servers/bin:$PATH
strata=${STRATA:-$target_dir/release/strata}
[ -x "$strata" ] || cargo build --release --quiet -p strata
work=$(mktemp -d)
chmod 755 "$work"
pids=()
groups=()
finish() {
    tmux -L "strata-screens-$$" kill-server 2>/dev/null || true
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

mkdir "$work/postgres"
chown 65534:65534 "$work/postgres"
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups env "PATH=$PATH" "HOME=$work/postgres")
"${nobody[@]}" initdb -D "$work/postgres/data" -U bench -A trust >"$work/initdb.log" 2>&1 ||
    { cat "$work/initdb.log" >&2; fail "initdb failed"; }
group postgres 512M "${nobody[@]}" postgres -D "$work/postgres/data" -c listen_addresses= \
    -c "unix_socket_directories=$work/postgres" -c shared_buffers=128MB
pgbench=("${nobody[@]}" pgbench -h "$work/postgres" -U bench)
wait_until "${nobody[@]}" psql -h "$work/postgres" -U bench -c 'select 1' postgres
"${pgbench[@]}" -i -s 10 -q postgres >"$work/pgbench.log" 2>&1 || { cat "$work/pgbench.log" >&2; fail "pgbench -i"; }

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
"${pgbench[@]}" -S -R 100 -T $((4 * seconds + 60)) postgres >"$work/load.log" 2>&1 &
pids+=($!)

screen() { tmux -L "strata-screens-$$" "$@"; }
capture() {
    sleep 2
    # Empty lines at the end of the list say nothing.
    screen capture-pane -p | sed 's/ *$//' | cat -s >"$work/$1"
}
say "the whole machine for $seconds s, then both, then redis once more for its picture"
# Two who watch the same target at a time would take accesses from each other, hence one after the other.
# This one is wider, so that it has all columns; what was read within a minute is known after one.
screen -f /dev/null -u new-session -d -x 100 -y 24 env LC_ALL=C.UTF-8 "$strata" top
sleep "$seconds"
capture kinds
# What else runs on this machine says nothing.
grep -E '^(strata top| host| TARGET|[ >]/|Enter|$)' "$work/kinds" >"$work/rest"
mv "$work/rest" "$work/kinds"
screen kill-server
sleep 1 # until it is gone
screen -f /dev/null -u new-session -d -x 80 -y 24 \
    env LC_ALL=C.UTF-8 "$strata" top --cgroup /redis --cgroup /postgres
sleep "$seconds"
capture list
screen send-keys Enter
capture detail
screen send-keys q
screen kill-server 2>/dev/null || true
sleep 1
screen -f /dev/null -u new-session -d -x 80 -y 24 env LC_ALL=C.UTF-8 "$strata" top --cgroup /postgres
sleep 20
screen send-keys Enter
sleep 1
screen send-keys v
capture files
screen send-keys q
{
    echo "$ strata files --whole --watch 20s --cgroup /postgres --top 3"
    "$strata" files --whole --watch 20s --cgroup /postgres --top 3
} 2>/dev/null | sed 's/ *$//' >"$work/cached"
"$strata" top --once --for "${seconds}s" --format svg --cgroup /redis >"$work/top.svg" 2>"$work/top.log"

for name in kinds list detail files cached; do
    sed -i "s,$work/,/run/,; s,$PWD/,/usr/local/strata/," "$work/$name"
    awk -v name="$name" -v file="$work/$name" '
        $0 == "<!-- " name " -->" {
            print; print "```"
            while ((getline line < file) > 0) print line
            print "```"; skip = 1; next
        }
        $0 == "<!-- end -->" { skip = 0 }
        !skip' docs/guide/see.md >"$work/page.md"
    cat "$work/page.md" >docs/guide/see.md
done
# A path of this machine says nothing. A column of the picture is 9 wide.
DIR=$target_dir perl -pe 's{textLength="\d+"([^>]*)>\Q$ENV{DIR}\E([^<]*)<}
    {my $path = "/usr/local/strata$2"; "textLength=\"" . 9 * length($path) . "\"$1>$path<"}ex' "$work/top.svg" >docs/images/top.svg

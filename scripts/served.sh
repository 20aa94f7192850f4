#!/usr/bin/env bash
# A server and its client as one command that ends by itself: starts the server, waits for its socket, runs the client, ends the server.
#   served.sh SOCKET CLIENT [ARGUMENT...] -- SERVER [ARGUMENT...]
# The client's output and status are ours. If the server was killed meanwhile, we die of the same signal.
set -u
socket=$1
shift
client=()
while [ "$1" != -- ]; do client+=("$1"); shift; done
shift
rm -f "$socket"
"$@" &
server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in $(seq 600); do
    [ ! -S "$socket" ] || break
    kill -0 $server 2>/dev/null || { wait $server; echo "$1 ended with status $? before it had a socket" >&2; exit 1; }
    sleep 0.05
done
sleep 0.2
status=0
"${client[@]}" || status=$?
kill $server 2>/dev/null
ended=0
wait $server || ended=$?
trap - EXIT
rm -f "$socket"
[ $ended != 137 ] || kill -KILL $$
exit $status

#!/usr/bin/env bash
# A server and its client as one command that ends by itself: starts the server, waits for its socket, runs the client, ends the server.
#   served.sh SOCKET CLIENT [ARGUMENT...] -- SERVER [ARGUMENT...]
# The client's output and status are ours; 137 if the server was killed meanwhile.
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
[ $ended != 137 ] || status=137
rm -f "$socket"
exit $status

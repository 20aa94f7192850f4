#!/bin/sh
# Writes a rule of strata guard for each pod of this node that has a label, and has the guard read them: the sidecar of the chart.
#   pod-rules.sh LABEL BASE OUT SECONDS
# The value of LABEL is the promise in percent a minute, 0.01 to 99.99. BASE has the rules of all others; those of pods are written
# before its first table. SECONDS lie between two looks, 0: one look. Without an answer of the API server OUT stays as it is.
set -eu
label=$1 base=$2 out=$3 seconds=$4

# A line for each pod: UID and value of the label.
pods() {
    kubectl get pods --all-namespaces --selector "$label" --field-selector "spec.nodeName=$NODE_NAME" --request-timeout 10s \
        --output "go-template={{range .items}}{{.metadata.uid}} {{index .metadata.labels \"$label\"}}{{\"\\n\"}}{{end}}"
}

fits() { printf '%s\n' "$1" | grep -Eqx -- "$2"; }

# The groups of a pod are below ...-podUID.slice with systemd's driver (with _ for -), below .../podUID with cgroupfs.
rules() {
    while read -r uid value; do
        fits "$uid" '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}' || continue
        if ! fits "$value" '[0-9]{1,2}(\.[0-9]{1,2})?' || fits "$value" '[0.]*'; then
            echo "# pod $uid is left out: its $label is no number from 0.01 to 99.99"
            continue
        fi
        for group in "*-pod$(printf %s "$uid" | tr - _).slice/*" "*/pod$uid/*"; do
            printf '[[rule]]\ncgroup = "%s"\npromise = "%s%%/min"\n\n' "$group" "$value"
        done
    done
}

look() {
    found=$(pods) || return 0
    {
        sed '/^ *\[/,$d' "$base"
        printf '%s\n' "$found" | rules
        sed -n '/^ *\[/,$p' "$base"
    } >"$out.new"
    ! cmp -s "$out.new" "$out" || return 0
    grep '^# pod' "$out.new" >&2 || :
    mv "$out.new" "$out"
    for process in /proc/[0-9]*; do
        case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline" || :) in
        *"strata guard "*"--config=$out "*) kill -HUP "${process#/proc/}" || : ;;
        esac
    done
}

look
# The guard waits for the file.
[ -e "$out" ] || cp "$base" "$out"
while [ "$seconds" != 0 ]; do
    sleep "$seconds"
    look
done

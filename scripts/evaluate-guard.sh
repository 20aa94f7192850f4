#!/usr/bin/env bash
# `make evaluate-guard`: what `strata guard` gives back of real programs, and what that costs them; and whether it can be relied
# on. Rewrites the tables of docs/validation/guard.md; the words around them stay.
#   PART=programs   (the default) real programs, each with idle memory of its own. ROUNDS (5) rounds of MINUTES (1.5) for each of
#                   ARMS (names with commas), twice that for 0.2%/min; QUICK=1 is one short round of three arms, which rewrites nothing
#   PART=many       what 1, 100 and 2,000 groups cost (GROUPS_OF='1 100 2000'), MINUTES (5) each
#   PART=soak       MINUTES (20) of random load, kills and garbage (SEED=1); status 1 where something does not hold
#   PART=mixed      memcached beside fio below a parent's limit, and PART=services, 12 services of which 4 work below one: ROUNDS (5)
#                   rounds of MINUTES (2) for each of ARMS, SIZE_MIB (384); PART=damon, beside DAMON_RECLAIM, is alike and in a guest only
#   PART=kinds      what goes of each kind of idle memory within 60 s, within 150 s, when the guard is killed and another begins, and within MINUTES (4)
#                   (KINDS='anon huge': of these alone, QUICK=1)
#   PART=foretold   what strata plan --promise foretells of each program (PROGRAMS=names, with commas) beside what a guard does: ROUNDS (1) of MINUTES (2)
# GUEST='--kernel 6.12' runs soak, kinds, mixed, services or damon in a guest, with cgroup v2 (counts say something there, times do not);
# what is found with another kernel, or with --mglru 0, has a place of its own on the page. QUICK=1 rewrites nothing. STRATA names another binary.
# Programs come from this machine or, unpacked, from Debian; one that can't be had is left out, and the page says so. Each has a
# cgroup of its own, listens on nothing but sockets and pipes in a private directory, and is ended and removed with it.
source "$(dirname "$0")/lib.sh"

part=${PART:-programs}
case $part in
programs) rounds=${ROUNDS:-5} minutes=${MINUTES:-1.5} ;;
many) rounds='' minutes=${MINUTES:-5} ;;
soak) rounds='' minutes=${MINUTES:-20} ;;
kinds) rounds='' minutes=${MINUTES:-4} ;;
mixed | services | damon) rounds=${ROUNDS:-5} minutes=${MINUTES:-2} ;;
foretold) rounds=${ROUNDS:-1} minutes=${MINUTES:-2} ;;
*) fail "PART is programs, many, soak, kinds, mixed, services, damon or foretold" ;;
esac
arms=(nothing 0.2%/min 1%/min "fixed age" "kernel's limit")
[ $part != programs ] || [ -z "${ARMS:-}" ] || IFS=, read -ra arms <<<"$ARMS"
[ $part != programs ] || [ -z "${QUICK:-}" ] || { rounds=1 minutes=1; arms=(nothing 1%/min "kernel's limit"); }
seconds=$(awk -v m="$minutes" 'BEGIN {print m * 60}')
[ $part != kinds ] || [ "${seconds%.*}" -gt 160 ] || fail "kinds takes more than 160 s"
[ -z "${KINDS:-}" ] || QUICK=1

[ -n "${IN_GUEST:-}" ] || scripts/setup.sh
[ -n "${STRATA:-}" ] || cargo build --release --quiet -p strata
strata=${STRATA:-$target_dir/release/strata}
PATH=$PATH:$target_dir/servers/bin
needed() { have "$1" || scripts/servers.sh "$2" || say "$2 can't be had, and is left out"; }
built() { for name in "$@"; do scripts/program.sh "$name" >/dev/null; done; }
case $part in
programs | foretold) needed redis-server redis; needed initdb postgresql; needed chromium-headless-shell chromium ;;
many) built crowd latency ;;
soak) built checksum forker mapstorm fault ;;
mixed) built kv; needed memcached memcached; needed fio fio ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
run() {
    local python=(nice -n -15 python3 -B)
    "$strata" doctor >"$work/doctor.txt" || { cat "$work/doctor.txt" >&2; fail "what is MISSING above is needed"; }
    # Others on this machine shall disturb little; programs and guard run alike.
    { echo -15 >/proc/$$/autogroup; } 2>/dev/null || true
    case $part in
    programs)
        local out=$target_dir/evaluate-guard.json
        : >"$out"
        mkdir "$work/twin"
        ! have javac || javac -d "$work" scripts/guard/Service.java && cp "$work"/*.class "$work/twin"
        "${python[@]}" scripts/guard/arms.py run "$strata" "$work" "$rounds" "$seconds" "$out" "${arms[@]}" &&
            python3 -B scripts/guard/arms.py table "$out" ;;
    foretold)
        ! have javac || javac -d "$work" scripts/guard/Service.java
        "${python[@]}" scripts/guard/foretold.py "$strata" "$work" "$rounds" "$seconds" ;;
    many | soak) "${python[@]}" scripts/guard/$part.py "$strata" "$work" "$seconds" "$target_dir/test-programs" ;;
    kinds) "${python[@]}" scripts/guard/kinds.py "$strata" "$work" "$seconds" ;;
    *) "${python[@]}" scripts/guard/limits.py $part "$strata" "$work" "$rounds" "$seconds" "$target_dir/test-programs" ;;
    esac
}
in_guest() {
    local asked=(PART=$part IN_GUEST=1 QUICK=1 STRATA="$strata" MINUTES="$minutes" ROUNDS="$rounds" SIZE_MIB="${SIZE_MIB:-96}" DISK=/disk ${KINDS:+KINDS="$KINDS"} ${STRATA_LOG:+STRATA_LOG="$STRATA_LOG"})
    [ -z "${ARMS:-}" ] || asked+=(ARMS="$ARMS")
    # Both streams of a guest are one; the table is the end of it.
    # shellcheck disable=SC2086
    scripts/guest.sh --mem 3072 --disk 1024 --timeout 7200 $GUEST -- env "${asked[@]}" scripts/evaluate-guard.sh |
        tee /dev/stderr "$work/guest.log" | sed -nE '/^(\||Seed )/,$p'
}
# What runs what is measured.
machine() {
    local mglru
    mglru=$(cat /sys/kernel/mm/lru_gen/enabled 2>/dev/null || echo missing)
    case $mglru in 0x0000) mglru=off ;; 0x*) mglru=on ;; esac
    echo "kernel $(uname -r), MGLRU $mglru, $(nproc) processors"
}
status=0
[ -z "${IN_GUEST:-}" ] || echo "machine: $(machine)"
if [ -n "${GUEST:-}" ]; then in_guest; else run; fi >"$work/found.md" || status=$?
cat "$work/found.md"
[ -z "${QUICK:-}" ] || exit $status

command="make evaluate-guard"
[ $part = programs ] || command="PART=$part $command"
[ -z "${PROGRAMS:-}" ] || command="PROGRAMS=$PROGRAMS $command"
[ -z "${GUEST:-}" ] || command="GUEST='$GUEST' $command"
[ -z "$rounds" ] || command="ROUNDS=$rounds $command"
machine=$(if [ -n "${GUEST:-}" ]; then sed -nE 's/^machine: (.*)/\1/p' "$work/guest.log"; else machine; fi)
made=$(printf '%s, commit %s, %s, by\n\n    %s\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)" "$machine" "MINUTES=$minutes $command")
block=$part
if [ -n "${GUEST:-}" ]; then
    block+=-guest
    [[ ! $GUEST =~ --kernel\ ([0-9.]+) ]] || [ "${BASH_REMATCH[1]}" = 6.12 ] || block+="-${BASH_REMATCH[1]}"
    [[ ! $GUEST =~ --mglru\ 0 ]] || block+=-without-mglru
fi
if [ $part = programs ]; then
    scripts/evaluate.py splice docs/validation/guard.md made <<<"$made"
    scripts/evaluate.py splice docs/validation/guard.md arms <"$work/found.md"
else
    printf '%s\n\n%s\n' "$made" "$(cat "$work/found.md")" | scripts/evaluate.py splice docs/validation/guard.md "$block"
fi
exit $status

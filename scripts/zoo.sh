#!/usr/bin/env bash
# Makes sure of the Python that scripts/zoo.py runs in: libCacheSim 0.3.5 from PyPI in target/bench-venv.
# Exit 1 when it can't be had.
source "$(dirname "$0")/lib.sh"
venv=$target_dir/bench-venv
[ ! -e "$venv/ready" ] || exit 0
python3 -m venv "$venv" >&2 && "$venv/bin/pip" install --quiet libcachesim==0.3.5 numpy >&2 ||
    fail "libcachesim 0.3.5 could not be installed from PyPI into $venv"
touch "$venv/ready"

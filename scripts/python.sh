#!/usr/bin/env bash
# The wheel for Python (crates/py): built, installed into a venv under target/, and tried.
#   python.sh           the tests of `make test`
#   python.sh --long    all tests, also on Ray and Dask, and the notebook; lints
#   python.sh --wheel   only builds target/python/wheels/strata_lru-*.whl
# Packages come from PyPI. The last line is `N passed, N failed, N skipped`; where the wheel can't be built for want of
# a Python or of packages, that is said and counted.
source "$(dirname "$0")/lib.sh"
dir=$target_dir/python
manifest=crates/py/Cargo.toml
log=$dir/log
mkdir -p "$dir"

skip() {
    echo "  skipped: python: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
flunk() {
    echo "  FAILED: python: $*"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

have python3 && python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "no Python 3.9 or later"
venv=$dir/venv
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv" >"$log" 2>&1 || skip "python3 -m venv fails: $(tail -n 1 "$log")"
# Quick where all is there already.
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@" >"$log" 2>&1; }
maturin=$(sed -n 's/^requires = \["\(.*\)"\]/\1/p' crates/py/pyproject.toml)
pip install "$maturin" || skip "$maturin can't be had: $(tail -n 1 "$log")"
cargo fetch --quiet --locked --manifest-path $manifest >"$log" 2>&1 || {
    ! grep -q -e --locked "$log" || flunk "crates/py/Cargo.lock is old: cargo update --workspace --manifest-path $manifest"
    skip "crates can't be had: $(tail -n 1 "$log")"
}
rm -rf "$dir/wheels"
CARGO_TARGET_DIR=$dir "$venv/bin/maturin" build --release --manifest-path $manifest --out "$dir/wheels" >"$log" 2>&1 ||
    { cat "$log"; flunk "the wheel does not build"; }
wheel=$(echo "$dir"/wheels/*.whl)
say "$wheel, $(stat -c %s "$wheel") bytes"
[ "${1:-}" != --wheel ] || exit 0

extra=test select=(-m "not long")
[ "${1:-}" != --long ] || { extra=test-long; select=(); export STRATA_TIMED=1; }
pip install "$wheel[$extra]" || skip "packages can't be had: $(tail -n 1 "$log")"
pip install --force-reinstall --no-deps "$wheel" || flunk "the wheel does not install: $(tail -n 1 "$log")"
if [ "${1:-}" = --long ]; then
    CARGO_TARGET_DIR=$dir cargo clippy --quiet --manifest-path $manifest -- -D warnings || flunk "clippy"
fi
cargo fmt --check --manifest-path $manifest || flunk "cargo fmt --manifest-path $manifest"
status=0
run_logged "$log" env -C crates/py STRATA_WHEEL="$wheel" PYTHONDONTWRITEBYTECODE=1 \
    "$venv/bin/python" -m pytest tests --pyargs strata --doctest-modules --durations=5 -s "${select[@]}" || status=$?
sed -n 's/^SKIPPED \[[0-9]*\] /  skipped: python: /p; s/^\(FAILED\|ERROR\) /  FAILED: python: /p' "$log"
count() { tail -n 1 "$log" | grep -oE "[0-9]+ $1" | cut -d' ' -f1 || true; }
passed=$(count passed) failed=$(count failed) errors=$(count 'errors?') skipped=$(count skipped)
[ "$status" = 0 ] || [ "${failed:-0}" != 0 ] || [ "${errors:-0}" != 0 ] || flunk "pytest ended with status $status"
echo "${passed:-0} passed, $((${failed:-0} + ${errors:-0})) failed, ${skipped:-0} skipped"
exit "$status"

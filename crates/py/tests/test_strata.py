"""Traces, replays, recordings, plans: what Python is told is what the command line tells."""

import doctest
import gzip
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pyarrow
import pytest
import strata
from conftest import ANSWERED_S, CHECKOUT, RECORDINGS, work_threads

LONG = "gen:zipf,pages=2000000,accesses=400000000"


def run_python(code, **how):
    return subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, **how)


# Figures


def test_a_replay_has_the_figures_that_the_command_line_shows():
    page = (CHECKOUT / "README.md").read_text()
    shown = re.search(r"^  misses +([\d,]+) +([\d,]+) +([\d,]+)$", page, re.MULTILINE)
    table = strata.simulate("gen:hotscan,via=mmap", "mglru,two-list,opt", "10%")
    assert [f"{misses:,}" for misses in table["misses"].to_pylist()] == list(shown.groups())


def test_columns_are_those_of_the_command_line_and_typed(in_recordings):
    table = strata.simulate("sort.strata", ["mglru", "opt"], ["25%", 1133])
    assert table.column_names[:3] == ["trace", "policy", "memory_pages"]
    assert table.schema.field("misses").type == pyarrow.uint64()
    assert table["miss_ratio"].to_pylist() == [0.902447, 0.568003, 0.594734, 0.313618]
    assert table["scanned_pages"].to_pylist()[2:] == [None, None]


def test_auto_is_the_sixteen_amounts_of_a_curve():
    assert strata.simulate(range(1000), "lru", "auto").num_rows == 16


def test_a_plan_is_that_of_the_command_line(in_recordings):
    expected = json.loads((RECORDINGS / "sort.plan.json").read_text())
    assert strata.plan("sort.strata", slowdown=0.2) == expected


def test_a_promise_is_that_of_the_command_line(in_recordings):
    told = strata.promise("cold.strata", 0.01, min_age_s=5)
    group, text = told["groups"][0], (RECORDINGS / "cold.promise.txt").read_text()
    assert f"{group['came_back_bytes'] >> 10} KiB in all" in text
    assert f"{group['away_mean_bytes'] / 2**20:.1f} MiB on average" in text
    assert f"{told['slowdown']:.2%}".replace("%", " %") in text


# Input


def test_arrays_are_read_where_they_lie():
    page = numpy.arange(100_000) % 777
    assert page.dtype == numpy.int64
    assert numpy.shares_memory(strata._arrays(page)["page"], page)
    columns = {"page": pyarrow.array(page), "space": numpy.zeros(len(page), "uint32")}
    assert numpy.shares_memory(strata._arrays(columns)["space"], columns["space"])
    assert strata.load(page).nr_pages == strata.load(pyarrow.table(columns)).nr_pages == 777


def test_arrays_of_any_shape_of_memory_are_the_same_trace():
    page = numpy.random.default_rng(1).integers(0, 500, 20_000)
    misses = {
        str(strata.simulate(given, "lru", 100)["misses"].to_pylist())
        for given in (
            page,
            page.astype("uint16"),
            page.astype(">i8"),
            numpy.repeat(page, 2)[::2],
            page.tolist(),
            {"page": page, "write": page > 3},
        )
    }
    assert len(misses) == 1


def test_columns_say_what_they_mean():
    columns = {"page": [1, 1, 2], "space": [0, 1, 0], "write": [True, True, False], "time_us": [0, 5, 9]}
    columns = {name: numpy.array(values) for name, values in columns.items()}
    assert strata.load(columns).nr_pages == 3
    in_two = strata.simulate(columns, "two-list", 1000, via="mmap", backing="file")
    assert in_two["file_misses"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ([1.5], TypeError, "page has elements of float64: give whole numbers"),
        ([-1], ValueError, "page has elements below 0"),
        ([[1], [2]], ValueError, "page has 2 dimensions: give one"),
        ({"page": [1, 2], "write": numpy.array([True])}, ValueError, "write has 1 elements and page 2: give one an access"),
        ({"page": [1], "space": numpy.array([2**32])}, ValueError, "space has elements above 4294967295"),
        ({"pages": [1]}, ValueError, "columns are page and, if wanted, time_us"),
    ],
)
def test_arrays_that_make_no_trace_are_refused(given, error, text):
    with pytest.raises(error, match=text):
        strata.load(given)


def test_a_file_object_is_a_trace_compressed_or_not(in_recordings):
    content = Path("sort.strata").read_bytes()
    by_name = strata.simulate("sort.strata", "lru", "50%")["misses"]
    for data in (content, gzip.compress(content)):
        assert strata.simulate(io.BytesIO(data), "lru", "50%")["misses"] == by_name
    assert strata.Recording(io.BytesIO(content)).nr_walks > 0


def test_a_file_object_that_raises_is_told_as_such():
    class Broken(io.RawIOBase):
        name = "broken"

        def read(self, size=-1):
            raise OSError("the tape is torn")

    with pytest.raises(strata.TraceError, match="broken: the Python file object raised OSError: the tape is torn") as caught:
        strata.load(Broken())
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(strata.TraceError, match="open the file in binary mode") as caught:
        strata.load(io.StringIO("1\n2\n"))
    assert isinstance(caught.value.__cause__, TypeError)


def test_errors_say_what_to_do_in_words_of_python(tmp_path):
    with pytest.raises(strata.TraceError, match="no such file; the name of a generator begins with gen:"):
        strata.load(tmp_path / "missing.strata")
    (tmp_path / "noise").write_bytes(b"\x01\x02\x03" * 99)
    with pytest.raises(strata.TraceError, match="not a known format: name it with format"):
        strata.load(tmp_path / "noise")
    with pytest.raises(ValueError, match="did you mean mglru"):
        strata.simulate([1], "mgrlu", 1)
    with pytest.raises(ValueError, match="is no amount of memory"):
        strata.simulate([1], "lru", "64XiB")
    with pytest.raises(TypeError, match="memory: 0.1 is neither a text nor a whole number"):
        strata.simulate([1], "lru", [0.1])
    with pytest.raises(strata.StrataError, match="of max_memory"):
        strata.load("gen:zipf,pages=100000", max_memory=2_000_000)
    with pytest.raises(strata.StrataError, match="of max_memory"):
        strata.load("gen:zipf,pages=100000", max_memory=100_000)
    with pytest.raises(ValueError, match="is a trace but no recording"):
        strata.Recording(CHECKOUT / "docs/recordings/sqlite.strata")
    with pytest.raises(ValueError, match="slowdown is a share of the CPU time used"):
        strata.plan(RECORDINGS / "sort.strata", slowdown=3.0e9)


# Recordings


def test_a_heat_map_has_every_access_once_and_rows_in_the_order_of_addresses():
    recording = strata.Recording(RECORDINGS / "sort.strata")
    heat = recording.heat_map(rows=50, columns=30)
    assert heat.counts.shape == (50, 30) and heat.counts.dtype == numpy.uint32
    assert heat.counts.sum() == recording.nr_accesses == recording.accesses().num_rows
    begins = list(zip(heat.space.tolist(), heat.page.tolist()))
    assert begins == sorted(set(begins))
    time_s = numpy.asarray(recording.accesses()["time_us"]) / 1e6
    assert heat.edges_s[0] == time_s.min() and heat.edges_s[-1] >= time_s.max()
    assert heat.counts.sum(axis=0).tolist() == numpy.histogram(time_s, heat.edges_s)[0].tolist()


def test_memory_that_a_program_keeps_and_does_not_use_is_old():
    recording = strata.Recording(RECORDINGS / "cold.strata")
    ages = recording.ages()
    age_s = numpy.asarray(ages["age_us"]) / 1e6
    assert 8 << 20 <= (age_s > 60).sum() * 4096 <= recording.footprint_bytes
    assert age_s.max() <= recording.duration_s
    assert set(ages["kind"].to_pylist()) <= set(strata.KINDS)
    assert any("python3" in name for name in recording.spaces.values())


# Manners


def test_others_run_while_a_replay_does():
    steps, done = 0, threading.Event()

    def replay():
        strata.simulate("gen:zipf,pages=100000,accesses=3000000", "lru", "10%")
        done.set()

    thread = threading.Thread(target=replay)
    thread.start()
    while not done.wait(0.001):
        steps += 1
    thread.join()
    assert steps > 20


def test_an_interrupt_is_answered_within_200_ms_whatever_goes_on(interrupted):
    trace = strata.load("gen:zipf,pages=100000,accesses=5000000")
    page = numpy.random.default_rng(1).integers(0, 5_000_000, 20_000_000, dtype="uint64")
    amounts = [f"{percent}%" for percent in range(1, 11)]
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb"):
        slow = {
            "a trace is loaded": lambda: strata.load(LONG),
            "policies are replayed": lambda: strata.simulate(trace, "mglru,two-list,lru,opt", amounts),
            "an empty pipe is read": lambda: strata.load(f"/proc/self/fd/{pipe.fileno()}"),
            "an array is read": lambda: strata.load(page),
        }
        took = {what: interrupted(work) for what, work in slow.items()}
    assert max(took.values()) < ANSWERED_S, took
    # Nobody waits for the work, and it ends by itself; a read of an empty pipe with the pipe.
    deadline = time.monotonic() + 5
    while work_threads() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not work_threads()


def test_import_is_quick_and_imports_neither_numpy_nor_arrow():
    code = (
        "import sys, time; begin = time.perf_counter(); import strata; took = time.perf_counter() - begin;"
        "assert not {'numpy', 'pyarrow', 'ray', 'distributed'} & set(sys.modules); print(took)"
    )
    took = min(float(run_python(code).stdout) for _ in range(3))
    assert took < ANSWERED_S, took


def test_the_wheel_is_small_and_of_any_python_from_3_9_on():
    wheel = os.environ.get("STRATA_WHEEL")
    if not wheel:
        pytest.skip("STRATA_WHEEL does not name the wheel: scripts/python.sh does")
    assert os.path.getsize(wheel) <= 10 << 20
    assert "-cp39-abi3-" in wheel


def test_nothing_needs_root():
    path = str(RECORDINGS / "sort.strata")
    code = (
        f"import io, os, strata; file = io.BytesIO(open({path!r}, 'rb').read())\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(os.getuid() != 0, strata.plan(strata.Recording(file))['policy'])"
    )
    said = run_python(code)
    assert said.stdout == "True two-list\n", said.stderr


def test_the_guide_shows_what_python_says(in_recordings):
    guide = CHECKOUT / "docs/guide/python.md"
    said = doctest.testfile(str(guide), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert said.attempted > 5 and said.failed == 0
    assert len(guide.read_text().split()) <= 500


def test_notebooks_are_kept_without_outputs():
    for path in (CHECKOUT / "crates/py/notebooks").glob("*.ipynb"):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        assert cells and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells), path

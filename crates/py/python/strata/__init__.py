"""Strata in Python: replay page traces under reclaim policies, look into recordings, plan budgets and promises.

Every answer is that of a verb of the command line (``strata sim``, ``strata plan``, ``strata plan --promise``), by the same
code. Nothing needs root, BPF or a running process; only ``strata record``, which makes recordings, does.

>>> import strata
>>> table = strata.simulate("gen:zipf,pages=1000,accesses=20000", policies="lru,opt", memory="10%")
>>> table.select(["policy", "memory_pages", "misses"]).to_pylist()
[{'policy': 'lru', 'memory_pages': 99, 'misses': 8739}, {'policy': 'opt', 'memory_pages': 99, 'misses': 5128}]

Errors are exceptions with Strata's text: ``ValueError`` and ``TypeError`` for an argument, :class:`TraceError` for a trace that
can't be read, :class:`StrataError` for the rest. Work that takes long lets other threads run; Ctrl-C ends it at once.
"""

from __future__ import annotations

import json
import os
from numbers import Integral
from typing import TYPE_CHECKING, Any, BinaryIO, Mapping, NamedTuple, Sequence, Union

from . import _strata
from ._strata import StrataError, Trace, TraceError, __version__

if TYPE_CHECKING:
    import numpy
    import pyarrow

    PathLike = Union[str, "os.PathLike[str]"]

__all__ = [
    "HeatMap",
    "KINDS",
    "Recording",
    "StrataError",
    "Trace",
    "TraceError",
    "load",
    "plan",
    "promise",
    "simulate",
    "sweep",
    "__version__",
]

#: Kinds of pages, as the column ``kind`` has them: anonymous memory, files, files that are mapped to be executed.
KINDS = ("anon", "file", "code")
#: Columns that arrays may have, and the elements that are read without a copy.
_COLUMNS = {"page": "uint64", "time_us": "uint64", "space": "uint32", "group": "uint16", "write": "bool"}


def load(
    trace: Any,
    *,
    name: str | None = None,
    format: str | None = None,
    columns: str = "",
    via: str | None = None,
    backing: str | None = None,
    expand_sizes: bool = False,
    id_bytes: int | None = None,
    order: str | None = None,
    max_memory: int | None = None,
) -> Trace:
    """Loads a trace into memory, to replay it more than once.

    ``trace`` is one of

    - a path, or the name of a generator (``"gen:zipf"``). Formats are guessed, files may be compressed.
    - a file object open in binary mode.
    - a 1-D array of page numbers (whole numbers, one an access), or columns of such arrays: a dict, a ``pyarrow.Table`` or a
      ``pandas.DataFrame`` with ``page`` and, if wanted, ``time_us`` (microseconds), ``space``, ``group`` and ``write``
      (bool). 64-bit pages and times, 32-bit spaces and 16-bit groups that lie in one piece are read without a copy. Do not
      change an array while it is read.
    - a :class:`Recording`, or what this function returned.

    ``name`` is what tables call the trace. The others are the options of ``strata sim``: ``format`` (``--trace-format``),
    ``columns`` (``--trace-columns``), ``via`` (``"fd"``, ``"mmap"``), ``backing`` (``"anon"``, ``"file"``), ``expand_sizes``,
    ``id_bytes``, ``order`` and ``max_memory`` (bytes; a quarter of the machine's memory by default). Accesses of arrays are of
    anonymous memory through mappings, unless ``via`` and ``backing`` say otherwise.

    Raises ``ValueError`` or ``TypeError`` for an argument, :class:`TraceError` for a trace that can't be read, and
    :class:`StrataError` for one that needs more than ``max_memory``.

    >>> import numpy, strata
    >>> strata.load(numpy.arange(1000) % 100, name="loop")
    <strata.Trace loop: 1000 accesses of 100 pages>
    """
    if isinstance(trace, Trace):
        return trace
    if isinstance(trace, Recording):
        return trace.trace(order or "shuffled", max_memory=max_memory)
    how = dict(
        format=format,
        columns=columns,
        via=via,
        backing=backing,
        expand_sizes=expand_sizes,
        id_bytes=id_bytes,
        order=order,
        max_memory=_bytes(max_memory),
    )
    if isinstance(trace, (str, os.PathLike)):
        path = os.fspath(trace)
        return _strata.load(path, name or path, how)
    if hasattr(trace, "read"):
        return _strata.load(trace, name or _name_of(trace), how)
    return _strata.load_arrays(_arrays(trace), name or "arrays", how)


def simulate(
    trace: Any,
    policies: str | Sequence[str] = "mglru,two-list,lru,opt",
    memory: str | int | Sequence[str | int] = "10%",
    *,
    swappiness: int = 60,
    cost: str = "",
    jobs: int = 0,
    max_memory: int | None = None,
    **reading: Any,
) -> pyarrow.Table:
    """Replays a trace under policies, each with each amount of memory, as ``strata sim`` does.

    ``trace`` is what :func:`load` takes, and ``reading`` its options. ``policies`` are names as ``strata sim --policy`` knows them
    (a list, or a text with commas). ``memory`` is a number of pages (an ``int``), an amount (``"64MiB"``), a share of the
    footprint (``"10%"``), ``"auto"`` for the 16 shares of a curve, or a list of these. ``swappiness`` is 0 to 201, ``cost`` the
    prices of the estimated time (``"read=80000"``, nanoseconds), ``jobs`` the runs at a time (0: one a processor).

    Returns a table with a row a run, policies outside, amounts inside, and the columns of ``strata sim --format csv``: counts
    and times in nanoseconds as ``uint64``, ``miss_ratio`` as ``double``, null where a policy has no such figure. The same
    arguments give the same figures on any machine.

    Raises what :func:`load` does, and :class:`StrataError` for a run that can't be.

    >>> import strata
    >>> strata.simulate(range(100), "fifo", 100)["misses"].to_pylist()
    [100]
    """
    text = load(trace, max_memory=max_memory, **reading).simulate(
        _texts(policies, "policies"), _texts(memory, "memory"), swappiness, cost, jobs, _bytes(max_memory)
    )
    return _table(text)


class HeatMap(NamedTuple):
    """Accesses of a recording by address and time."""

    #: ``uint32``, shape ``(rows, columns)``: accesses that walks found in this part of memory, in this part of the time.
    counts: numpy.ndarray
    #: ``float64``, shape ``(columns + 1,)``: where columns begin and end, in seconds since the recording began.
    edges_s: numpy.ndarray
    #: ``uint32``, shape ``(rows,)``: the space (process or file) in which a row begins; see :attr:`Recording.spaces`.
    space: numpy.ndarray
    #: ``uint64``, shape ``(rows,)``: the page number at which a row begins.
    page: numpy.ndarray


class Recording:
    """What ``strata record`` wrote: which pages of processes, and of the files they read, were accessed when.

    ``recording`` is a path or a file object open in binary mode. ``max_memory`` bounds, in bytes, what loading may take (a
    quarter of the machine's memory by default). Raises :class:`TraceError` for a file that can't be read, ``ValueError`` for a
    trace that is no recording, and :class:`StrataError` for one that needs more memory.
    """

    def __init__(
        self, recording: PathLike | BinaryIO, *, name: str | None = None, max_memory: int | None = None
    ) -> None:
        how = dict(
            format="strata",
            columns="",
            via=None,
            backing=None,
            expand_sizes=False,
            id_bytes=None,
            order=None,
            max_memory=_bytes(max_memory),
        )
        if isinstance(recording, (str, os.PathLike)):
            source: Any = os.fspath(recording)
            name = name or source
        else:
            source, name = recording, name or _name_of(recording)
        self._raw = _strata.load_recording(source, name, how)

    def __repr__(self) -> str:
        return f"<strata.Recording {self.name}: {self.duration_s:.1f} s, {self.nr_accesses} accesses>"

    @property
    def name(self) -> str:
        """The path, or the name that was given."""
        return self._raw.name

    @property
    def target(self) -> str:
        """What was recorded, in the words of ``strata record``; for people."""
        return self._raw.target

    @property
    def duration_s(self) -> float:
        """From the first walk to the last, seconds."""
        return self._raw.duration_us / 1e6

    @property
    def cpu_s(self) -> float:
        """CPU time that the recorded processes used, seconds."""
        return self._raw.cpu_us / 1e6

    @property
    def nr_walks(self) -> int:
        """Walks of page tables after the first."""
        return self._raw.nr_walks

    @property
    def nr_accesses(self) -> int:
        """Rows of :meth:`accesses`."""
        return self._raw.nr_accesses

    @property
    def footprint_bytes(self) -> int:
        """The most memory in use at a time: what the processes take without a budget."""
        return self._raw.footprint_pages * 4096

    @property
    def spaces(self) -> dict[int, str]:
        """What each space is: a process, or the path of a file. Names are as they were found; escape them before use in HTML."""
        return self._raw.spaces

    def trace(self, order: str = "shuffled", *, max_memory: int | None = None) -> Trace:
        """The recording as a trace for :func:`simulate`. ``order`` is that of accesses between two walks: ``"shuffled"``,
        ``"shuffled:SEED"``, ``"address"``, ``"best"`` or ``"worst"``."""
        return self._raw.trace(order, _bytes(max_memory))

    def accesses(self) -> pyarrow.Table:
        """Each page that a walk found accessed, or come into memory, since the walk before.

        Columns: ``time_us`` (``uint64``, of the walk, since the recording began), ``space`` (``uint32``), ``page`` (``uint64``),
        ``life`` (``uint8``: how often the page was freed before, modulo 256), ``kind`` (one of :data:`KINDS`), ``write``
        and ``mapped`` (``bool``; not mapped is page cache).
        """
        time_us, space, page, life, kind, write, mapped = self._raw.accesses()
        columns = dict(time_us=time_us, space=space, page=page, life=life, kind=_kinds(kind))
        return _pyarrow().table({**columns, "write": write, "mapped": mapped})

    def ages(self) -> pyarrow.Table:
        """How long each page that is in use at the end was not accessed.

        Columns: ``space`` (``uint32``), ``page`` (``uint64``), ``kind`` (one of :data:`KINDS`) and ``age_us`` (``uint64``).
        Pages are in the order of addresses. A page that was never accessed is as old as the recording.
        """
        space, page, kind, age_us = self._raw.ages()
        return _pyarrow().table(dict(space=space, page=page, kind=_kinds(kind), age_us=age_us))

    def heat_map(self, rows: int = 200, columns: int = 400) -> HeatMap:
        """Accesses by address and time. Rows have the same number of pages, in the order of addresses: what was never
        accessed takes no room. There are at most as many rows as pages."""
        import numpy

        counts, space, page = self._raw.heat_map(rows, columns)
        begin_s = self._raw.begin_us / 1e6
        edges_s = numpy.linspace(begin_s, begin_s + self.duration_s, columns + 1)
        return HeatMap(counts.reshape(len(space), columns), edges_s, space, page)


def plan(
    recording: Recording | PathLike,
    *,
    slowdown: float = 0.03,
    memory: str | int | Sequence[str | int] = (),
    policies: str | Sequence[str] = "two-list",
    held: str = "strata",
    pageout_rate: int | None = None,
    cost: str = "",
    jobs: int = 0,
    max_memory: int | None = None,
) -> dict[str, Any]:
    """How much memory a recorded program needs, as ``strata plan`` tells it.

    ``slowdown`` is what is acceptable, as a share of the CPU time used (0.03 is 3 %). ``memory`` names budgets to tell about beside
    those of the curve. ``policies``, ``held``, ``pageout_rate`` and ``cost`` are options of ``strata plan``.

    Returns the object of ``strata plan --format json``: bytes, microseconds, and ratios as shares of 1. ``budget_bytes`` has the
    answer: ``expected`` is mostly enough, ``highest`` in the worst case too; null where no budget is.
    """
    text = _recording(recording, max_memory)._raw.plan(
        slowdown,
        _texts(memory, "memory"),
        _texts(policies, "policies"),
        held,
        pageout_rate,
        cost,
        jobs,
        _bytes(max_memory),
    )
    return json.loads(text)


def promise(
    recording: Recording | PathLike,
    share_per_min: float = 0.002,
    *,
    min_age_s: float = 60.0,
    cost: str = "",
    max_memory: int | None = None,
) -> dict[str, Any]:
    """What ``strata guard`` would give back of a recorded program, and what of that would come back.

    ``share_per_min`` is the share of its memory that may come back within a minute (0.002 is 0.2 %). Memory is never idle that
    was accessed within ``min_age_s`` seconds.

    Returns the object of ``strata plan --promise --format json``: bytes, milliseconds, and ratios as shares of 1. ``groups[0]``
    has what is away on average and at the end, what came back, and how that went over time.
    """
    text = _recording(recording, max_memory)._raw.promise(share_per_min, min_age_s, cost, _bytes(max_memory))
    return json.loads(text)


def sweep(
    traces: str | Sequence[str],
    policies: str | Sequence[str],
    memories: str | int | Sequence[str | int],
    on: str = "processes",
    *,
    out: PathLike | None = None,
    workers: int | None = None,
    swappiness: int = 60,
    cost: str = "",
    max_memory: int | None = None,
    **reading: Any,
) -> pyarrow.Table:
    """Replays every trace under every policy with every amount of memory, on many processes or machines.

    ``traces`` are paths or names of generators, which every worker has to be able to open. ``policies``, ``memories`` and the
    other arguments are those of :func:`simulate`, except that ``max_memory`` bounds each worker.

    ``on`` says where: ``"processes"`` of this machine, ``"ray"`` or ``"dask"``. Ray and Dask use the cluster that the program is
    connected to (``ray.init``, ``distributed.Client``), or start one on this machine. ``workers`` is how many processes, by
    default one a processor. A program that is no notebook calls this below ``if __name__ == "__main__":``.

    ``out`` names a Parquet file. Cells that are done are kept in ``OUT.part``, so that the same call goes on where it was
    stopped, however it was stopped; once all are done, it returns what the file has. The file has the same bytes whichever
    engine ran it. It is refused if it holds another sweep, or the traces have changed.

    Returns a table with a row a cell in the order asked for, traces outside, amounts inside: the columns of :func:`simulate`,
    ``memory`` (the amount as it was asked for) and ``error``. A cell that can't be run has a text there and nulls. A cell whose
    worker dies runs again, up to three times.
    """
    from . import _sweep

    cells = [
        _sweep.Cell(trace, policy, memory)
        for trace in _texts(traces, "traces", commas=False)
        for policy, memory in _strata.check(_texts(policies, "policies"), _texts(memories, "memories"))
    ]
    work = _sweep.Work(swappiness, cost, _bytes(max_memory), tuple(sorted(reading.items())))
    return _sweep.run(cells, work, on, None if out is None else os.fspath(out), workers)


def _texts(values: Any, what: str, *, commas: bool = True) -> list[str]:
    """A list of texts, of one or several; whole numbers are texts, too."""
    if isinstance(values, str):
        return values.split(",") if commas else [values]
    if isinstance(values, (os.PathLike, Integral)):
        values = [values]
    texts = []
    for value in values:
        if isinstance(value, (str, os.PathLike)):
            texts.append(os.fspath(value))
        elif isinstance(value, Integral) and not isinstance(value, bool):
            texts.append(str(int(value)))
        else:
            raise TypeError(f"{what}: {value!r} is neither a text nor a whole number")
    return list(dict.fromkeys(texts))


def _arrays(trace: Any) -> dict[str, numpy.ndarray]:
    """Columns as arrays that can be read where they lie, copied only where they can't be."""
    import numpy

    names = getattr(trace, "column_names", None) or getattr(getattr(trace, "dtype", None), "names", None)
    if names is None and hasattr(trace, "keys"):
        names = list(trace.keys())
    given: Mapping[str, Any] = {"page": trace} if names is None else {name: trace[name] for name in names}
    unknown = [name for name in given if name not in _COLUMNS]
    if unknown or "page" not in given:
        raise ValueError(f"columns are page and, if wanted, {', '.join(list(_COLUMNS)[1:])}; not {', '.join(map(str, given))}")
    arrays: dict[str, Any] = dict.fromkeys(_COLUMNS)
    for name, values in given.items():
        array, want = numpy.asarray(values), numpy.dtype(_COLUMNS[name])
        if array.ndim != 1:
            raise ValueError(f"{name} has {array.ndim} dimensions: give one")
        if array.size == 0:
            array = array.astype(want)
        if array.dtype.kind not in ("b" if want == bool else "iu"):
            expected = "bool" if want == bool else "whole numbers"
            raise TypeError(f"{name} has elements of {array.dtype}: give {expected}")
        if array.dtype != want and array.size:
            if array.dtype.kind == "i" and array.min() < 0:
                raise ValueError(f"{name} has elements below 0")
            if array.max() > numpy.iinfo(want).max:
                raise ValueError(f"{name} has elements above {numpy.iinfo(want).max}")
            if array.dtype.isnative and array.dtype.itemsize == want.itemsize:
                array = array.view(want)
        arrays[name] = numpy.ascontiguousarray(array, dtype=want)
    return arrays


def _table(csv: str) -> pyarrow.Table:
    """The text of ``strata sim --format csv`` as a table."""
    pyarrow = _pyarrow()
    import pyarrow.csv as reader

    texts, shares = ("trace", "policy"), ("miss_ratio",)
    types = {
        name: pyarrow.string() if name in texts else pyarrow.float64() if name in shares else pyarrow.uint64()
        for name in csv.split("\r\n", 1)[0].split(",")
    }
    return reader.read_csv(
        pyarrow.BufferReader(csv.encode()),
        parse_options=reader.ParseOptions(newlines_in_values=True),
        convert_options=reader.ConvertOptions(column_types=types),
    )


def _kinds(kind: numpy.ndarray) -> pyarrow.DictionaryArray:
    pyarrow = _pyarrow()
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(kind), list(KINDS))


def _recording(recording: Recording | PathLike, max_memory: int | None) -> Recording:
    return recording if isinstance(recording, Recording) else Recording(recording, max_memory=max_memory)


def _name_of(file: Any) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else "file object"


def _bytes(max_memory: int | None) -> int:
    """What may be taken: what was said, or a quarter of the machine's memory."""
    if max_memory is not None:
        return max_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def _pyarrow() -> Any:
    """Imported when it is needed: ``import strata`` is quick."""
    import pyarrow

    return pyarrow

"""Many replays on many processes: the cells of a sweep, and where they run.

One process, the caller's, knows which cells are done and writes them down. Engines only run cells and may lose or repeat
them: a cell counts once, when it is written.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import itertools
import json
import multiprocessing
import os
import threading
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Iterator, NamedTuple

import pyarrow
import pyarrow.parquet

import strata

#: Cells that wait at each worker for the one before them.
CELLS_AHEAD = 2
#: A cell whose worker died runs again, so often.
TRIES = 3
#: Where the Parquet file says which sweep it is.
KEY = b"strata.sweep"


class Cell(NamedTuple):
    """A replay."""

    trace: str
    policy: str
    memory: str


class Work(NamedTuple):
    """What is the same for all cells."""

    swappiness: int
    cost: str
    max_memory: int
    reading: tuple[tuple[str, Any], ...]

    def __call__(self, cell: Cell) -> dict[str, Any]:
        """Runs a cell, in whatever process this is."""
        try:
            trace = _loaded(cell.trace, self.max_memory, self.reading)
            table = strata.simulate(
                trace,
                [cell.policy],
                [cell.memory],
                swappiness=self.swappiness,
                cost=self.cost,
                jobs=1,
                max_memory=self.max_memory,
            )
        except (strata.StrataError, ValueError, TypeError) as error:
            return failed(cell, str(error))
        return {**table.to_pylist()[0], **cell._asdict(), "error": None}


@functools.lru_cache(maxsize=1)
def _loaded(trace: str, max_memory: int, reading: tuple[tuple[str, Any], ...]) -> strata.Trace:
    """The trace that the cell before this one had, too, most likely."""
    return strata.load(trace, max_memory=max_memory, **dict(reading))


def failed(cell: Cell, error: str) -> dict[str, Any]:
    """A row of a cell that could not be run."""
    return {**cell._asdict(), "error": error}


def run(cells: list[Cell], work: Work, on: str, out: str | None, workers: int | None) -> pyarrow.Table:
    """Runs the cells that are not done yet, and makes the table."""
    if on not in ENGINES:
        raise ValueError(f"on is one of {', '.join(ENGINES)}, not {on!r}")
    workers = workers or len(os.sched_getaffinity(0))
    key = _key(cells, work)
    if out is None:
        rows = {cell: row for cell, row in ENGINES[on](cells, work, workers)}
        return _table(cells, rows, key)
    if os.path.exists(out):
        table = pyarrow.parquet.read_table(out)
        if (table.schema.metadata or {}).get(KEY) != key.encode():
            raise FileExistsError(
                f"{out} holds another sweep, or one of traces that have changed: remove it, or name another file"
            )
        return table
    with Journal(f"{out}.part", key) as journal:
        rows = {cell: row for cell, row in journal.rows() if row["error"] is None}
        for cell, row in ENGINES[on]([cell for cell in cells if cell not in rows], work, workers):
            if cell not in rows:
                rows[cell] = row
                journal.append(row)
        table = _table(cells, rows, key)
        _write(table, out)
        journal.remove()
    return table


def _key(cells: list[Cell], work: Work) -> str:
    """Tells one sweep from another: what is asked, of which files, of which version."""
    files = {}
    for cell in cells:
        if cell.trace not in files and os.path.exists(cell.trace):
            stat = os.stat(cell.trace)
            files[cell.trace] = [stat.st_size, stat.st_mtime_ns]
    # How much memory a worker may take changes nothing that comes out.
    asked = [strata.__version__, cells, work._replace(max_memory=0), files]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _table(cells: list[Cell], rows: dict[Cell, dict[str, Any]], key: str) -> pyarrow.Table:
    """All rows in the order of the cells."""
    figures = strata.simulate([0], policies=[], memory=[]).schema
    fields = [figures.field(0), figures.field(1), pyarrow.field("memory", pyarrow.string())]
    fields += [*itertools.islice(figures, 2, None), pyarrow.field("error", pyarrow.string())]
    return pyarrow.Table.from_pylist([rows[cell] for cell in cells], pyarrow.schema(fields, {KEY: key}))


def _write(table: pyarrow.Table, out: str) -> None:
    """All of the file or nothing."""
    try:
        pyarrow.parquet.write_table(table, f"{out}.tmp", compression="zstd")
        os.replace(f"{out}.tmp", out)
    except BaseException:
        if os.path.exists(f"{out}.tmp"):
            os.unlink(f"{out}.tmp")
        raise


class Journal:
    """The rows that are done, a line each below a line that says of which sweep. A line that was cut off is not there."""

    def __init__(self, path: str, key: str) -> None:
        self.path = path
        self._file = open(path, "a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise strata.StrataError(f"{path}: another sweep writes this file: wait for it, or name another") from None
        self._file.seek(0)
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        head, *self._lines = whole.splitlines() or [b""]
        if not head:
            self.append({"sweep": key})
        elif json.loads(head) != {"sweep": key}:
            self._file.close()
            raise FileExistsError(
                f"{path} holds a part of another sweep, or of one of traces that have changed: remove it, or name another file"
            )

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def rows(self) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """What was done before."""
        for line in self._lines:
            row = json.loads(line)
            yield Cell(row["trace"], row["policy"], row["memory"]), row

    def append(self, row: dict[str, Any]) -> None:
        """Writes a row down. It outlives this process."""
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()

    def remove(self) -> None:
        """All of it is elsewhere."""
        os.unlink(self.path)


Done = Iterator["tuple[Cell, dict[str, Any]]"]


def on_processes(cells: list[Cell], work: Work, workers: int) -> Done:
    """Processes of this machine. Where one dies, so do all, and what was under way runs again, alone: who did it shows."""
    todo, suspects, tries = list(reversed(cells)), [], dict.fromkeys(cells, 0)
    while todo or suspects:
        alone = bool(suspects)
        queue, width = (suspects, 1) if alone else (todo, workers)
        under_way: dict[Any, Cell] = {}
        try:
            yield from _in_pool(queue, work, width, under_way, 1 if alone else workers * CELLS_AHEAD)
        except BrokenProcessPool:
            for cell in under_way.values():
                tries[cell] += 1
                if tries[cell] < TRIES:
                    suspects.append(cell)
                else:
                    yield cell, failed(cell, f"the process that ran it died, {TRIES} times")


def _in_pool(queue: list[Cell], work: Work, width: int, under_way: dict[Any, Cell], ahead: int) -> Done:
    """Runs a queue from its end. What was under way when a process died is left in `under_way`."""
    before = multiprocessing.active_children()
    # A fork of a program with threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(width, mp_context=context, initializer=_end_with_parent)
    try:
        while queue or under_way:
            while queue and len(under_way) < ahead:
                under_way[pool.submit(work, queue[-1])] = queue[-1]
                queue.pop()
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                row = future.result()
                yield under_way.pop(future), row
    except BaseException:
        # A cell under way may take long, and nobody waits for it.
        for process in multiprocessing.active_children():
            if process not in before:
                process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Ends this worker when its parent has ended, however that came: nobody else would."""

    def wait_for_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()


def on_ray(cells: list[Cell], work: Work, workers: int) -> Done:
    """A Ray cluster: the one the program is connected to, or one on this machine."""
    import ray

    own = not ray.is_initialized()
    if own:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        width = CELLS_AHEAD * max(1, int(ray.cluster_resources().get("CPU", workers)))
        remote = ray.remote(num_cpus=1, max_retries=TRIES)(_call)
        todo, under_way = iter(cells), {}
        while True:
            for cell in itertools.islice(todo, width - len(under_way)):
                under_way[remote.remote(work, cell)] = cell
            if not under_way:
                return
            done, _ = ray.wait(list(under_way), num_returns=1)
            for reference in done:
                cell = under_way.pop(reference)
                yield cell, _result(cell, functools.partial(ray.get, reference), ray.exceptions.RayError)
    finally:
        if own:
            ray.shutdown()


def on_dask(cells: list[Cell], work: Work, workers: int) -> Done:
    """A Dask cluster: the one the program is connected to, or one on this machine."""
    import distributed

    own = None
    try:
        client = distributed.get_client()
    except ValueError:
        own = client = distributed.Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    try:
        width = CELLS_AHEAD * max(1, sum(client.nthreads().values()))
        todo, under_way, done = iter(cells), {}, distributed.as_completed()
        while True:
            for cell in itertools.islice(todo, width - len(under_way)):
                future = client.submit(work, cell, pure=False)
                under_way[future] = cell
                done.add(future)
            if not under_way:
                return
            future = next(done)
            cell = under_way.pop(future)
            yield cell, _result(cell, future.result, distributed.KilledWorker)
    finally:
        if own is not None:
            own.close()


def _call(work: Work, cell: Cell) -> dict[str, Any]:
    """Ray takes functions only."""
    return work(cell)


def _result(cell: Cell, get: Callable[[], dict[str, Any]], lost: type[BaseException]) -> dict[str, Any]:
    """A row; also of a cell that the engine has given up."""
    try:
        return get()
    except lost as error:
        return failed(cell, f"the process that ran it died: {error}")


ENGINES = {"processes": on_processes, "ray": on_ray, "dask": on_dask}

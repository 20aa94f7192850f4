"""libCacheSim's policies on our traces: what scripts/bench/sim.sh and scripts/evaluate.sh compare with.

strata trace convert TRACE - --to csv | zoo.py expand OUT
    writes the trace as oracleGeneral (24 bytes a request), every object of size 1
zoo.py run TRACE PAGES POLICY...
    prints policy, CPU seconds, miss ratio, bytes of anonymous memory taken
"""

import sys
import time

import libcachesim
import numpy


def expand(target):
    """A key is a page of a space; requests for it know when the next one comes."""
    columns = numpy.loadtxt(sys.stdin, dtype=numpy.uint64, delimiter=",", skiprows=1, usecols=(2, 3), ndmin=2)
    spaces, pages = columns[:, 0], columns[:, 1]
    assert pages.max() < 1 << 48, "page numbers of more than 48 bits"
    keys = (spaces << numpy.uint64(48)) + pages
    # The next request for the same key, counted from 1; none is -1.
    order = numpy.argsort(keys, kind="stable")
    follows = keys[order][1:] == keys[order][:-1]
    following = numpy.full(len(keys), -1, dtype=numpy.int64)
    following[order[:-1][follows]] = order[1:][follows] + 1
    fields = [("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next", "<i8")]
    records = numpy.zeros(len(keys), dtype=numpy.dtype(fields))
    records["key"], records["size"], records["next"] = keys, 1, following
    records.tofile(target)


def anonymous_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def run(trace, pages, policies):
    for name in policies:
        reader = libcachesim.TraceReader(
            trace=trace,
            trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE,
            reader_init_params=libcachesim.ReaderInitParam(ignore_obj_size=True),
        )
        before = anonymous_bytes()
        cache = getattr(libcachesim, name)(cache_size=int(pages))
        start = time.process_time()
        ratio, _ = cache.process_trace(reader)
        seconds = time.process_time() - start
        print(name, f"{seconds:.4f}", f"{ratio:.6f}", anonymous_bytes() - before, sep="\t")


if __name__ == "__main__":
    if sys.argv[1] == "expand":
        expand(sys.argv[2])
    else:
        run(sys.argv[2], sys.argv[3], sys.argv[4:])

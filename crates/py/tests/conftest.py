"""What tests share: where the checkout is, and how long a signal takes to be answered."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
#: An interrupt is to be answered within so long, seconds; where others may want the processors it has to be answered at all.
ANSWERED_S = 0.2 if os.environ.get("STRATA_TIMED") else 10
RECORDINGS = CHECKOUT / "tests" / "recordings"


@pytest.fixture
def in_recordings(monkeypatch):
    """Recordings are called by their bare names, as in the answers that are kept beside them."""
    monkeypatch.chdir(RECORDINGS)


@pytest.fixture
def interrupted():
    """Runs work, interrupts it as Ctrl-C does, and tells how long it took to raise, in seconds. Others may want the
    processors, so that there are three tries."""

    def once(work, after_s):
        sent = []

        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(after_s, send)
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                work()
                timer.cancel()
            return time.monotonic() - sent[0]
        finally:
            timer.cancel()

    def run(work, after_s=0.5):
        took = once(work, after_s)
        for _ in range(2):
            if took >= ANSWERED_S:
                took = once(work, after_s)
        return took

    # A shell that starts this in the background has it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield run
    signal.signal(signal.SIGINT, before)


def work_threads():
    """Threads of Strata that still work in this process."""
    names = Path("/proc/self/task").glob("*/comm")
    return sum(name.read_text().strip() == "strata" for name in names)

"""A part of the benchmarks in a process of its own: its rows as it finds them, and its end after so long."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

import msgspec

from tests.bench.rows import Row

# As `make` sets them: threads that spin while they wait slow down whatever else there is to measure.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}


def measured(
    command: Sequence[str], arguments: Sequence[str], limit_s: float, keep: Callable[[Row], None]
) -> str:
    """Run `command`, the descriptor that its rows go to, and `arguments`; return why it failed, or "".

    It and all that it started are ended after `limit_s`.
    """
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [*command, str(writing), *arguments],
        env=_ENVIRONMENT | os.environ,
        pass_fds=(writing,),
        start_new_session=True,
    )
    os.close(writing)
    previous = signal.signal(signal.SIGALRM, lambda *_: os.killpg(child.pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    began = time.monotonic()
    try:
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                keep(msgspec.json.decode(line, type=Row))
        code = child.wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
    if code and time.monotonic() - began >= limit_s:
        return f"not done within {limit_s:.0f} s"
    return f"ended with {code}; what it said is above" if code else ""

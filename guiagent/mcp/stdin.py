"""Ends standard input when the process is asked to stop, so that a server that reads it ends in order."""

import asyncio
import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterator

_CHUNK = 1 << 16


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGINT and SIGTERM are an end of standard input for what reads it meanwhile.

    A thread that waits for a line cannot be interrupted, and a server would wait for it: so standard input is
    passed on through a pipe, which a signal closes.
    """
    loop = asyncio.get_running_loop()
    client, (asked, ask), (passed, on) = os.dup(0), os.pipe(), os.pipe()
    passing = threading.Thread(target=_pass_on, args=(client, asked, on), daemon=True)
    os.dup2(passed, 0)
    os.close(passed)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, os.write, ask, b"x")
    passing.start()
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        os.dup2(client, 0)  # nobody reads the pipe any more, so that a blocked write ends
        os.write(ask, b"x")


def _pass_on(source: int, asked: int, target: int) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(target, "wb", buffering=0) as passed:
        while asked not in select.select([source, asked], [], [])[0]:
            if not (data := os.read(source, _CHUNK)):
                return
            while data:
                data = data[passed.write(data) :]

"""Ctrl-C and SIGTERM as a wish: long work saves what it has and ends. A second one ends it at once."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stoppable(*, quietly: bool = False) -> Iterator[Callable[[], bool]]:
    """Yield what tells whether this process was asked to stop. Only the main thread can be asked.

    The second signal ends the process as a kill would: what was saved before is all that is left of it.
    `quietly` leaves the words to another process.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(number: int, frame: object) -> None:
        if asked.is_set():
            shown = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # the cursor, which a live line hides
            _say(f"{shown}guiagent: ended at once; the same command goes on from the last checkpoint")
            os._exit(128 + number)
        asked.set()
        if not quietly:
            _say("guiagent: stopping when this step is saved; a second Ctrl-C ends at once")

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def cancelled_by_signals() -> Iterator[None]:
    """Have Ctrl-C and SIGTERM cancel the running task, which gives back what it holds.

    They do so also where the shell started this in the background and had it ignore the first of them. Only
    the main thread can be asked.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _say(line: str) -> None:
    """Write a line to stderr, from a signal handler: no buffer that the interrupted code may hold."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode())

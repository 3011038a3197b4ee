"""Starts of a browser, repeated where it crashed by itself.

Chromium can fall over its own threads while it starts: of 4,000 starts of a headless shell 156, eight at a
time on two cores, three ended with SIGSEGV before the first answer. The same start then succeeds.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from devices.chromium.process import Process
from guiagent.errors import Fault, FaultError

T = TypeVar("T")
_ATTEMPTS = 3
_log = logging.getLogger(__name__)


class CrashedAtStart(FaultError):
    """The browser was ended by a signal before it was up."""


def failure(process: Process, name: str, error: FaultError, advice: str = "") -> FaultError:
    """What to raise when the browser of the ended `process` did not come up because of `error`."""
    message = f"{name} did not come up: {error.fault.message} ({process.ending}){advice}"
    kind = CrashedAtStart if process.crashed else FaultError
    return kind(Fault("device", "start_failed", message, retryable=True))


async def persistently(start: Callable[[], Awaitable[T]]) -> T:
    """Await `start()`, up to three times while it raises CrashedAtStart."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await start()
        except CrashedAtStart as crash:
            _log.warning("%s; starting it again", crash.fault.message)
    return await start()

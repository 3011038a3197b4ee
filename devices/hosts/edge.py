"""The edge between a host and its drivers, where whatever a driver raises becomes a fault of its device."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from guiagent.errors import Fault, FaultError, GuiAgentError

_log = logging.getLogger(__name__)

_LONGEST = 300  # characters of an exception's text that a fault repeats


class Provoked(FaultError):
    """A fault that whoever holds a device can bring about at will, say by a short deadline.

    The device is replaced as after any fault, but it is no sign that the device is bad: it does not count
    towards a quarantine.
    """


@contextlib.contextmanager
def edge(device: str, verb: str, *passing: type[GuiAgentError], held: bool = False) -> Iterator[None]:
    """Raise FaultError for every exception of a driver but `passing` ones, with the traceback in the log.

    It is Provoked if the device is `held`: the holder's call may be what the driver does not stand. A
    cancellation that nobody asked this task for is the driver's, too.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, (FaultError, *passing)):
            raise
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        _log.exception("%s: the driver failed in %r", device, verb)
        fault = Fault("device", "driver_error", f"the driver failed in {verb!r}: {_line(error)}", True)
        raise (Provoked if held else FaultError)(fault) from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _line(error: BaseException) -> str:
    if isinstance(error, GuiAgentError):
        return escaped(str(error))
    return escaped(f"{type(error).__name__}: {error}")


def escaped(text: str, longest: int = _LONGEST) -> str:
    """One printable line of `text`: control characters, line ends among them, as escapes; cut if longer."""
    shown = text[: longest + 1]
    line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)
    return line if len(line) <= longest else line[: longest - 3] + "..."

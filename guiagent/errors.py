"""Error types, by who can act on them, and `Fault`: a failure outside the agent's reach, recorded as data.

A fault is never a score: an episode in which the agent fails gets a score, one whose device died a fault.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

Origin = Literal["device", "task", "policy", "judge", "farm"]


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failure outside the agent's reach: its origin, its kind, and whether trying again may help."""

    origin: Origin
    code: str  # a short stable word: "deadline", "crashed", "disk_full", "fenced", "unreachable", ...
    message: str  # one line for people
    retryable: bool = False


class GuiAgentError(Exception):
    """Base of every error this package raises on purpose. `str(error)` is one line with the way out."""

    exit_code = 1


class UsageError(GuiAgentError):
    """The caller asked for something that cannot be: a bad flag, file, config key or action."""

    exit_code = 2


class NotFoundError(UsageError):
    """Nothing on a device's screen is as the caller asked for."""


class WaitTimeoutError(UsageError):
    """What the caller waited for did not come about on a device's screen in time."""


class InfrastructureError(GuiAgentError):
    """The environment is not as needed: no browser, a busy port, a full disk, a corrupted checkpoint."""

    exit_code = 3


class MissingProgram(InfrastructureError):
    """A program, package or image that this needs is not installed here. `str(error)` says how to get it.

    It has an exit code of its own, so that a parent process can tell it from a crash.
    """

    exit_code = 4


class DivergedError(GuiAgentError):
    """Training diverged: several losses or gradients in a row were not finite. The last checkpoint is from
    before."""

    exit_code = 3


class StalledError(GuiAgentError):
    """Training ended because nothing could be learned from its episodes for too long."""

    exit_code = 3


class StoppedError(GuiAgentError):
    """Work ended before its end because its user asked for it. What it had done was saved."""

    exit_code = 130  # a shell's code for Ctrl-C


class DialectError(GuiAgentError):
    """A model's text is not in its action language. Nothing was executed."""


class FaultError(GuiAgentError):
    """Carries a `Fault` through code that must stop; the episode loop turns it back into data."""

    exit_code = 3

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.origin} fault ({fault.code}): {fault.message}")
        self.fault = fault


class LeaseError(FaultError):
    """The lease is unknown, expired or fenced off by a newer holder."""


DECODE_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises where bytes hold no message: its own error, and Python's for text that is no UTF-8 and
for values nested too deep."""


def first_error(errors: Sequence[Mapping[str, Any]], skip: int = 0) -> str:
    """The first of pydantic's `error.errors()` as one line, "where: what".

    `skip` parts are left out at the beginning of where, such as the member of a union.
    """
    where = ".".join(str(part) for part in errors[0]["loc"][skip:])
    return f"{where}: {errors[0]['msg']}" if where else str(errors[0]["msg"])


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?", the end of an error, with the known name most like `name`; "" if none."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

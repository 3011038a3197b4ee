"""Errors of the farm's API as problems (RFC 9457), and the exceptions that they stand for."""

import msgspec

from guiagent.errors import DECODE_ERRORS, Fault, FaultError, GuiAgentError, LeaseError, UsageError


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as RFC 9457 has it, with what a program needs to decide what to do next."""

    title: str
    status: int
    detail: str
    code: str
    retryable: bool = False
    fault: Fault | None = None
    position: int | None = None  # in the queue, where no device came free in time
    eta_s: float | None = None  # how long it would have taken yet, as far as that can be told
    retry_after_s: float | None = None
    type: str = "about:blank"


_problem = msgspec.json.Decoder(Problem)


def error_of(status: int, body: bytes) -> GuiAgentError:
    """The exception a refused request stands for; any body, also one that is not from a pool, gives one."""
    try:
        problem = _problem.decode(body)
    except DECODE_ERRORS:
        fault = Fault(
            "farm", f"http_{status}", f"the pool answered {status} without saying why", status >= 500
        )
        return FaultError(fault)
    if problem.fault is not None:
        ended = status in (404, 409, 410) and problem.fault.origin != "task"
        return (LeaseError if ended else FaultError)(problem.fault)
    if status < 500 and not problem.retryable:
        return UsageError(problem.detail)
    return FaultError(Fault("farm", problem.code, problem.detail, problem.retryable))

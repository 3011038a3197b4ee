"""Converts exceptions to RFC 9457 problems: a line for people, and codes for programs."""

from collections.abc import Callable
from math import ceil

import msgspec
import pydantic
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from devices.api.admission import TooManyRequests
from devices.hosts.grants import NotGranted
from devices.pool.fairness import OverQuota
from devices.pool.guarding import Refused
from devices.pool.helping import WithAPerson
from devices.pool.service import NoDevice, OperatorOnly
from devices.pool.store import Deposed
from devices.pool.views import UnknownDevice
from guiagent.errors import FaultError, InfrastructureError, LeaseError, UsageError, first_error
from guiagent.wire import PROBLEM, TOO_MANY_REQUESTS, Problem

_LEASE_STATUS = {"unknown": 404, "fenced": 409}  # any other end of a lease is 410, gone
_TASK_STATUS = {"key_reused": 409}  # any other fault of the request's own is 422
_LINE = 500  # characters of a detail: what a caller sent may be quoted in it


def problem_response(problem: Problem) -> Response:
    wait_s = problem.retry_after_s
    headers = {"Retry-After": str(ceil(wait_s))} if wait_s is not None else None
    return Response(msgspec.json.encode(problem), problem.status, headers, PROBLEM)


def _lease(error: LeaseError) -> Problem:
    fault = error.fault
    status = _LEASE_STATUS.get(fault.code, 410)
    return Problem("The lease does not hold", status, fault.message, fault.code, fault.retryable, fault)


def _no_device(error: NoDevice) -> Problem:
    fault, place = error.fault, error.place
    return Problem(
        "No device is free",
        503,
        fault.message,
        fault.code,
        fault.retryable,
        fault,
        position=place.place,
        eta_s=place.eta_s,
        retry_after_s=place.eta_s,
    )


def _over_quota(error: OverQuota) -> Problem:
    fault = error.fault
    return Problem(
        "Over quota",
        429,
        fault.message,
        fault.code,
        fault.retryable,
        fault,
        retry_after_s=error.retry_after_s,
    )


def _too_many_requests(error: TooManyRequests) -> Problem:
    code, wait_s = TOO_MANY_REQUESTS, error.retry_after_s
    return Problem("Too Many Requests", 429, str(error), code, retryable=True, retry_after_s=wait_s)


def _fault(error: FaultError) -> Problem:
    """422 if the fault is the request's own (origin "task"), else 502: the device or the farm failed."""
    fault = error.fault
    if fault.origin == "task":
        status = _TASK_STATUS.get(fault.code, 422)
        title = "The task cannot be set up so"
        return Problem(title, status, fault.message, fault.code, fault.retryable, fault)
    return Problem("The device failed", 502, fault.message, fault.code, fault.retryable, fault)


def _with_a_person(error: WithAPerson) -> Problem:
    fault = error.fault
    return Problem("A person drives", 423, fault.message, fault.code, fault.retryable, fault)


def _unknown_device(error: UnknownDevice) -> Problem:
    return Problem("Not Found", 404, str(error), "unknown")


def _operator_only(error: OperatorOnly) -> Problem:
    return Problem("Forbidden", 403, str(error), "operator_only")


def _not_granted(error: NotGranted) -> Problem:
    return Problem("Not granted", 403, str(error), "not_granted")


def _refused(error: Refused) -> Problem:
    return Problem("Refused by a guardrail", 403, str(error), "guardrail")


def _deposed(error: Deposed) -> Problem:
    return Problem("No leader", 503, str(error), "no_leader", retryable=True)


def _infrastructure(error: InfrastructureError) -> Problem:
    return Problem("The pool cannot go on", 507, str(error), "storage", retryable=True)


def _bad_request(error: Exception) -> Problem:
    return Problem("Bad request", 422, _first_line(error), "bad_request")


def _hung_up(_: ClientDisconnect) -> Problem:
    return Problem("Bad request", 400, "the request ended before its body was whole", "hung_up")


def _http(error: HTTPException) -> Problem:
    return Problem(error.detail, error.status_code, error.detail, f"http_{error.status_code}")


def _first_line(error: Exception) -> str:
    """The first error in one line, with the place where it is.

    Names in the request can hold half of a surrogate pair, which no answer can.
    """
    if isinstance(error, RequestValidationError | pydantic.ValidationError):
        errors = error.errors()
        text = first_error(errors, skip=int(errors[0]["loc"][:1] == ("body",)))
    else:
        text = str(error)
    line = (text.splitlines() or [type(error).__name__])[0]
    return line[:_LINE].encode(errors="backslashreplace").decode()


PROBLEMS: dict[type[Exception], Callable[..., Problem]] = {
    LeaseError: _lease,
    NoDevice: _no_device,
    FaultError: _fault,
    NotGranted: _not_granted,
    Refused: _refused,
    WithAPerson: _with_a_person,
    OverQuota: _over_quota,
    TooManyRequests: _too_many_requests,
    UnknownDevice: _unknown_device,
    OperatorOnly: _operator_only,
    UsageError: _bad_request,
    RequestValidationError: _bad_request,
    pydantic.ValidationError: _bad_request,
    msgspec.DecodeError: _bad_request,
    Deposed: _deposed,
    InfrastructureError: _infrastructure,
    ClientDisconnect: _hung_up,
    HTTPException: _http,
}


def problem_of(error: Exception) -> Problem:
    """The problem of an exception, by the most specific of its classes in `PROBLEMS`."""
    describe = next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)
    return describe(error)


async def answer(_: Request, error: Exception) -> Response:
    """Exception handler for every class in `PROBLEMS`."""
    return problem_response(problem_of(error))

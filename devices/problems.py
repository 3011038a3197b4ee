"""Exceptions as RFC 9457 problems: a clear line for people, and what a program needs to go on."""

from collections.abc import Callable

import msgspec
import pydantic
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from devices.host import NotGranted
from devices.service import NoDevice
from guiagent.errors import FaultError, InfrastructureError, LeaseError, UsageError
from guiagent.wire import PROBLEM, Problem

_LEASE_STATUS = {"unknown": 404, "fenced": 409}  # any other end of a lease is 410, gone


def problem_response(problem: Problem) -> Response:
    return Response(msgspec.json.encode(problem), problem.status, media_type=PROBLEM)


def _lease(error: LeaseError) -> Problem:
    fault = error.fault
    status = _LEASE_STATUS.get(fault.code, 410)
    return Problem("The lease does not hold", status, fault.message, fault.code, fault.retryable, fault)


def _no_device(error: NoDevice) -> Problem:
    fault = error.fault
    return Problem(
        "No device is free", 503, fault.message, fault.code, fault.retryable, fault, position=error.position
    )


def _fault(error: FaultError) -> Problem:
    fault = error.fault
    return Problem("The device failed", 502, fault.message, fault.code, fault.retryable, fault)


def _not_granted(error: NotGranted) -> Problem:
    return Problem("Not granted", 403, str(error), "not_granted")


def _infrastructure(error: InfrastructureError) -> Problem:
    return Problem("The pool cannot go on", 507, str(error), "storage", retryable=True)


def _bad_request(error: Exception) -> Problem:
    return Problem("Bad request", 422, _first_line(error), "bad_request")


def _http(error: HTTPException) -> Problem:
    return Problem(error.detail, error.status_code, error.detail, f"http_{error.status_code}")


def _first_line(error: Exception) -> str:
    """What is wrong, and where, of the first thing that is."""
    if isinstance(error, RequestValidationError | pydantic.ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(error).splitlines()[0] if str(error) else type(error).__name__


PROBLEMS: dict[type[Exception], Callable[..., Problem]] = {
    LeaseError: _lease,
    NoDevice: _no_device,
    FaultError: _fault,
    NotGranted: _not_granted,
    UsageError: _bad_request,
    RequestValidationError: _bad_request,
    pydantic.ValidationError: _bad_request,
    msgspec.DecodeError: _bad_request,
    InfrastructureError: _infrastructure,
    HTTPException: _http,
}


async def answer(_: Request, error: Exception) -> Response:
    """Handler for every exception in `PROBLEMS`, the most special first."""
    describe = next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)
    return problem_response(describe(error))

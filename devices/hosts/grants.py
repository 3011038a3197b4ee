"""Grants of a lease: which verbs and services need one, and the check before each verb."""

from typing import Any

from devices.leases import Lease
from guiagent.actions import Shell
from guiagent.errors import UsageError
from guiagent.types import ObserveSpec
from guiagent.wire import (
    SERVICES,
    ConnectRequest,
    ExecRequest,
    GetRequest,
    ObserveRequest,
    PutRequest,
    ResetRequest,
    StepRequest,
    Verb,
)

_SITE = "site:"  # what addresses in a site of the device begin with


class NotGranted(UsageError):
    """The lease does not carry the grant this verb needs."""


def require(lease: Lease, message: Verb[Any]) -> None:
    """Raise NotGranted if the verb needs a grant that the lease lacks, UsageError for an unknown service."""
    match message:
        case StepRequest():
            _require_for(lease, message.spec)
            if any(isinstance(action, Shell) for action in message.parsed):
                _require(lease, "shell", "a shell action, which runs a command on the device,")
        case ObserveRequest():
            _require_for(lease, message.spec)
        case ResetRequest():
            _require_for(lease, message.spec, message.baseline.script)
        case ExecRequest(command=[place, *_]) if place.startswith(_SITE):
            _require(lease, "sites", "running a program in a site")
        case PutRequest(path=path) | GetRequest(path=path) if path.startswith(_SITE):
            _require(lease, "sites", "the files of a site")
        case ExecRequest():
            _require(lease, "shell", "running a command on the device")
        case PutRequest():
            _require(lease, "files", "writing files on the device")
        case GetRequest():
            _require(lease, "files", "reading files from the device")
        case ConnectRequest(service=service):
            grant = SERVICES.get(service)
            if grant is None:
                raise UsageError(f"there is no service {service!r}; there are {', '.join(SERVICES)}")
            _require(lease, grant, f"the service {service!r}")


def _require_for(lease: Lease, spec: ObserveSpec, script: str | None = None) -> None:
    if spec.probes or script is not None:
        _require(lease, "exec", "running code in the page (probes, baseline scripts)")


def _require(lease: Lease, grant: str, what: str) -> None:
    if grant not in lease.grants:
        raise NotGranted(f'{what} needs a grant: lease with grants=["{grant}"]')

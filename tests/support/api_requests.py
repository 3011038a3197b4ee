"""Requests of all kinds to a pool, sensible and not, made from its own OpenAPI document."""

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import SkipTest

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from guiagent import wire
from tests.support.canvas_device import TOKEN

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class Service:
    """A pool, and a lease on one of its devices for requests that need one."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, headers=HEADERS, timeout=30)

    def clear(self) -> None:
        """Everything in service, and nothing leased."""
        self.http.post(f"{wire.HOSTS}/local/restore", json={})
        for lease in self.http.get(wire.LEASES).json()["leases"]:
            self.http.delete(f"{wire.LEASES}/{lease['id']}")

    def lease(self) -> dict[str, Any]:
        wish = {"kind": "sim", "grants": ["exec", "shell", "files"]}
        (lease,) = self.http.post(wire.LEASES, json=wish).json()["leases"]
        return lease


def aim(case: schemathesis.Case, service: Service) -> None:
    """At a lease, a device and a host that there are, and with no patience for what cannot come."""
    if case.operation.path == wire.LEASES and isinstance(case.body, dict):
        case.body |= {"kind": "sim", "n": 1, "needs": [], "device": "", "takeover": False, "near": ""}
    lease = service.lease() if "lease" in case.path_parameters else None
    there = {"device": "sim-1", "host": "local"} | ({"lease": lease["id"]} if lease else {})
    case.path_parameters.update({name: there[name] for name in case.path_parameters if name in there})
    if isinstance(case.body, dict):
        if lease and isinstance(case.body.get("token"), int):
            case.body["token"] = lease["token"]
        for name, patience in (("wait_s", 5.0), ("deadline_s", 5.0), ("poll_s", 0.5)):
            if isinstance(case.body.get(name), int | float) and case.body[name] > 0:
                case.body[name] = patience
    if lease and isinstance(case.query, dict) and "token" in case.query:
        case.query["token"] = lease["token"]


CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]


def visit(
    service: Service, examples: int, failed: Callable[[str, Exception], None] | None = None
) -> Counter[int]:
    """How often each status came back.

    A request whose answer is not as documented is told to `failed`, and its operation is left; without
    `failed` it raises.
    """
    document = service.http.get(wire.OPENAPI).json()
    del document["security"]  # or half of the requests would come without a token, which is tried elsewhere
    schema = schemathesis.openapi.from_dict(document)
    seen: Counter[int] = Counter()
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            try:
                call(service, operation, mode, mode is schemathesis.GenerationMode.POSITIVE, examples, seen)
            except Exception as error:
                if failed is None:
                    raise
                failed(f"{operation.label} {mode.name}", error)
    return seen


def call(
    service: Service,
    operation: Any,
    mode: schemathesis.GenerationMode,
    aimed: bool,
    examples: int,
    seen: Counter[int],
) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def once(case: schemathesis.Case) -> None:
        service.clear()
        if aimed:
            aim(case, service)
        response = case.call(base_url=service.url, headers=HEADERS, timeout=30)
        seen[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    with contextlib.suppress(Unsatisfiable, SkipTest):  # what takes nothing has nothing wrong to send
        once()

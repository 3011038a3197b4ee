"""The OpenAPI document: FastAPI's description of its own routes, completed with the Starlette routes.

Bodies that msgspec decodes are described by their structs; WebSockets, which OpenAPI cannot describe, are
listed under `x-websockets`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from devices.api.auth import OPEN
from guiagent import wire
from guiagent.actions import ACTIONS

_REF = "#/components/schemas/{name}"
_REF_OF_PYDANTIC = "#/components/schemas/{model}"
_ANSWERS = (
    wire.Problem,
    wire.Leases,
    wire.Renewed,
    wire.HeldLeases,
    wire.FarmInfo,
    wire.Hosts,
    wire.Approvals,
    wire.HelpAnswer,
    wire.HelpWanteds,
    wire.Health,
)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Socket:
    path: str
    summary: str


def content(answer: type[msgspec.Struct] | None, media_type: str = wire.JSON, text: str = "done") -> Json:
    """Describe one response; `answer` is None if its body is bytes, not a JSON value."""
    schema: Json = {"type": "string", "format": "binary"}
    if answer is not None:
        schema = {"$ref": _REF.format(name=answer.__name__)}
    return {"description": text, "content": {media_type: {"schema": schema}}}


_problem = content(wire.Problem, wire.PROBLEM, "refused or failed; `retryable` says whether to try again")
PROBLEM_ANSWERS: dict[int | str, Json] = {"4XX": _problem, "5XX": _problem}


def documented(
    app: FastAPI, verbs: Mapping[str, type[wire.Verb[Any]]], sockets: Sequence[Socket]
) -> Callable[[], Json]:
    """Return a replacement for `app.openapi` that builds the whole document on the first call.

    `verbs`: the verb that each path is for.
    """
    made: list[Json] = []

    def openapi() -> Json:
        if not made:
            made.append(_document(app, verbs, sockets))
        return made[0]

    return openapi


def _document(app: FastAPI, verbs: Mapping[str, type[wire.Verb[Any]]], sockets: Sequence[Socket]) -> Json:
    document = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=app.summary)
    for path, verb in verbs.items():
        document["paths"][path] = {"post": _operation(path, verb)}
    bodies = dict.fromkeys(verbs.values())
    answers = dict.fromkeys(verb.answer for verb in bodies)
    _, structs = msgspec.json.schema_components((*_ANSWERS, *answers, *bodies), ref_template=_REF)
    actions = ACTIONS.json_schema(ref_template=_REF_OF_PYDANTIC)
    structs["StepRequest"]["properties"]["actions"] = {k: v for k, v in actions.items() if k != "$defs"}
    components = document.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **actions["$defs"], **structs}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for path in OPEN:
        for operation in document["paths"][path].values():
            operation["security"] = []
    document["x-websockets"] = {socket.path: {"summary": socket.summary} for socket in sockets}
    return document


def _operation(path: str, verb: type[wire.Verb[Any]]) -> Json:
    (holder,) = re.findall(r"\{(\w+)\}", path)
    body = {"$ref": _REF.format(name=verb.__name__)}
    return {
        "summary": verb.summary,
        "operationId": verb.verb if holder == "lease" else f"{holder}_{verb.verb}",
        "parameters": [{"name": holder, "in": "path", "required": True, "schema": {"type": "string"}}],
        "requestBody": {"required": True, "content": {wire.JSON: {"schema": body}}},
        "responses": {"200": content(verb.answer, verb.media_type, verb.summary), **PROBLEM_ANSWERS},
    }

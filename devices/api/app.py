"""The pool's HTTP API: every route with its request and its response.

Leases, devices, and hosts are FastAPI routes. The verbs of a device are plain Starlette routes: msgspec
decodes their requests, and observations are sent as msgpack. The OpenAPI document describes both.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Path, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from devices.api import live, tunnel
from devices.api.admission import Admission
from devices.api.auth import JOIN, Guard, tenant_of
from devices.api.openapi import PROBLEM_ANSWERS, Socket, content, documented
from devices.api.problems import PROBLEMS, answer, problem_of, problem_response
from devices.leases import OPERATOR, AdminState
from devices.pool.service import OperatorOnly, PoolService
from guiagent import wire
from guiagent.errors import UsageError

_PIECE = 256 << 10  # bytes
PAGE = FilePath(__file__).parents[1] / "dashboard" / "index.html"

_LEASE = wire.LEASES + "/{lease}"
_DEVICE = wire.DEVICES + "/{device}"
_HELP = wire.HELP + "/{help}"
_CONNECT = _LEASE + "/connect/{service}"
_SOCKETS = (
    Socket(wire.LIVE, "State as JSON text, frames as binary messages, of all devices the caller may see"),
    Socket(_CONNECT, "Bytes to and from a service of the device; ?token= is the lease's"),
    Socket(JOIN, "A device host's own connection; for the operator, and for the hosts' token"),
)
Token = Annotated[int, Query(description="the lease's fencing token", ge=0, le=2**63 - 1)]
FileName = Annotated[str, Query(description="absolute, on the device", min_length=1, max_length=4096)]
Id = Annotated[str, Path(max_length=200)]


def create_app(service: PoolService, tokens: Mapping[str, str]) -> FastAPI:
    """Create the API of one pool.

    `tokens` maps each bearer token to its tenant. Every route needs a token, except the page's HTML and the
    health check. A route that takes a body checks the lease before it reads one.
    """
    app = FastAPI(
        title="guiagent pool",
        summary="Leases on devices, and the devices' verbs",
        docs_url=None,
        redoc_url=None,
        openapi_url=wire.OPENAPI,
        responses=PROBLEM_ANSWERS,
    )
    admission = Admission(service.held, time)
    _lease_routes(app, service, admission)
    _device_routes(app, service)
    _help_routes(app, service)
    _open_routes(app)
    held = {f"{_LEASE}/{verb.verb}": verb for verb in wire.VERBS}
    helping = {f"{_HELP}/{verb.verb}": verb for verb in (wire.StepRequest, wire.ObserveRequest)}
    # First in the list: Starlette takes the first route that matches.
    app.router.routes[:0] = [
        *(_verb_route(service, path, verb) for path, verb in held.items()),
        *(_helping_route(service, path, verb) for path, verb in helping.items()),
    ]
    app.router.routes += [
        WebSocketRoute(wire.LIVE, live.stream(service)),
        WebSocketRoute(_CONNECT, tunnel.endpoint(service)),
        WebSocketRoute(JOIN, _join(service)),
    ]
    app.openapi = documented(app, held | helping, _SOCKETS)  # type: ignore[method-assign]
    for error in PROBLEMS:
        app.add_exception_handler(error, answer)
    app.add_middleware(Guard, tokens=tokens, admission=admission)
    return app


def _lease_routes(app: FastAPI, service: PoolService, admission: Admission) -> None:
    @app.post(wire.LEASES, status_code=201, responses={201: content(wire.Leases)})
    async def acquire(lease_request: wire.LeaseRequest, request: Request) -> Response:
        leases = await service.acquire(tenant_of(request), lease_request, lambda: _disconnected(request))
        return _json(wire.Leases(leases), 201)

    @app.get(wire.LEASES, responses={200: content(wire.HeldLeases)})
    async def leases(request: Request) -> Response:
        return _json(service.views.leases(tenant_of(request)))

    @app.post(_LEASE + "/renew", responses={200: content(wire.Renewed)})
    async def renew(lease: Id, ask: wire.RenewRequest, request: Request) -> Response:
        return _json(wire.Renewed(service.renew(tenant_of(request), lease, ask.ttl_s)))

    @app.delete(_LEASE, status_code=204)
    async def release(lease: Id, request: Request) -> Response:
        await service.release(tenant_of(request), lease)
        return Response(status_code=204)

    @app.post(_LEASE + "/help", responses={200: content(wire.HelpAnswer)})
    async def ask_help(lease: Id, ask: wire.HelpRequest, request: Request) -> Response:
        return _json(await service.ask_help(tenant_of(request), lease, ask))

    octets = content(None, wire.OCTETS, "the file")

    @app.put(
        _LEASE + "/files",
        status_code=204,
        openapi_extra={"requestBody": {"required": True, "content": octets["content"]}},
    )
    async def put(lease: Id, path: FileName, token: Token, request: Request) -> Response:
        tenant = tenant_of(request)
        service.require_allowed(tenant, lease, wire.PutRequest(token, path, b""))
        await service.call(tenant, lease, wire.PutRequest(token, path, await request.body()))
        return Response(status_code=204)

    @app.get(_LEASE + "/files", response_class=Response, responses={200: octets})
    async def get(lease: Id, path: FileName, token: Token, request: Request) -> Response:
        data = await service.call(tenant_of(request), lease, wire.GetRequest(token, path))
        admission.reserve(request.scope["reservation"], len(data))
        headers = {"Content-Length": str(len(data))}
        return StreamingResponse(_pieces(data), headers=headers, media_type=wire.OCTETS)


def _device_routes(app: FastAPI, service: PoolService) -> None:
    @app.get(wire.DEVICES, responses={200: content(wire.FarmInfo)})
    async def devices(request: Request) -> Response:
        return _json(service.views.farm(tenant_of(request)))

    picture = content(None, "image/jpeg", "the last picture it gave") | {
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("image/jpeg", "image/png")
        }
    }

    @app.get(
        _DEVICE + "/frame",
        response_class=Response,
        responses={200: picture, 304: {"description": "as the caller knows it"}},
    )
    async def frame(device: Id, request: Request) -> Response:
        shown = service.views.frame(tenant_of(request), device)
        if not shown.data:
            return problem_response(
                wire.Problem("Not Found", 404, "it has shown nothing yet", "no_frame", True)
            )
        headers = {"ETag": f'"{shown.hash}"', "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(shown.data, headers=headers, media_type=shown.media_type)

    @app.get(_DEVICE + "/logs", response_class=Response, responses={200: _text("a line for each event")})
    async def logs(device: Id, request: Request) -> Response:
        lines = (
            f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(line.at))} {line.text}\n"
            for line in service.views.log(tenant_of(request), device)
        )
        return Response("".join(lines), media_type=wire.TEXT)

    marks: tuple[tuple[str, AdminState], ...] = (
        ("drain", "drain"),
        ("quarantine", "quarantine"),
        ("restore", ""),
    )

    def mark_route(name: str, mark: AdminState) -> None:
        @app.post(f"{_DEVICE}/{name}", status_code=204, operation_id=f"{name}_device")
        async def mark_device(device: Id, why: wire.Reason, request: Request) -> Response:
            await service.mark(tenant_of(request), device, mark, why.reason)
            return Response(status_code=204)

        @app.post(wire.HOSTS + f"/{{host}}/{name}", status_code=204, operation_id=f"{name}_host")
        async def mark_host(host: Id, why: wire.Reason, request: Request) -> Response:
            await service.mark_host(tenant_of(request), host, mark, why.reason)
            return Response(status_code=204)

    for name, mark in marks:
        mark_route(name, mark)

    @app.get(wire.HOSTS, responses={200: content(wire.Hosts)})
    async def hosts(request: Request) -> Response:
        _require_operator(request, "the list of hosts")
        return _json(service.views.hosts())

    @app.get(wire.APPROVALS, responses={200: content(wire.Approvals)})
    async def approvals(request: Request) -> Response:
        _require_operator(request, "approving what agents do")
        return _json(wire.Approvals(service.approvals.waiting()))

    @app.post(wire.APPROVALS + "/{approval}", status_code=204)
    async def decide(approval: Id, decision: wire.Decision, request: Request) -> Response:
        _require_operator(request, "approving what agents do")
        service.approvals.decide(approval, decision.allow)
        return Response(status_code=204)

    @app.get(wire.METRICS, response_class=Response, responses={200: _text("Prometheus exposition format")})
    async def metrics(request: Request) -> Response:
        _require_operator(request, "the figures of the farm")
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4")


def _help_routes(app: FastAPI, service: PoolService) -> None:
    """Add the routes of the person whom an agent has asked for."""

    @app.get(wire.HELP, responses={200: content(wire.HelpWanteds)})
    async def wanted(request: Request) -> Response:
        _require_operator(request, "helping an agent")
        return _json(wire.HelpWanteds(service.helping.wanted()))

    @app.post(_HELP + "/give-back", status_code=204)
    async def give_back(help: Id, answer: wire.GiveBack, request: Request) -> Response:
        _require_operator(request, "helping an agent")
        service.give_back(help, answer)
        return Response(status_code=204)


def _open_routes(app: FastAPI) -> None:
    """Add the routes that need no token."""
    page = live.page(PAGE.read_text())

    @app.get("/", response_class=Response, responses={200: content(None, "text/html", "the live page")})
    async def shell() -> Response:
        return page()

    @app.get(wire.HEALTH, responses={200: content(wire.Health)})
    async def health() -> Response:
        return _json(wire.Health(True))


def _verb_route(service: PoolService, path: str, verb: type[wire.Verb[Any]]) -> Route:
    message_of = _decoder(verb)

    async def call(request: Request) -> Response:
        tenant, lease = tenant_of(request), request.path_params["lease"]
        service.require_held(tenant, lease)
        value = await service.call(tenant, lease, message_of(await request.body()))
        return Response(verb.encode(value), media_type=verb.media_type)

    return Route(path, call, methods=["POST"])


def _helping_route(service: PoolService, path: str, verb: type[wire.Verb[Any]]) -> Route:
    message_of = _decoder(verb)

    async def call(request: Request) -> Response:
        _require_operator(request, "helping an agent")
        value = await service.help(request.path_params["help"], message_of(await request.body()))
        return Response(verb.encode(value), media_type=verb.media_type)

    return Route(path, call, methods=["POST"])


def _decoder(verb: type[wire.Verb[Any]]) -> Callable[[bytes], wire.Verb[Any]]:
    decoder = msgspec.json.Decoder(verb)

    def message_of(body: bytes) -> wire.Verb[Any]:
        try:
            message: wire.Verb[Any] = decoder.decode(body)
        except (RecursionError, UnicodeDecodeError) as error:
            raise UsageError("the request is nested too deep, or is not UTF-8") from error
        message.validate()
        return message

    return message_of


def _join(service: PoolService) -> Callable[[WebSocket], Awaitable[None]]:
    async def join(socket: WebSocket) -> None:
        if tenant_of(socket) == OPERATOR:
            await service.registry.endpoint(socket)
        else:
            await socket.send_denial_response(problem_response(problem_of(OperatorOnly("joining as a host"))))

    return join


def _require_operator(request: Request, what: str) -> None:
    if tenant_of(request) != OPERATOR:
        raise OperatorOnly(what)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=wire.JSON)


def _text(what: str) -> dict[str, Any]:
    return {"description": what, "content": {wire.TEXT: {"schema": {"type": "string"}}}}


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    """Yield a file piece by piece, so that a caller who does not read holds its own request and no memory."""
    view = memoryview(data)
    for start in range(0, len(data), _PIECE):
        yield bytes(view[start : start + _PIECE])


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

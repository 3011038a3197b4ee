"""The application that speaks E2B's wire: its API under a key, the daemon's calls under a sandbox's token."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from guiagent.doors.e2b import envd
from guiagent.doors.e2b.connect import GONE, RpcError, decoded, rpc_error
from guiagent.doors.e2b.programs import MOST_S
from guiagent.doors.e2b.sandboxes import NewSandbox, Sandbox, Sandboxes
from guiagent.errors import FaultError, GuiAgentError

MAX_BODY = 1 << 20
_LONGEST_KEY = 255

Answer = Awaitable[Response]


class _Timeout(msgspec.Struct):
    timeout: Annotated[int, msgspec.Meta(ge=1, le=int(MOST_S))] = 300


def application(sandboxes: Sandboxes, key: str) -> Starlette:
    """The ASGI application. `key` is what clients have as their API key."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(sandboxes.sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await sandboxes.close()

    def api(work: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
        async def answered(request: Request) -> Response:
            given = request.headers.get("x-api-key", "")
            if not hmac.compare_digest(given.encode(), key.encode()):
                return _refused(401, "send the key of this server: E2B_API_KEY")
            try:
                return await work(request)
            except GuiAgentError as error:
                return _problem(error)

        return answered

    def named(work: Callable[[Request, Sandbox], Answer]) -> Callable[[Request], Answer]:
        async def answered(request: Request) -> Response:
            sandbox = sandboxes.of(request.path_params["sandbox"])
            return _refused(404, GONE) if sandbox is None else await work(request, sandbox)

        return api(answered)

    def daemon(work: Callable[[Request, Sandbox], Answer]) -> Callable[[Request], Answer]:
        async def answered(request: Request) -> Response:
            name, token = (
                request.headers.get("e2b-sandbox-id", ""),
                request.headers.get("x-access-token", ""),
            )
            if sandboxes.of(name) is None:
                return _refused(502, GONE)
            sandbox = sandboxes.admitted(name, token)
            if sandbox is None:
                return _refused(401, "this is not the token of the sandbox: X-Access-Token")
            try:
                async with sandboxes.using(sandbox):
                    return await work(request, sandbox)
            except ClientDisconnect:
                return Response(status_code=400)
            except GuiAgentError as error:
                told = rpc_error(error)
                return JSONResponse(told.told(), told.status)

        return answered

    async def create(request: Request) -> Response:
        asked = decoded(await body(request), NewSandbox)
        name = request.headers.get("idempotency-key", "")[:_LONGEST_KEY]
        leaving = asyncio.create_task(_left(request))
        try:
            return JSONResponse((await sandboxes.create(asked, name, leaving)).told(), 201)
        finally:
            leaving.cancel()

    async def every(request: Request) -> Response:
        return JSONResponse([one.told() for one in sandboxes.all() if _matches(one, request)])

    async def detail(_: Request, sandbox: Sandbox) -> Response:
        return JSONResponse(sandbox.told())

    async def kill(_: Request, sandbox: Sandbox) -> Response:
        await sandboxes.end(sandbox)
        return Response(status_code=204)

    async def connect(request: Request, sandbox: Sandbox) -> Response:
        ends = _from_now(decoded(await body(request), _Timeout))
        sandbox.ends = max(sandbox.ends, ends)  # who comes later does not shorten its time
        return JSONResponse(sandbox.told(), 200)

    async def timeout(request: Request, sandbox: Sandbox) -> Response:
        sandbox.ends = _from_now(decoded(await body(request), _Timeout))
        return Response(status_code=204)

    def call(work: envd.Call) -> Callable[[Request], Answer]:
        async def answered(request: Request, sandbox: Sandbox) -> Response:
            return JSONResponse(await work(sandbox, await body(request)))

        return daemon(answered)

    def stream(work: envd.Stream) -> Callable[[Request], Answer]:
        async def answered(request: Request, sandbox: Sandbox) -> Response:
            return await envd.streamed(
                sandboxes, sandbox, work, await body(request), request.headers.get("connect-timeout-ms", "")
            )

        return daemon(answered)

    def api_route(path: str, work: Callable[[Request], Answer], method: str) -> Route:
        return Route(path, work, methods=[method])

    one = "/sandboxes/{sandbox}"
    routes = [
        *(api_route(f"{version}/sandboxes", api(create), "POST") for version in ("", "/v2")),
        *(api_route(f"{version}/sandboxes", api(every), "GET") for version in ("", "/v2")),
        *(api_route(f"{version}{one}/connect", named(connect), "POST") for version in ("", "/v2")),
        api_route(one, named(detail), "GET"),
        api_route(one, named(kill), "DELETE"),
        api_route(f"{one}/timeout", named(timeout), "POST"),
        api_route("/health", daemon(envd.health), "GET"),
        api_route("/files", daemon(envd.download), "GET"),
        api_route("/files", daemon(envd.upload), "POST"),
        *(api_route(path, call(work), "POST") for path, work in envd.CALLS.items()),
        *(api_route(path, stream(work), "POST") for path, work in envd.STREAMS.items()),
    ]
    handlers = {404: _unknown, 405: _unknown}
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)  # type: ignore[arg-type]


async def body(request: Request, most: int = MAX_BODY) -> bytes:
    """The body of a request. Raises RpcError for one that is too long, before it is read to its end."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > most:
            raise RpcError("resource_exhausted", f"a request of this kind has at most {most} bytes")
    return bytes(data)


async def _left(request: Request) -> None:
    """Return once the client has hung up. Its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _unknown(request: Request, error: HTTPException) -> Response:
    if request.url.path.startswith(("/process.", "/filesystem.")):
        return JSONResponse(RpcError("unimplemented", "this farm's sandboxes cannot do that").told(), 501)
    # Below a sandbox 404 would mean that there is no such sandbox.
    status = 501 if "/sandboxes/" in request.url.path else error.status_code
    return _refused(status, f"this server has no {request.method} {request.url.path[:200]}")


def _problem(error: GuiAgentError) -> Response:
    """An error of the API as its clients read it; they are told not to try again what was tried here."""
    if isinstance(error, RpcError):
        status = 413 if error.code == "resource_exhausted" else error.status
    elif isinstance(error, FaultError):
        status = 503 if error.fault.code in ("no_device", "quota") else 500
    else:
        status = 400
    return _refused(status, str(error))


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"code": status, "message": why}, status, headers={"Should-Retry": "false"})


def _from_now(said: _Timeout) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=said.timeout)


def _matches(sandbox: Sandbox, request: Request) -> bool:
    """Whether a list is to have this sandbox: by state, template and metadata of the query."""
    query = request.query_params
    states = {state for text in query.getlist("state") for state in text.split(",")}
    wanted = {unquote(name): unquote(value) for name, value in parse_qsl(query.get("metadata", ""))}
    return (
        (not states or "running" in states)
        and query.get("template", sandbox.asked.template) == sandbox.asked.template
        and wanted.items() <= sandbox.asked.metadata.items()
    )

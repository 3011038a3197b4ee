"""The pool service over HTTP: `create_app` wires the routes, `running` and `serve` run it.

Taking and renewing leases goes through FastAPI and shows in its OpenAPI schema. The verbs of a device are
plain Starlette routes: msgspec decodes their requests, and their answers leave as msgpack.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from devices import live
from devices.access import Guard
from devices.config import PoolConfig
from devices.drivers import DRIVERS, Driver
from devices.problems import PROBLEMS, answer, problem_response
from devices.service import PoolService
from guiagent import wire
from guiagent.actions import ACTIONS
from guiagent.errors import InfrastructureError
from guiagent.types import Observation

_PAGE = Path(__file__).parent / "dashboard" / "index.html"
_KEEP_ALIVE_S = 75
_LAST_WORDS_S = 2  # what requests under way get when the service stops


def create_app(service: PoolService, token: str) -> FastAPI:
    """The API of one pool; `token` is asked for everywhere but at the page's shell and the health check."""
    app = FastAPI(title="guiagent pool", docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json")

    @app.post(wire.LEASES, status_code=201)
    async def acquire(wish: wire.LeaseRequest, request: Request) -> Response:
        return _json(wire.Leases(await service.acquire(wish, lambda: _hung_up(request))), 201)

    @app.post(wire.LEASES + "/{lease}/renew")
    async def renew(lease: str, ask: wire.RenewRequest) -> Response:
        return _json({"expires_in_s": service.renew(lease, ask.ttl_s)})

    @app.delete(wire.LEASES + "/{lease}", status_code=204)
    async def release(lease: str) -> Response:
        await service.release(lease)
        return Response(status_code=204)

    @app.get(wire.DEVICES)
    async def devices() -> Response:
        return _json(service.info())

    @app.get(wire.DEVICES + "/{device}/frame")
    async def frame(device: str, request: Request) -> Response:
        shown = dict(service.frames()).get(device)
        if shown is None or not shown.data:
            detail = "there is no such device, or it has shown nothing yet"
            return problem_response(wire.Problem("Not Found", 404, detail, "unknown"))
        headers = {"ETag": f'"{shown.hash}"', "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(shown.data, headers=headers, media_type=shown.media_type)

    @app.get(wire.METRICS)
    async def metrics() -> Response:
        return Response(service.metrics.render(service.info()), media_type="text/plain; version=0.0.4")

    @app.get(wire.HEALTH)
    async def health() -> Response:
        return _json({"ok": True})

    async def reset(request: Request) -> Response:
        ask = _reset_request.decode(await request.body())
        return _observation(await service.reset(request.path_params["lease"], ask))

    async def step(request: Request) -> Response:
        ask = _step_request.decode(await request.body())
        actions = ACTIONS.validate_json(bytes(ask.actions))
        return _observation(await service.step(request.path_params["lease"], ask, actions))

    async def observe(request: Request) -> Response:
        ask = _observe_request.decode(await request.body())
        return _observation(await service.observe(request.path_params["lease"], ask))

    page = live.page(_PAGE.read_text())

    async def shell(_: Request) -> Response:
        return page()

    verbs = [
        Route(f"{wire.LEASES}/{{lease}}/{verb.__name__}", verb, methods=["POST"])
        for verb in (step, observe, reset)
    ]
    app.router.routes[:0] = verbs  # first, since each request looks for its route from the top
    app.router.routes += [Route("/", shell), WebSocketRoute(wire.LIVE, live.stream(service))]
    for error in PROBLEMS:
        app.add_exception_handler(error, answer)
    app.add_middleware(Guard, token=token)
    return app


_reset_request = msgspec.json.Decoder(wire.ResetRequest)
_step_request = msgspec.json.Decoder(wire.StepRequest)
_observe_request = msgspec.json.Decoder(wire.ObserveRequest)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=wire.JSON)


def _observation(observation: Observation) -> Response:
    return Response(wire.encode(observation), media_type=wire.MSGPACK)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


# -- running it ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Running:
    endpoint: wire.Endpoint
    service: PoolService
    work: asyncio.Task[None]  # ends only when the farm cannot go on


@contextlib.asynccontextmanager
async def running(config: PoolConfig, drivers: Mapping[str, Driver] = DRIVERS) -> AsyncIterator[Running]:
    """The service on the current event loop; its devices are stopped and the port is free when this ends.

    Raises InfrastructureError where the port or the state directory is taken, and on leaving where the
    devices could not run on this machine.
    """
    with contextlib.closing(_listen(config.host, config.port)) as listener:
        token = config.token.get_secret_value()
        service = PoolService(config, drivers)
        server = _Server(
            uvicorn.Config(
                create_app(service, token),
                http="httptools",
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_LAST_WORDS_S,
            )
        )
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        work = asyncio.create_task(service.run())
        web = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield Running(wire.Endpoint(url, token, os.getpid()), service, work)
        finally:
            server.should_exit = True
            await web
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work


def serve(
    config: PoolConfig,
    on_ready: Callable[[wire.Endpoint], None] = lambda _: None,
    drivers: Mapping[str, Driver] = DRIVERS,
) -> None:
    """Run the service in the main thread until SIGINT or SIGTERM.

    Once every device has come up (or failed to) it writes `endpoint.json` to the state directory, where
    clients of the same user find it, and calls `on_ready`. Raises InfrastructureError where it cannot run
    here.
    """
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, on_ready, drivers))


async def _serve(
    config: PoolConfig, on_ready: Callable[[wire.Endpoint], None], drivers: Mapping[str, Driver]
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(config, drivers) as farm:
        stopped = asyncio.create_task(stop.wait())
        up = asyncio.create_task(farm.service.settled())
        await asyncio.wait((farm.work, stopped, up), return_when=asyncio.FIRST_COMPLETED)
        if up.done():
            with _announced(config.state_dir / "endpoint.json", farm.endpoint):
                on_ready(farm.endpoint)
                await asyncio.wait((farm.work, stopped), return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        stopped.cancel()


class _Server(uvicorn.Server):
    """Leaves signals to `serve`, which has devices to stop before the process may end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise InfrastructureError(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0).lower()}; "
            "choose another with --port, or any free one with --port 0"
        ) from error
    # Accepted connections inherit it. Not every event loop sets it on a socket it did not open itself, and
    # without it each answer waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@contextlib.contextmanager
def _announced(path: Path, endpoint: wire.Endpoint) -> Iterator[None]:
    """`path` holds the way in, readable by its owner only, as long as this lasts."""
    draft = path.with_suffix(".tmp")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(msgspec.json.encode(endpoint))
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)

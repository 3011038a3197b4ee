"""Runs a pool service: `running` on the current event loop, `serve` as a process."""

import asyncio
import contextlib
import html
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from devices.api import live
from devices.api.admission import Admission
from devices.api.app import PAGE, create_app
from devices.api.auth import Guard
from devices.api.connections import Door, raise_descriptors
from devices.config import PoolConfig
from devices.drivers import DRIVERS, Driver
from devices.pool.service import PoolService
from devices.pool.store import Store, open_postgres, open_store
from guiagent import wire
from guiagent.errors import InfrastructureError

if TYPE_CHECKING:  # only farms with a database need it when they run
    from devices.api.leader import Member

_LEAD = """<!doctype html>
<meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>guiagent farm</title><a href="{0}">The live page</a>
"""
_KEEP_ALIVE_S = 75
_LAST_WORDS_S = 2  # how long requests under way may still take when the service stops


@dataclass(frozen=True, slots=True)
class Running:
    endpoint: wire.Endpoint
    service: "PoolService | Member"
    work: asyncio.Task[None]  # ends only when the farm cannot go on


@contextlib.asynccontextmanager
async def running(config: PoolConfig, drivers: Mapping[str, Driver] = DRIVERS) -> AsyncIterator[Running]:
    """Run the service on the current event loop; on leaving, stop its devices and free the port.

    Raises:
        InfrastructureError: the port or the state directory is in use; on leaving, if the devices could not
            run on this machine.
    """
    with contextlib.closing(_listen(config.host, config.port)) as listener:
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        token = config.token.get_secret_value()
        service, app = _instance(config, drivers, url)
        door = Door.of_this_process()
        server = _Server(
            uvicorn.Config(
                app,
                http=door.protocol,
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_LAST_WORDS_S,
                ws_per_message_deflate=False,  # pictures are compressed already
            )
        )
        logging.getLogger("uvicorn.error").addFilter(_is_no_refusal)  # the server's config has made it
        work = asyncio.create_task(service.run())
        web = asyncio.create_task(server.serve(sockets=[listener]))
        keeper = asyncio.create_task(door.keep())
        try:
            yield Running(wire.Endpoint(url, token, os.getpid()), service, work)
        finally:
            server.should_exit = True
            await web
            keeper.cancel()
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work


def serve(
    config: PoolConfig,
    on_ready: Callable[[wire.Endpoint], None] = lambda _: None,
    drivers: Mapping[str, Driver] = DRIVERS,
) -> None:
    """Run the service in the main thread until SIGINT or SIGTERM.

    Once every device has started or failed to, it writes `endpoint.json` to the state directory, where
    clients of the same user find it, and `live.html`, which opens the live page, and calls `on_ready`. Raises
    InfrastructureError if it cannot run here.
    """
    import uvloop

    raise_descriptors()
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
            with announced(config.state_dir, farm.endpoint) as endpoint:
                on_ready(endpoint)
                await asyncio.wait((farm.work, stopped), return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        stopped.cancel()


def _instance(
    config: PoolConfig, drivers: Mapping[str, Driver], url: str
) -> "tuple[PoolService | Member, ASGIApp]":
    """Create the service and its ASGI application: a single pool, or one `Member` if there is a database."""
    tokens = config.tokens()

    def lead(store: Store) -> tuple[PoolService, ASGIApp]:
        service = PoolService(config, drivers, store)
        return service, create_app(service, tokens)

    if config.database is None:
        return lead(open_store(config))

    from devices.api.leader import Member, reachable

    def follow(forward: ASGIApp) -> ASGIApp:
        page = live.page(PAGE.read_text())
        shell = Route("/", lambda _: page())
        routes = Router([shell], redirect_slashes=False, default=forward)
        return Guard(routes, tokens, Admission(None, time))  # the leader knows what a tenant holds

    database = open_postgres(config.database.get_secret_value(), reachable(url))
    member = Member(database, lead, follow)
    return member, member


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """False for what uvicorn logs as an error after a WebSocket was refused with a response of its own."""
    return record.msg != "ASGI callable returned without completing handshake."


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to `serve`, which has to stop the devices first."""

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
    # Accepted connections inherit TCP_NODELAY. Not every event loop sets it on a foreign socket, and
    # without it each answer waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@contextlib.contextmanager
def announced(folder: Path, endpoint: wire.Endpoint) -> Iterator[wire.Endpoint]:
    """Write the endpoint and a page that leads to the live page, readable by their owner only.

    Both hold the token, and are deleted on leaving. Yields the endpoint with the page's address.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    page, data = folder / "live.html", folder / "endpoint.json"
    found = msgspec.structs.replace(endpoint, page=page.absolute().as_uri())
    _write_private(page, _LEAD.format(html.escape(endpoint.live_url)).encode())
    _write_private(data, msgspec.json.encode(found))
    try:
        yield found
    finally:
        data.unlink(missing_ok=True)
        page.unlink(missing_ok=True)


def _write_private(path: Path, content: bytes) -> None:
    draft = path.with_suffix(".tmp")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)

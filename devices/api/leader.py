"""Leader election among pool instances that share one PostgreSQL: one leads, the others forward to it.

The lease table is in the leader's memory. An instance that takes over starts from the stored state, as after
a restart: tokens keep rising. Only one leader can grant or end a lease: a commit checks the epoch (see
`devices.pool.store.postgres`). A leader that could not confirm its leadership for `ANSWERS_FOR_S` stops
answering before another may evict it (`_EVICTED_AFTER_S`). Where the database crashed, its lock is free at
once, and the former leader may go on renewing leases for so long: every lease counts as renewed at the end of
that time.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from devices.api.forward import (
    BUFFERED,
    FORWARDED,
    MISDIRECTED,
    Unanswered,
    Unreached,
    body_of,
    forward,
    with_body,
)
from devices.api.problems import problem_response
from devices.pool.store import ANSWERS_FOR_S, Deposed, Store
from guiagent import wire
from guiagent.errors import InfrastructureError

if TYPE_CHECKING:  # an extra that only some farms have
    from devices.pool.store.postgres import Leader, Postgres

T = TypeVar("T")

_log = logging.getLogger(__name__)

_CAMPAIGN_EVERY_S = 0.25
_CONFIRM_EVERY_S = 0.5
_EVICTED_AFTER_S = (
    6.0  # without a sign of life; more than ANSWERS_FOR_S, so that the old leader has stopped answering
)
_PATIENCE_S = 5.0  # how long a request waits for a leader


class Service(Protocol):
    async def run(self) -> None:
        """Run the farm from the stored state until cancelled."""
        ...

    def dismiss_hosts(self) -> None:
        """Close the connections of joined hosts, which look for the instance that leads then."""
        ...


class Member:
    """One pool instance as an ASGI application, which leads or follows.

    `lead(store)` creates the service and its application for one leadership; `follow` wraps the application
    of a follower (with authentication).
    """

    def __init__(
        self,
        database: "Postgres",
        lead: Callable[[Store], tuple[Service, ASGIApp]],
        follow: Callable[[ASGIApp], ASGIApp],
    ) -> None:
        self._settled = asyncio.Event()
        self._database = database
        self._lead = lead
        self._follower = follow(self._follow)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pool-member")
        self._app: ASGIApp | None = None
        self._confirmed = 0.0
        self._other: Leader | None = None  # who leads instead
        self._turn = asyncio.Event()  # set, and replaced by a new one, when the leader changes

    async def run(self) -> None:
        """Campaign and lead, in turn, until cancelled.

        Raises:
            InfrastructureError: the database cannot be reached, or the devices cannot run here.
        """
        try:
            await self._in_thread(self._database.leader)  # a wrong address is an error at once
            while True:
                await self._campaign()
                await self._term(Store(self._database))
        finally:
            await self._in_thread(self._database.close)  # also after a `stand` that was under way
            self._thread.shutdown()

    async def settled(self) -> None:
        """Wait until there is a leader: this instance or another."""
        await self._settled.wait()

    async def _campaign(self) -> None:
        """Try to become the leader until it succeeds; evict a leader that shows no sign of life."""
        watched, since = "", time.monotonic()
        while True:
            try:
                if await self._in_thread(self._database.stand):
                    self._follows(None)
                    return
                other = await self._in_thread(self._database.leader)
                self._follows(other if other is not None and other.url != self._database.url else None)
                if other is not None and other.seen != watched:
                    watched, since = other.seen, time.monotonic()
                    self._settled.set()
                elif other is not None and time.monotonic() - since > _EVICTED_AFTER_S:
                    _log.warning("the leader at %s shows no sign of life: taking over", other.url)
                    await self._in_thread(self._database.evict, other)
            except InfrastructureError as error:  # the leader may well be up, and is still worth asking
                _log.warning("%s", error)
            await asyncio.sleep(_CAMPAIGN_EVERY_S)

    def _follows(self, other: "Leader | None") -> None:
        before, self._other = self._other, other
        if (before and before.epoch) != (other and other.epoch):
            self._turn.set()  # stop waiting for answers of the former leader
            self._turn = asyncio.Event()

    async def _term(self, store: Store) -> None:
        """Lead until another instance does."""
        service, app = self._lead(store)
        self._confirmed = time.monotonic()
        _log.info("leading, epoch %d", self._database.epoch)
        farm = asyncio.create_task(service.run())
        watch = asyncio.create_task(self._confirm(store))
        guard = asyncio.create_task(self._dismiss(service))
        try:
            await asyncio.sleep(0)  # `run` restores the stored state before its first await
            self._app = app
            self._settled.set()
            await asyncio.wait((farm, watch), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._app = None
            watch.cancel()
            guard.cancel()
            farm.cancel()
            with contextlib.suppress(asyncio.CancelledError, Deposed):
                await farm

    async def _confirm(self, store: Store) -> None:
        """Confirm the leadership periodically until another instance leads.

        While the database is unreachable this instance answers no requests, and no state is lost.
        """
        while not store.deposed.is_set():
            asked = time.monotonic()
            try:
                await store.commit()
                self._confirmed = asked
            except InfrastructureError as error:
                _log.warning("%s", error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CONFIRM_EVERY_S):
                    await store.deposed.wait()

    async def _dismiss(self, service: Service) -> None:
        """Send the joined hosts away each time that the leadership has not been confirmed for too long.

        The next leader has no devices but those whose hosts join it.
        """
        while True:
            await asyncio.sleep(
                max(0.0, self._confirmed + ANSWERS_FOR_S - time.monotonic()) or _CAMPAIGN_EVERY_S
            )
            if self._leading() is None:
                service.dismiss_hosts()

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    # -- requests --------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == wire.HEALTH:
            await self._health()(scope, receive, send)
        elif (app := self._leading()) is not None:
            await app(scope, receive, send)
        else:
            await self._follower(scope, receive, send)

    def _leading(self) -> ASGIApp | None:
        """The leader's application if this instance has confirmed its leadership recently, else None."""
        return self._app if time.monotonic() - self._confirmed < ANSWERS_FOR_S else None

    async def _follow(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request to the leader, or wait until there is one, which may be this instance."""
        if any(name == FORWARDED for name, _ in scope["headers"]):
            await _away(MISDIRECTED, "no_leader", "this pool instance does not lead")(scope, receive, send)
            return
        body: bytes | None = None
        # A longer body waits at the client.
        short = scope["type"] == "http" and _length(scope) <= BUFFERED
        if short and (body := await body_of(receive)) is None:
            return
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            if (app := self._leading()) is not None:
                await app(scope, receive if body is None else with_body(body, receive), send)
                return
            if self._app is None and self._other is not None:
                try:
                    await forward(self._other.url, self._turn, scope, body, receive, send)
                    return
                except Unreached:
                    pass
                except Unanswered:
                    detail = "the leading pool instance died before it answered; ask again with the same key"
                    await _away(503, "leader_lost", detail)(scope, receive, send)
                    return
            await asyncio.sleep(_CAMPAIGN_EVERY_S / 5)
        detail = "no pool instance leads this farm at the moment; ask again"
        await _away(503, "no_leader", detail)(scope, receive, send)

    def _health(self) -> Response:
        other = self._other
        role = "leader" if self._leading() is not None else "follower" if other is not None else "waiting"
        known = {} if other is None else {"leader": {"url": other.url, "seen_s": round(other.age_s, 3)}}
        state = {"ok": role != "waiting", "role": role, "epoch": self._database.epoch, **known}
        return Response(msgspec.json.encode(state), media_type=wire.JSON)


def reachable(url: str) -> str:
    """The URL at which other instances reach the one that listens at `url`.

    If it listens on every address (0.0.0.0 or ::), this is the address of the machine's host name.
    Raises InfrastructureError if the host name has no address.
    """
    where = urlsplit(url)
    if where.hostname not in ("0.0.0.0", "::"):
        return url
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise InfrastructureError(
            f"other pool instances cannot find this one: {name} has no address; set `host` to one they reach"
        ) from error
    return f"http://{address}:{where.port}"


def _length(scope: Scope) -> int:
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _away(status: int, code: str, detail: str) -> ASGIApp:
    """The answer to a request or a WebSocket: closing that instead would say 403, and hosts give up at it."""
    return problem_response(wire.Problem("No leader", status, detail, code, retryable=True))

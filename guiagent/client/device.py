"""A leased device: its verbs over the pool's API, and a heartbeat that renews the lease."""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from guiagent import wire
from guiagent.actions import ACTIONS, Action, Wait
from guiagent.client.http import Answer
from guiagent.client.tunnel import Tunnel
from guiagent.client.verbs import Verbs
from guiagent.errors import (
    FaultError,
    GuiAgentError,
    InfrastructureError,
    LeaseError,
    MissingProgram,
    UsageError,
)
from guiagent.types import Capabilities, CommandResult, Health, Observation, ObserveSpec, ResetSpec

if TYPE_CHECKING:
    import adbutils  # type: ignore[import-untyped]
    import playwright.async_api

T = TypeVar("T")

MARGIN_S = 10.0  # how much longer the client waits than the pool's own deadline
_RESET_S = 60.0
_FILE_S = 60.0
_RELEASE_PAUSES_S = (0.0, 0.1)
_NO_FRAME = ObserveSpec(frame="none")
NO_PLAYWRIGHT = "playwright is not installed: pip install 'guiagent[browser]'"


class Farm(Protocol):
    """A client of the pool, as the devices leased through it use it; `guiagent.client.FarmClient` is one."""

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def held(self) -> "set[LeasedDevice]":
        """The devices that are leased through this client and not yet released."""
        ...

    async def take(self, request: wire.LeaseRequest, record: bool = False) -> "Sequence[LeasedDevice]": ...

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        timeout_s: float = ...,
        pauses: Sequence[float] = ...,
    ) -> Answer: ...


class LeasedDevice(Verbs):
    """A device held under a lease. `close` gives it back.

    It has the verbs of `Verbs`, implements `guiagent.protocols.Device`, and by its features `Shell`, `Files`,
    `Snapshots` and `Services`.

    Attributes:
        id: the device's name in the farm, such as "browser-2".
        token: the lease's fencing token.
        features: what it can do, as `Capabilities.features`.
        deadline_s: how long a step or an observation may take, beyond the waits among its actions.
    """

    _recorded = False  # see `guiagent.client.recording`

    def __init__(self, farm: Farm, lease: wire.LeaseInfo, request: wire.LeaseRequest) -> None:
        self.id = lease.device
        self.token = lease.token
        self.features = frozenset(lease.capabilities.features)
        self.deadline_s = 30.0
        self._farm = farm
        self._info = lease
        self._lease = lease.id
        self._path = f"{wire.LEASES}/{lease.id}"
        self._capabilities = lease.capabilities
        self._request = request
        self._ttl = request.ttl_s
        self._keys = (f"{secrets.token_hex(4)}-{number}" for number in itertools.count())
        self._asks: wire.HelpRequest | None = None
        self._tunnels: dict[str, Tunnel] = {}
        self._loop = asyncio.get_running_loop()
        self._renewed = self._loop.time()
        self._renewal = asyncio.create_task(self._renew_in_time())

    async def describe(self) -> Capabilities:
        return self._capabilities

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        return await self._call(
            wire.ResetRequest(self.token, next(self._keys), seed, baseline, spec, _RESET_S)
        )

    async def observe(self, spec: ObserveSpec) -> Observation:
        return await self._call(wire.ObserveRequest(self.token, spec, self.deadline_s))

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        waits = sum(action.ms for action in actions if isinstance(action, Wait)) / 1000
        raw = msgspec.Raw(ACTIONS.dump_json(list(actions)))
        deadline_s = self.deadline_s + waits
        return await self._call(wire.StepRequest(self.token, next(self._keys), raw, spec, deadline_s))

    async def exec(self, command: Sequence[str], timeout_s: float = 30.0) -> CommandResult:
        """Run a program on the device with these arguments, without a shell. Needs the grant "shell"."""
        deadline_s = min(timeout_s + MARGIN_S, wire.MAX_DEADLINE_S)
        return await self._call(
            wire.ExecRequest(self.token, next(self._keys), list(command), timeout_s, deadline_s)
        )

    async def put(self, path: str, data: bytes) -> None:
        """Write a file of at most 64 MiB; `path` is absolute on the device. Needs the grant "files"."""
        if len(data) > wire.MAX_FILE:
            raise UsageError(f"{path}: {len(data)} bytes; a file may have at most {wire.MAX_FILE}")
        await self._send("PUT", self._file(path), data, _FILE_S)

    async def get(self, path: str) -> bytes:
        """Read a file of the device, at most 64 MiB. Raises FaultError (origin "task") if it is missing."""
        return (await self._send("GET", self._file(path), b"", _FILE_S)).body

    async def snapshot(self) -> str:
        """Save the device's state; return a name for `ResetSpec.snapshot` on this device or a fork of it."""
        return await self._call(wire.SnapshotRequest(self.token, next(self._keys), _RESET_S))

    async def fork(self, n: int = 1, *, seed: int = 0) -> list["LeasedDevice"]:
        """Lease `n` more devices with this one's state and grants; all of them or none.

        They are on the same host, which has the snapshot. Raises as `FarmClient.lease_group`; UsageError if
        devices of this kind keep their snapshots to themselves.
        """
        if "fork" not in self._capabilities.features:
            raise UsageError(f"a device of kind {self._capabilities.kind!r} cannot be forked")
        name = await self.snapshot()
        wish = self._request.model_copy(
            update={
                "kind": self._capabilities.kind,
                "n": n,
                "needs": sorted({*self._request.needs, "fork"}),
                "device": "",
                "takeover": False,
                "near": self._lease,
                "key": secrets.token_hex(8),
            }
        )
        siblings = list(await self._farm.take(wish, self._recorded))
        resets = (sibling.reset(seed, ResetSpec(snapshot=name), _NO_FRAME) for sibling in siblings)
        try:
            async with asyncio.TaskGroup() as group:
                for reset in resets:
                    group.create_task(reset)
        except BaseException as error:
            await asyncio.gather(*(sibling.close() for sibling in siblings))
            raise error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error from None
        return siblings

    async def ask_human(self, reason: str, wait_s: float = 600.0) -> wire.HelpAnswer:
        """Ask for a person, for a login say, and wait until the device is given back.

        Until then this lease can look and not act. `wait_s`: for somebody to come; who has come may take
        longer. The answer's `state` says if somebody helped, refused, or did not come. The live page and
        `guiagent wanted` show the `reason`. Who is cancelled meanwhile stops asking.
        """
        ask = wire.HelpRequest(token=self.token, key=secrets.token_hex(8), reason=reason, wait_s=wait_s)
        self._asks = ask
        try:
            while True:
                answer = await self._ask(ask)
                if answer.state not in ("waiting", "taken"):
                    return answer
        except asyncio.CancelledError:
            with contextlib.suppress(GuiAgentError):
                await self.stop_asking()
            raise

    async def stop_asking(self) -> bool:
        """Stop asking for a person, unless one has come; return whether this lease can act.

        Where `ask_human` still waits, its answer is "nobody" then.
        """
        if self._asks is None:
            return True
        answer = await self._ask(self._asks.model_copy(update={"withdraw": True, "poll_s": 0.0}))
        return answer.state not in ("waiting", "taken")

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a byte stream to a service of the device: "cdp" (grant "exec"), "adb" or "osworld" (grant
        "shell"). It ends with the lease."""
        return await self._tunnel(service).stream()

    @contextlib.asynccontextmanager
    async def forward(self, service: str) -> AsyncIterator[int]:
        """Forward a loopback port of this machine to a service of the device, for other programs:

            async with device.forward("adb") as port:
                adb.connect(f"127.0.0.1:{port}")

        Any process of this machine can use it while it is open.
        """
        async with self._tunnel(service).listener() as port:
            yield port

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator["playwright.async_api.Page"]:
        """Open the device's page in Playwright. Lease with needs=["cdp"] and grants=["exec"].

        Needs the package `playwright`, but none of Playwright's own browsers.
        """
        try:
            from playwright.async_api import async_playwright
        except ImportError:
            raise MissingProgram(NO_PLAYWRIGHT) from None
        async with self.forward("cdp") as port, async_playwright() as client:
            browser = await client.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
            yield browser.contexts[-1].pages[-1]

    @contextlib.asynccontextmanager
    async def adb(self) -> AsyncIterator["adbutils.AdbDevice"]:
        """Open a phone in adbutils, through this machine's adb server. Needs the grant "shell".

        The package `adbutils` and the program `adb` have to be installed. Calls of adbutils block: from a
        coroutine, use `await asyncio.to_thread(adb.shell, "ls")`.
        """
        try:
            import adbutils
        except ImportError:
            raise MissingProgram("adbutils is not installed: pip install 'guiagent[android]'") from None
        async with self.forward("adb") as port:
            server, serial = adbutils.AdbClient(), f"127.0.0.1:{port}"
            try:
                await asyncio.to_thread(server.connect, serial, timeout=MARGIN_S)
                await asyncio.to_thread(server.wait_for, serial, timeout=MARGIN_S)
            except (adbutils.AdbError, OSError) as error:
                raise InfrastructureError(f"adb does not connect to {self.id}: {error}") from error
            try:
                yield server.device(serial)
            finally:
                await asyncio.to_thread(server.disconnect, serial)

    async def health(self) -> Health:
        """Whether the lease is still live; this renews it."""
        try:
            await self._renew()
        except FaultError as error:
            return Health(False, str(error))
        return Health(True)

    async def close(self) -> None:
        """Release the device. No FaultError is raised if the pool is gone or the lease has ended already."""
        self._renewal.cancel()
        for tunnel in self._tunnels.values():
            await tunnel.close()
        if self in self._farm.held:
            self._farm.held.discard(self)
            with contextlib.suppress(FaultError):
                await self._farm.call("DELETE", self._path, pauses=_RELEASE_PAUSES_S)

    async def detach(self) -> tuple[wire.LeaseInfo, wire.LeaseRequest]:
        """Stop using the device here without releasing it; `FarmClient.resume` continues a live lease."""
        self._farm.held.discard(self)
        await self.close()
        return self._info, self._request

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _tunnel(self, service: str) -> Tunnel:
        if service not in self._tunnels:
            farm = self._farm
            self._tunnels[service] = Tunnel(farm.url, farm.token, self._lease, self.token, service)
        return self._tunnels[service]

    def _file(self, path: str) -> str:
        return f"{self._path}/files?{urlencode({'path': path, 'token': self.token})}"

    async def _call(self, message: wire.Verb[T]) -> T:
        body = msgspec.json.encode(message)
        answer = await self._send("POST", f"{self._path}/{message.verb}", body, message.deadline_s)
        return answer.decoded(message.decode)

    async def _send(self, method: str, path: str, body: bytes, deadline_s: float) -> Answer:
        self._renewed = self._loop.time()  # every verb renews the lease
        return await self._farm.call(method, path, body, deadline_s + MARGIN_S)

    async def _ask(self, ask: wire.HelpRequest) -> wire.HelpAnswer:
        body = ask.model_dump_json().encode()
        sent = await self._send("POST", f"{self._path}/help", body, ask.poll_s)
        return sent.json(wire.HelpAnswer)

    async def _renew(self) -> None:
        self._renewed = self._loop.time()
        body = wire.RenewRequest(ttl_s=self._ttl).model_dump_json().encode()
        await self._farm.call("POST", f"{self._path}/renew", body)

    async def _renew_in_time(self) -> None:
        """Renew the lease whenever a third of its time to live passed without a verb."""
        while True:
            if (left := self._renewed + self._ttl / 3 - self._loop.time()) > 0:
                await asyncio.sleep(left)
                continue
            try:
                await self._renew()
            except LeaseError:
                return  # it ended: the next verb says why
            except FaultError:
                pass  # the pool is away: it may be back at the next turn

"""The farm's API as async Python: take a lease and hold a `guiagent.protocols.Device` over HTTP.

    async with FarmClient(url, token) as farm, farm.lease("browser") as device:
        observation = await device.reset(0, Baseline("https://example.org"), ObserveSpec())

Every request is idempotent, by its nature or by the key it carries, so one that got no answer is sent again
and nothing is clicked twice.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Self

import msgspec
from pydantic import ValidationError

from guiagent import wire
from guiagent.actions import ACTIONS, Action, Wait
from guiagent.connection import Answer, Connections
from guiagent.errors import Fault, FaultError, InfrastructureError, LeaseError, UsageError
from guiagent.types import Baseline, Capabilities, Health, Observation, ObserveSpec

# Before each further attempt; a pool that restarts is back well within them.
_PAUSES_S = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
_MARGIN_S = 10.0  # on top of what the pool was given
_CONTROL_S = 10.0
_RESET_S = 60.0


class FarmClient:
    """A pool at `url`. Opens connections as it needs them; `close` releases what is still leased."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._connections = Connections(self.url, token)
        self._reached = False
        self._held: set[LeasedDevice] = set()

    def lease(
        self,
        kind: str = "browser",
        *,
        ttl: float = 60.0,
        features: Iterable[str] = (),
        grants: Iterable[wire.Grant] = (),
        label: str = "",
        wait: float = 30.0,
    ) -> "Leasing":
        """One device, to be awaited or entered with `async with`.

        The lease ends `ttl` seconds after the last sign of life of this process; while it lives it is
        renewed by itself. Grants: "exec" for probes and baseline scripts, "shell" for shell actions.

        Raises UsageError where the farm can never give it, FaultError (code "no_device") where none came free
        within `wait` seconds.
        """
        return Leasing(self, _wish(kind, 1, ttl, features, grants, label, wait))

    async def lease_group(
        self,
        kind: str = "browser",
        n: int = 1,
        *,
        ttl: float = 60.0,
        features: Iterable[str] = (),
        grants: Iterable[wire.Grant] = (),
        label: str = "",
        wait: float = 30.0,
    ) -> list["LeasedDevice"]:
        """`n` devices at once, or none; else as `lease`."""
        return await self._take(_wish(kind, n, ttl, features, grants, label, wait))

    async def devices(self) -> wire.FarmInfo:
        """Every device of the farm, its state and holder, and how many requests wait for one."""
        answer = await self._call("GET", wire.DEVICES)
        return msgspec.json.decode(answer.body, type=wire.FarmInfo)

    async def close(self) -> None:
        await asyncio.gather(*(device.close() for device in list(self._held)))
        self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _take(self, wish: wire.LeaseRequest) -> list["LeasedDevice"]:
        timeout_s = wish.wait_s + _CONTROL_S
        answer = await self._call("POST", wire.LEASES, wish.model_dump_json().encode(), timeout_s)
        leases = msgspec.json.decode(answer.body, type=wire.Leases).leases
        devices = [LeasedDevice(self, lease, wish.ttl_s) for lease in leases]
        self._held.update(devices)
        return devices

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        timeout_s: float = _CONTROL_S,
        pauses: Sequence[float] = _PAUSES_S,
    ) -> Answer:
        """One request, sent again where no answer came back; raises what a refusal stands for."""
        for pause in (*pauses, None):
            try:
                answer = await self._connections.request(method, path, body, timeout_s)
            except TimeoutError as error:
                message = f"the pool at {self.url} did not answer within {timeout_s:g} s"
                raise FaultError(Fault("farm", "deadline", message, retryable=True)) from error
            except OSError as error:
                if not self._reached:
                    raise InfrastructureError(
                        f"no pool answers at {self.url} ({error}); start one with `guiagent up`"
                    ) from error
                if pause is None:
                    message = f"the pool at {self.url} cannot be reached any more: {error}"
                    raise FaultError(Fault("farm", "unreachable", message, retryable=True)) from error
                await asyncio.sleep(pause)
            else:
                self._reached = True
                if answer.status >= 400:
                    raise wire.error_of(answer.status, answer.body)
                return answer
        raise AssertionError("the last attempt returns or raises")


class Leasing:
    """A lease about to be taken: `device = await farm.lease()`, or `async with farm.lease() as device`."""

    def __init__(self, farm: FarmClient, wish: wire.LeaseRequest) -> None:
        self._farm = farm
        self._wish = wish
        self._device: LeasedDevice | None = None

    async def _taken(self) -> "LeasedDevice":
        (device,) = await self._farm._take(self._wish)
        return device

    def __await__(self) -> Generator[Any, None, "LeasedDevice"]:
        return self._taken().__await__()

    async def __aenter__(self) -> "LeasedDevice":
        self._device = await self
        return self._device

    async def __aexit__(self, *_: object) -> None:
        if self._device is not None:
            await self._device.close()


class LeasedDevice:
    """A device held under a lease; implements `guiagent.protocols.Device`. `close` gives it back.

    Attributes:
        id: the device's name in the farm, such as "browser-2".
        token: the lease's fencing token.
        deadline_s: how long a step or an observation may take, beyond the waits among its actions.
    """

    def __init__(self, farm: FarmClient, lease: wire.LeaseInfo, ttl: float) -> None:
        self.id = lease.device
        self.token = lease.token
        self.deadline_s = 30.0
        self._farm = farm
        self._path = f"{wire.LEASES}/{lease.id}"
        self._capabilities = lease.capabilities
        self._ttl = ttl
        self._keys = (f"{secrets.token_hex(4)}-{number}" for number in itertools.count())
        self._loop = asyncio.get_running_loop()
        self._renewed = self._loop.time()
        self._keeper = asyncio.create_task(self._keep())

    async def describe(self) -> Capabilities:
        return self._capabilities

    async def reset(self, seed: int, baseline: Baseline, spec: ObserveSpec) -> Observation:
        ask = wire.ResetRequest(self.token, next(self._keys), seed, baseline, spec, _RESET_S)
        return await self._verb("reset", ask, ask.deadline_s)

    async def observe(self, spec: ObserveSpec) -> Observation:
        ask = wire.ObserveRequest(self.token, spec, self.deadline_s)
        return await self._verb("observe", ask, ask.deadline_s)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        waits = sum(action.ms for action in actions if isinstance(action, Wait)) / 1000
        raw = msgspec.Raw(ACTIONS.dump_json(list(actions)))
        ask = wire.StepRequest(self.token, next(self._keys), raw, spec, self.deadline_s + waits)
        return await self._verb("step", ask, ask.deadline_s)

    async def health(self) -> Health:
        """Of the lease: whether the pool still grants it."""
        try:
            await self._renew()
        except FaultError as error:
            return Health(False, str(error))
        return Health(True)

    async def close(self) -> None:
        """Give the device back. A pool that is gone, or that ended the lease before, is no error."""
        self._keeper.cancel()
        if self in self._farm._held:
            self._farm._held.discard(self)
            with contextlib.suppress(FaultError):
                await self._farm._call("DELETE", self._path, pauses=_PAUSES_S[:2])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _verb(self, verb: str, ask: msgspec.Struct, deadline_s: float) -> Observation:
        self._renewed = self._loop.time()  # every verb renews the lease
        body = msgspec.json.encode(ask)
        answer = await self._farm._call("POST", f"{self._path}/{verb}", body, deadline_s + _MARGIN_S)
        return wire.decode_observation(answer.body)

    async def _renew(self) -> None:
        self._renewed = self._loop.time()
        body = wire.RenewRequest(ttl_s=self._ttl).model_dump_json().encode()
        await self._farm._call("POST", f"{self._path}/renew", body)

    async def _keep(self) -> None:
        """Renew whenever a third of the time to live went by without a verb."""
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


def _wish(
    kind: str,
    n: int,
    ttl: float,
    features: Iterable[str],
    grants: Iterable[wire.Grant],
    label: str,
    wait: float,
) -> wire.LeaseRequest:
    try:
        return wire.LeaseRequest(
            kind=kind,
            n=n,
            ttl_s=ttl,
            features=list(features),
            grants=list(grants),
            label=label,
            wait_s=wait,
            key=secrets.token_hex(8),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"lease: {first['loc'][0]}: {first['msg']}") from error

"""Async client of a farm: leases devices and drives them over HTTP as `guiagent.protocols.Device`.

    async with FarmClient(url, token) as farm, farm.lease("browser") as device:
        observation = await device.reset(0, ResetSpec("https://example.org"), ObserveSpec())

Every request is idempotent, by itself or by its idempotency key, so a request without an answer is sent again
and nothing is clicked twice.
"""

import asyncio
import os
import secrets
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from pydantic import ValidationError

from guiagent import wire
from guiagent.client.device import MARGIN_S, LeasedDevice
from guiagent.client.http import Answer, Connections
from guiagent.client.recording.device import RecordedDevice
from guiagent.errors import Fault, FaultError, GuiAgentError, InfrastructureError, UsageError, first_error

__all__ = ["FarmClient", "LeasedDevice", "Leasing", "Record"]

Record = bool | str | os.PathLike[str]

# Before each further attempt; a pool that restarts is back well within them.
_PAUSES_S = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2, 3.2)
_LONGEST_PAUSE_S = 10.0
_CONTROL_S = 10.0


class FarmClient:
    """A client of the pool at `url`; `close` releases all devices that are still leased."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self._connections = Connections(self.url, token)
        self._reached = False
        self.held: set[LeasedDevice] = set()

    def lease(
        self,
        kind: str = "browser",
        *,
        ttl: float = 60.0,
        needs: Iterable[str] = (),
        grants: Iterable[wire.Grant] = (),
        egress: Iterable[str] = ("public",),
        label: str = "",
        wait: float = 30.0,
        device: str = "",
        takeover: bool = False,
        record: Record = False,
    ) -> "Leasing":
        """Lease one device; await the result or enter it with `async with`.

        The lease is renewed automatically, and ends `ttl` seconds after this process last renewed it.

        Args:
            needs: features it must have (`Capabilities.features`), and a minimum screen size ("720p",
                "1080p").
            grants: "exec" for probes, baseline scripts and the service "cdp"; "shell" for shell actions,
                `exec`, "adb" and "osworld"; "files" for `put` and `get`.
            egress: what it may reach: host names, `*.host`, `host:port`, CIDR blocks, or "public".
            wait: seconds to wait for a free device.
            device: only this device, whatever `kind` says.
            takeover: end the current lease on `device`, and take it without a reset. For the operator only.
            record: keep a record of what is done with the device and seen of it, as `RecordedDevice` says, in
                this folder; True: in a new one below `runs/leases`.

        Raises:
            UsageError: the farm can never grant the lease.
            FaultError: no device came free within `wait` seconds (code "no_device"), or the tenant's quota is
                used up for now ("quota").
        """
        request = _lease_request(
            kind=kind,
            ttl_s=ttl,
            needs=list(needs),
            grants=list(grants),
            egress=list(egress),
            label=label,
            wait_s=wait,
            device=device,
            takeover=takeover,
        )
        return Leasing(self, request, record)

    async def lease_group(
        self,
        kind: str = "browser",
        n: int = 1,
        *,
        ttl: float = 60.0,
        needs: Iterable[str] = (),
        grants: Iterable[wire.Grant] = (),
        egress: Iterable[str] = ("public",),
        label: str = "",
        wait: float = 30.0,
        record: Record = False,
    ) -> list[LeasedDevice]:
        """Lease `n` devices at once, or none; otherwise as `lease`. A `record` has a folder for each."""
        request = _lease_request(
            kind=kind,
            n=n,
            ttl_s=ttl,
            needs=list(needs),
            grants=list(grants),
            egress=list(egress),
            label=label,
            wait_s=wait,
        )
        return await self.take(request, record)

    async def devices(self) -> wire.FarmInfo:
        """The devices this caller may see, their states and holders, and how many requests wait for one."""
        return (await self.call("GET", wire.DEVICES)).json(wire.FarmInfo)

    def resume(
        self, lease: wire.LeaseInfo, request: wire.LeaseRequest, record: Path | None = None
    ) -> LeasedDevice:
        """Continue the lease of a device that another client `LeasedDevice.detach`ed, and its `record`."""
        device: LeasedDevice
        if record is not None:
            device = RecordedDevice(self, lease, request, record, goes_on=True)
        else:
            device = LeasedDevice(self, lease, request)
        self.held.add(device)
        return device

    async def frame(self, device: str) -> tuple[bytes, str]:
        """The last frame the pool saw of a device, and its media type."""
        answer = await self.call("GET", f"{wire.DEVICES}/{quote(device, safe='')}/frame")
        return answer.body, answer.headers.get("content-type", "")

    async def logs(self, device: str) -> str:
        """What happened on a device, a line for each event."""
        return (await self.call("GET", f"{wire.DEVICES}/{quote(device, safe='')}/logs")).body.decode()

    async def quarantine(self, device: str, reason: str) -> None:
        """Take a device out of service at once; its lease ends with the reason. For the operator only."""
        await self._mark(device, "quarantine", reason)

    async def drain(self, device: str, reason: str = "") -> None:
        """Take a device out of service once its lease has ended. For the operator only."""
        await self._mark(device, "drain", reason)

    async def restore(self, device: str) -> None:
        """Put a device back into service. For the operator only."""
        await self._mark(device, "restore", "")

    async def approvals(self) -> list[wire.Approval]:
        """What agents want to do and a guardrail wants approved first. For the operator only."""
        return (await self.call("GET", wire.APPROVALS)).json(wire.Approvals).approvals

    async def decide(self, approval: str, *, allow: bool) -> None:
        """Approve what an agent wants to do, or refuse it. For the operator only."""
        body = wire.Decision(allow=allow).model_dump_json().encode()
        await self.call("POST", f"{wire.APPROVALS}/{quote(approval, safe='')}", body)

    async def wanted(self) -> list[wire.HelpWanted]:
        """The agents that have asked for a person. For the operator only."""
        return (await self.call("GET", wire.HELP)).json(wire.HelpWanteds).wanted

    async def give_back(self, help: str, *, refuse: bool = False, note: str = "") -> None:
        """Give a device back to the agent that asked for a person; or refuse to help. For the operator."""
        body = wire.GiveBack(refuse=refuse, note=note).model_dump_json().encode()
        await self.call("POST", f"{wire.HELP}/{quote(help, safe='')}/give-back", body)

    async def _mark(self, device: str, verb: str, reason: str) -> None:
        body = wire.Reason(reason=reason).model_dump_json().encode()
        await self.call("POST", f"{wire.DEVICES}/{quote(device, safe='')}/{verb}", body)

    async def close(self) -> None:
        await asyncio.gather(*(device.close() for device in list(self.held)))
        self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def take(self, request: wire.LeaseRequest, record: Record = False) -> list[LeasedDevice]:
        """Lease the devices that `request` asks for, all of them or none. Raises as `lease`."""
        timeout_s = request.wait_s + MARGIN_S
        answer = await self.call("POST", wire.LEASES, request.model_dump_json().encode(), timeout_s)
        leases = answer.json(wire.Leases).leases
        devices = [self._held(lease, request, record, alone=len(leases) == 1) for lease in leases]
        self.held.update(devices)
        return devices

    def _held(
        self, lease: wire.LeaseInfo, request: wire.LeaseRequest, record: Record, *, alone: bool
    ) -> LeasedDevice:
        if record is False:
            return LeasedDevice(self, lease, request)
        folder = None if record is True else Path(record) if alone else Path(record) / lease.device
        return RecordedDevice(self, lease, request, folder)

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        timeout_s: float = _CONTROL_S,
        pauses: Sequence[float] = _PAUSES_S,
    ) -> Answer:
        """Send a request and return the answer.

        It is sent again if the connection broke, if no pool instance leads, and, after the pause that the
        pool asks for, if this tenant sent too many.

        Raises:
            InfrastructureError: no pool has ever answered at this URL.
            FaultError: the pool did not answer in time, or cannot be reached any more.
            GuiAgentError: the pool refused the request; the type as `wire.error_of` has it.
        """
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
                if answer.status < 400:
                    return answer
                refusal = wire.error_of(answer.status, answer.body)
                if pause is None or not _may_pass(refusal):
                    raise refusal
                await asyncio.sleep(max(pause, _retry_after_s(answer)))
        raise AssertionError("the last attempt returns or raises")


def _may_pass(refusal: GuiAgentError) -> bool:
    passing = {*wire.NOBODY_LEADS, wire.TOO_MANY_REQUESTS}
    return isinstance(refusal, FaultError) and refusal.fault.code in passing


def _retry_after_s(answer: Answer) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), _LONGEST_PAUSE_S) if text.isdecimal() else 0.0


class Leasing:
    """A lease not yet taken: `device = await farm.lease()`, or `async with farm.lease() as device`."""

    def __init__(self, farm: FarmClient, request: wire.LeaseRequest, record: Record) -> None:
        self._farm = farm
        self._request = request
        self._record = record
        self._device: LeasedDevice | None = None

    async def _taken(self) -> LeasedDevice:
        (device,) = await self._farm.take(self._request, self._record)
        return device

    def __await__(self) -> Generator[Any, None, LeasedDevice]:
        return self._taken().__await__()

    async def __aenter__(self) -> LeasedDevice:
        self._device = await self
        return self._device

    async def __aexit__(self, *_: object) -> None:
        if self._device is not None:
            await self._device.close()


def _lease_request(**fields: Any) -> wire.LeaseRequest:
    try:
        return wire.LeaseRequest(**fields, key=secrets.token_hex(8))
    except ValidationError as error:
        raise UsageError(f"lease: {first_error(error.errors())}") from error

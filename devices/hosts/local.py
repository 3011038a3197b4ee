"""Runs the devices of this machine, and makes the final check of each request's fencing token.

The pool only issues tokens. Here, next to the device, the highest token seen is kept per device and a lower
one is refused, so that a delayed request cannot act on a device that another holder has now. Repeated
requests (same idempotency key) get the recorded answer and do not act again.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from devices.config import DeviceConfig
from devices.drivers import Driver, HostedDevice
from devices.drivers.deadline import deadline
from devices.hosts.edge import Provoked, edge
from devices.hosts.grants import require
from devices.hosts.host import SlotInfo
from devices.hosts.looking import Looking
from devices.hosts.slot_record import NOBODY, SlotRecord
from devices.hosts.verbs import perform
from devices.leases import LOCAL, PUBLIC, Lease
from guiagent.errors import Fault, FaultError, InfrastructureError, LeaseError, UsageError
from guiagent.protocols import Clock, Networked
from guiagent.types import Capabilities, ObserveSpec, ResetSpec
from guiagent.wire import ConnectRequest, KeyedVerb, ResetRequest, Verb

T = TypeVar("T")

_RECYCLE_DEADLINE_S = 15.0
_CLOSE_DEADLINE_S = 10.0
_HEALTH_DEADLINE_S = 5.0
_STREAMS = 64  # open at a time on one device
_DEVICE = "the device"
# A site is its holder's to break: by a program in it, by a page, by what is written into its files.
_OF_SITES = frozenset({"site_died", "site_garbled", "site_unreadable"})
_BLANK = ResetSpec()
_SHOWN = ObserveSpec(frame="jpeg", quality=70)


class DeviceHost:
    """The devices of this machine; every verb ends by its deadline, with a value or a FaultError.

    Raises UsageError if a slot has a kind without a driver.
    """

    def __init__(
        self, slots: Mapping[str, DeviceConfig], drivers: Mapping[str, Driver], clock: Clock = time
    ) -> None:
        for device in slots.values():
            if device.kind not in drivers:
                known = ", ".join(sorted(drivers))
                raise UsageError(f"there is no driver for {device.kind!r} devices; this host runs: {known}")
        self.id = LOCAL
        self.slots = _offered(slots)
        self.records = {slot: SlotRecord() for slot in slots}
        self._configs = slots
        self._drivers = drivers
        self._clock = clock
        self._looking = Looking()

    def sweep(self) -> int:
        """End device processes whose owner process is gone; return how many."""
        return sum(self._drivers[kind].sweep() for kind in {device.kind for device in self._configs.values()})

    # -- what the reconciler asks for ------------------------------------------------------------------------

    async def start(self, device: str) -> Capabilities:
        """Start a device in this slot, in place of any former one; it takes verbs after `open`."""
        record, config = self.records[device], self._configs[device]
        kind = self._drivers[config.kind]
        async with record.changing:
            await self._stop(device)
            with edge(device, "start", UsageError, InfrastructureError):
                async with deadline(_DEVICE, "start", kind.start_s):
                    record.driver = driver = await kind.start(config)
                    # Another lock: a verb that hangs on the former device keeps the former one.
                    record.turn = asyncio.Lock()
                    record.allowed = 0
                    record.saw(await driver.reset(0, _BLANK, _SHOWN), NOBODY)
                    record.baseline = await driver.attest()
                    record.cut_short = False
                    self._note(record, record.fence, f"started, baseline {record.baseline}")
                    return await driver.describe()

    def open(self, device: str, *, stale: bool) -> None:
        """Let verbs through. `stale`: a live lease lost its former device, so a reset has to come first."""
        record = self.records[device]
        if not record.up.is_set():  # the pool says it again where it cannot know that it was heard
            record.stale = stale
            record.up.set()

    async def close(self) -> None:
        """Stop every device."""
        await self._looking.close()
        await asyncio.gather(*(self.stop(device) for device in self.records))

    async def stop(self, device: str) -> None:
        async with self.records[device].changing:
            await self._stop(device)

    async def _stop(self, device: str) -> None:
        record = self.records[device]
        record.up.clear()
        record.hang_up()
        driver, record.driver = record.driver, None
        if driver is not None:
            with contextlib.suppress(FaultError), edge(device, "close"):  # it is being thrown away
                async with deadline(_DEVICE, "close", _CLOSE_DEADLINE_S):
                    await driver.close()

    async def recycle(self, device: str) -> None:
        """Reset the device for its next holder, and check that its state equals its baseline.

        Raises FaultError if the reset fails, the state differs, or a verb still occupies the device; it is
        Provoked if a lease ended under a verb, which not every reset can mend.
        """
        record = self.records[device]
        try:
            with edge(device, "recycle"):
                async with deadline(_DEVICE, "recycle", _RECYCLE_DEADLINE_S), record.turn:
                    await self._reset(record)
        except FaultError as error:
            if record.cut_short:
                raise Provoked(error.fault) from error
            raise
        record.cut_short = False

    async def _reset(self, record: SlotRecord) -> None:
        driver = _running(record)
        record.saw(await driver.reset(0, _BLANK, _SHOWN), NOBODY)
        if (digest := await driver.attest()) != record.baseline:
            message = f"after a reset its state is {digest}, not the baseline {record.baseline}"
            raise FaultError(Fault("device", "residue", message, retryable=True))
        record.stale = False
        self._note(record, record.fence, "reset to the baseline")

    async def check(self, device: str) -> None:
        """Check the device's health. Raises FaultError if it is not healthy."""
        record = self.records[device]
        with edge(device, "health"):
            async with deadline(_DEVICE, "health", _HEALTH_DEADLINE_S), record.turn:
                health = await _running(record).health()
        if not health.ok:
            raise FaultError(Fault("device", "unhealthy", health.detail, retryable=True))

    def fence(self, device: str, token: int, epoch: int) -> None:
        """Refuse every token below this one from now on, and interrupt what is done under one."""
        self.records[device].set_fence(token, epoch)

    # -- verbs of the holder ---------------------------------------------------------------------------------

    async def call(self, lease: Lease, message: Verb[T]) -> T:
        """Carry out a verb under a lease.

        Raises LeaseError if the lease has ended, also meanwhile; UsageError if the device or the lease
        does not allow it; FaultError for all else, Provoked where the caller may be the cause.
        """
        require(lease, message)
        record = self.records[lease.device]
        if not record.up.is_set():  # the device is being started after a restart of the farm
            async with deadline(_DEVICE, "start", message.deadline_s, origin="farm"):
                await record.up.wait()
        try:
            async with asyncio.timeout(message.deadline_s) as scope, record.turn:
                return await self._in_turn(lease, message, record, scope)
        except (TimeoutError, FaultError) as error:
            if lease.token < record.fence:
                if isinstance(error, TimeoutError):
                    self._note(record, lease.token, f"{message.verb} cut short: its lease ended")
                raise LeaseError(fenced(lease.device, lease.token)) from error
            if isinstance(error, FaultError):
                if error.fault.code in _OF_SITES:
                    raise Provoked(error.fault) from error
                raise
            text = f"{_DEVICE} did not finish {message.verb!r} within {message.deadline_s:g} s"
            raise Provoked(Fault("device", "deadline", text, retryable=True)) from error

    async def connect(
        self, lease: Lease, message: ConnectRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream to a service of the device; it is cut when the lease ends."""
        return await self.call(lease, message)

    def on_disconnect(self, device: str, writer: asyncio.StreamWriter) -> None:
        """Close a stream from `connect`, because its holder closed the other end."""
        writer.close()
        if not writer.transport.get_write_buffer_size():  # else the end of the lease cuts it
            self.records[device].streams.discard(writer)

    async def _in_turn(self, lease: Lease, message: Verb[T], record: SlotRecord, scope: asyncio.Timeout) -> T:
        self._admit(record, lease)
        driver = _running(record)
        with record.carrying_out(message, scope), edge(lease.device, message.verb, UsageError, held=True):
            if record.allowed != lease.token:
                await _allow(driver, lease.egress)
                record.allowed = lease.token
            value = await self._once(lease, message, driver, record)
        self._admit(record, lease)  # if the lease ended meanwhile, this is no longer the caller's
        return value

    async def _once(self, lease: Lease, message: Verb[T], driver: HostedDevice, record: SlotRecord) -> T:
        """Carry out a verb once per idempotency key: a repeated key gets the recorded answer."""
        value: T
        if isinstance(message, KeyedVerb) and (known := record.answers.of(message)) is not None:
            (value,) = known
            return value
        if not isinstance(message, ResetRequest):
            _require_same_device(record)
        if isinstance(message, ConnectRequest) and len(record.streams) >= _STREAMS:
            text = f"{lease.device} has {_STREAMS} open streams; close one first"
            raise FaultError(Fault("task", "too_many_streams", text))
        value = await perform(message, driver, record.size, partial(self._note, record, lease.token))
        record.performed(message, value, lease.token, self._clock.monotonic())
        if record.streams:
            self._looking.begin(lease.device, record, lease.token, driver.observe)
        if isinstance(message, KeyedVerb) and lease.token >= record.fence:
            record.answers.add(message, value)
        return value

    def _admit(self, record: SlotRecord, lease: Lease) -> None:
        record.raise_fence(lease.token)
        if lease.token < record.fence:
            raise LeaseError(fenced(lease.device, lease.token))

    def _note(self, record: SlotRecord, token: int, text: str) -> None:
        record.note(self._clock.time(), token, text)


def _offered(configs: Mapping[str, DeviceConfig]) -> list[SlotInfo]:
    first: dict[int, str] = {}  # slot of each entry of the config, by the entry's identity
    return [
        SlotInfo(
            slot,
            config.offers,
            *config.size,
            warm=config.warm,
            idle_s=config.idle_s,
            group=first.setdefault(id(config), slot),
        )
        for slot, config in configs.items()
    ]


def fenced(device: str, token: int) -> Fault:
    message = f"token {token} on {device} is no longer current: the device went to somebody else"
    return Fault("farm", "fenced", message)


def _running(record: SlotRecord) -> HostedDevice:
    if record.driver is None:
        message = "this device was stopped; take a new lease"
        raise FaultError(Fault("farm", "stopped", message, retryable=True))
    return record.driver


async def _allow(driver: HostedDevice, egress: tuple[str, ...]) -> None:
    """Set the egress rules of a new holder; UsageError if the device cannot limit egress."""
    if isinstance(driver, Networked):
        await driver.allow(egress)
    elif egress != PUBLIC:
        raise UsageError("this device cannot bound what it reaches; lease it without egress=")


def _require_same_device(record: SlotRecord) -> None:
    if record.stale:
        message = "the farm was restarted and this device with it: reset it before going on"
        raise FaultError(Fault("farm", "restarted", message, retryable=True))

"""Views of the farm for callers: the operator sees everything, a tenant the devices it holds."""

from collections import Counter
from collections.abc import Callable, Mapping

from devices.hosts.host import Host
from devices.hosts.slot_record import Frame, LogLine, SlotRecord
from devices.leases import OPERATOR, DeviceState, Lease, Slot
from devices.pool.lease_table import Pool
from devices.pool.matching import in_service
from guiagent.errors import UsageError
from guiagent.protocols import Clock
from guiagent.wire import DeviceInfo, FarmInfo, HeldLease, HeldLeases, HostInfo, Hosts, Waiting

_FREE = frozenset({DeviceState.READY, DeviceState.OFF})
_NO_RECORD = SlotRecord()  # for a device whose host is away


class UnknownDevice(UsageError):
    """The device does not exist, or the caller may not see it: both give the same error."""

    def __init__(self) -> None:
        super().__init__("there is no such device")


class Views:
    """What callers see of a pool; `asks` tells of a lease what its agent wants a person to do."""

    def __init__(
        self, pool: Pool, hosts: Mapping[str, Host], asks: Callable[[str], str], clock: Clock
    ) -> None:
        self._pool = pool
        self._hosts = hosts
        self._asks = asks
        self._clock = clock

    def device(self, tenant: str, device: str) -> Slot:
        """Return the device's slot. Raises UnknownDevice if there is none that the tenant may see."""
        slot = self._pool.slots.get(device)
        if slot is None or not self._sees(tenant, slot):
            raise UnknownDevice
        return slot

    def farm(self, tenant: str = OPERATOR) -> FarmInfo:
        now = self._clock.monotonic()
        slots = self._pool.slots.values()
        free = {slot.kind: 0 for slot in slots}
        free.update(Counter(slot.kind for slot in slots if slot.state in _FREE and in_service(slot)))
        waiting = [
            Waiting(
                one.request.kind,
                len(one.request.ids),
                one.request.label,
                one.request.tenant,
                one.place,
                now - one.request.asked,
                one.eta_s,
            )
            for one in self._pool.queue.waiting(now)
            if tenant in (OPERATOR, one.request.tenant)
        ]
        devices = [self._device_info(slot, now) for slot in slots if self._sees(tenant, slot)]
        return FarmInfo(devices, len(self._pool.queue.requests), free, waiting)

    def leases(self, tenant: str) -> HeldLeases:
        now = self._clock.monotonic()
        return HeldLeases(
            [
                HeldLease(
                    one.id, one.device, one.token, one.tenant, one.label, one.expires - now, now - one.since
                )
                for one in self._pool.leases.values()
                if tenant in (OPERATOR, one.tenant)
            ]
        )

    def hosts(self) -> Hosts:
        states: dict[str, Counter[str]] = {id: Counter() for id in self._hosts}
        for slot in self._pool.slots.values():
            states.setdefault(slot.host, Counter())[slot.state.value] += 1
        return Hosts(
            [HostInfo(id, sum(by.values()), dict(by), id not in self._hosts) for id, by in states.items()]
        )

    def frame(self, tenant: str, device: str) -> Frame:
        """The device's last frame; its `data` is empty before the first one."""
        return self._record(self.device(tenant, device)).frame

    def frames(self, tenant: str = OPERATOR) -> list[tuple[str, Frame]]:
        return [
            (slot.id, self._record(slot).frame)
            for slot in self._pool.slots.values()
            if self._sees(tenant, slot)
        ]

    def log(self, tenant: str, device: str) -> list[LogLine]:
        """The device's log; a tenant sees the lines since the beginning of its lease."""
        slot = self.device(tenant, device)
        lease = self._lease(slot)
        since = 0 if tenant == OPERATOR or lease is None else lease.token
        return [line for line in self._record(slot).log if line.token >= since]

    def _sees(self, tenant: str, slot: Slot) -> bool:
        lease = self._lease(slot)
        return tenant == OPERATOR or (lease is not None and lease.tenant == tenant)

    def _lease(self, slot: Slot) -> Lease | None:
        return self._pool.leases[slot.lease] if slot.lease is not None else None

    def _record(self, slot: Slot) -> SlotRecord:
        host = self._hosts.get(slot.host)
        return host.records[slot.id] if host is not None else _NO_RECORD

    def _device_info(self, slot: Slot, now: float) -> DeviceInfo:
        record, lease, known = self._record(slot), self._lease(slot), slot.capabilities
        width, height = (known.width, known.height) if known is not None else slot.size
        return DeviceInfo(
            id=slot.id,
            kind=slot.kind,
            state=slot.state.value,
            generation=slot.generation,
            label=lease.label if lease is not None else "",
            width=width,
            height=height,
            fps=record.fps(now),
            steps=record.steps,
            faults=record.faults,
            idle_s=now - record.step_times[-1] if record.step_times else None,
            host=slot.host,
            tenant=lease.tenant if lease is not None else "",
            reason=slot.reason,
            probation=slot.health.on_probation,
            mark=slot.mark,
            asks=self._asks(slot.lease) if slot.lease is not None else "",
            features=known.features if known is not None else [],
        )

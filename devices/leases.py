"""Data types of the lease table: slots and their states, requests, leases, and the events to store."""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Literal

import msgspec
import xxhash

from devices.health import DeviceHealth
from guiagent.errors import Fault
from guiagent.types import Capabilities

LOCAL = "local"
"""The id of the device host that lives in the pool's own process."""
OPERATOR = ""  # the tenant that the pool's own token stands for: it sees and may do everything
PUBLIC = ("public",)
AdminState = Literal["", "drain", "quarantine"]


class DeviceState(StrEnum):
    BOOTING = "booting"
    READY = "ready"
    LEASED = "leased"
    RESETTING = "resetting"
    QUARANTINED = "quarantined"  # failed several times in a row and waits, or an operator took it out
    DRAINED = "drained"  # an operator took it out of service once its lease had ended
    OFF = "off"  # not wanted now: started when somebody waits for it
    LOST = "lost"  # its host is away
    DEAD = "dead"  # nothing runs; to be started


_S = DeviceState
_OUT = frozenset({_S.QUARANTINED, _S.DRAINED, _S.LOST})  # reachable from every state
TRANSITIONS: dict[DeviceState, frozenset[DeviceState]] = {
    # Directly to LEASED if a live lease outlived its device or the pool's process.
    _S.BOOTING: _OUT | {_S.READY, _S.LEASED, _S.DEAD},
    _S.READY: _OUT | {_S.LEASED, _S.DEAD, _S.OFF},
    _S.LEASED: _OUT | {_S.RESETTING, _S.DEAD},
    _S.RESETTING: _OUT | {_S.READY, _S.DEAD},  # also without a reset, where an admin takes it over as it is
    _S.QUARANTINED: _OUT | {_S.BOOTING, _S.DEAD, _S.OFF},
    _S.DRAINED: _OUT | {_S.DEAD, _S.OFF},
    _S.OFF: _OUT | {_S.DEAD},
    _S.LOST: _OUT | {_S.DEAD, _S.OFF},
    _S.DEAD: _OUT | {_S.BOOTING, _S.OFF},
}
RUNS_NOT = frozenset({_S.QUARANTINED, _S.DRAINED, _S.OFF, _S.LOST, _S.DEAD})


@dataclass(slots=True)
class Slot:
    """A place in the farm (`browser-2`), filled by one device process after another (generations)."""

    id: str
    kind: str
    state: DeviceState = DeviceState.DEAD
    host: str = LOCAL
    size: tuple[int, int] = (0, 0)  # of the screen, in pixels; (0, 0) while unknown
    group: str = ""  # slots that are sized together: one entry of a host's config
    warm: int | None = None  # free devices of the group to keep up; None: all of them
    idle_s: float = 0.0  # after which a device beyond those is stopped
    capabilities: Capabilities | None = None  # None until a device has come up here
    token: int = 0
    generation: int = 0
    running: bool = False  # there may be a process here
    lease: str | None = None
    health: DeviceHealth = field(default_factory=DeviceHealth)
    mark: AdminState = ""  # an operator's
    reason: str = ""  # why it is out of service, for people
    retry_at: float = inf  # when a quarantine that no operator ordered is over
    rejoin_by: float = inf  # when the lease of a device whose host has not come back after a restart ends
    idle_since: float | None = None  # READY and seen to be so


@dataclass(frozen=True, slots=True)
class Request:
    """A request for `len(ids)` devices, all or none; each id is a fresh 128-bit secret of one lease."""

    ids: tuple[str, ...]
    kind: str
    ttl: float
    needs: frozenset[str] = frozenset()
    grants: frozenset[str] = frozenset()  # each is also a feature the device must have
    label: str = ""
    tenant: str = ""
    egress: tuple[str, ...] = PUBLIC  # what the device may reach
    key: str = ""  # idempotency: the same key of one tenant gets the same leases while they live
    device: str = ""  # only this device; "": any
    host: str = ""  # only on this host; "": any
    takeover: bool = False
    asked: float = 0.0

    @property
    def digest(self) -> str:
        """Equal for equal requests: a key that comes with another one was used twice."""
        sets = sorted(self.needs), sorted(self.grants)
        texts = self.kind, self.label, self.device, self.host
        whole = len(self.ids), self.ttl, *sets, self.egress, *texts, self.takeover
        return xxhash.xxh3_128_hexdigest(msgspec.json.encode(whole))

    @property
    def features(self) -> frozenset[str]:
        return self.needs | self.grants


@dataclass(slots=True)
class Lease:
    id: str
    device: str
    token: int
    ttl: float
    grants: frozenset[str]
    label: str
    key: str
    tenant: str = ""
    egress: tuple[str, ...] = PUBLIC
    digest: str = ""  # of the request that it was granted for, if that had a key
    expires: float = 0.0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Granted:
    request: Request
    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    lease: Lease
    fault: Fault  # why; also what a late caller is answered
    token: int  # the device's token from now on, above the lease's


@dataclass(frozen=True, slots=True)
class Marked:
    """An operator took a device out of service, or put it back; survives restarts."""

    device: str
    mark: AdminState
    reason: str


Event = Granted | Ended | Marked

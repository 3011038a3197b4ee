"""The farm as it is shown: its devices, its queue, its hosts, and where a running pool is found."""

from typing import Annotated

import msgspec
from pydantic import BaseModel, ConfigDict, Field


class Reason(BaseModel):
    """Why an operator does what he does; shown with the device."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, Field(max_length=500)] = ""


class DeviceInfo(msgspec.Struct, frozen=True):
    id: str
    kind: str
    state: str
    generation: int  # how many devices have filled this slot
    label: str  # of its holder
    width: int
    height: int
    fps: float
    steps: int
    faults: int
    idle_s: float | None  # since the last step; None before the first
    host: str = ""
    tenant: str = ""  # of its holder; "" is the operator, or nobody
    reason: str = ""  # why it is out of service, or last failed
    probation: bool = False  # failed before and has not proved itself yet: it is given out last
    mark: str = ""  # "drain" or "quarantine" where an operator said so
    asks: str = ""  # what its agent wants a person to do
    features: list[str] = []


class Waiting(msgspec.Struct, frozen=True):
    """A lease request in the queue."""

    kind: str
    n: int
    label: str
    tenant: str
    place: int  # among those for its kind, from 1
    waited_s: float
    eta_s: float | None  # None where nothing tells yet


class FarmInfo(msgspec.Struct, frozen=True):
    """A tenant sees the devices it holds and its own requests; the operator sees everything."""

    devices: list[DeviceInfo]
    queue: int  # lease requests waiting, of everybody
    free: dict[str, int] = {}  # by kind: devices nobody holds that could be had
    waiting: list[Waiting] = []


class HostInfo(msgspec.Struct, frozen=True):
    id: str
    devices: int
    by_state: dict[str, int]
    away: bool  # its devices are lost until it joins again


class Hosts(msgspec.Struct, frozen=True):
    hosts: list[HostInfo]


class Health(msgspec.Struct, frozen=True):
    ok: bool


class Endpoint(msgspec.Struct, frozen=True):
    """How a client of the same user finds a running pool: the content of its `endpoint.json`."""

    url: str
    token: str
    pid: int
    page: str = ""  # where a file of the pool's user lies that opens the live page

    @property
    def live_page(self) -> str:
        """The address of the live page as it may be printed: without the token."""
        return self.page or f"{self.url}/"

    @property
    def live_url(self) -> str:
        """The page with all screens; it holds the token, so it is as secret as that."""
        return f"{self.url}/#token={self.token}"

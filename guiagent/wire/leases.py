"""Leases as they are asked for, given and listed."""

from typing import Annotated, Literal, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from guiagent.types import Capabilities

Grant = Literal["exec", "shell", "files", "sites"]
SERVICES: dict[str, Grant] = {"cdp": "exec", "adb": "shell", "osworld": "shell"}
"""What `connect` reaches, and the grant each needs."""
Name = Annotated[str, Field(min_length=1, max_length=64)]
Target = Annotated[str, Field(min_length=1, max_length=255)]


class LeaseRequest(BaseModel):
    """Take `n` devices of one kind at once, or none; wait up to `wait_s` seconds for them.

    Attributes:
        needs: what the devices have to be able to do (`Capabilities.features`), and how large their screens
            are at least ("720p", "1080p").
        egress: what they may reach: host names, `*.host`, `host:port`, CIDR blocks, or "public".
        key: idempotency key: asked again with the same one, the same leases come back while they live.
        device: this one and no other, whatever `kind` says. Tenants can name those only that they hold.
        takeover: end the lease there is on `device` and have it as it is. For the operator.
        near: a lease of the caller's; the devices come from the same host, where its snapshots are.
    """

    model_config = ConfigDict(extra="forbid")

    kind: Name = "browser"
    n: Annotated[int, Field(ge=1, le=256)] = 1
    ttl_s: Annotated[float, Field(ge=0.1, le=3600.0)] = 60.0
    needs: Annotated[list[Name], Field(max_length=32)] = []
    grants: Annotated[list[Grant], Field(max_length=8)] = []
    egress: Annotated[list[Target], Field(max_length=256)] = ["public"]
    label: Annotated[str, Field(max_length=128)] = ""
    wait_s: Annotated[float, Field(ge=0.0, le=600.0)] = 30.0
    key: Annotated[str, Field(max_length=64)] = ""
    device: Annotated[str, Field(max_length=128)] = ""
    takeover: bool = False
    near: Annotated[str, Field(max_length=64)] = ""

    @model_validator(mode="after")
    def _one_device(self) -> Self:
        if self.device and self.n != 1:
            raise ValueError("one named device is one lease: n must be 1")
        if self.takeover and not self.device:
            raise ValueError("takeover needs the device to take")
        return self


class RenewRequest(BaseModel):
    """Keep a lease for at least `ttl_s` more seconds from now."""

    model_config = ConfigDict(extra="forbid")

    ttl_s: Annotated[float, Field(ge=0.1, le=3600.0)]


class LeaseInfo(msgspec.Struct, frozen=True):
    id: str
    token: int
    device: str
    expires_in_s: float
    capabilities: Capabilities


class Leases(msgspec.Struct, frozen=True):
    leases: list[LeaseInfo]


class Renewed(msgspec.Struct, frozen=True):
    expires_in_s: float


class HeldLease(msgspec.Struct, frozen=True):
    """A live lease as its holder and the operator see it."""

    id: str
    device: str
    token: int
    tenant: str
    label: str
    expires_in_s: float
    held_s: float


class HeldLeases(msgspec.Struct, frozen=True):
    leases: list[HeldLease]

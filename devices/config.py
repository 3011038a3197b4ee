"""Settings of a pool service and of its devices, with all their defaults."""

import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from devices.guardrails.rules import Guardrails
from guiagent.client.local_pool import state_dir


def _new_token() -> SecretStr:
    return SecretStr(secrets.token_urlsafe(24))


def _legal_token(token: SecretStr) -> SecretStr:
    # What both an Authorization header and a WebSocket subprotocol name can carry.
    if not re.fullmatch(r"[A-Za-z0-9._~-]{16,128}", token.get_secret_value()):
        raise ValueError("a token has 16 to 128 letters, digits or any of . _ ~ -")
    return token


def _unlimited(device: str, or_write: str = "") -> str:
    return (
        f"what {device} reaches cannot be limited from here, so that the egress rules of leases would not "
        f"hold: to offer it all the same set {or_write}`unlimited_egress = true`"
    )


class DeviceConfig(BaseModel):
    """`count` devices of one kind with the same screen size in pixels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    count: Annotated[int, Field(ge=1, le=256)] = 1
    width: Annotated[int, Field(ge=64, le=4096)] = 1024
    height: Annotated[int, Field(ge=64, le=4096)] = 768
    warm: Annotated[int, Field(ge=0)] | None = None
    """None: all `count` are kept up. Else this many free ones are, more are started as requests wait, and
    those beyond are stopped once they have been idle for `idle_s`."""
    idle_s: Annotated[float, Field(ge=0.0)] = 300.0
    allow_unisolated: bool = False
    """Runs the device all the same where this machine cannot keep its programs from the host's files and
    processes; else it does not start, and says what is missing. For hosts that hold nothing of value."""

    @property
    def offers(self) -> str:
        """The kind of device that a lease request names."""
        return self.kind

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen in pixels; (0, 0) if only the device itself knows."""
        return self.width, self.height


class BrowserConfig(DeviceConfig):
    kind: Literal["browser"] = "browser"
    executable: str | None = None
    """Path or name of the browser; None: $GUIAGENT_CHROMIUM, a headless shell, then a full Chromium.
    The shell is lighter and steps faster."""
    cdp: bool = False
    """Lets lease holders connect Playwright. The DevTools protocol knows no password, so any process of this
    machine can then drive the browser; and who has it can read what the browser's user can read here (under
    root a user of its own, to whom what everybody may read is left; else you), and open pages that go round
    the egress rules. For holders you trust, or hosts with nothing else on them."""
    sites: Annotated[
        Sequence[Annotated[str, Field(pattern="^[a-z][a-z0-9-]{0,31}$")]], Field(max_length=32)
    ] = ()
    """Web applications that are leased with the browser, such as "data": docs/sites.md."""


class DesktopConfig(DeviceConfig):
    """An X display with a window manager and the applications of this machine, or of `rootfs`."""

    kind: Literal["desktop"] = "desktop"
    width: Annotated[int, Field(ge=320, le=4096)] = 1920
    height: Annotated[int, Field(ge=240, le=4096)] = 1080
    rootfs: Path | None = None
    """A folder with a Debian system to run instead of this machine's own."""


class VmConfig(DeviceConfig):
    kind: Literal["vm"] = "vm"
    width: Annotated[int, Field(ge=320, le=4096)] = 1280
    height: Annotated[int, Field(ge=240, le=4096)] = 800
    image: Annotated[str, Field(min_length=1)] = "desktop"
    """A name made by `guiagent image build`, a qcow2 file, or a URL (then `sha256` is needed)."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    memory_mb: Annotated[int, Field(ge=128, le=65536)] = 768
    cpus: Annotated[int, Field(ge=1, le=64)] = 1


class PhoneConfig(DeviceConfig):
    """The virtual phone: not Android, but driven by Android's tools."""

    kind: Literal["phone"] = "phone"
    width: Annotated[int, Field(ge=240, le=4096)] = 720
    height: Annotated[int, Field(ge=320, le=4096)] = 1280


class AndroidConfig(DeviceConfig):
    """A real phone or redroid by its adb `serial`, or an emulator that is started from the named `avd`."""

    kind: Literal["android"] = "android"
    serial: str | None = None
    avd: str | None = None
    unlimited_egress: bool = False
    """Must be set: what Android reaches cannot be limited from here, private addresses included, so that the
    egress rules of a lease do not hold. Give it a network that has nothing to protect."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if not self.unlimited_egress:
            raise ValueError(_unlimited("an android device", "`,unlimited_egress` after its name or "))
        if (self.serial is None) == (self.avd is None):
            raise ValueError("an android device is named by its adb serial or by its avd: set one of the two")
        if self.serial is not None and self.count != 1:
            raise ValueError("one serial is one device: count must be 1")
        return self

    @property
    def size(self) -> tuple[int, int]:
        return 0, 0


class RemoteConfig(DeviceConfig):
    """Devices of another pool (`http://host:8700` and its `token`), or one OSWorld server
    (`osworld://host:5000`)."""

    kind: Literal["remote"] = "remote"
    url: Annotated[str, Field(pattern="^(https?|osworld)://")]
    token: SecretStr | None = None
    of: str = "desktop"
    """The kind of the devices there."""
    unlimited_egress: bool = False
    """Must be set for an OSWorld server: what it reaches cannot be limited from here, so that the egress
    rules of a lease do not hold. Another pool limits its own devices."""

    @model_validator(mode="after")
    def _say_what_does_not_hold(self) -> Self:
        if self.url.startswith("osworld://") and not self.unlimited_egress:
            raise ValueError(_unlimited("a desktop behind an OSWorld server"))
        return self

    @property
    def offers(self) -> str:
        return self.of

    @property
    def size(self) -> tuple[int, int]:
        return 0, 0


class LabConfig(DeviceConfig):
    """An app made to order, drawn in pure Python: as many screens, and tasks as long, as one asks for."""

    kind: Literal["lab"] = "lab"
    width: Annotated[int, Field(ge=96, le=4096)] = 160
    height: Annotated[int, Field(ge=96, le=4096)] = 224


class SimConfig(DeviceConfig):
    """A device in pure Python with scripted latencies and faults, for tests of everything above it."""

    kind: Literal["sim"] = "sim"
    width: Annotated[int, Field(ge=64, le=4096)] = 320
    height: Annotated[int, Field(ge=64, le=4096)] = 240
    seed: int = 0
    step_ms: Annotated[float, Field(ge=0)] = 0.0
    """Median time of a step; actual times spread around it."""
    fault_rate: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of verbs that end the device."""


AnyDeviceConfig = Annotated[
    BrowserConfig
    | DesktopConfig
    | VmConfig
    | PhoneConfig
    | AndroidConfig
    | LabConfig
    | RemoteConfig
    | SimConfig,
    Field(discriminator="kind"),
]


_Token = Annotated[SecretStr, AfterValidator(_legal_token)]
JOINING = "(host)"  # what the hosts' token stands for in `PoolConfig.tokens`; no tenant can be called so


class TenantConfig(BaseModel):
    """A user of a shared farm, who sees and drives what it holds and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]{0,31}$")]
    token: _Token
    private_egress: Sequence[str] = ()
    """Addresses and CIDR blocks that its leases may reach besides public ones, as a lease would name them."""
    weight: Annotated[float, Field(gt=0.0)] = 1.0
    """Twice the weight is twice the share of the devices, where there are too few."""
    max_devices: Annotated[int, Field(ge=1)] | None = None
    """Held at once."""
    guardrails: Guardrails | None = None
    """Rules on what its agents do, besides those of the pool."""
    device_seconds_per_hour: Annotated[float, Field(gt=0.0)] | None = None
    """As a bucket that refills at this rate: two devices all the time are 7200."""


class PoolConfig(BaseModel):
    """One pool service: where it listens, what it keeps on disk, which devices it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8700
    """0 picks a free one."""
    token: _Token = Field(default_factory=_new_token)
    """Bearer token of the operator, who may do everything; a new one is made where none is given."""
    host_token: _Token | None = None
    """Bearer token of device hosts, which join with it and can do nothing else. None: they join with the
    operator's, which every host then knows."""
    tenants: Sequence[TenantConfig] = ()
    state_dir: Path = Field(default_factory=state_dir)
    """Holds leases and tokens (`pool.sqlite`) and the way in (`endpoint.json`); one pool at a time. This
    user's own, where nothing is said: there every command finds the pool."""
    database: SecretStr | None = None
    """`postgresql://USER@HOST/NAME`: leases and tokens are kept there, and all pools of one database are one
    farm: one leads, the others forward to it at its `host` and `port`, and take over when it dies."""
    guardrails: Guardrails | None = None
    """Rules on what everybody's agents do, the operator's own programs among them."""
    devices: Sequence[AnyDeviceConfig] = [BrowserConfig()]
    """Of this machine; may be empty where other hosts join."""

    @model_validator(mode="after")
    def _tell_tenants_apart(self) -> Self:
        hosts = [self.host_token] if self.host_token is not None else []
        tokens = [self.token, *hosts, *(tenant.token for tenant in self.tenants)]
        if len({token.get_secret_value() for token in tokens}) < len(tokens):
            raise ValueError("two of the tenants, the operator and the hosts have the same token")
        if len({tenant.name for tenant in self.tenants}) < len(self.tenants):
            raise ValueError("two tenants have the same name")
        return self

    def tokens(self) -> dict[str, str]:
        """Map each bearer token to its tenant's name, to "" for the operator, or to JOINING for hosts."""
        named = {tenant.token.get_secret_value(): tenant.name for tenant in self.tenants}
        if self.host_token is not None:
            named[self.host_token.get_secret_value()] = JOINING
        return {self.token.get_secret_value(): "", **named}

    def slots(self) -> dict[str, DeviceConfig]:
        return named(self.devices)


def named(devices: Iterable[DeviceConfig]) -> dict[str, DeviceConfig]:
    """Name every device by its kind and a number: `browser-0`, `browser-1`, ..."""
    slots: dict[str, DeviceConfig] = {}
    for device in devices:
        first = sum(one.offers == device.offers for one in slots.values())
        slots.update({f"{device.offers}-{first + index}": device for index in range(device.count)})
    return slots

"""What a pool service is told; the only place with its defaults."""

import re
import secrets
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr


def _new_token() -> SecretStr:
    return SecretStr(secrets.token_urlsafe(24))


def _legal_token(token: SecretStr) -> SecretStr:
    # What both an Authorization header and a WebSocket subprotocol name can carry.
    if not re.fullmatch(r"[A-Za-z0-9._~-]{16,128}", token.get_secret_value()):
        raise ValueError("a token has 16 to 128 letters, digits or any of . _ ~ -")
    return token


class DeviceConfig(BaseModel):
    """`count` devices of one kind with the same screen size in pixels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str = "browser"
    count: Annotated[int, Field(ge=1, le=256)] = 1
    width: Annotated[int, Field(ge=64, le=4096)] = 1024
    height: Annotated[int, Field(ge=64, le=4096)] = 768


class PoolConfig(BaseModel):
    """One pool service: where it listens, what it keeps on disk, which devices it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8700
    """0 picks a free one."""
    token: Annotated[SecretStr, AfterValidator(_legal_token)] = Field(default_factory=_new_token)
    """Bearer token of every client; a new one is made where none is given."""
    state_dir: Path
    """Holds leases and tokens (`pool.sqlite`) and the way in (`endpoint.json`); one pool at a time."""
    devices: Annotated[list[DeviceConfig], Field(min_length=1)] = [DeviceConfig()]

    def slots(self) -> dict[str, DeviceConfig]:
        """One entry a device: `browser-0`, `browser-1`, ..."""
        named: dict[str, DeviceConfig] = {}
        for device in self.devices:
            first = sum(one.kind == device.kind for one in named.values())
            named.update({f"{device.kind}-{first + index}": device for index in range(device.count)})
        return named

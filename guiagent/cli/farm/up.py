"""`guiagent up`, `down` and `host`: run a pool in the foreground, stop it, run devices for another pool."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from devices import specs
from devices.api.server import serve
from devices.config import AnyDeviceConfig, PoolConfig, named
from devices.hosts.agent import Agent
from guiagent.client.local_pool import endpoint_of, state_dir
from guiagent.config import load
from guiagent.errors import UsageError
from guiagent.wire import Endpoint

_STOP_S = 30.0
_POLL_S = 0.05
_DEFAULT = ("browser=4",)


def up(
    kinds: Sequence[str],
    toml: Path | None,
    overrides: Sequence[str],
    devices: bool,
    host: str | None,
    port: int | None,
    folder: Path | None,
    allow_unisolated: bool,
    show_token: bool,
) -> None:
    said: dict[str, Any] = {
        "host": host,
        "port": port,
        "token": _secret("GUIAGENT_TOKEN"),
        "host_token": _secret("GUIAGENT_HOST_TOKEN"),
        "database": _secret("GUIAGENT_DATABASE"),
        "state_dir": folder,
        "devices": specs.parse(kinds) if kinds or toml is None else None,
    }
    if not devices:
        if kinds:
            raise UsageError(f"--no-devices and {kinds[0]!r} contradict each other: leave one out")
        said["devices"] = []
    elif not kinds and toml is None:
        said["devices"] = specs.parse(_DEFAULT)
    config = load(
        PoolConfig, toml, overrides, {key: value for key, value in said.items() if value is not None}
    )
    if allow_unisolated:
        config = config.model_copy(update={"devices": _unisolated(config.devices)})

    def announce(endpoint: Endpoint) -> None:
        shown = endpoint.live_url if show_token else endpoint.live_page
        print(f"pool ready  {endpoint.url}  live page {shown}", flush=True)
        if not is_loopback(config.host):
            print(
                f"it listens on {config.host}, for everybody who can reach it, without TLS: tokens and "
                "screens cross the network in clear; put a proxy with TLS in front, or leave --host out",
                file=sys.stderr,
                flush=True,
            )
        if config.state_dir.absolute() != state_dir().absolute():
            print(f"other commands find it with --pool {config.state_dir}", flush=True)

    drivers = logging.getLogger("devices.drivers")  # what keeps the pool from being ready for a while
    drivers.setLevel(logging.INFO)
    drivers.addHandler(logging.StreamHandler())
    serve(config, on_ready=announce)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server that listens on `host`, a name or an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def down(pool: str | None) -> None:
    """Stop a pool of this machine, named by its state folder (None: this user's), and wait until it has
    ended."""
    endpoint = endpoint_of(pool)
    if not endpoint.pid:
        raise UsageError(f"{pool} is stopped on its own machine: `guiagent down --pool FOLDER` of its state")
    with contextlib.suppress(ProcessLookupError):
        os.kill(endpoint.pid, signal.SIGTERM)
        give_up = time.monotonic() + _STOP_S
        while _runs(endpoint.pid) and time.monotonic() < give_up:
            time.sleep(_POLL_S)
    if _runs(endpoint.pid):
        raise UsageError(f"the pool (process {endpoint.pid}) did not stop within {_STOP_S:g} s")
    print("pool stopped")


def _runs(pid: int) -> bool:
    """Whether a process runs; False also for a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class HostConfig(BaseModel):
    """The config file of a device host."""

    model_config = ConfigDict(extra="forbid")

    devices: Sequence[AnyDeviceConfig]


def host(
    kinds: Sequence[str],
    pools: Sequence[str],
    name: str | None,
    toml: Path | None,
    allow_unisolated: bool,
) -> None:
    token = _secret("GUIAGENT_HOST_TOKEN") or _secret("GUIAGENT_TOKEN")
    if not pools or not token:
        raise UsageError(
            "a host needs the pool's address (--pool URL) and its token for hosts ($GUIAGENT_HOST_TOKEN)"
        )
    devices = list(load(HostConfig, toml).devices) if toml is not None else []
    devices += specs.parse(kinds or (() if toml is not None else _DEFAULT))
    if allow_unisolated:
        devices = _unisolated(devices)
    own = name or re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname()).strip("-") or "host"
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("websockets").setLevel(logging.WARNING)
    asyncio.run(_until_stopped(Agent(pools, token, own, named(devices))))


def _secret(name: str) -> str | None:
    """The environment variable, or the content of the file that `name`_FILE names, as containers have it."""
    if file := os.environ.get(f"{name}_FILE"):
        try:
            return Path(file).read_text().strip() or None
        except OSError as error:
            raise UsageError(f"${name}_FILE: cannot read {file}: {error.strerror}") from None
    return os.environ.get(name) or None


def _unisolated(devices: Sequence[AnyDeviceConfig]) -> list[AnyDeviceConfig]:
    return [device.model_copy(update={"allow_unisolated": True}) for device in devices]


async def _until_stopped(agent: Agent) -> None:
    work = asyncio.create_task(agent.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work

"""`guiagent up`: a pool in the foreground."""

from pathlib import Path

from devices.config import BrowserConfig, PoolConfig
from devices.server import serve
from guiagent.embedded import state_dir
from guiagent.wire import Endpoint


def up(devices: int, width: int, height: int, port: int, folder: Path | None) -> None:
    screens = [BrowserConfig(count=devices, width=width, height=height)]
    config = PoolConfig(port=port, state_dir=folder or state_dir(), devices=screens)
    serve(config, on_ready=_announce)


def _announce(endpoint: Endpoint) -> None:
    print(f"pool ready  live page {endpoint.live_url}", flush=True)

"""A small real device for tests: a picture that is drawn on by clicks. Run as a script, it is a farm.

python tests/support/canvas_device.py STATE_DIR PORT TOKEN COUNT
"""

import asyncio
import contextlib
import io
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import xxhash
from PIL import Image, ImageDraw

from devices.api.server import serve
from devices.config import PoolConfig, SimConfig
from devices.drivers import Driver
from guiagent.actions import Action, Click, Open
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import Capabilities, CommandResult, Health, Observation, ObserveSpec, ResetSpec


class CanvasDevice:
    """Draws a dot at every click and counts them. `Open(target=...)` reaches what a screen does not show:
    "canvas:crash" breaks it for good, "canvas:hold" keeps the verb until `CanvasDevice.let_go` is set.

    `exec` says its arguments back, and the service "adb" every byte. Snapshots are the number of clicks.
    """

    let_go: asyncio.Event
    snapshots: ClassVar[dict[str, int]] = {}

    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._image = Image.new("RGB", self._size, "white")
        self._crashed = False
        self._files: dict[str, bytes] = {}
        self.clicks = 0
        self.egress: list[Sequence[str]] = []  # as it was told

    async def describe(self) -> Capabilities:
        features = ["exec", "shell", "files", "snapshot", "fork", "adb"]
        return Capabilities("sim", *self._size, features=features, software="canvas")

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        self._require_alive()
        if baseline.snapshot is not None and baseline.snapshot not in CanvasDevice.snapshots:
            raise FaultError(Fault("task", "missing_snapshot", f"there is no {baseline.snapshot}"))
        self._image = Image.new("RGB", self._size, "white")
        self._files = {}
        self.clicks = CanvasDevice.snapshots[baseline.snapshot] if baseline.snapshot else 0
        return await self.observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        self._require_alive()
        probes = {name: self.clicks for name in spec.probes}  # the only thing there is to know
        if spec.frame == "none":
            return Observation(*self._size, probes=probes)
        buffer = io.BytesIO()
        self._image.save(buffer, spec.frame.upper())
        frame = buffer.getvalue()
        digest = xxhash.xxh3_128_hexdigest(frame)
        unchanged = digest == spec.have
        return Observation(
            *self._size,
            hash=digest,
            media_type=f"image/{spec.frame}",
            frame=b"" if unchanged else frame,
            unchanged=unchanged,
            probes=probes,
        )

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        for action in actions:
            self._require_alive()
            match action:
                case Click(x=x, y=y):
                    self.clicks += 1
                    ImageDraw.Draw(self._image).ellipse((x - 4, y - 4, x + 4, y + 4), "crimson")
                case Open(target="canvas:crash"):
                    self._crashed = True
                case Open(target="canvas:hold"):
                    await CanvasDevice.let_go.wait()
                case _:
                    pass
        return await self.observe(spec)

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        return CommandResult(len(command), " ".join(command))

    async def put(self, path: str, data: bytes) -> None:
        self._files[path] = data

    async def get(self, path: str) -> bytes:
        if path not in self._files:
            raise FaultError(Fault("task", "missing_file", f"there is no {path} on the device"))
        return self._files[path]

    async def snapshot(self) -> str:
        name = f"clicks-{self.clicks}"
        CanvasDevice.snapshots[name] = self.clicks
        return name

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if service != "adb":
            raise UsageError(f"a canvas has no {service}")
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs)

        async def echo() -> None:
            with contextlib.suppress(OSError):
                while (data := await reader.read(1 << 16)) not in (b"", b"hang up"):
                    writer.write(data)
                    await writer.drain()
            writer.close()

        self._echo = asyncio.create_task(echo())
        return await asyncio.open_connection(sock=ours)

    async def allow(self, egress: Sequence[str]) -> None:
        self.egress.append(egress)

    async def health(self) -> Health:
        return Health(not self._crashed, "crashed" if self._crashed else "")

    async def attest(self) -> str:
        return f"{self.clicks} {sorted(self._files)}"

    async def close(self) -> None:
        self._crashed = True

    def _require_alive(self) -> None:
        if self._crashed:
            raise FaultError(Fault("device", "crashed", "the canvas is torn", retryable=True))


async def start(config: SimConfig) -> CanvasDevice:
    return CanvasDevice(config.width, config.height)


DRIVERS = {"sim": Driver(start)}
TOKEN = "a-token-for-the-tests"


def farm_of(count: int, folder: Path, port: int = 0, **options: Any) -> PoolConfig:
    canvas = SimConfig(count=count, width=160, height=120)
    return PoolConfig(state_dir=folder, port=port, token=TOKEN, devices=[canvas], **options)


if __name__ == "__main__":
    folder, port, count = sys.argv[1:]
    config = farm_of(int(count), Path(folder), int(port))
    serve(config, lambda endpoint: print(endpoint.url, flush=True), DRIVERS)

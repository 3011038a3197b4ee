"""A small real device for tests: a picture that is drawn on by clicks. Run as a script, it is a farm.

python tests/canvas_device.py STATE_DIR PORT TOKEN COUNT
"""

import asyncio
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import xxhash
from PIL import Image, ImageDraw

from devices.config import PoolConfig, SimConfig
from devices.drivers import Driver
from devices.server import serve
from guiagent.actions import Action, Click, Open
from guiagent.errors import Fault, FaultError
from guiagent.types import Baseline, Capabilities, Health, Observation, ObserveSpec


class CanvasDevice:
    """Draws a dot at every click and counts them. `Open(target=...)` reaches what a screen does not show:
    "canvas:crash" breaks it for good, "canvas:hold" keeps the verb until `CanvasDevice.let_go` is set."""

    let_go: asyncio.Event

    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._image = Image.new("RGB", self._size, "white")
        self._crashed = False
        self.clicks = 0
        self.pid = 0

    async def describe(self) -> Capabilities:
        return Capabilities("sim", *self._size, features=["exec"], software="canvas")

    async def reset(self, seed: int, baseline: Baseline, spec: ObserveSpec) -> Observation:
        self._require_alive()
        self._image = Image.new("RGB", self._size, "white")
        self.clicks = 0
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

    async def health(self) -> Health:
        return Health(not self._crashed, "crashed" if self._crashed else "")

    async def attest(self) -> str:
        return str(self.clicks)

    async def close(self) -> None:
        self._crashed = True

    def _require_alive(self) -> None:
        if self._crashed:
            raise FaultError(Fault("device", "crashed", "the canvas is torn", retryable=True))


async def start(config: SimConfig) -> CanvasDevice:
    return CanvasDevice(config.width, config.height)


DRIVERS = {"sim": Driver(start)}
TOKEN = "a-token-for-the-tests"


def farm_of(count: int, folder: Path, port: int = 0) -> PoolConfig:
    canvas = SimConfig(count=count, width=160, height=120)
    return PoolConfig(state_dir=folder, port=port, token=TOKEN, devices=[canvas])


if __name__ == "__main__":
    folder, port, count = sys.argv[1:]
    config = farm_of(int(count), Path(folder), int(port))
    serve(config, lambda endpoint: print(endpoint.url, flush=True), DRIVERS)

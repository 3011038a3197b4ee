"""A screen that shows one picture and remembers where it was touched, in this process: nothing to lease.

The state to reset to is `ResetSpec.state`: "picture" is a path on this machine, "size" its width and height,
"told" what probes of those names answer. The probe "touched" is the first point of the first action since, as
[x, y], or null, and "did" that action. What a screen would do with it does not matter.
"""

import asyncio
import io
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from PIL import Image

from guiagent.actions import ACTION, Action, Click, LongPress, MouseDown, Move, points
from guiagent.errors import Fault, FaultError
from guiagent.frames import FORMATS
from guiagent.types import Capabilities, Health, Observation, ObserveSpec, ResetSpec, Trajectory

Result = TypeVar("Result")
STILL = "still"  # the kind, as suites and results name it
_PNG = b"\x89PNG\r\n\x1a\n"


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a still screen is reset to."""

    picture: str = ""
    size: tuple[int, int] = (1, 1)
    told: dict[str, Any] = {}


class StillDevice:
    """One picture as a `guiagent.protocols.Device`. Only pointing actions touch it."""

    def __init__(self) -> None:
        self._shown = Shown()
        self._touched: tuple[int, int] | None = None
        self._did: Action | None = None

    async def describe(self) -> Capabilities:
        return Capabilities(STILL, 0, 0, ["state"], "pictures, each of its own size")

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """Show another picture. Raises FaultError (origin "task") for a state that is none."""
        try:
            self._shown = msgspec.convert(baseline.state, Shown)
        except msgspec.ValidationError as error:
            raise FaultError(Fault("task", "no_picture", f"this is no picture to show: {error}")) from error
        self._touched = self._did = None
        return await self.observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        did = None if self._did is None else ACTION.dump_python(self._did, mode="json")
        told = {**self._shown.told, "touched": self._touched, "did": did}
        frame = b"" if spec.frame == "none" else await asyncio.to_thread(_frame, self._shown, spec)
        probes = {name: told.get(asked) for name, asked in spec.probes.items()}
        return Observation.of(self._shown.size, frame, spec, probes=probes)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        """Remember the first action and its point; those after it do not correct it."""
        if self._touched is None and actions and isinstance(actions[0], Click | Move | LongPress | MouseDown):
            self._touched = points(actions[0])[0]
        if self._did is None and actions:
            self._did = actions[0]
        return await self.observe(spec)

    async def health(self) -> Health:
        return Health(True)

    async def close(self) -> None:
        pass


class StillSlot:
    """Plays episodes on a still screen, as `guiagent.client.play.DeviceSlot` does on leased devices."""

    def __init__(self) -> None:
        self._device = StillDevice()

    async def run(self, work: Callable[[StillDevice], Awaitable[Result]]) -> Result:
        return await work(self._device)

    async def play(self, episode: Callable[[StillDevice], Awaitable[Trajectory]]) -> Trajectory:
        trajectory = await episode(self._device)
        trajectory.device = STILL
        return trajectory

    async def close(self) -> None:
        pass


def _frame(shown: Shown, spec: ObserveSpec) -> bytes:
    """The picture as a PNG or JPEG of the size that was stated.

    Raises FaultError (origin "task") if the file is gone, or not such a picture.
    """
    try:
        data = Path(shown.picture).read_bytes()
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.size != shown.size:
                raise OSError(f"it has {picture.size[0]}x{picture.size[1]} pixels, not {shown.size}")
            if spec.frame == "png" and data.startswith(_PNG):
                return data
            out = io.BytesIO()
            picture.convert("RGB").save(out, spec.frame.upper(), quality=spec.quality)
            return out.getvalue()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        message = f"cannot show {Path(shown.picture).name}: {error}"
        raise FaultError(Fault("task", "no_picture", message)) from error

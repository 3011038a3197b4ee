"""A device in pure Python: a seeded keypad that writes a line of text, with scripted latencies and faults.

For tests of everything above a driver: it implements every capability, does the same for the same seed, and
fails on request. `Open(target="sim:crash")` ends it, `sim:hang` blocks the verb until the device is closed.
"""

import asyncio
import io
import json
import random
import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import xxhash
from PIL import Image, ImageDraw

from devices.config import SimConfig
from guiagent.actions import Action, Click, KeyChord, LongPress, Open, Shell, Type, Wait
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import (
    MAX_VALUE,
    Capabilities,
    CommandResult,
    Health,
    Node,
    Observation,
    ObserveSpec,
    ResetSpec,
)

_COLUMNS, _ROWS = 4, 3
_LABELS = "ABCDEFGHJKLM"
_LINE = 0.2  # share of the height that shows the text
_SHOWN = 40  # characters of it
_SPREAD = 0.5  # sigma of the lognormal that latencies follow
_SNAPSHOTS_KEPT = 256
_OUTPUT = 64 << 10

_snapshots: dict[str, bytes] = {}  # shared by all simulated devices of this process, for forks


class State(msgspec.Struct):
    """The whole state of a simulated device."""

    keys: str = _LABELS  # in reading order
    text: str = ""
    lines: list[str] = []  # what Enter sent
    url: str = "about:blank"
    presses: int = 0
    files: dict[str, bytes] = {}


async def start(config: SimConfig) -> "SimDevice":
    return SimDevice(config)


def sweep() -> int:
    return 0  # nothing of it outlives its process


class SimDevice:
    """A simulated `devices.drivers.HostedDevice` with every capability protocol.

    Probes are names of fields of `State`: "text", "lines", "presses", ...
    """

    def __init__(self, config: SimConfig) -> None:
        self._size = (config.width, config.height)
        self._config = config
        self._chance = random.Random(config.seed)
        self._state = State()
        self._egress: tuple[str, ...] = ()
        self._broken = ""
        self._closed = asyncio.Event()

    async def describe(self) -> Capabilities:
        features = ["exec", "a11y", "page", "shell", "files", "snapshot", "fork", "state", "touch"]
        return Capabilities("sim", *self._size, features, "guiagent sim")

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        await self._take_time()
        if baseline.snapshot is not None:
            if (kept := _snapshots.get(baseline.snapshot)) is None:
                raise UsageError(f"there is no snapshot {baseline.snapshot!r} of a simulated device here")
            self._state = msgspec.msgpack.decode(kept, type=State)
        else:
            keys = list(_LABELS)
            random.Random(seed).shuffle(keys)
            self._state = State("".join(keys), url=baseline.url)
        if baseline.state is not None:
            try:
                self._state = msgspec.convert(msgspec.to_builtins(self._state) | baseline.state, State)
            except msgspec.ValidationError as error:
                raise UsageError(f"this is no state of a simulated device: {error}") from error
        return self._observe(spec, None, None)

    async def observe(self, spec: ObserveSpec) -> Observation:
        self._require_alive()
        return self._observe(spec, None, None)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        error, output = None, None
        for action in actions:
            await self._take_time()
            match action:
                case Click() | LongPress():
                    error = self._press(action.x, action.y)
                case Type():
                    self._state.text = ("" if action.clear else self._state.text) + action.text
                    if action.submit:
                        self._enter()
                case KeyChord(keys=("Enter",)):
                    self._enter()
                case KeyChord(keys=("Backspace",)):
                    self._state.text = self._state.text[:-1]
                case Open(target="sim:crash"):
                    self._broken = "told to crash"
                    self._require_alive()
                case Open(target="sim:hang"):
                    await self._closed.wait()
                case Open():
                    self._state.url = action.target
                case Wait():
                    await asyncio.sleep(action.ms / 1000)
                case Shell():
                    output = _run(["sh", "-c", action.command], self._state).stdout
                case _:
                    pass
            if error is not None:
                break
        return self._observe(spec, error, output)

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run `echo WORDS`, `cat PATH`, `ls`, `true` or `false`, or `sh -c` with one of them."""
        await self._take_time()
        return _run(list(command), self._state)

    async def put(self, path: str, data: bytes) -> None:
        await self._take_time()
        self._state.files[path] = data

    async def get(self, path: str) -> bytes:
        await self._take_time()
        if path not in self._state.files:
            raise FaultError(Fault("task", "missing_file", f"there is no {path} on the device"))
        return self._state.files[path]

    async def snapshot(self) -> str:
        await self._take_time()
        name = f"sim-{secrets.token_hex(8)}"
        _snapshots[name] = msgspec.msgpack.encode(self._state)
        while len(_snapshots) > _SNAPSHOTS_KEPT:
            del _snapshots[next(iter(_snapshots))]
        return name

    async def allow(self, egress: Sequence[str]) -> None:
        self._egress = tuple(egress)

    async def attest(self) -> str:
        return xxhash.xxh3_64_hexdigest(msgspec.msgpack.encode(self._state))

    async def health(self) -> Health:
        return Health(not self._broken, self._broken)

    async def close(self) -> None:
        self._broken = self._broken or "closed"
        self._closed.set()

    # -- inside ----------------------------------------------------------------------------------------------

    async def _take_time(self) -> None:
        self._require_alive()
        if self._config.step_ms:
            await asyncio.sleep(self._config.step_ms / 1000 * self._chance.lognormvariate(0.0, _SPREAD))
        if self._config.fault_rate and self._chance.random() < self._config.fault_rate:
            self._broken = "a scripted fault"
        self._require_alive()

    def _require_alive(self) -> None:
        if self._broken:
            raise FaultError(
                Fault("device", "crashed", f"the simulated device: {self._broken}", retryable=True)
            )

    def _press(self, x: int, y: int) -> str | None:
        for label, (left, top, width, height) in _boxes(self._state.keys, *self._size):
            if left <= x < left + width and top <= y < top + height:
                self._state.text += label
                self._state.presses += 1
                return None
        return f"nothing to press at ({x}, {y})"

    def _enter(self) -> None:
        self._state.lines.append(self._state.text)
        self._state.text = ""

    def _observe(self, spec: ObserveSpec, error: str | None, output: str | None) -> Observation:
        text = self._state.text[-_SHOWN:]
        frame = b""
        if spec.frame != "none":
            frame = _drawn(self._state.keys, text, *self._size, spec.frame, spec.quality)
        return Observation.of(
            self._size,
            frame,
            spec,
            url=self._state.url if spec.page else None,
            title="keypad" if spec.page else None,
            tree=_tree(self._state, *self._size) if spec.tree else None,
            probes={name: _probe(self._state, field) for name, field in spec.probes.items()},
            action_error=error,
            output=output,
        )


def _boxes(keys: str, width: int, height: int) -> list[tuple[str, tuple[int, int, int, int]]]:
    """Each key and its box (left, top, width, height) in pixels."""
    top = round(height * _LINE)
    wide, tall = width // _COLUMNS, (height - top) // _ROWS
    return [
        (key, (index % _COLUMNS * wide, top + index // _COLUMNS * tall, wide, tall))
        for index, key in enumerate(keys[: _COLUMNS * _ROWS])
    ]


def _tree(state: State, width: int, height: int) -> list[Node]:
    box = 0, 0, width, round(height * _LINE)
    line = Node("textbox", "line", box, "line", value=state.text[:MAX_VALUE], states=("editable", "focused"))
    keys = (Node("button", key, box, key) for key, box in _boxes(state.keys, width, height))
    return [line, *keys]


@lru_cache(maxsize=64)  # drawing is most of what such a device costs, and farms of them start out alike
def _drawn(keys: str, text: str, width: int, height: int, format: str, quality: int) -> bytes:
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    draw.text((4, 4), text, "black")
    for key, (left, top, wide, tall) in _boxes(keys, width, height):
        draw.rectangle((left + 2, top + 2, left + wide - 3, top + tall - 3), "#dde6f0", "#345")
        draw.text((left + wide // 2 - 3, top + tall // 2 - 5), key, "black")
    buffer = io.BytesIO()
    options = {"quality": quality} if format == "jpeg" else {"compress_level": 1}
    image.save(buffer, format.upper(), **options)
    return buffer.getvalue()


def _probe(state: State, field: str) -> Any:
    if field not in State.__struct_fields__:
        known = ", ".join(State.__struct_fields__)
        raise FaultError(Fault("task", "probe", f"this device has no {field!r}; probes are {known}"))
    return json.loads(msgspec.json.encode(getattr(state, field)))


def _run(command: list[str], state: State) -> CommandResult:
    match command:
        case ["sh", "-c", line]:
            return _run(line.split(), state)
        case ["echo", *words]:
            return CommandResult(0, " ".join(words)[:_OUTPUT] + "\n")
        case ["cat", path] if path in state.files:
            return CommandResult(0, state.files[path][:_OUTPUT].decode(errors="replace"))
        case ["ls"]:
            return CommandResult(0, "".join(f"{path}\n" for path in sorted(state.files)))
        case ["true"]:
            return CommandResult(0)
        case ["false"]:
            return CommandResult(1)
        case _:
            return CommandResult(127, "", f"{' '.join(command)[:80]}: not found")

"""A leased device that records what is done with it and seen of it.

Recorded are the verbs of this package, on this side of the wire. What goes through a stream (CDP, adb,
OSWorld's wire, Playwright) is not: the record says that a stream was opened.
"""

import asyncio
import contextlib
import logging
import shlex
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from guiagent import wire
from guiagent.actions import ACTIONS, Action, Shell, Wait, types_text
from guiagent.client.device import Farm, LeasedDevice
from guiagent.client.recording.secrets import without_secrets
from guiagent.difference import TOLERANCE, difference
from guiagent.errors import FaultError, GuiAgentError, InfrastructureError
from guiagent.nodes import aimed_at
from guiagent.storage.recording import Recording
from guiagent.types import (
    CommandResult,
    Node,
    Observation,
    ObserveSpec,
    PolicyOutput,
    ResetSpec,
    Score,
    Step,
    Trajectory,
)

LEASE = "lease"
"""The task of a recorded episode. With `Trajectory.start` None it began at a fresh device."""

_log = logging.getLogger(__name__)
_LOOK = ObserveSpec()
_ELEMENTS = ObserveSpec(frame="none", tree=True)
_LONGEST_WAIT_MS = 60_000
_LONGEST_REMARK = 500


def new_folder(device: str, token: int) -> Path:
    """The folder of a record for which nobody named one, below `runs/leases`."""
    return Path("runs") / "leases" / f"{time.strftime('%Y%m%d-%H%M%S')}-{device}-{token}"


class RecordedDevice(LeasedDevice):
    """A leased device with a record of its episodes: one until the first `reset`, then one from each.

    The verbs do what those of `LeasedDevice` do. An act also asks for a picture, and for the elements that it
    is aimed at. If the record cannot be written, the verbs go on without it.

    Attributes:
        recording: the record, with its `folder`.
        problem: why nothing is recorded any more, or "".
    """

    _recorded = True  # and so are its forks

    def __init__(
        self,
        farm: Farm,
        lease: wire.LeaseInfo,
        request: wire.LeaseRequest,
        folder: Path | None,
        *,
        goes_on: bool = False,
    ) -> None:
        """`goes_on`: with the episode that an earlier process left open; else that one is over."""
        super().__init__(farm, lease, request)
        self.recording = Recording(folder or new_folder(lease.device, lease.token))
        self.problem = ""
        self._goes_on = goes_on
        self._open = False
        self._turn = asyncio.Lock()  # to write
        self._tree: list[Node] | None = None  # since the last act
        self._size = (self._capabilities.width, self._capabilities.height)
        self._last = time.monotonic()
        self._polling = False
        self._fault: FaultError | None = None

    # -- what is recorded ------------------------------------------------------------------------------------

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        await self._finish()
        seen = await super().reset(seed, baseline, self._asking(spec))
        await self._begin(seed, baseline)
        await self._saw(seen)
        return _as_asked(seen, spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        have = spec.have if spec.have == self.recording.shown else None
        seen = await super().observe(replace(spec, have=have))
        if seen.tree is not None:
            self._tree = seen.tree
        if seen.frame:
            await self._begin()
            await self._looked(seen)
        return seen

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        await self._begin()
        typing = any(types_text(action) for action in actions)
        if not self.recording.shown:
            await self._saw(await super().observe(_LOOK))
        before = await self._elements(fresh=typing)
        shown, began = self.recording.shown, time.monotonic()
        try:
            seen = await super().act(actions, self._asking(spec))
        except FaultError as error:
            self._fault = error
            kept = without_secrets(actions, before, None, in_pages=self._in_pages)
            await self._did(kept, shown, began, before, str(error))
            raise
        self._tree = None
        after = await self._elements(fresh=True) if typing else None
        kept = without_secrets(actions, before, after, in_pages=self._in_pages)
        await self._did(kept, shown, began, before, seen.action_error, seen)
        return _as_asked(seen, spec)

    async def exec(self, command: Sequence[str], timeout_s: float = 30.0) -> CommandResult:
        began = time.monotonic()
        result = await super().exec(command, timeout_s)
        words = shlex.join(command)
        if len(words) <= _LONGEST_REMARK:
            await self._begin()
            await self._did([Shell(command=words)], self.recording.shown, began, None, None)
        else:
            await self._remark(f"exec {words}")
        return result

    async def put(self, path: str, data: bytes) -> None:
        await super().put(path, data)
        await self._remark(f"put {path}, {len(data):,} bytes")

    async def get(self, path: str) -> bytes:
        data = await super().get(path)
        await self._remark(f"get {path}, {len(data):,} bytes")
        return data

    async def snapshot(self) -> str:
        name = await super().snapshot()
        await self._remark(f"snapshot {name}")
        return name

    async def evaluate(self, expression: str) -> Any:
        value = await super().evaluate(expression)
        await self._remark(f"evaluate {expression}")
        return value

    async def ask_human(self, reason: str, wait_s: float = 600.0) -> wire.HelpAnswer:
        answer = await super().ask_human(reason, wait_s)
        await self._remark(f"asked for a person: {reason}. Answer: {answer.state}")
        return answer

    async def wait_for(self, *args: Any, **kwargs: Any) -> Observation:
        """As `Verbs.wait_for`. What it looks at while it waits is one look in the record."""
        shown, began = self.recording.shown, time.monotonic()
        self._polling = True
        try:
            return await super().wait_for(*args, **kwargs)
        finally:
            self._polling = False
            if shown != self.recording.shown:
                await self._did([_waited(began)], shown, began, None, None)

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await self._remark(f"opened a stream to {service}: what goes through it is not recorded")
        return await super().connect(service)

    @contextlib.asynccontextmanager
    async def forward(self, service: str) -> AsyncIterator[int]:
        await self._remark(f"opened a port to {service}: what goes through it is not recorded")
        async with super().forward(service) as port:
            yield port

    async def close(self) -> None:
        """Release the device, and commit the record."""
        try:
            await super().close()
        finally:
            await self._finish()

    async def detach(self) -> tuple[wire.LeaseInfo, wire.LeaseRequest]:
        """As `LeasedDevice.detach`. The record stays open: `FarmClient.resume` goes on with it."""
        self.recording.close()
        self._open = False
        return await super().detach()

    # -- inside ----------------------------------------------------------------------------------------------

    @property
    def _in_pages(self) -> bool:
        return "page" in self.features

    async def _begin(self, seed: int = 0, start: ResetSpec | None = None) -> None:
        """Open an episode, or go on with the one that an earlier process left open."""
        if self._open or self.problem:
            return
        id = uuid.uuid4().hex
        about = Trajectory(
            id=id,
            task=LEASE,
            seed=seed,
            instruction=self._request.label,
            steps=[],
            stop="agent_done",
            score=Score(None, reason="nobody checks it"),
            device=self.id,
            lease_token=self.token,
            group=id,
            started=time.time(),
            start=start,
        )

        def begin() -> None:
            if not self._goes_on:
                self.recording.finish()  # what a killed process left open
            self.recording.begin(about)

        if await self._write(begin):
            self._open, self._goes_on = True, False
        self._last = time.monotonic()

    async def _finish(self) -> None:
        if self._open or (self._goes_on and self.recording.is_open):
            self._open, fault, self._fault = False, self._fault, None
            await self._write(lambda: self.recording.finish(fault.fault if fault else None))

    async def _write(self, work: Callable[[], object]) -> bool:
        """Write to the record; False where that fails: then recording stops, and nothing else does."""
        async with self._turn:
            try:
                await asyncio.to_thread(work)
            except InfrastructureError as error:
                self.problem = str(error)
                _log.warning("%s is not recorded any more: %s", self.id, error)
        return not self.problem

    async def _elements(self, *, fresh: bool) -> list[Node] | None:
        """The device's elements, if it tells any; at most as old as the last act."""
        if "a11y" in self.features and (fresh or self._tree is None):
            self._tree = None
            with contextlib.suppress(
                GuiAgentError
            ):  # a page can spoil its tree, and the act does not need it
                self._tree = (await super().observe(_ELEMENTS)).tree
        return self._tree

    def _asking(self, spec: ObserveSpec) -> ObserveSpec:
        """What the caller wants to see, and a picture in any case."""
        frame = "jpeg" if spec.frame == "none" else spec.frame
        have = spec.have if spec.frame != "none" else self.recording.shown or None
        return replace(spec, frame=frame, have=have if have == self.recording.shown else None)

    async def _saw(self, seen: Observation) -> None:
        self._size = (seen.width, seen.height)
        if seen.frame and self._open:
            await self._write(lambda: self.recording.add(None, self.recording.keep(seen.frame)))

    async def _looked(self, seen: Observation) -> None:
        """Record a look that shows something else than the last one, as a wait until then."""
        self._size = (seen.width, seen.height)
        shown, now = self.recording.shown, time.monotonic()
        if shown and not self._polling:
            before = self.recording.frame(shown)
            if not before or await asyncio.to_thread(_same, before, seen.frame):
                return
            await self._did([_waited(self._last)], shown, now, None, None, seen)
        else:
            await self._saw(seen)

    async def _remark(self, text: str) -> None:
        """Record what is no action, in words."""
        await self._begin()
        await self._add(PolicyOutput(text[:_LONGEST_REMARK]), self.recording.shown, 0.0, [], None, None)

    async def _did(
        self,
        actions: Sequence[Action],
        shown: str,
        began: float,
        tree: Sequence[Node] | None,
        error: str | None,
        seen: Observation | None = None,
    ) -> None:
        told = ACTIONS.dump_python(list(actions), mode="json", exclude_defaults=True)
        told = [{"type": action.type} | one for action, one in zip(actions, told, strict=True)]
        output = PolicyOutput(msgspec.json.encode(told).decode(), told)
        elements = [aimed_at(action, tree or []) for action in actions]
        await self._add(output, shown, time.monotonic() - began, elements, error, seen)

    async def _add(
        self,
        output: PolicyOutput,
        shown: str,
        seconds: float,
        elements: list[Node | None],
        error: str | None,
        seen: Observation | None,
    ) -> None:
        self._last = time.monotonic()
        if not self._open or self.problem:
            return
        step = Step(shown, *self._size, output, device_ms=1000 * seconds, action_error=error)
        step.elements = elements if any(elements) else []

        def write() -> None:
            frame = seen.frame if seen is not None else b""
            self.recording.add(step, self.recording.keep(frame) if frame else self.recording.shown)

        await self._write(write)
        if self.recording.full:
            self.problem = self.problem or "the record is full"
        if seen is not None:
            self._size = (seen.width, seen.height)


def _waited(since: float) -> Wait:
    return Wait(ms=min(round(1000 * (time.monotonic() - since)), _LONGEST_WAIT_MS))


def _as_asked(seen: Observation, spec: ObserveSpec) -> Observation:
    """The observation without the picture that only the record wanted."""
    if spec.frame != "none":
        return seen
    return replace(seen, frame=b"", hash="", media_type="", unchanged=False)


def _same(one: bytes, other: bytes) -> bool:
    """True if two pictures show the same screen, in whatever format."""
    try:
        return difference(one, other)[0] <= TOLERANCE
    except ValueError:
        return False

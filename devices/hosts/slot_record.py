"""A host's record of one device slot: its last frame, counts, log, and the highest token seen."""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from devices.drivers import HostedDevice
from devices.hosts.answers import Answers
from devices.hosts.edge import escaped
from guiagent.types import Observation
from guiagent.wire import ConnectRequest, ExecRequest, ResetRequest, StepRequest, Verb

NOBODY = 0
"""The token of frames that were taken while nobody held the device."""
_INTERRUPTED = StepRequest, ExecRequest
"""The verbs that go on acting while they last. The others act at once, and threads do it for some drivers,
which go on after a cancellation."""
LOG_LINES = 200
LARGEST_FRAME = 16 << 20  # bytes
_MEDIA_TYPES = ("image/jpeg", "image/png")
_HASH = re.compile(r"[0-9a-f]{1,64}")
_FPS_WINDOW_S = 2.0
_FPS_STEPS = 512


@dataclass(frozen=True, slots=True)
class Frame:
    """The last frame of a device; `number` rises with each new one."""

    data: bytes = b""
    media_type: str = ""
    hash: str = ""
    number: int = 0
    token: int = NOBODY  # of the lease that it was taken under


@dataclass(frozen=True, slots=True)
class LogLine:
    at: float  # seconds since the epoch
    token: int  # of the lease it happened under; between leases, above the last one's
    text: str


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A verb that is being carried out."""

    scope: asyncio.Timeout
    can_be_interrupted: bool


@dataclass(slots=True)
class SlotRecord:
    """The record of a slot, kept across the devices that fill it one after another."""

    fence: int = 0
    epoch: int = 0  # of the pool process that set the fence
    allowed: int = 0  # the token whose lease's egress the device was given
    driver: HostedDevice | None = None
    baseline: str = ""  # the digest its device had when it came up
    up: asyncio.Event = field(default_factory=asyncio.Event)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)  # while it is started or stopped
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    stale: bool = False  # the device was replaced under a live lease: its holder has to reset it first
    answers: Answers = field(default_factory=Answers)
    frame: Frame = field(default_factory=Frame)
    size: tuple[int, int] = (0, 0)  # of the screen in pixels, as it was last seen
    steps: int = 0
    faults: int = 0
    step_times: deque[float] = field(default_factory=lambda: deque(maxlen=_FPS_STEPS))
    log: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    streams: set[asyncio.StreamWriter] = field(default_factory=set)  # open services of the current lease
    under_way: UnderWay | None = None  # the holder's verb
    cut_short: bool = False  # a lease ended under a verb, and the device has not been reset since

    def fps(self, now: float) -> float:
        """Steps per second over the last two seconds."""
        return sum(at > now - _FPS_WINDOW_S for at in self.step_times) / _FPS_WINDOW_S

    def note(self, at: float, token: int, text: str) -> None:
        """Add a line to the log, with its control characters escaped."""
        self.log.append(LogLine(at, token, escaped(text)))

    def saw(self, observation: Observation, token: int) -> None:
        self.size = observation.width, observation.height
        self.show(Frame(observation.frame, observation.media_type, observation.hash, token=token))

    def show(self, frame: Frame) -> None:
        """Take a frame as the device's last one, unless it is a former holder's or cannot be shown."""
        if (
            0 < len(frame.data) <= LARGEST_FRAME
            and (frame.token == NOBODY or frame.token >= self.fence)
            and frame.media_type in _MEDIA_TYPES
            and _HASH.fullmatch(frame.hash)
        ):
            self.frame = replace(frame, number=self.frame.number + 1)

    def performed(self, message: Verb[Any], value: Any, token: int, now: float) -> None:
        """Record a verb that was carried out: its counts, its frame, and the stream it opened."""
        if isinstance(message, StepRequest):
            self.steps += 1
            self.step_times.append(now)
        if isinstance(message, ResetRequest):
            self.stale = False
        if isinstance(message, ConnectRequest):
            _, writer = value
            if token >= self.fence:
                self.streams.add(writer)
            else:
                writer.transport.abort()
        if isinstance(value, Observation):
            self.saw(value, token)

    # -- the end of a lease ----------------------------------------------------------------------------------

    def set_fence(self, token: int, epoch: int) -> None:
        """Take the fence of the pool process that leads in `epoch`, which may be below its predecessor's.

        What a process could not store has not happened for the next one: a lease whose end was not stored
        lives on. A process that came before is not listened to any longer.
        """
        if epoch > self.epoch:
            self.epoch = epoch
            self.fence = min(self.fence, token)
        if epoch == self.epoch:
            self.raise_fence(token)

    def raise_fence(self, token: int) -> None:
        """Leave nothing of holders below `token`: answers, streams, the last frame, a verb under way."""
        if token <= self.fence:
            return
        self.fence = token
        self.answers.clear()
        self.hang_up()
        if self.frame.token != NOBODY:
            self.frame = Frame(number=self.frame.number + 1)
        if self.under_way is not None:
            self.cut_short = True
            if self.under_way.can_be_interrupted and not self.under_way.scope.expired():
                self.under_way.scope.reschedule(0)
            self.under_way = None

    @contextlib.contextmanager
    def carrying_out(self, message: Verb[Any], scope: asyncio.Timeout) -> Iterator[None]:
        """Carry out a verb in this context, within `scope`, which ends at once if the fence rises.

        Verbs that act at once are let go on to their end.
        """
        self.under_way = mine = UnderWay(scope, isinstance(message, _INTERRUPTED))
        try:
            yield
        finally:
            if self.under_way is mine:
                self.under_way = None

    def hang_up(self) -> None:
        """Cut the holder's open streams, with what they still hold."""
        for writer in self.streams:
            writer.transport.abort()
        self.streams.clear()

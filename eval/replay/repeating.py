"""Repeats the actions of a stored episode on a device, and compares what the device shows with the record."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace
from pydantic import ValidationError

from eval.replay.healing import Lost, healed
from eval.report.overlay import describe
from eval.report.viewer import media_type
from guiagent.actions import ACTIONS, Action, KeyChord, KeyDown, KeyUp, Type, is_terminal
from guiagent.client.recording.device import LEASE
from guiagent.client.recording.secrets import is_hidden
from guiagent.difference import TOLERANCE, Box, difference
from guiagent.errors import UsageError
from guiagent.protocols import Device, Task
from guiagent.types import Observation, ObserveSpec, Step, Trajectory

PATIENCE_S = 2.0  # for a screen that still changes
_POLL_S = 0.1
_ELEMENTS = ObserveSpec(frame="none", tree=True)

Verdict = Literal["same", "near", "healed", "differs", "stuck", "unseen"]
"""Of a step: the recorded picture, bit by bit; one that nobody tells from it; another one, on which the
action was aimed anew; another one; an action that cannot be repeated; a record without a picture that can be
read."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """What became of one step, or of the last picture (`did` is "the end").

    Attributes:
        share: of visibly different pixels where there are most, as `guiagent.difference` has it.
        box: around all of them.
        why: what was aimed anew, or why it stops here, in one line; "" if there is nothing to say.
    """

    verdict: Verdict
    did: str
    share: float = 0.0
    box: Box | None = None
    why: str = ""

    @property
    def stops(self) -> bool:
        return self.verdict in ("differs", "stuck")


class Repetition:
    """The repetition of an episode on a device, from the start that the episode had.

    frame: gives the recorded pictures by their hash, b"" for one that is gone.
    heal: where a screen differs, aim actions at the recorded elements.
    secret: what is typed where the record has bullets; None: it stops there.
    note: is called with each step that was repeated, its picture, and what the device showed after it.

    Attributes:
        told: what became of each step so far.
        shown: what the device showed last.
    """

    def __init__(
        self,
        episode: Trajectory,
        device: Device,
        frame: Callable[[str], bytes],
        *,
        heal: bool = False,
        secret: str | None = None,
        patience_s: float = PATIENCE_S,
        note: Callable[[Step, Observation, Observation], None] = lambda *_: None,
    ) -> None:
        self.told: list[Repeated] = []
        self.shown = Observation(0, 0)
        self._episode = episode
        self._device = device
        self._frame = frame
        self._heal = heal
        self._secret = secret
        self._patience_s = patience_s
        self._note = note
        self._probes: dict[str, str] = {}  # of the task, for its check

    async def begin(self, task: Task | None) -> None:
        """Bring the device to where the episode began: by its task, by the reset that is in the record, or,
        for a lease that was recorded from its beginning, as it is.

        Raises UsageError if it is a task's episode, and there is no task.
        """
        episode, spec = self._episode, ObserveSpec()
        if episode.start is not None:
            self.shown = await self._device.reset(episode.seed, episode.start, spec)
        elif episode.task == LEASE:
            self.shown = await self._device.observe(spec)
        elif task is not None:
            self._probes = dict(task.probes)
            _, self.shown = await task.setup(self._device, replace(spec, probes=self._probes))
        else:
            raise UsageError(f"episode {episode.id} is of a task: say of which taskset, with --taskset")

    async def step(self, step: Step) -> Repeated:
        """Compare what shows with a step's picture, then do what it did. Raises FaultError."""
        found = await self._compared(step.frame)
        told, actions = found, list[Action]()
        try:
            actions = ACTIONS.validate_python(step.policy.actions)
            did = "; ".join(describe(action) for action in actions)
            told = Repeated(found.verdict, did or step.policy.text[:200], found.share, found.box)
            actions = [action for action in actions if not is_terminal(action)]
            if found.verdict == "differs" and not self._heal:
                self.told.append(told)
                return told
            if found.verdict == "differs":
                anew = await self._healed(actions, step)
                changed = [describe(b) for a, b in zip(actions, anew, strict=True) if a != b]
                told = Repeated("healed", told.did, told.share, told.box, "; ".join(changed))
                actions = anew
            actions = [self._told_again(action) for action in actions]
        except ValidationError:
            told, actions = Repeated(found.verdict, "no action", why="its reply was none"), []
        except Lost as lost:
            told = Repeated("stuck", told.did, found.share, found.box, str(lost))
            self.told.append(told)
            return told
        before, began = self.shown, time.perf_counter()
        if actions:
            self.shown = await self._device.act(actions, ObserveSpec())
            if self.shown.action_error and not step.action_error:
                told = Repeated("stuck", told.did, told.share, told.box, self.shown.action_error)
        self.told.append(told)
        again = replace(step, width=before.width, height=before.height, action_error=self.shown.action_error)
        again.device_ms = 1000 * (time.perf_counter() - began)
        again.policy = replace(step.policy, prompt_ids=[], completion_ids=[], logprobs=[], versions=[])
        if told.verdict == "healed":
            again.policy.actions = ACTIONS.dump_python(actions, mode="json")
        self._note(again, before, self.shown)
        return told

    async def end(self) -> Repeated:
        """Compare what shows at last with the episode's last picture."""
        found = await self._compared(self._episode.final_frame)
        told = Repeated(found.verdict, "the end", found.share, found.box)
        self.told.append(told)
        return told

    # -- inside ----------------------------------------------------------------------------------------------

    async def _compared(self, hash: str) -> Repeated:
        """Wait until the device shows a recorded picture, within the patience for it."""
        recorded = self._frame(hash) if hash else b""
        media = media_type(recorded) if recorded else None
        if media is None:
            self.shown = await self._device.observe(ObserveSpec(probes=self._probes))
            return Repeated("unseen", "")
        spec = ObserveSpec(frame="png" if media == "image/png" else "jpeg", probes=self._probes)
        until = time.monotonic() + self._patience_s
        while True:
            self.shown = await self._device.observe(spec)
            if self.shown.hash == hash:
                return Repeated("same", "")
            try:
                share, box = await asyncio.to_thread(difference, recorded, self.shown.frame)
            except ValueError:  # anybody may have written the record
                return Repeated("unseen", "")
            if share <= TOLERANCE:
                return Repeated("near", "", share, box)
            if time.monotonic() >= until:
                return Repeated("differs", "", share, box)
            await asyncio.sleep(_POLL_S)

    async def _healed(self, actions: Sequence[Action], step: Step) -> list[Action]:
        elements = [*step.elements, *[None] * len(actions)]
        features = (await self._device.describe()).features
        if "a11y" not in features:
            raise Lost("this device tells no elements")
        tree = (await self._device.observe(_ELEMENTS)).tree or []
        size = (self.shown.width, self.shown.height)
        return [
            healed(action, element, tree, size) for action, element in zip(actions, elements, strict=False)
        ]

    def _told_again(self, action: Action) -> Action:
        """The action with the text that the record did not keep. Raises Lost if it is not known."""
        if not is_hidden(action):
            return action
        if self._secret is None:
            raise Lost("the record did not keep what was typed: give it in $GUIAGENT_SECRET")
        match action:
            case Type():
                return action.model_copy(update={"text": self._secret})
            case KeyChord() | KeyDown() | KeyUp():
                raise Lost("the record did not keep which keys were pressed")
        return action

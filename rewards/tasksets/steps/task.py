"""A recorded step as a task of one turn: the policy sees the screen, and its action is compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from guiagent.actions import ACTION, ACTIONS, Action, Answer, Click, Done, is_terminal
from guiagent.client.still import STILL
from guiagent.episode import ending_of
from guiagent.errors import Fault, FaultError
from guiagent.formats.androidcontrol import Box
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.tasksets.steps.rule import aimed, hit, kind_of, parts

_DID = ObserveSpec(frame="none", probes={"did": "did"})


class Item(msgspec.Struct, frozen=True):
    """One screen of an episode, and the action that was taken there."""

    id: str
    episode: str
    picture: Path
    size: tuple[int, int]
    instruction: str
    wanted: Action
    box: Box | None = None  # of what it was aimed at
    level: str = "goal"  # what the instruction says: "goal", or "goal and step"

    @property
    def kind(self) -> str:
        return kind_of(self.wanted)


@dataclass(frozen=True)
class StepTask:
    """One step. With `shown`, observations carry the probe "oracle"."""

    item: Item
    seed: int
    shown: bool = False
    max_steps: int = 1

    @property
    def id(self) -> str:
        return self.item.id

    @property
    def probes(self) -> Mapping[str, str]:
        return {"oracle": "oracle"} if self.shown else {}

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Show the picture. Raises FaultError (origin "task") on a device that shows none."""
        if (kind := (await device.describe()).kind) != STILL:
            message = f"{self.id} is a picture, which `guiagent eval` shows without a device, not on a {kind}"
            raise FaultError(Fault("task", "unsuitable_device", message))
        told = {"oracle": [ACTION.dump_python(self.item.wanted, mode="json")]} if self.shown else {}
        state = {"picture": str(self.item.picture), "size": list(self.item.size), "told": told}
        return self.item.instruction, await device.reset(self.seed, ResetSpec(state=state), spec)

    def ended(self, observation: Observation) -> bool:
        return True  # one look, one action

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """1 if the first action is the recorded one, by AndroidControl's rule."""
        said = (await device.observe(_DID)).probes["did"]
        did = ACTION.validate_python(said) if said is not None else _of_ending(ending)
        found = parts(did, self.item.wanted, self.item.box, self.item.size)
        wanted = self.item.wanted.model_dump_json(exclude_defaults=True)
        reason = (
            f"{did.model_dump_json(exclude_defaults=True)[:200] if did else 'nothing'} for {wanted[:200]}"
        )
        return Score(found["step"], "check", reason, parts=found)

    async def teardown(self, device: Device) -> None:
        pass

    # -- its own proof ---------------------------------------------------------------------------------------

    @property
    def mutants(self) -> Sequence[str]:
        elsewhere = () if _moved(self.item) is None else ("elsewhere",)
        return ("nothing done", "another type", *elsewhere)

    async def oracle(self, device: Device) -> Ending:
        return await self._do(self.item.wanted, device)

    async def mutate(self, mutant: str, device: Device) -> Ending:
        if mutant == "another type":
            clicks = self.item.kind == "click"
            return await self._do(Done(status="failure") if clicks else Click(x=0, y=0), device)
        moved = _moved(self.item)
        return await self._do(moved, device) if moved and mutant == "elsewhere" else Ending()

    async def _do(self, action: Action, device: Device) -> Ending:
        if is_terminal(action):
            return ending_of([action])
        await device.act([action], _DID)
        return Ending()


def _of_ending(ending: Ending) -> Action | None:
    """The action that ended an episode at its first turn."""
    if ending.answer is not None:
        return Answer(text=ending.answer)
    return None if ending.claim is None else Done(status=ending.claim)


def in_short(action: Action) -> str:
    """An action in a line, cut: `click {"x":9,"y":9}`."""
    return f"{action.type} {action.model_dump_json(exclude_defaults=True)}"[:200]


def _moved(item: Item) -> Action | None:
    """The action at a corner of the screen that is not where it belongs; None if all corners are."""
    (width, height), place = item.size, aimed(item.wanted)
    if place is None:
        return None
    corners = [(0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)]
    for x, y in corners:
        if not hit((x, y), place, item.box, item.size):
            told = ACTION.dump_python(item.wanted, mode="json")
            moved = {"path": [[x, y], *told["path"][1:]]} if "path" in told else {"x": x, "y": y}
            return ACTIONS.validate_python([{**told, **moved}])[0]
    return None

"""A task on a made-to-order app: set up, checked on the app's state, solved and nearly solved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from guiagent.actions import ACTIONS, Answer
from guiagent.errors import Fault, FaultError
from guiagent.lab.goals import Goal, Put, Save, Visit, asked, missing
from guiagent.lab.growth import grow
from guiagent.lab.plan import plan
from guiagent.lab.state import AppState
from guiagent.lab.world import AppSpec
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score

_STATE = ObserveSpec(frame="none", probes={"state": "state"})
_LONGEST = 400  # inputs of an oracle, however much perturbs it


@dataclass(frozen=True)
class LabTask:
    """One goal on one app. `length` is the fewest inputs that meet it, where nothing perturbs them.

    With `shown`, observations carry the probes "oracle", "candidates" and "labels".
    """

    id: str
    seed: int
    app: AppSpec
    goal: Goal
    instruction: str
    length: int
    shown: bool = False

    @property
    def max_steps(self) -> int:
        """Twice the shortest way and its ending; twice that again where taps are perturbed."""
        perturbed = bool(self.app.popups or self.app.moves or self.app.lag)
        return 2 * (self.length + 1) * (2 if perturbed else 1)

    @property
    def probes(self) -> Mapping[str, str]:
        shown = {"oracle": f"oracle:{_text(self.goal)}", "candidates": "candidates", "labels": "labels"}
        return shown if self.shown else {}

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Start the app. Raises FaultError (origin "task") on a device of another kind."""
        await require_lab(device, self.id)
        state: dict[str, Any] = {"app": msgspec.to_builtins(self.app), "seed": self.seed}
        return self.instruction, await device.reset(self.seed, ResetSpec(state=state), spec)

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """1 if every want was met in order and still is, and the answer is right.

        `progress` is the part of the shortest way that has been gone. A control that was changed and not
        asked for is a side effect, which does not lower the value.
        """
        state = await state_of(device)
        wrong = [_described(self.app, want) for want in missing(self.goal, state)]
        if self.goal.fact and (ending.answer or "").strip() != grow(self.app).element(self.goal.fact).value:
            wrong.append("the answer")
        if ending.claim == "infeasible":
            wrong.append("said to be infeasible")
        left = len(plan(msgspec.structs.replace(state, popup=False, pending=None), self.goal))
        beside = sorted(set(state.values) - asked(self.goal))
        world = grow(self.app)
        return Score(
            float(not wrong),
            "check",
            f"not met: {'; '.join(wrong)}" if wrong else "done as asked",
            {"screen": world.screens[state.screen].title},
            1.0 if not wrong else min(max(0.0, 1 - (left + 1) / (self.length + 1)), 0.99),
            [f"{world.screens[world.row(key)[0]].title}: {world.element(key).label}" for key in beside],
        )

    async def teardown(self, device: Device) -> None:
        pass  # the next reset starts another app

    # -- its own proof ---------------------------------------------------------------------------------------

    @property
    def mutants(self) -> Sequence[str]:
        named = ["stopped before the end", "said to be infeasible"]
        if self.goal.fact:
            named = ["another answer", "no answer"]
        if any(isinstance(want, Put) for want in self.goal.wants):
            named.append("undone")
        if any(isinstance(want, Save) for want in self.goal.wants):
            named.append("another text")
        if len(self.goal.wants) > 1:
            named.append("in the other order")
        return named

    async def oracle(self, device: Device) -> Ending:
        """Take the shortest way through the interface, tap by tap."""
        return await _follow(device, self.goal)

    async def mutate(self, mutant: str, device: Device) -> Ending:
        goal, ending = self.goal, Ending(claim="success")
        match mutant:
            case "another answer":
                return Ending(answer="0")
            case "no answer":
                await _follow(device, goal)
            case "said to be infeasible":
                await _follow(device, goal)
                return Ending(claim="infeasible")
            case "stopped before the end":
                await _follow(device, goal, but=1)
            case "undone":
                await _follow(device, goal)
                puts = [want for want in goal.wants if isinstance(want, Put)]
                await _follow(device, Goal((Put(puts[-1].key, not puts[-1].value),)))
            case "another text":
                wants = (
                    Save(want.key, {**want.values, max(want.values): "nothing"})
                    if isinstance(want, Save)
                    else want
                    for want in goal.wants
                )
                await _follow(device, Goal(tuple(wants)))
            case "in the other order":
                await _follow(device, Goal(tuple(reversed(goal.wants))))
        return ending


async def _follow(device: Device, goal: Goal, but: int = 0) -> Ending:
    """Do what leads to the goal, but for the last `but` inputs; return how the agent ends then."""
    probes = {"todo": f"oracle:{_text(goal)}", "left": f"distance:{_text(goal)}"}
    spec = ObserveSpec(frame="none", probes=probes)
    shown = await device.observe(spec)
    for _ in range(_LONGEST):
        actions = ACTIONS.validate_python(shown.probes["todo"])
        if actions and isinstance(actions[0], Answer):
            return Ending(answer=actions[0].text)
        if not actions or shown.probes["left"] <= but:
            break
        shown = await device.act(actions, spec)
    return Ending(claim="success")


async def require_lab(device: Device, task: str) -> None:
    """Raise FaultError (origin "task") for a device of another kind."""
    if (kind := (await device.describe()).kind) != "lab":
        message = f"{task} needs a device of the kind lab: this is a {kind}"
        raise FaultError(Fault("task", "unsuitable_device", message))


async def state_of(device: Device) -> AppState:
    """Return the state of a lab device's app. Raises FaultError if it gives none."""
    shown = await device.observe(_STATE)
    try:
        return msgspec.convert(shown.probes["state"], AppState)
    except msgspec.ValidationError as error:
        raise FaultError(Fault("device", "protocol", f"a lab device gave no state: {error}")) from error


def _described(app: AppSpec, want: Visit | Put | Save) -> str:
    world = grow(app)
    match want:
        case Visit(screen=screen):
            return f"{world.screens[screen].title} is open"
        case Put(key=key, value=value):
            return f"{world.element(key).label} in {world.screens[world.row(key)[0]].title} is {value}"
        case Save(key=key):
            return f"{world.screens[world.row(key)[0]].title} is saved as asked"


def _text(goal: Goal) -> str:
    return msgspec.json.encode(goal).decode()

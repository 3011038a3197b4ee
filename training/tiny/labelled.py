"""Episodes on real pages with a known outcome, to fit and measure the small judge.

The pages have their own instructions or proposed ones, each with its state check. The actor is the small
policy or a careless hand: a script that clicks the right element about half of the time, otherwise another
one or any place, and often just beside its target. So right and wrong lie close together, and the check tells
them apart.
"""

import json
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from guiagent.actions import ACTION, Click
from guiagent.dialects import Dialect
from guiagent.protocols import Task, Turn
from guiagent.types import Observation, ObserveSpec, PolicyOutput
from rewards.proposers.grammar import KINDS
from rewards.tasksets.miniwob import READER, MiniWob
from rewards.tasksets.proposed import Proposed, ProposedTask

Box = tuple[float, float, float, float]  # left, top, right, bottom

_OWN_SHARE = 0.4  # share of episodes with the page's own instruction
_POLICY_SHARE = 0.4  # share of episodes played by the policy
_RIGHT, _OTHER = 0.6, 0.25  # shares of the careless hand's targets; the rest are anywhere
_BESIDE, _BESIDE_PX = 0.3, 8  # share of its clicks beside the target, and their largest distance

_CANDIDATES = """
(() => {
  const box = ([x, y]) => {
    const e = document.elementFromPoint(x, y);
    const element = e.closest('button, input, textarea, a, h3, circle, .color, .black-circle') ?? e;
    const b = element.getBoundingClientRect();
    return [b.left, b.top, b.right, b.bottom];
  };
  let page = {goal: [], candidates: []};
  try { page = (%s)(%s); } catch {}  // an instruction that the page's reader does not know
  return [page.goal, page.candidates].map(points => points.map(box));
})()
"""


class Planned(NamedTuple):
    """One planned episode. `kind` is "" for the page's own instruction, else the kind of proposer."""

    page: str
    kind: str
    seed: int
    by_policy: bool

    @property
    def acted_by(self) -> str:
        return "policy" if self.by_policy else "hand"

    @property
    def spec(self) -> ObserveSpec:
        boxes = _CANDIDATES % (READER, json.dumps(self.page))
        return ObserveSpec(frame="png", probes={} if self.by_policy else {"boxes": boxes})


def plan(
    count: int, seed: int, pages: Sequence[str], seeds: range, *, proposed: bool = True
) -> Iterator[Planned]:
    """Plan `count` episodes with task seeds drawn from `seeds`, all pages equally likely."""
    rng = random.Random(seed)
    for _ in range(count):
        own = not proposed or rng.random() < _OWN_SHARE
        kind = "" if own else rng.choice(KINDS)
        yield Planned(rng.choice(pages), kind, rng.choice(seeds), rng.random() < _POLICY_SHARE)


class LabelledTasks:
    """Make the planned tasks; proposals are remembered from one task to the next."""

    def __init__(self) -> None:
        self._own, self._proposed = MiniWob(), Proposed()

    def task(self, planned: Planned) -> Task:
        if planned.kind:
            return self._proposed.task(f"{planned.page}/{planned.kind}", planned.seed)
        return self._own.task(planned.page, planned.seed)


class CarelessHand:
    """The careless hand of the module docstring, a `Policy` for one episode of `task`."""

    def __init__(self, task: Task, dialect: Dialect, seed: int) -> None:
        self._task = task
        self._dialect = dialect
        self._rng = random.Random(seed)

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        size = (observation.width, observation.height)
        goal, candidates = observation.probes["boxes"]
        if isinstance(self._task, ProposedTask) and self._task.proposal and self._task.proposal.check:
            steps = self._task.proposal.check["steps"]
            goal = [candidates[i] for i in steps[min(len(history), len(steps) - 1)] if i < len(candidates)]
        x, y = click(self._rng, goal, candidates, size)
        action = Click(x=x, y=y)
        text = self._dialect.render([action], size)
        return PolicyOutput(text=text, actions=[ACTION.dump_python(action, mode="json")])

    def forget(self, episode: str) -> None:
        pass


def click(
    rng: random.Random, goal: Sequence[Box], candidates: Sequence[Box], size: tuple[int, int]
) -> tuple[int, int]:
    """A careless hand's click, in pixels, on a screen of `size`: on or beside a right or wrong element, or
    anywhere."""
    wrong = [box for box in candidates if box not in goal]
    draw = rng.random()
    chosen = (draw < _RIGHT and goal) or (draw < _RIGHT + _OTHER and wrong)
    left, top, right, bottom = rng.choice(chosen) if chosen else (0, 0, *size)
    x, y = rng.uniform(left, right - 1), rng.uniform(top, bottom - 1)
    if chosen and rng.random() < _BESIDE:
        off = rng.uniform(1, _BESIDE_PX)
        match rng.randrange(4):
            case 0:
                x = left - off
            case 1:
                x = right - 1 + off
            case 2:
                y = top - off
            case 3:
                y = bottom - 1 + off
    return min(max(round(x), 0), size[0] - 1), min(max(round(y), 0), size[1] - 1)

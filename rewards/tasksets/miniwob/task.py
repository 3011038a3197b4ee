"""A page of MiniWoB++ with a seed: its set-up, its own verdict, its oracle and near-misses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from guiagent.actions import ACTIONS, Action, Click
from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.tasksets.miniwob.pages import CLICKS, PARTIAL, RELOADED
from rewards.tasksets.miniwob.reader import STATE, reading

WIDTH, HEIGHT = 160, 224  # the task area is 160x210; 224 makes both sides whole patches of 32 pixels

_SETUP = """
core.EPISODE_MAX_TIME = 1e9;
if (window.jQuery) jQuery.fx.off = true;
core.endEpisode(0);
core.roundsLeft = 1;
document.getElementById('reward-display').style.display = 'none';
Math.seedrandom(SEED);
core.startEpisodeReal();
core.startEpisode = () => {};
core.seed = SEED;
if (document.activeElement) document.activeElement.blur();
scrollTo(0, 0);
"""
# Pictures that the page's own style names, and those that elements have by any style when a document is first
# set up: until they have come, what lies beside them is elsewhere, and the screen is not what it will be.
# They are held, since a browser forgets what nobody holds, and loads it anew when an element first shows it.
_PICTURES = """
if (core.pictured) return;
const rules = [...document.styleSheets].filter(sheet => !sheet.href).flatMap(sheet => [...sheet.cssRules]);
const worn = [...document.body.querySelectorAll('*')].map(one => getComputedStyle(one).backgroundImage);
const texts = [...rules.map(rule => rule.cssText), ...worn];
const named = texts.flatMap(text => [...text.matchAll(/url\\("([^"]+)"\\)/g)].map(found => found[1]));
core.pictured = [...new Set(named)].map(url => Object.assign(new Image(), {src: url}));
return Promise.all(core.pictured.map(picture => picture.decode().catch(() => {}))).then(() => {});
"""
_UTTERANCE = "(u => typeof u === 'string' ? u : u.utterance)(core.getUtterance())"
_READY_POLLS = 200
_BLIND = ObserveSpec(frame="none")
_ABOVE_0, _OF_1 = "raw reward above 0", "raw reward of 1"


@dataclass(frozen=True)
class MiniWobTask:
    """A page with one seed. `probes` ask the page for its own verdict with every observation.

    `then` is JavaScript that runs on the page after its set-up. Its problem is set so many `rounds` in a row.
    """

    id: str
    page: str
    seed: int
    max_steps: int
    probes: Mapping[str, str] = field(default_factory=lambda: {"state": STATE})
    then: str = ""
    rounds: int = 1

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        baseline = ResetSpec(url=f"miniwob:{self.page}", script=_SETUP + self.then + _PICTURES)
        asked = {**spec.probes, **self.probes, "utterance": _UTTERANCE}
        first = replace(spec, probes=asked, have=None)
        if self.page in RELOADED:
            await device.reset(self.seed, ResetSpec(), _BLIND)
        observation = await device.reset(self.seed, baseline, first)
        for _ in range(_READY_POLLS):
            state = observation.probes["state"]
            if state is not None and state[0]:
                return str(observation.probes["utterance"]), observation
            observation = await device.observe(first)
        raise FaultError(
            Fault("task", "not_ready", f"the page of {self.id} never became ready", retryable=True)
        )

    def ended(self, observation: Observation) -> bool:
        state = observation.probes["state"]
        return state is not None and bool(state[1])

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """1 when the page's raw reward is above zero. The page decides; no answer is expected.

        Its parts are the two conventions: above zero, as BrowserGym counts, and 1, the package's
        `get_binary_reward`, which gives nothing for a part of the answer.
        """
        state = observation.probes["state"]
        if state is None:
            return Score(0.0, reason="the agent left the task's page", parts=_parts(0.0))
        _, done, raw, reason = state
        parts = _parts(float(raw) if done else 0.0)
        evidence = {"done": bool(done), "raw_reward": float(raw)}
        return Score(parts[_ABOVE_0], "check", str(reason or ""), evidence, parts=parts)

    async def teardown(self, device: Device) -> None:
        pass  # the next reset loads a page or starts this one anew


@dataclass(frozen=True)
class SolvedTask(MiniWobTask):
    """A page whose solution is known: it has an oracle."""

    @property
    def mutants(self) -> Sequence[str]:
        """Near-misses: a wrong click on pages of clicks; elsewhere the last step left out, or alone.

        Of several rounds the last one is left out, too.
        """
        if self.page in CLICKS:
            short = ("the last round left out",) if self.rounds > 1 else ()
            return ("another element", "beside every element", *short)
        alone = () if self.page in PARTIAL else ("the last step alone",)
        return ("the last step left out", *alone)

    async def oracle(self, device: Device) -> Ending:
        """Do what the page's oracle names next, until it names nothing more."""
        for _ in range(self.max_steps):
            if not (left := (await self._read(device)).goal):
                break
            await device.act(left[:1], _BLIND)
        return Ending()

    async def mutate(self, mutant: str, device: Device) -> Ending:
        """Make one wrong click, or end the oracle's way too early, as a careless agent could."""
        page = await self._read(device)
        match mutant:
            case "the last step left out":
                for _ in range(self.max_steps):
                    if len(page.goal) < 2:
                        break
                    await device.act(page.goal[:1], _BLIND)
                    page = await self._read(device)
            case "the last round left out":
                while page.left > 1:
                    await device.act(page.goal[:1], _BLIND)
                    page = await self._read(device)
            case "the last step alone":
                if len(page.goal) > 1:
                    await device.act(page.goal[-1:], _BLIND)
            case _:
                wrong = [click for click in page.candidates if click not in page.goal]
                beside: Action = Click(x=WIDTH - 1, y=HEIGHT - 1)
                await device.act([wrong[0] if wrong and mutant == "another element" else beside], _BLIND)
        return Ending()

    async def _read(self, device: Device) -> "_Page":
        shown = await device.observe(
            replace(_BLIND, probes={"page": reading(self.page), "left": "core.roundsLeft || 0"})
        )
        page: dict[str, Any] = shown.probes["page"]
        goal, candidates = (ACTIONS.validate_python(page[name]) for name in ("goal", "candidates"))
        return _Page(goal, candidates, int(shown.probes["left"]))


def _parts(raw: float) -> dict[str, float]:
    return {_ABOVE_0: float(raw > 0), _OF_1: float(raw == 1)}


class _Page(NamedTuple):
    goal: list[Action]  # that are left
    candidates: list[Action]  # a click on each element
    left: int  # rounds that are not won yet, of several

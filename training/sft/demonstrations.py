"""Demonstrations by the oracle: plays a taskset's shortest ways on devices, in a policy's dialect.

What is learned from a demonstration is its text, so an action is carried out as the policy's own dialect
reads it back: a scroll goes as far as the dialect's scroll does, and a click falls on the middle of a cell of
the grid that the small policy was warm-started with.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from guiagent.actions import ACTION, Action, Answer, Click, Done, LongPress, is_terminal
from guiagent.client import FarmClient
from guiagent.dialects import Dialect
from guiagent.episode import run_episode, told
from guiagent.errors import DialectError, Fault, FaultError, UsageError
from guiagent.policies.controls import probed, touchable
from guiagent.protocols import Demonstrable, Device, Task, Taskset, Turn
from guiagent.seeds import DEMONSTRATIONS
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Ending, Observation, ObserveSpec, PolicyOutput, Score, Trajectory
from rewards.catalogue import find_taskset, training_names
from training.config import PlatformConfig
from training.stages import StagesConfig
from training.tiny import collecting
from training.tiny.collecting import INEXPRESSIBLE, Job, KeepFrame, Lease
from training.tiny.demos import GRID

_MOST_TAPS = 3  # astray, before a demonstration begins


class Planned(NamedTuple):
    """A demonstration to be played: a task that begins after `along` inputs of its oracle and `taps` taps."""

    id: str
    task: Task
    along: int
    taps: int


def plan(config: StagesConfig) -> Iterator[tuple[PlatformConfig, list[Planned]]]:
    """Yield each platform of a recipe with its demonstrations.

    Raises UsageError for a task without an oracle.
    """
    shown = config.demonstrations
    rng, number = random.Random(f"demonstrations/{config.seed}"), itertools.count()
    for platform, episodes in config.shown_on(shown.episodes):
        taskset, names = demonstrable(platform)
        planned = []
        for _ in range(episodes):
            name, seed = rng.choice(names), rng.choice(DEMONSTRATIONS)
            task = taskset.task(name, seed)
            along = rng.randrange(max(1, task.max_steps // 2)) if rng.random() < shown.midway else 0
            taps = rng.randint(1, _MOST_TAPS) if rng.random() < shown.astray else 0
            planned.append(Planned(f"demo-{next(number):06d}", task, along, taps))
        yield platform, planned


async def demonstrate(
    farm: FarmClient,
    store: TrajectoryStore,
    platform: PlatformConfig,
    planned: Sequence[Planned],
    dialect: Dialect,
    careless: float,
    on_commit: Callable[[int], None],
) -> None:
    """Commit the demonstrations of a platform; those already in the store are not played again.

    Raises:
        FaultError: a pass over all that is missing adds none.
    """
    kind = platform.device
    spec = ObserveSpec(frame=kind.frame)
    demonstrator = OracleDemonstrator(dialect, careless)

    async def play(id: str, task: Task, device: Device, keep_frame: KeepFrame) -> Trajectory:
        return await run_episode(task, device, demonstrator, keep_frame=keep_frame, spec=spec, id=id)

    jobs = [
        Job(one.id, one.task.id, partial(play, one.id, begun(one.task, one.along, one.taps)))
        for one in planned
    ]
    await collecting.collect(
        farm, store, jobs, platform.devices, on_commit, lease=Lease(kind.kind, kind.grants)
    )


def demonstrable(config: PlatformConfig) -> tuple[Taskset, Sequence[str]]:
    """Return the taskset with its oracle, and the names of the tasks. Raises UsageError if one has none."""
    find_taskset(config.taskset)
    try:
        taskset = find_taskset(config.taskset, oracle=True)
        names = training_names(taskset, config.tasks)
        without = [name for name in names if not _shown(taskset.task(name, DEMONSTRATIONS.start))]
    except UsageError:
        training_names(find_taskset(config.taskset), config.tasks)  # says it if a name is wrong
        without = [*config.tasks]
    if without:
        raise UsageError(
            f"the task {without[0]!r} of {config.taskset} has no oracle to demonstrate it: leave it out, "
            "take tasks of lab, miniwob or phone, or learn from a policy's successes by the recipe "
            "sft-successes"
        )
    return taskset, names


def _shown(task: Task) -> bool:
    return "oracle" in task.probes or isinstance(task, Demonstrable)


class OracleDemonstrator:
    """A `Policy` that writes the first action of the probe "oracle", and does what its text reads as.

    With the chance `careless` it taps any control instead, as chance has it for this episode and turn.

    Raises:
        FaultError: the observation has no such probe, or the dialect has no words for the action.
    """

    def __init__(self, dialect: Dialect, careless: float = 0.0) -> None:
        self._dialect = dialect
        self._careless = careless

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        size = (observation.width, observation.height)
        todo = probed(observation, "oracle")[:1]
        rng = random.Random(f"careless/{episode}/{len(history)}")
        if rng.random() < self._careless and (controls := touchable(observation)):
            todo = [rng.choice(controls)]
        try:
            text = self._dialect.render(written(todo, size), size)
            actions = self._dialect.parse(text, size)
        except DialectError as error:
            message = f"the dialect has no words for what the oracle does: {error}"
            raise FaultError(Fault("task", INEXPRESSIBLE, message)) from None
        return PolicyOutput(text=text, actions=[ACTION.dump_python(one, mode="json") for one in actions])

    def forget(self, episode: str) -> None:
        pass


def written(todo: Sequence[Action], size: tuple[int, int]) -> list[Action]:
    """The actions of a reply: what ends the episode is said to, and a click is in the middle of its cell."""
    match todo:
        case []:
            return [Done()]
        case [Answer()]:
            return [*todo, Done()]
        case [(Click(x=x, y=y) | LongPress(x=x, y=y)) as touch]:
            return [touch.model_copy(update={"x": _cell(x, size[0]), "y": _cell(y, size[1])})]
    return [*todo]


def _cell(place: int, end: int) -> int:
    return min(place // GRID * GRID + GRID // 2, end - 1)


@dataclass(frozen=True)
class Begun:
    """A task that begins after `along` inputs of its oracle, or where they end, and then `taps` random ones.

    From the middle of a task a policy learns to tell by the screen what is left to do, where from the start
    alone it could count its own replies; from astray it learns the way back.
    """

    task: Task
    along: int
    taps: int

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def seed(self) -> int:
        return self.task.seed

    @property
    def max_steps(self) -> int:
        return self.task.max_steps + 2 * self.taps

    @property
    def probes(self) -> Mapping[str, str]:
        return self.task.probes

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        instruction, shown = await self.task.setup(device, spec)
        rng = random.Random(f"astray/{self.seed}")
        for _ in range(self.along):
            shown = await told(self.task, device, shown)
            todo = probed(shown, "oracle")[:1]
            if not todo or is_terminal(todo[0]):
                break
            shown = await device.act(todo, spec)
        for _ in range(self.taps):
            if controls := touchable(shown):
                shown = await device.act([rng.choice(controls)], spec)
        return instruction, shown

    def ended(self, observation: Observation) -> bool:
        return self.task.ended(observation)

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        return await self.task.check(device, observation, ending)

    async def teardown(self, device: Device) -> None:
        await self.task.teardown(device)


class BegunByHand(Begun):
    """One that is `Demonstrable`."""

    async def next_actions(self, device: Device, observation: Observation) -> Sequence[Action]:
        assert isinstance(self.task, Demonstrable)
        return await self.task.next_actions(device, observation)


def begun(task: Task, along: int, taps: int) -> Begun:
    """Begin a task elsewhere; it is `Demonstrable` if the task is."""
    return (BegunByHand if isinstance(task, Demonstrable) else Begun)(task, along, taps)

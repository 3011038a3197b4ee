"""Asynchronous against batch-synchronous training: simulated farms, and a real pool with injected latencies.

On the real one everything is real but what takes long: devices, policy and trainer wait for as long as theirs
would work. A bound is what devices or trainer reach that never wait for anybody (`training.throughput`).

What it is at is said on stderr. On the real pool a window of updates is measured (`Window`), a shorter one
where the trainer takes so long that it decides every one of them.
"""

import asyncio
import math
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from guiagent.actions import ACTION, Click, Done
from guiagent.client import FarmClient
from guiagent.embedded import private_pool
from guiagent.protocols import Device, Turn
from guiagent.trajectories import TrajectoryStore
from guiagent.types import Baseline, Ending, Observation, ObserveSpec, PolicyStep, Score
from guiagent.wire import Endpoint
from rewards.curriculum import Curriculum
from tests.bench.rows import Arm, Row, at_least, at_most, times_the_peer
from training.accounting import Ledger
from training.config import RolloutConfig
from training.engine.engine import EngineStats
from training.player import LeasedPlayer
from training.publishing import Publisher
from training.replay import Replay
from training.rollout import Rollouts
from training.scheduler import Limits
from training.simulation import Mode, Report, simulate
from training.throughput import World, bounds, staleness_needed

DEVICES, GROUPS, SIZE, STALENESS = 16, 4, 4, 4
STEP_S, POLICY_S, PUBLISH_S = 0.15, 0.1, 0.2
SPREAD = 0.5  # sigma of a simulated device's times
LENGTHS = (2, 2, 3, 3, 3, 4, 4, 5, 6, 10)  # turns
MOST_ROUNDS = 2  # each is long, and made of many updates

LARGE = World(devices=10_000, groups=512, engines=32, turns=6, most_turns=40, fault_rate=0.005)
REGIMES = {"environment bound": 3.0, "balanced": 1.0, "trainer bound": 0.4}  # pace of trainer to devices


class Window(NamedTuple):
    """Updates on the real pool: those left out, for its devices all start at once, and those measured."""

    warm_up: int
    updates: int


WINDOWS = {"environment bound": Window(4, 16), "balanced": Window(4, 16), "trainer bound": Window(4, 8)}
IN_TURNS = Window(1, 4)  # where every update begins like the first


def rows(rounds: int) -> Iterator[Row]:
    rounds = min(rounds, MOST_ROUNDS)
    for name, pace in REGIMES.items():
        yield from _simulated(f"10,000 simulated devices, {name}", _paced(LARGE, pace), rounds)
    heavy = _paced(replace(LARGE, turns_sigma=1.0), 0.6)
    yield from _simulated("10,000 simulated devices, heavy tails", heavy, rounds)
    yield from _real(rounds)


def _paced(world: World, pace: float) -> World:
    world = replace(world, learn_s=1 / (world.group_size * pace * bounds(world).environment))
    return replace(world, max_staleness=staleness_needed(world))


def _simulated(name: str, world: World, rounds: int) -> Iterator[Row]:
    def runs(mode: Mode) -> list[Report]:
        _say(f"{name}: {mode}")
        return [simulate(world, mode, updates=40, seed=seed) for seed in range(rounds)]

    ours, synchronous, naive = runs("scheduler"), runs("synchronous"), runs("naive")
    bound = bounds(world).least
    yield at_least(f"{name}", "of the bound", _arm([run.groups_per_s / bound for run in ours]), 0.95)
    useful = "useful environment utilisation"
    ours_useful = _arm([run.useful_environment for run in ours])
    yield times_the_peer(
        f"{name}: {useful} | in turns",
        "share",
        ours_useful,
        _arm([run.useful_environment for run in synchronous]),
        1.5,
    )
    used = [run.useful_environment / run.environment for run in ours]
    wasted = _arm([run.useful_environment / run.environment for run in naive])
    yield times_the_peer(f"{name}: of busy time, useful | naive", "share", _arm(used), wasted, 0.98)
    worst = _arm([float(max(run.staleness)) for run in ours])
    row = at_most(f"{name}: greatest staleness", "versions", worst, world.max_staleness)
    row.note = f"{_words(ours)}; naive: {_words(naive)}; in turns: {_words(synchronous)}"
    yield row


def _words(runs: Sequence[Report]) -> str:
    def mean(figure: str) -> float:
        return fmean(getattr(run, figure) for run in runs)

    return (
        f"mean staleness {mean('mean_staleness'):.1f}, engines {mean('engine'):.2f} busy, "
        f"trainer {mean('trainer'):.2f}, {mean('updates_per_hour'):.0f} updates/h, "
        f"{mean('dropped'):.0%} dropped, length bias {mean('length_bias'):+.3f}"
    )


def _real(rounds: int) -> Iterator[Row]:
    step_s = STEP_S * math.exp(SPREAD**2 / 2)  # the mean of the lognormal
    turns = fmean(LENGTHS)
    environment = DEVICES / (SIZE * (step_s + turns * POLICY_S + (turns - 1) * step_s))  # groups per second
    for name, pace in REGIMES.items():
        learn_s = 1 / (SIZE * pace * environment)
        bound = min(environment, 1 / (SIZE * learn_s))
        title = f"{DEVICES} leased devices, {name}"
        ours: list[_Run] = []
        in_turns: list[_Run] = []
        with tempfile.TemporaryDirectory() as folder, _pool(Path(folder)) as pool:
            for number in range(rounds):
                for runs, staleness, window in ((ours, STALENESS, WINDOWS[name]), (in_turns, 0, IN_TURNS)):
                    _say(f"{title}: {'asynchronous' if staleness else 'in turns'}")
                    run = Path(folder) / f"{name} {number} {staleness}"
                    runs.append(asyncio.run(_train(pool, run, learn_s, staleness, window)))
        row = at_least(title, "of the bound", _arm([run.groups_per_s / bound for run in ours]), 0.9)
        row.note = f"window: {_window(ours)}; in turns: {_window(in_turns)}"
        yield row
        for figure, least in (("useful_environment", 1.2), ("trainer", 1.2)):
            mine, theirs = ([getattr(run, figure) for run in runs] for runs in (ours, in_turns))
            what = (
                "useful environment utilisation" if figure == "useful_environment" else "trainer utilisation"
            )
            yield times_the_peer(f"{title}: {what} | in turns", "share", _arm(mine), _arm(theirs), least)
        row = at_most(
            f"{title}: greatest staleness", "versions", _arm([max(run.staleness) for run in ours]), STALENESS
        )
        mean = fmean(age for run in ours for age in run.staleness)
        row.note = f"mean {mean:.2f}, groups dropped: {sum(run.dropped for run in ours)}"
        yield row


def _window(runs: Sequence["_Run"]) -> str:
    return f"{runs[0].updates} updates in {fmean(run.seconds for run in runs):.0f} s"


def _say(what: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _arm(figures: Sequence[float]) -> Arm:
    return Arm(lambda: math.nan, list(figures))


def _pool(folder: Path) -> Any:
    config = folder / "pool.toml"
    sims = {"kind": '"sim"', "count": DEVICES, "width": 160, "height": 120, "step_ms": 1000 * STEP_S}
    config.write_text("\n".join(["[[devices]]", *(f"{key} = {value}" for key, value in sims.items())]))
    return private_pool("--config", str(config))


class _Run(NamedTuple):
    groups_per_s: float
    useful_environment: float
    trainer: float
    staleness: list[float]  # of every group
    dropped: int
    updates: int
    seconds: float


class _Engine:
    version = 0

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        time.sleep(PUBLISH_S)
        self.version = version


class _Policy:
    """Answers after a while: a click, or at the end of as many turns as it drew, that it is done."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._rng = random.Random(0)
        self._left: dict[str, int] = {}

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyStep:
        left = self._left.setdefault(episode, self._rng.choice(LENGTHS)) - 1
        self._left[episode] = left
        version = self._engine.version
        await asyncio.sleep(POLICY_S)
        action = Click(x=80, y=60) if left else Done()
        return PolicyStep("", [ACTION.dump_python(action, mode="json")], policy_version=version)

    def forget(self, episode: str) -> None:
        self._left.pop(episode, None)


class _Task:
    id, max_steps = "press", max(LENGTHS)
    probes: Mapping[str, str] = {}

    def __init__(self, seed: int) -> None:
        self.seed = seed

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        return "press", await device.reset(self.seed, Baseline(), spec)

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        return Score(random.choice((0.0, 1.0)))

    async def teardown(self, device: Device) -> None:
        pass


class _Tasks:
    names = ("press",)

    def task(self, name: str, seed: int) -> _Task:
        return _Task(seed)


async def _train(pool: Endpoint, run: Path, learn_s: float, max_staleness: int, window: Window) -> _Run:
    """The trainer's loop with a learner that only takes time; figures from the end of the warm-up on."""
    engine, ledger = _Engine(), Ledger(DEVICES)
    async with AsyncExitStack() as stack:
        farm = await stack.enter_async_context(FarmClient(pool.url, pool.token))
        store = stack.enter_context(TrajectoryStore(run))
        replay = Replay(None, 0)
        policy, tasks = _Policy(engine), _Tasks()
        rollouts = Rollouts(
            [
                LeasedPlayer(farm, policy, tasks, store.put_frame, f"bench {n}", kind="sim")
                for n in range(DEVICES)
            ],
            tasks,
            store,
            replay,
            Curriculum(tasks.names),
            RolloutConfig(devices=DEVICES, group_size=SIZE),
            limits=Limits(groups=GROUPS, max_staleness=max_staleness, devices=DEVICES),
            rng=random.Random(0),
            on_trajectory=ledger.episode,
        )
        publisher = Publisher(engine, rollouts.published)  # type: ignore[arg-type]
        producing = asyncio.create_task(rollouts.run())
        staleness: list[float] = []
        began = learning = 0.0
        try:
            for step in range(sum(window) + 1):
                groups = await asyncio.to_thread(
                    replay.take, GROUPS, current_version=step, max_staleness=max_staleness, timeout=60
                )
                rollouts.make_room()
                if producing.done():
                    producing.result()
                if step == window.warm_up:
                    ledger.figures(1.0, {}, EngineStats())  # what it has counted so far is warm-up
                    staleness.clear()
                    began, learning = time.monotonic(), 0.0
                if step == sum(window):
                    break
                ledger.learned(groups)
                staleness += [float(group.staleness) for group in groups]
                before = time.monotonic()
                await asyncio.sleep(learn_s * SIZE * len(groups))
                learning += time.monotonic() - before
                await publisher.publish({}, step + 1)
            seconds = time.monotonic() - began
            await publisher.settle()
        finally:
            producing.cancel()
            await asyncio.gather(producing, return_exceptions=True)
    useful = ledger.figures(seconds, {}, EngineStats())["useful_device_utilisation"]
    return _Run(
        groups_per_s=GROUPS * window.updates / seconds,
        useful_environment=useful,
        trainer=learning / seconds,
        staleness=staleness,
        dropped=replay.stats.stale,
        updates=window.updates,
        seconds=seconds,
    )

"""Asynchronous against batch-synchronous and naive training: simulated farms, and a real pool.

Simulated farms run in virtual time: whatever else the machine does changes none of their figures. On the real
pool everything is real but what takes long: devices, policy and trainer wait for as long as theirs would
work. A bound is what devices or trainer reach that never wait for anybody (`tests.bench.throughput`).

A batch of either side fills the farm once: as many groups as devices / group size. All sides learn from the
same batches; who is asynchronous learns from older ones, so their mean and greatest staleness, in policy
versions, stand beside every ratio. Naive devices never wait, and what is too old by the time the trainer
could take it is thrown away; the bound on staleness is the same as ours.

What it is at is said on stderr. On the real pool a window of updates is measured (`Window`), a shorter one
where the trainer takes so long that it decides every one of them.
"""

import asyncio
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from guiagent.actions import ACTION, Click, Done
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.protocols import Device, Turn
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Ending, Observation, ObserveSpec, PolicyOutput, ResetSpec, Score
from guiagent.wire import Endpoint
from rewards.curriculum import Curriculum
from tests.bench.rows import Arm, Row, against, at_most, noted, within
from tests.bench.simulation import Mode, Report, simulate
from tests.bench.throughput import StateBackend, bounds, staleness_needed
from training.config import DeviceConfig, RolloutConfig
from training.engine.publisher import Publisher
from training.replay import Replay
from training.replay.scheduler import Limits
from training.rollout.dispatcher import PlatformRollouts, RolloutDispatcher
from training.rollout.sampler import GroupSampler
from training.rollout.worker import LocalRolloutWorker

DEVICES, SIZE, STALENESS = 16, 4, 4
GROUPS = DEVICES // SIZE  # a batch that fills the farm
STEP_S, POLICY_S, PUBLISH_S = 0.15, 0.1, 0.2
SPREAD = 0.5  # sigma of a simulated device's times
LENGTHS = (2, 2, 3, 3, 3, 4, 4, 5, 6, 10)  # turns
MOST_ROUNDS = 2  # each is long, and made of many updates

UPDATES = 32  # simulated; the first two fifths, when all devices start at once, count for nothing
LARGE = StateBackend(
    devices=10_000, group_size=8, groups=1250, engines=32, turns=6, most_turns=40, fault_rate=0.005
)
MODES: tuple[Mode, ...] = ("scheduler", "synchronous", "naive")


class Regime(NamedTuple):
    """How fast the trainer is, of the devices' pace; and goals, as times of what the peer does."""

    pace: float
    synchronous: float
    naive: float = 0.98
    turns_sigma: float = LARGE.turns_sigma


REGIMES = {
    "environment bound": Regime(3.0, 2.5),
    "balanced": Regime(1.0, 3.0),
    "trainer bound": Regime(0.4, 1.6),
    "heavy tails": Regime(0.6, 2.3, turns_sigma=1.0),
}


class Leased(NamedTuple):
    """The same on the real pool. Updates: those left out, for its devices all start at once, and those
    measured."""

    pace: float
    synchronous: float
    warm_up: int
    updates: int


LEASED = {
    "environment bound": Leased(3.0, 1.8, 4, 16),
    "balanced": Leased(1.0, 2.3, 4, 16),
    "trainer bound": Leased(0.4, 1.5, 4, 8),
}
IN_TURNS = (1, 4)  # updates of the peer, where every one begins like the first


def rows(rounds: int) -> Iterator[Row]:
    yield from _simulated()
    yield from _real(min(rounds, MOST_ROUNDS))


def _paced(world: StateBackend, pace: float) -> StateBackend:
    world = replace(world, learn_s=1 / (world.group_size * pace * bounds(world).environment))
    return replace(world, max_staleness=staleness_needed(world))


def _simulated() -> Iterator[Row]:
    """One run of each, which is some two hundred thousand episodes after its warm-up."""
    worlds = {
        name: _paced(replace(LARGE, turns_sigma=regime.turns_sigma), regime.pace)
        for name, regime in REGIMES.items()
    }
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as processes:
        running = {
            (name, mode): processes.submit(simulate, world, mode, updates=UPDATES)
            for name, world in worlds.items()
            for mode in MODES
        }
        for name, regime in REGIMES.items():
            _say(f"{LARGE.devices:,} simulated devices, {name}")
            ours, synchronous, naive = (running[name, mode].result() for mode in MODES)
            yield from _simulated_rows(name, worlds[name], regime, ours, synchronous, naive)


def _simulated_rows(
    name: str, world: StateBackend, regime: Regime, ours: Report, synchronous: Report, naive: Report
) -> Iterator[Row]:
    title = f"{world.devices:,} simulated devices, {name}"
    paces = [Arm.of(run.groups_per_s) for run in (ours, synchronous, naive)]
    row = within(
        f"{title} (limit: the bound)", "groups/s", paces[0], Arm.of(bounds(world).least), 1.05, less=False
    )
    yield noted(row, f"staleness {_stale(ours)}, allowed {world.max_staleness}")
    row = against(f"{title}, against batch-synchronous", "groups/s", paces[0], paces[1], regime.synchronous)
    yield noted(row, f"staleness {_stale(ours)}, its {_stale(synchronous)}")
    row = against(f"{title}, against naive asynchrony", "groups/s", paces[0], paces[2], regime.naive)
    yield noted(row, f"staleness {_stale(ours)}, its {_stale(naive)}")
    row = at_most(f"{title}: samples thrown away", "share", Arm.of(ours.dropped), 0)
    row.peer = naive.dropped
    bias = f"length bias of what is learned from {ours.length_bias:+.1%}, its {naive.length_bias:+.1%}"
    yield noted(row, f"peer: naive; staleness {_stale(ours)}, its {_stale(naive)}; {bias}")


def _stale(report: Report) -> str:
    return f"mean {report.mean_staleness:.1f} max {max(report.staleness)}"


def _real(rounds: int) -> Iterator[Row]:
    step_s = STEP_S * math.exp(SPREAD**2 / 2)  # the mean of the lognormal
    turns = fmean(LENGTHS)
    environment = DEVICES / (SIZE * (step_s + turns * POLICY_S + (turns - 1) * step_s))  # groups per second
    for name, regime in LEASED.items():
        learn_s = 1 / (SIZE * regime.pace * environment)
        bound = min(environment, 1 / (SIZE * learn_s))
        title = f"{DEVICES} leased devices, {name}"
        ours: list[_Run] = []
        in_turns: list[_Run] = []
        with tempfile.TemporaryDirectory() as folder, _pool(Path(folder)) as pool:
            for number in range(rounds):
                for runs, staleness, window in (
                    (ours, STALENESS, (regime.warm_up, regime.updates)),
                    (in_turns, 0, IN_TURNS),
                ):
                    _say(f"{title}: {'asynchronous' if staleness else 'in turns'}")
                    run = Path(folder) / f"{name} {number} {staleness}"
                    runs.append(asyncio.run(_train(pool, run, learn_s, staleness, *window)))
        mine, theirs = (Arm.of(*(run.groups_per_s for run in runs)) for runs in (ours, in_turns))
        row = within(f"{title} (limit: the bound)", "groups/s", mine, Arm.of(bound), 1.11, less=False)
        yield noted(row, f"{_window(ours)}; staleness {_ages(ours)}, allowed {STALENESS}")
        row = against(f"{title}, against batch-synchronous", "groups/s", mine, theirs, regime.synchronous)
        stale = f"staleness {_ages(ours)}, its {_ages(in_turns)}"
        yield noted(row, f"its {_window(in_turns)}; {stale}; groups dropped {sum(r.dropped for r in ours)}")


def _ages(runs: Sequence["_Run"]) -> str:
    ages = [age for run in runs for age in run.staleness]
    return f"mean {fmean(ages):.1f} max {max(ages):.0f}"


def _window(runs: Sequence["_Run"]) -> str:
    return f"{runs[0].updates} updates in {fmean(run.seconds for run in runs):.0f} s"


def _say(what: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _pool(folder: Path) -> Any:
    config = folder / "pool.toml"
    sims = {"kind": '"sim"', "count": DEVICES, "width": 160, "height": 120, "step_ms": 1000 * STEP_S}
    config.write_text("\n".join(["[[devices]]", *(f"{key} = {value}" for key, value in sims.items())]))
    return private_pool("--config", str(config))


class _Run(NamedTuple):
    groups_per_s: float
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
    ) -> PolicyOutput:
        left = self._left.setdefault(episode, self._rng.choice(LENGTHS)) - 1
        self._left[episode] = left
        version = self._engine.version
        await asyncio.sleep(POLICY_S)
        action = Click(x=80, y=60) if left else Done()
        return PolicyOutput("", [ACTION.dump_python(action, mode="json")], policy_version=version)

    def forget(self, episode: str) -> None:
        self._left.pop(episode, None)


class _Task:
    id, max_steps = "press", max(LENGTHS)
    probes: Mapping[str, str] = {}

    def __init__(self, seed: int) -> None:
        self.seed = seed

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        return "press", await device.reset(self.seed, ResetSpec(), spec)

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


async def _train(
    pool: Endpoint, run: Path, learn_s: float, max_staleness: int, warm_up: int, updates: int
) -> _Run:
    """The trainer's loop with a learner that only takes time; figures from the end of the warm-up on."""
    engine = _Engine()
    async with AsyncExitStack() as stack:
        farm = await stack.enter_async_context(FarmClient(pool.url, pool.token))
        store = stack.enter_context(TrajectoryStore(run))
        limits = Limits(groups=GROUPS, max_staleness=max_staleness, devices=DEVICES)
        replay = Replay(None, 0, limits=limits)
        policy, tasks = _Policy(engine), _Tasks()
        device = DeviceConfig.model_construct(kind="sim")  # which no recipe may name
        workers = [
            LocalRolloutWorker(farm, policy, tasks, store.put_frame, f"bench {n}", device)
            for n in range(DEVICES)
        ]
        config = RolloutConfig(devices=DEVICES, group_size=SIZE)
        sampler = GroupSampler(tasks, Curriculum(tasks.names), config, random.Random(0))
        rollouts = RolloutDispatcher(
            {"": PlatformRollouts(workers, sampler)}, store, replay, on_trajectory=lambda trajectory: None
        )
        publisher = Publisher(engine, rollouts.published)  # type: ignore[arg-type]
        producing = asyncio.create_task(rollouts.run())
        staleness: list[float] = []
        began = 0.0
        try:
            for step in range(warm_up + updates + 1):
                groups = await asyncio.to_thread(replay.take, current_version=step, timeout=60)
                rollouts.make_room()
                if producing.done():
                    producing.result()
                if step == warm_up:
                    staleness.clear()
                    began = time.monotonic()
                if step == warm_up + updates:
                    break
                staleness += [float(group.staleness) for group in groups]
                await asyncio.sleep(learn_s * SIZE * len(groups))
                await publisher.publish(dict, step + 1)
            seconds = time.monotonic() - began
            await publisher.settle()
        finally:
            producing.cancel()
            await asyncio.gather(producing, return_exceptions=True)
    return _Run(GROUPS * updates / seconds, staleness, replay.stats.stale, updates, seconds)

"""The suites' runner: what it adds to a device's step, whether it repeats itself, and what becomes of faults.

Beside it stands the same work without it: the same tasks set up on the same leased device, the same actions,
the same checks; nothing is recorded and nothing is kept.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from eval.results import EpisodeResult, SuiteResult
from eval.run import RETRIES, Agent, Benchmark, run_suite
from eval.suites.lab import LAB
from eval.suites.miniwob import MINIWOB
from eval.suites.suite import Suite
from guiagent.actions import Click
from guiagent.client import FarmClient
from guiagent.client.http import Answer
from guiagent.client.local_pool import private_pool
from guiagent.errors import Fault, FaultError
from guiagent.policies.scripted import OraclePolicy, RandomElementPolicy, RandomPolicy
from guiagent.protocols import Turn
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Ending, Observation, ObserveSpec, PolicyOutput
from guiagent.wire import Endpoint
from rewards.catalogue import find_taskset
from tests.bench.rows import Arm, Row, at_most, interleave, noted, reported

_PICTURE = ObserveSpec(frame="png")
_SIZES = ((160, 224), (1280, 800))
_MOST_MS = 3.0
_TURNS = 25  # of an episode of the first rows

_FAULTY = replace(
    LAB, name="lab-faults", train_tasks=("reach-2", "set-2", "find-2", "reach-4", "both-4"), unseen_tasks=()
)
_EPISODES = 500  # of each of these five tasks
_FAULTS = 0.05  # share of the episodes' attempts that fail, at least
_OF_CALLS = 0.02  # share of the calls of devices that are made to fail for it
_VERBS = ("reset", "step", "observe")


def rows(rounds: int) -> Iterator[Row]:
    for width, height in _SIZES:
        with private_pool(f"lab=1@{width}x{height}") as pool, tempfile.TemporaryDirectory() as folder:
            yield _overhead(pool, Path(folder), rounds, f"{width}x{height}")
    yield _repeated()
    yield from _with_faults()


def _overhead(pool: Endpoint, folder: Path, rounds: int, size: str) -> Row:
    """Milliseconds that a step of a suite takes beyond one of the same device without the runner."""
    suite, outs = LAB.only(["reach-*", "form-*"]), (folder / str(number) for number in range(rounds + 1))
    latest = Path()

    def ours() -> float:
        nonlocal latest
        latest = next(outs)
        began = time.perf_counter()
        result = asyncio.run(_run(pool, suite, Agent(RandomPolicy(), "random", _PICTURE), latest, 1, _TURNS))
        return 1000 * (time.perf_counter() - began) / sum(one.steps for one in result.episodes)

    ours()  # the pool makes each app once; who comes first would pay for it
    runner, bare = Arm(ours), Arm(lambda: asyncio.run(_bare(pool, suite, latest)))
    interleave(rounds, runner, bare)
    added = Arm.of(*(mine - theirs for mine, theirs in zip(runner.figures, bare.figures, strict=True)))
    row = at_most(f"runner: what it adds to a step of the lab, {size}", "ms", added, _MOST_MS)
    whole = ", ".join(f"{ours:.2f}" for ours in runner.figures)
    return noted(row, f"a step with it {whole} ms, set-up and check of the task among them")


async def _run(
    pool: Endpoint, suite: Suite, agent: Agent, out: Path, devices: int, turns: int, episodes: int = 1
) -> SuiteResult:
    async with FarmClient(pool.url, pool.token) as farm:
        benchmark = Benchmark(suite, find_taskset(suite.taskset), episodes, turns)
        return await run_suite(benchmark, agent, farm, out, concurrency=devices)


async def _bare(pool: Endpoint, suite: Suite, out: Path) -> float:
    """Milliseconds of a step, of the episodes in `out`, played again by nothing but the device."""
    with TrajectoryStore(out / "trajectories", readonly=True) as store:
        played = [(one.task, one.seed, [_actions(step.policy) for step in one.steps]) for one in store]
    tasks = find_taskset(suite.taskset)
    began = time.perf_counter()
    async with FarmClient(pool.url, pool.token) as farm, farm.lease(**suite.lease) as device:
        for name, seed, turns in played:
            task = tasks.task(name, seed)
            asked = msgspec.structs.replace(_PICTURE, probes=dict(task.probes))
            _, shown = await task.setup(device, asked)
            for actions in turns:
                shown = await device.act(actions, msgspec.structs.replace(asked, have=shown.hash or None))
            await task.check(device, shown, Ending())
    return 1000 * (time.perf_counter() - began) / sum(len(turns) for _, _, turns in played)


def _actions(output: PolicyOutput) -> list[Click]:
    return [Click.model_validate(action) for action in output.actions]


def _repeated() -> Row:
    """All pages of MiniWoB++, twice, by the same policy, on browsers that take what comes."""
    agent = Agent(RandomElementPolicy(), "random-element", msgspec.structs.replace(_PICTURE, tree=True))
    width, height = MINIWOB.screen
    with private_pool(f"browser=2@{width}x{height}") as pool, tempfile.TemporaryDirectory() as folder:
        one, other = (
            asyncio.run(_run(pool, MINIWOB, agent, Path(folder) / name, 2, 5)).episodes for name in "ab"
        )
    differ = [mine.task for mine, theirs in zip(one, other, strict=True) if _said(mine) != _said(theirs)]
    name = f"runner: {len(one)} pages of MiniWoB++ twice by random elements, results that differ"
    return noted(at_most(name, "episodes", Arm.of(float(len(differ))), 0), ", ".join(differ[:10]))


def _said(one: EpisodeResult) -> tuple[object, ...]:
    return one.task, one.seed, one.outcome, one.stop, one.steps, one.value, one.detail


def _with_faults() -> Iterator[Row]:
    """Episodes on devices that fail, beside the same episodes on devices that do not."""
    suite = replace(_FAULTY, episodes=_EPISODES)
    benchmark = Benchmark(suite, find_taskset(suite.taskset, oracle=True))
    agent = Agent(_Fickle(), "fickle", _PICTURE)
    with private_pool("lab=4@160x224") as pool, tempfile.TemporaryDirectory() as folder:

        async def played(farm: FarmClient, out: str) -> SuiteResult:
            async with farm:
                return await run_suite(benchmark, agent, farm, Path(folder) / out)

        sound = asyncio.run(played(FarmClient(pool.url, pool.token), "sound"))
        failing = asyncio.run(played(farm := _FailingFarm(pool.url, pool.token), "failing"))
        with TrajectoryStore(Path(folder) / "failing" / "trajectories", readonly=True) as store:
            attempts = [one.fault is not None for one in store]
    true = {(one.task, one.seed): _said(one) for one in sound.episodes}
    lost = len(benchmark.jobs) - len({(one.task, one.seed) for one in failing.episodes})
    scored = [one for one in failing.episodes if one.outcome != "fault"]
    wrong = [one for one in scored if _said(one) != true[one.task, one.seed]]
    given_up = [one for one in failing.episodes if one.outcome == "fault"]
    early = [one for one in given_up if one.attempts <= RETRIES]
    name = f"runner: {len(benchmark.jobs):,} episodes on failing devices"
    row = at_most(
        f"{name}, not accounted for or scored otherwise",
        "episodes",
        Arm.of(float(lost + len(wrong) + len(early))),
        0,
    )
    successes = sum(one.outcome == "success" for one in scored)
    yield noted(row, f"{len(scored):,} scored, {successes:,} of them successes; {len(given_up)} given up")
    kept = reported(f"{name}, attempts that failed", "%", Arm.of(100 * sum(attempts) / len(attempts)))
    missing = abs(farm.failures - sum(attempts))
    kept.holds = missing == 0 and sum(attempts) >= _FAULTS * len(attempts)
    yield noted(
        kept, f"{farm.failures} failures, {sum(attempts)} of {len(attempts):,} attempts kept as faults"
    )


class _Fickle(OraclePolicy):
    """The oracle, which stops at once in every third episode: scores are of both kinds, and known."""

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        job = episode.rpartition("/")[0]  # the last part counts attempts
        if random.Random(job).random() < 1 / 3:
            return PolicyOutput("done", [{"type": "done"}])
        return await super().act(episode, instruction, history, observation)


class _FailingFarm(FarmClient):
    """A farm whose devices crash at a reset, step or look: before it is done, or when its answer is lost."""

    failures = 0
    _dice = random.Random(0)

    async def call(self, method: str, path: str, *rest: Any, **options: Any) -> Answer:
        fails = path.rpartition("/")[2] in _VERBS and self._dice.random() < _OF_CALLS
        if not fails or self._dice.random() < 0.5:
            answer = await super().call(method, path, *rest, **options)
        if fails:
            self.failures += 1
            raise FaultError(Fault("device", "crashed", "the device crashed (injected)", retryable=True))
        return answer

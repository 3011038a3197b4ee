"""Running a suite on a real pool over HTTP, with a small device of our own, and once on real pages."""

import io
import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from devices.api.server import running
from devices.config import BrowserConfig, PoolConfig
from devices.drivers import DRIVERS, Driver
from eval.results import read_result
from eval.run import RETRIES, Agent, Benchmark, Progress, run_suite
from eval.stats import Proportion
from eval.suites.suite import Suite
from guiagent.actions import Action, Click
from guiagent.client import FarmClient
from guiagent.errors import Fault, FaultError, InfrastructureError, UsageError
from guiagent.policies.scripted import NullPolicy, OraclePolicy, RandomPolicy
from guiagent.protocols import Device, Policy
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Capabilities, Ending, Health, Observation, ObserveSpec, ResetSpec, Score
from rewards.tasksets.miniwob import MiniWob

WIDTH, HEIGHT = 64, 80
SUITE = Suite("squares", "squares", ("red", "green"), ("blue",), episodes=4, device="browser")
SEEDS = list(SUITE.seeds())


@dataclass
class StateBackend:
    """What the devices of one test are to suffer: so many crashes at the click, by task and seed."""

    crashes: Counter[tuple[str, int]] = field(default_factory=Counter)
    started: int = 0

    async def start(self, config: BrowserConfig) -> Device:
        self.started += 1
        return SquareDevice(self)


class SquareDevice:
    """Shows one square; a click ends the episode, with reward 1 if it is on the square."""

    def __init__(self, world: StateBackend) -> None:
        self.world = world
        self.colour, self.seed, self.x, self.y = "white", 0, 0, 0
        self.state = [False, 0.0]

    async def describe(self) -> Capabilities:
        return Capabilities("browser", WIDTH, HEIGHT, ["exec"])

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        self.colour, self.seed = baseline.url.removeprefix("about:"), seed
        self.x, self.y, self.state = 8 + seed * 7 % 40, 8 + seed * 13 % 50, [False, 0.0]
        return await self.observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        image = Image.new("RGB", (WIDTH, HEIGHT), "white")
        ImageDraw.Draw(image).rectangle((self.x - 5, self.y - 5, self.x + 5, self.y + 5), fill="black")
        buffer = io.BytesIO()
        image.save(buffer, "png")
        answers = {"state": self.state, "oracle": [{"type": "click", "x": self.x, "y": self.y}]}
        probes = {name: answers[name] for name in spec.probes}
        frame = buffer.getvalue()
        return Observation(WIDTH, HEIGHT, str(hash(frame)), "image/png", frame, probes=probes)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        if self.world.crashes[self.colour, self.seed] > 0:
            self.world.crashes[self.colour, self.seed] -= 1
            raise FaultError(Fault("device", "crashed", "the screen went dark", retryable=True))
        for action in actions:
            if isinstance(action, Click):
                hit = abs(action.x - self.x) <= 5 and abs(action.y - self.y) <= 5
                self.state = [True, float(hit)]
        return await self.observe(spec)

    async def health(self) -> Health:
        return Health(ok=True)

    async def attest(self) -> str:
        return "clean"

    async def close(self) -> None:
        pass


@dataclass(frozen=True)
class SquareTask:
    id: str
    seed: int
    judged: bool = True
    max_steps: int = 2
    probes: Mapping[str, str] = field(default_factory=lambda: {"state": "s", "oracle": "o"})

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        shown = await device.reset(self.seed, ResetSpec(url=f"about:{self.id}"), spec)
        return "Click on the square.", shown

    def ended(self, observation: Observation) -> bool:
        return bool(observation.probes["state"][0])

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        return Score(observation.probes["state"][1] if self.judged else None, reason="the square")

    async def teardown(self, device: Device) -> None:
        pass


@dataclass(frozen=True)
class Squares:
    unjudged: tuple[str, ...] = ()
    names: Sequence[str] = SUITE.tasks

    def task(self, name: str, seed: int) -> SquareTask:
        return SquareTask(name, seed, judged=name not in self.unjudged)


ALL = Benchmark(SUITE, Squares())


def few(episodes: int) -> Benchmark:
    return Benchmark(SUITE, Squares(), episodes)


@pytest.fixture
def world() -> StateBackend:
    return StateBackend()


@pytest.fixture
async def farm(tmp_path: Path, world: StateBackend) -> AsyncIterator[FarmClient]:
    config = PoolConfig(port=0, state_dir=tmp_path / "pool", devices=[BrowserConfig(count=3)])
    async with (
        running(config, {"browser": Driver(world.start)}) as pool,
        FarmClient(pool.endpoint.url, pool.endpoint.token) as client,
    ):
        await pool.service.settled()
        yield client


def committed(out: Path) -> list[tuple[str, int]]:
    with TrajectoryStore(out / "trajectories", readonly=True) as store:
        return [(t.task, t.seed) for t in store]


@pytest.mark.parametrize(("policy", "rate"), [(NullPolicy(), 0.0), (OraclePolicy(), 1.0)])
async def test_null_scores_zero_and_the_oracle_one(
    farm: FarmClient, tmp_path: Path, policy: Policy, rate: float
) -> None:
    seen: list[Progress] = []
    result = await run_suite(
        ALL, Agent(policy, "p"), farm, tmp_path / "out", concurrency=3, on_progress=seen.append
    )
    assert [row.task for row in result.tasks] == list(SUITE.tasks)
    assert all(row.scheduled.n == 4 and row.scheduled.rate == rate and not row.faults for row in result.tasks)
    assert sorted(committed(tmp_path / "out")) == sorted((t, s) for t in SUITE.tasks for s in SEEDS)
    assert [p.done for p in seen] == list(range(1, 13))
    assert seen[-1] == Progress(done=12, total=12, successes=int(12 * rate), faults=0)


async def test_results_file_holds_a_row_per_task_and_per_episode(farm: FarmClient, tmp_path: Path) -> None:
    await run_suite(few(2), Agent(OraclePolicy(), "oracle"), farm, tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["suite"], results["digest"], results["label"]) == ("squares", SUITE.digest, "oracle")
    assert [(t["task"], t["trained"], t["n"], t["successes"]) for t in results["tasks"]] == [
        ("red", True, 2, 2),
        ("green", True, 2, 2),
        ("blue", False, 2, 2),
    ]
    assert results["tasks"][0]["low"] == pytest.approx(0.3424, abs=1e-4)
    assert results["tasks"][0]["mean_steps"] == 1.0
    assert results["train_pooled"]["n"] == 4 and results["unseen_pooled"]["n"] == 2
    assert [(e["task"], e["seed"]) for e in results["episodes"]] == [
        (t, s) for t in SUITE.tasks for s in SEEDS[:2]
    ]
    assert {e["outcome"] for e in results["episodes"]} == {"success"}


async def test_a_fault_is_run_again_on_another_device_and_every_attempt_is_kept(
    farm: FarmClient, world: StateBackend, tmp_path: Path
) -> None:
    world.crashes["red", SEEDS[0]] = RETRIES
    result = await run_suite(ALL, Agent(OraclePolicy(), "oracle"), farm, tmp_path)
    first = result.episodes[0]
    assert (first.task, first.seed, first.outcome, first.attempts) == ("red", SEEDS[0], "success", 3)
    assert result.pooled(trained=True).scheduled.rate == 1.0
    assert committed(tmp_path).count(("red", SEEDS[0])) == 3
    assert world.started == 3 + RETRIES  # a device that crashed was replaced, not used again


async def test_a_fault_that_stays_is_counted_and_bounded_and_never_a_score(
    farm: FarmClient, world: StateBackend, tmp_path: Path
) -> None:
    world.crashes["red", SEEDS[0]] = RETRIES + 1
    seen: list[Progress] = []
    result = await run_suite(ALL, Agent(OraclePolicy(), "oracle"), farm, tmp_path, on_progress=seen.append)
    row = result.tasks[0]
    assert (row.scheduled.n, row.scheduled.successes, row.faults) == (4, 3, 1)
    assert row.judged == Proportion(3, 3) and row.rate_if_faults_succeeded == 1.0
    stored = json.loads((tmp_path / "results.json").read_text())["tasks"][0]
    rates = [stored[name] for name in ("rate", "rate_without_faults", "rate_if_faults_succeeded")]
    assert rates == [0.75, 1.0, 1.0]
    assert read_result(tmp_path / "results.json", SUITE) == result
    assert result.episodes[0].outcome == "fault" and "the screen went dark" in result.episodes[0].detail
    assert seen[-1] == Progress(done=12, total=12, successes=11, faults=1)
    with TrajectoryStore(tmp_path / "trajectories", readonly=True) as store:
        assert all(t.score is None for t in store if t.fault)


async def test_a_score_that_stays_unknown_is_no_failure_of_the_policy(
    farm: FarmClient, tmp_path: Path
) -> None:
    result = await run_suite(
        Benchmark(SUITE, Squares(unjudged=("blue",)), 1), Agent(OraclePolicy(), "oracle"), farm, tmp_path
    )
    assert result.tasks[2].faults == 1
    assert result.episodes[2].attempts == RETRIES + 1


class Stop(Exception):
    pass


async def test_an_interrupted_run_goes_on_where_it_was(farm: FarmClient, tmp_path: Path) -> None:
    def stop_at_five(progress: Progress) -> None:
        if progress.done == 5:
            raise Stop

    with pytest.raises(Stop):  # as it is, not in a group
        await run_suite(ALL, Agent(RandomPolicy(), "random"), farm, tmp_path, on_progress=stop_at_five)
    before = committed(tmp_path)
    assert 5 <= len(before) < 12 and not (tmp_path / "results.json").exists()

    result = await run_suite(ALL, Agent(RandomPolicy(), "random"), farm, tmp_path)
    after = committed(tmp_path)
    assert after[: len(before)] == before and len(after) == len(set(after)) == 12

    again = await run_suite(ALL, Agent(RandomPolicy(), "random"), farm, tmp_path)
    assert again == result and committed(tmp_path) == after


async def test_an_interruption_does_not_grant_a_fault_more_retries(
    farm: FarmClient, world: StateBackend, tmp_path: Path
) -> None:
    world.crashes["red", SEEDS[0]] = 99
    await run_suite(few(1), Agent(OraclePolicy(), "oracle"), farm, tmp_path)
    await run_suite(few(1), Agent(OraclePolicy(), "oracle"), farm, tmp_path)
    assert committed(tmp_path).count(("red", SEEDS[0])) == RETRIES + 1


async def test_more_episodes_go_on_from_fewer(farm: FarmClient, tmp_path: Path) -> None:
    await run_suite(few(1), Agent(OraclePolicy(), "oracle"), farm, tmp_path)
    result = await run_suite(few(3), Agent(OraclePolicy(), "oracle"), farm, tmp_path)
    assert len(result.episodes) == len(committed(tmp_path)) == 9


async def test_a_folder_keeps_one_policy_on_one_suite(farm: FarmClient, tmp_path: Path) -> None:
    await run_suite(few(1), Agent(NullPolicy(), "null"), farm, tmp_path)
    with pytest.raises(
        UsageError, match=r"holds results of 'null' on suite squares .* choose another folder"
    ):
        await run_suite(few(1), Agent(OraclePolicy(), "oracle"), farm, tmp_path)
    (tmp_path / "suite.json").write_text("{")
    with pytest.raises(InfrastructureError, match="damaged"):
        await run_suite(few(1), Agent(NullPolicy(), "null"), farm, tmp_path)


async def test_without_a_farm_there_is_one_clear_error(tmp_path: Path) -> None:
    async with FarmClient("http://127.0.0.1:9", "x" * 20) as farm:
        with pytest.raises(InfrastructureError, match="no pool answers"):
            await run_suite(ALL, Agent(NullPolicy(), "null"), farm, tmp_path)


@pytest.mark.browser
async def test_on_real_pages_null_scores_zero_and_the_oracle_one(tmp_path: Path) -> None:
    if not shutil.which("chromium-headless-shell"):
        pytest.skip("no chromium-headless-shell on the PATH")
    suite = Suite("few", "miniwob", ("click-test-2", "click-color"), ("click-test",), 3, "browser")
    devices = [BrowserConfig(count=2, width=160, height=224)]
    config = PoolConfig(port=0, state_dir=tmp_path / "pool", devices=devices)
    async with (
        running(config, DRIVERS) as pool,
        FarmClient(pool.endpoint.url, pool.endpoint.token) as farm,
    ):
        await pool.service.settled()
        null = await run_suite(
            Benchmark(suite, MiniWob()), Agent(NullPolicy(), "null"), farm, tmp_path / "null"
        )
        oracle = await run_suite(
            Benchmark(suite, MiniWob(oracle=True)), Agent(OraclePolicy(), "oracle"), farm, tmp_path / "oracle"
        )
    assert [e.outcome for e in null.episodes] == ["failure"] * 9
    assert [e.outcome for e in oracle.episodes] == ["success"] * 9

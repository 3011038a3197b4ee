"""A step judge beside training, over real HTTP and on real browsers: labels kept and found again."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.errors import Fault, MissingProgram, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from guiagent.wire import Endpoint
from rewards.judges.config import StepJudgeConfig
from rewards.judges.log import STEP_VERDICTS, StepVerdictLog
from rewards.judges.step import StepVerdict, step_judge
from tests.rewards.test_judge import OFF, ON
from tests.support.lamp import pictures
from tests.support.model_stand_in import Body, StandIn, Trouble, closed_port, stand_in
from training.checkpoints.mirror import RunFolder
from training.config import RolloutConfig, TrainConfig, UpdateConfig
from training.launch.launcher import OneProcess
from training.launch.wiring import train
from training.metrics.observer import Progress
from training.rollout.scoring import StepLabeler
from training.train import Trained

TASKS = ("click-test-2", "click-tab")
FAULT = Fault("device", "crashed", "the browser died")


@pytest.fixture(scope="module")
def pool() -> Iterator[Endpoint]:
    try:
        with private_pool("browser=2@160x224") as endpoint:
            yield endpoint
    except MissingProgram as missing:
        pytest.skip(str(missing))


def every_step_is_right(body: Body) -> str:
    return '{"success": true, "redundant": []}'


def told(url: str, **more: Any) -> StepJudgeConfig:
    return StepJudgeConfig(url=url, model="m", attempts=1, **more)


def config_of(steps: int, judge: StepJudgeConfig, algorithm: str = "seagent", **update: Any) -> TrainConfig:
    return TrainConfig(
        tasks=TASKS,
        steps=steps,
        rollout=RolloutConfig(devices=2, group_size=3),
        update=UpdateConfig(algorithm=algorithm, groups=2, **update),
        step_judge=judge,
    )


def trained(pool: Endpoint, run: Path, config: TrainConfig) -> tuple[Trained, list[Progress]]:
    seen: list[Progress] = []

    async def work() -> Trained:
        async with FarmClient(pool.url, pool.token) as farm, asyncio.timeout(240):
            return await train(config, RunFolder(run), OneProcess(config, farm), seen.append)

    return asyncio.run(work()), seen


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def verdicts_of(run: Path) -> dict[str, StepVerdict]:
    with StepVerdictLog(run / STEP_VERDICTS) as log:
        return {entry.trajectory: entry.verdict for entry in log}


def committed(run: Path) -> list[Trajectory]:
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        return list(store)


@pytest.mark.browser
def test_a_run_labels_before_it_commits_and_goes_on_with_what_it_was_told(
    pool: Endpoint, tmp_path: Path
) -> None:
    def outages(number: int, body: Body) -> Trouble | None:
        return "down" if number % 4 == 3 else None

    with stand_in(every_step_is_right, outages) as server:
        _, seen = trained(pool, tmp_path, config_of(2, told(server.url)))
        before, known = committed(tmp_path), verdicts_of(tmp_path)
        assert {t.id for t in before if t.valid} <= known.keys()
        assert sum(not verdict.known for verdict in known.values()) >= seen[-1].unlabelled["http_503"] > 0
        shares = [line["labelled_episodes"] for line in lines(tmp_path)]
        assert len(shares) == 2 and min(shares) < 1 and max(shares) > 0
        for line in lines(tmp_path):
            assert line["labelled_steps"] <= 1 and line["skipped_updates"] == 0
        assert any(line["trained_tokens"] > 0 and line["grad_norm"] > 0 for line in lines(tmp_path))

        done, _ = trained(
            pool, tmp_path, config_of(5, told(server.url))
        )  # groups that were left fill one or two
        assert done.step == len(lines(tmp_path)) == 5
        after = verdicts_of(tmp_path)
        assert known.items() <= after.items() and len(after) > len(known)
    assert (tmp_path / STEP_VERDICTS).read_bytes().count(b"\n") == len(after)  # nothing is said twice


def episode(id: str, *frames: str, value: float | None = 1.0, fault: Fault | None = None) -> Trajectory:
    steps = [Step(frame, 160, 224, PolicyOutput("x")) for frame in frames[:-1]]
    score = None if fault else Score(value)
    return Trajectory(
        id, "lamp", 0, "Turn the lamp on.", steps, "task_done", score, fault=fault, final_frame=frames[-1]
    )


async def labelled(server: StandIn | str, run: Path, *episodes: Trajectory) -> StepLabeler:
    judge = step_judge(told(server if isinstance(server, str) else server.url, preset="steve"))
    with StepVerdictLog(run / STEP_VERDICTS) as log:
        labelling = StepLabeler(judge, {"off": OFF, "on": ON}.__getitem__, log)
        for one in episodes:
            await labelling.judge(one)
        await judge.close()
    return labelling


async def test_what_nothing_is_learned_from_is_not_shown_to_the_judge(tmp_path: Path) -> None:
    one = episode("one", "off", "on", "off", value=0.0)
    with stand_in(lambda body: '{"label": "correct"}') as server:
        hidden = [episode("two", "off", "on", fault=FAULT), episode("three", "off", "on", value=None)]
        labelling = await labelled(server, tmp_path, one, *hidden)
        assert [len(pictures(body)) for body in server.bodies] == [2, 2]
    found = labelling.verdict(one)
    assert found is not None and [label.step for label in found.labels] == [0, 1]
    assert not labelling.unknown and verdicts_of(tmp_path) == {"one": found}


async def test_an_outage_and_a_judge_that_cannot_say_are_counted_apart(tmp_path: Path) -> None:
    one, two = episode("one", "off", "on"), episode("two", "off", "on")
    assert (await labelled(closed_port(), tmp_path, one)).unknown == {"unreachable": 1}
    with stand_in(lambda body: '{"label": null}') as server:
        labelling = await labelled(server, tmp_path, one, two)
    assert labelling.unknown == {"abstained": 2}
    assert [v.known for v in verdicts_of(tmp_path).values()] == [True, True]  # the second look is the newest


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (config_of(1, told("http://127.0.0.1:1"), "arpo"), "arpo learns from no step labels"),
        (config_of(1, StepJudgeConfig(model="m")), "is no address of a model server"),
        (config_of(1, StepJudgeConfig(url="http://127.0.0.1:1")), "say which model"),
        (
            config_of(1, told("http://127.0.0.1:1"), seeds=Path("elsewhere")),
            "seagent has no replay that seeds could begin",
        ),
    ],
)
def test_what_a_preset_has_no_use_for_is_refused(tmp_path: Path, config: TrainConfig, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        asyncio.run(train(config, RunFolder(tmp_path), OneProcess(config, farm=None), print))  # none is asked

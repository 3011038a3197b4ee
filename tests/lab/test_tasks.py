"""Tasks on made-to-order apps: as long as their name says, sound by their own proof, and worded."""

import itertools

import pytest
from msgspec.structs import replace

from devices.config import LabConfig
from devices.drivers import lab
from guiagent.episode import run_episode
from guiagent.errors import FaultError, UsageError
from guiagent.lab.growth import grow
from guiagent.lab.plan import plan
from guiagent.lab.state import AppState
from guiagent.policies import OraclePolicy
from guiagent.seeds import EVALUATION
from guiagent.types import ObserveSpec
from rewards.audit import audit
from rewards.catalogue import find_taskset, training_names
from rewards.tasksets.lab import LADDER_TASKS, LENGTHS, SPLITS, TRAIN_TASKS, Lab
from tests.support.canvas_device import DRIVERS

SEED = EVALUATION.start


def keep(frame: bytes) -> str:
    return "frame" if frame else ""


@pytest.mark.parametrize("name", TRAIN_TASKS)
def test_the_shortest_solution_is_as_long_as_the_name_says(name: str) -> None:
    for seed in range(SEED, SEED + 5):
        task = Lab().task(name, seed)
        assert len(plan(AppState(app=task.app), task.goal)) == task.length == int(name.rpartition("-")[2])


@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
def test_each_rung_of_the_ladder_lies_on_the_way_to_the_next(seed: int) -> None:
    rungs = [Lab().task(name, seed) for name in LADDER_TASKS]
    assert len({replace(task.app, theme="paper") for task in rungs}) == 1
    ways = [plan(AppState(app=task.app), task.goal) for task in rungs]
    assert [len(way) for way in ways] == [task.length for task in rungs] == [1, 2, 3, 4, 6, 8, 10]
    assert all(longer[: len(way)] == way for way, longer in itertools.pairwise(ways))
    named = {screen.title for screen in grow(rungs[0].app).screens}
    assert all(sum(title in task.instruction for title in named) == 1 for task in rungs)


@pytest.mark.parametrize("name", ["set-4@ladder", "reach-0@ladder", "reach-11@ladder"])
def test_the_ladder_has_no_other_rungs(name: str) -> None:
    with pytest.raises(UsageError, match="the rungs reach-1@ladder to reach-10@ladder"):
        Lab().task(name, SEED)


@pytest.mark.parametrize("ending", ["", *(f"@{split}" for split in SPLITS), "+perturbed"])
async def test_the_oracle_solves_every_kind_through_the_interface(ending: str) -> None:
    device = await lab.start(LabConfig())
    for name in TRAIN_TASKS:
        task = Lab(oracle=True).task(name + ending, SEED)
        played = await run_episode(
            task, device, OraclePolicy(), keep_frame=keep, spec=ObserveSpec(frame="jpeg")
        )
        assert played.success, (task.id, played.score)
        assert played.score is not None and played.score.side_effects == []
        if not ending.endswith("perturbed"):
            assert len(played.steps) == task.length + 1  # and the one that ends it


@pytest.mark.parametrize(
    "name", [*(name for name in TRAIN_TASKS if name.endswith(("-4", "-8"))), *LADDER_TASKS]
)
async def test_the_check_is_sound(name: str) -> None:
    device = await lab.start(LabConfig())
    for seed in range(SEED, SEED + 5):
        proof = await audit(lambda seed=seed: Lab().task(name, seed), device)  # type: ignore[misc]
        assert proof.failures == []
        assert len(proof.mutants) >= 2


async def test_progress_grows_along_the_way() -> None:
    device = await lab.start(LabConfig())
    task = Lab(oracle=True).task("both-8", SEED)
    spec = ObserveSpec(frame="none")
    asked = ObserveSpec(frame="none", probes=dict(task.probes))
    _, shown = await task.setup(device, asked)
    from guiagent.actions import ACTIONS
    from guiagent.types import Ending

    progress = []
    while shown.probes["oracle"]:
        progress.append((await task.check(device, shown, Ending())).progress)
        shown = await device.act(ACTIONS.validate_python(shown.probes["oracle"]), asked)
    progress.append((await task.check(device, shown, Ending())).progress)
    assert progress == sorted(progress) and len(set(progress)) == len(progress)
    assert (progress[0], progress[-1]) == (0.0, 1.0)
    assert spec.frame == "none"


def test_the_splits_share_no_graph_and_no_theme() -> None:
    drawn = {
        split: [Lab().task(f"reach-4{split}", seed).app for seed in range(SEED, SEED + 40)]
        for split in ("", *(f"@{split}" for split in SPLITS))
    }
    graphs = {split: {app.graph for app in apps} for split, apps in drawn.items()}
    assert not graphs[""] & graphs["@graphs"] and not graphs[""] & graphs["@large"]
    themes = {split: {app.theme for app in apps} for split, apps in drawn.items()}
    assert not themes[""] & themes["@themes"]
    assert {app.rows for app in drawn[""]} == {6} and 6 not in {app.rows for app in drawn["@themes"]}
    assert min(app.screens for app in drawn["@large"]) >= 150


def test_names_and_their_tasks_agree_and_instructions_vary() -> None:
    taskset = find_taskset("lab")
    assert len(set(taskset.names)) == len(taskset.names)
    assert set(training_names(taskset, ["*"])) == set(TRAIN_TASKS) <= set(taskset.names)
    for name in taskset.names[:: len(LENGTHS)]:
        assert taskset.task(name, SEED).id == name
    told = {Lab().task("set-4", seed).instruction for seed in range(SEED, SEED + 30)}
    assert len({words.split('"')[0] for words in told}) >= 3


@pytest.mark.parametrize(
    "name", ["reach", "reach-", "reach-1", "reach-99", "swim-4", "reach-4@moon", "form-2"]
)
def test_a_name_of_another_form_is_one_line(name: str) -> None:
    with pytest.raises(UsageError, match=r"no lab task|takes \d to 30 actions"):
        Lab().task(name, SEED)


async def test_another_kind_of_device_is_the_tasks_fault() -> None:
    from devices.config import SimConfig

    device = await DRIVERS["sim"].start(SimConfig())
    with pytest.raises(FaultError, match="needs a device of the kind lab"):
        await Lab().task("reach-2", SEED).setup(device, ObserveSpec(frame="none"))


def test_tasks_of_one_name_differ_by_seed() -> None:
    goals = {Lab().task("reach-4", seed).goal for seed in itertools.islice(itertools.count(SEED), 20)}
    assert len(goals) > 5

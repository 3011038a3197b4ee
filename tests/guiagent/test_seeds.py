"""The three ranges of task seeds: they never meet, and whoever draws one from another range is told so."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eval.suites import SUITES
from guiagent import config as configuration
from guiagent.cli.train.compare import compare
from guiagent.errors import UsageError
from guiagent.seeds import DEMONSTRATIONS, EVALUATION, REINFORCEMENT, checked, trainable, upwards
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from rewards.tasksets.miniwob import TRAIN_TASKS
from tests.support.no_device import NoDevice
from training.config import ExperienceConfig, TrainConfig
from training.experience.distill import learn
from training.replay import adopt
from training.sft.data import split
from training.tiny import collecting, demos, labelled


def test_the_ranges_follow_each_other_without_a_gap_and_fit_32_bits() -> None:
    assert (DEMONSTRATIONS.start, EVALUATION.stop) == (0, 2**31)
    assert DEMONSTRATIONS.stop == REINFORCEMENT.start and REINFORCEMENT.stop == EVALUATION.start


@pytest.mark.parametrize("among", [DEMONSTRATIONS, REINFORCEMENT, EVALUATION])
def test_only_its_own_seeds_pass(among: range) -> None:
    for seed in (among.start, among.stop - 1):
        assert checked(seed, among) == seed
    for seed in (among.start - 1, among.stop):
        with pytest.raises(UsageError, match=rf"{seed:,} is no seed for .*{among.start:,} to"):
            checked(seed, among)


def test_counting_upwards_ends_where_the_range_does() -> None:
    seeds = upwards(REINFORCEMENT.stop - 2, REINFORCEMENT)
    assert [next(seeds), next(seeds)] == [10**9 - 2, 10**9 - 1]
    with pytest.raises(UsageError, match="no seed for reinforcement learning"):
        next(seeds)


@pytest.mark.parametrize("first", [0, 999_999, 10**6, 2 * 10**6, 10**9 - 1, 2**31 - 4])
def test_a_suite_takes_no_seed_that_is_not_evaluations(first: int) -> None:
    """Its last seed counts as well: the last of these starts within the range and leaves it."""
    with pytest.raises(UsageError, match="no seed for evaluation"):
        replace(SUITES["phone"], first_seed=first)


@pytest.mark.parametrize("seed", [0, 999_999, 10**9])
@pytest.mark.parametrize(
    ("model", "key"), [(TrainConfig, "rollout.seed"), (ExperienceConfig, "seed")], ids=["rollouts", "told"]
)
def test_a_configuration_begins_reinforcement_learning_on_its_own_seeds(
    model: Any, key: str, seed: int
) -> None:
    needed = ["server.url=http://localhost:1", "server.model=m"] if model is ExperienceConfig else []
    with pytest.raises(UsageError, match=key):
        configuration.load(model, None, [*needed, f"{key}={seed}"])
    assert configuration.load(model, None, [*needed, f"{key}=2000000"])


async def test_a_library_of_experiences_plays_no_seed_of_evaluation(tmp_path: Path) -> None:
    config = configuration.load(
        ExperienceConfig,
        None,
        ["server.url=http://localhost:1", "server.model=m", "seed=999999990", "groups=11"],
    )
    nobody: Any = None
    with pytest.raises(UsageError, match="1,000,000,000 is no seed for reinforcement learning"):
        await learn(config, tmp_path, nobody, nobody, nobody, print)


def test_a_comparison_has_room_for_all_its_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no seed for reinforcement learning"):
        compare(["arpo", "rloo"], 1000, "arpo-demo", tmp_path, 0.1, None, [])
    assert not list(tmp_path.iterdir())


def test_demonstrations_and_labelled_episodes_are_planned_on_their_own_seeds() -> None:
    planned = [demo.seed for demo in demos.plan(2000, 3, TRAIN_TASKS, ())]
    planned += [episode.seed for episode in labelled.plan(2000, 3, TRAIN_TASKS, DEMONSTRATIONS)]
    assert all(seed in DEMONSTRATIONS for seed in planned) and max(planned) > 9 * 10**5


def episode(seed: int) -> Trajectory:
    steps = [Step("", 160, 224, PolicyOutput("Action: wait"))]
    return Trajectory("e", "click-tab", seed, "do", steps, "task_done", score=Score(1.0))


async def test_what_is_collected_for_a_fit_is_on_seeds_of_demonstrations(tmp_path: Path) -> None:
    async def play(*_: object) -> Trajectory:
        return episode(REINFORCEMENT.start)

    farm: Any = NoDevice()
    with TrajectoryStore(tmp_path) as store:
        with pytest.raises(UsageError, match="1,000,000 is no seed for demonstrations"):
            await collecting.collect(farm, store, [collecting.Job("e", "click-tab", play)], 1, print)
        assert len(store) == 0


def test_fine_tuning_learns_from_no_episode_on_a_seed_of_evaluation() -> None:
    assert split([episode(REINFORCEMENT.start), episode(0)], True, 0.0).taught == [0, 1]
    with pytest.raises(UsageError, match="1,000,000,000 must not be learned from"):
        split([episode(0), episode(EVALUATION.start)], True, 0.0)
    failed = msgspec.structs.replace(episode(EVALUATION.start), score=Score(0.0))
    assert split([failed], True, 0.0).taught == []  # which teaches nothing and is left alone


def test_a_replay_begins_with_no_episode_on_a_seed_of_evaluation(tmp_path: Path) -> None:
    """An expert's episodes may come from an evaluation: learning from them would spoil the next one."""
    assert trainable(REINFORCEMENT.start) == 10**6
    with TrajectoryStore(tmp_path / "theirs") as theirs, TrajectoryStore(tmp_path / "ours") as ours:
        theirs.commit([episode(EVALUATION.start)])
        with pytest.raises(UsageError, match="1,000,000,000 must not be learned from"):
            list(adopt(theirs, ours))
        assert len(ours) == 0

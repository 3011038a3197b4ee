"""Recipes in stages, on real lab devices: what they refuse, demonstrations, and going on in a later stage."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from eval.results import UNSEEN
from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.train import stages
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import UsageError
from guiagent.lab.words import SUBJECTS
from guiagent.storage.trajectories import TrajectoryStore
from training.sft.base import SCREENS
from training.sft.screens import load
from training.stages import StagesConfig

QUICK = [
    *("policy=tiny", "devices=2", "demonstrations.episodes=4", "demonstrations.careless=0.0"),
    'demonstrations.tasks=["reach-2", "find-2"]',
    *("base.screens=4", "base.reading=1", "base.pointing=1", "base.batch=2", "base.processes=1"),
    *("sft.steps=1", "sft.batch=2", "sft.held_out=0.0"),
    *("single.env_steps=8", "single.rollout.group_size=2", "single.rollout.devices=2"),
    *("single.update.groups=2", 'single.tasks=["reach-2"]', "single.health.stop_after=0", "single.steps=2"),
    *('evaluation.tasks=["reach-2@graphs"]', "evaluation.episodes=1"),
]


def config(*overrides: str) -> StagesConfig:
    return configuration.load(StagesConfig, recipe_path("lab"), [*QUICK, *overrides])


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ('stages=["multi", "sft"]', "each of them once, in this order: sft, single, multi, adapt"),
        ("policy=other", "made in the shape of the small policy: leave out base, or policy"),
        ("multi.policy=other", "multi.policy is shared by all stages"),
        ("sft.store=elsewhere", "sft learns from its own demonstrations: leave out store"),
        ('stages=["sft", "adapt"]', "adapt has nothing to learn from: add .adapt.demonstrations."),
        ('adapt={demonstrations={},sft={policy="other"}}', "adapt.policy is shared by all stages"),
        ('adapt={demonstrations={},sft={store="other"}}', "adapt learns from its own demonstrations"),
        ("multi.rollout.history.kind=full", "measured with .* full of 1 screenshots, which sft never shows"),
        ("sft.images=[2, 3]", r"sliding of 1 screenshots, which sft never shows \(sliding of 2, 3\)"),
        ("single.env_step=3", "did you mean"),
    ],
)
def test_a_recipe_that_contradicts_itself_is_refused(override: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        config(override).require_consistent()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("demonstrations.taskset=web", "has no oracle to demonstrate it: leave it out"),
        ('evaluation.tasks=["reach-3"]', "suite lab has no task 'reach-3'"),
        ("evaluation.suite=phone", "needs devices of the kind phone, and the recipe has lab"),
        ("single.update.algorithm=none", "none"),
    ],
)
def test_what_cannot_be_carried_out_is_known_before_a_device_starts(
    tmp_path: Path, override: str, told: str
) -> None:
    words = (
        ['demonstrations.tasks=["*"]', 'evaluation.tasks=["*"]']
        if "=phone" in override or "=web" in override
        else []
    )
    with pytest.raises(UsageError, match=told):
        stages.train_in_stages(config(*words, override), tmp_path / "run", Console())
    assert not (tmp_path / "run").exists()


def test_several_platforms_are_shown_in_one_store_and_gone_on_with(tmp_path: Path) -> None:
    small = '{taskset="lab",tasks=["reach-2"],devices=1,device={kind="lab"}}'
    large = '{taskset="lab-steps",tasks=["set-2"],devices=1,share=2,device={kind="lab",width=200,height=280}}'
    asked = config("demonstrations.episodes=6", f"demonstrations.platforms=[{small},{large}]")
    for _ in range(2):
        stages.demonstrate(asked, tmp_path, Console())
        with TrajectoryStore(tmp_path / "demonstrations", readonly=True) as store:
            sizes = {one.id: {(step.width, step.height) for step in one.steps} for one in store}
        assert len(sizes) == 6
        assert [sizes[f"demo-{number:06d}"] for number in range(6)] == [{(160, 224)}] * 2 + [{(200, 280)}] * 4
    with pytest.raises(UsageError, match="has no oracle to demonstrate it"):
        stages.demonstrate(config('demonstrations.platforms=[{taskset="web"}]'), tmp_path / "web", Console())


def test_runs_of_several_seeds_share_no_seed_of_a_task() -> None:
    runs = config("seeds=3", "seed=4").of_seeds()
    assert [(one.seed, one.seeds) for one in runs] == [(4, 1), (5, 1), (6, 1)]
    assert [one.multi.rollout.seed for one in runs] == [one.single.rollout.seed for one in runs]
    assert len({one.multi.rollout.seed // 10**6 for one in runs}) == 3
    with pytest.raises(UsageError, match="no seed for reinforcement learning"):
        config("seeds=2", "multi.rollout.seed=999_999_999").of_seeds()


@pytest.mark.drill
def test_several_seeds_have_a_folder_each_and_are_told_together(tmp_path: Path) -> None:
    stages.train_in_stages(config('stages=["sft"]', "seeds=2", "evaluation.episodes=2"), tmp_path, Console())
    told = json.loads((tmp_path / "stages.json").read_text())
    (before, after) = told["tasks"][UNSEEN].values()
    assert before["episodes"]["n"] == after["episodes"]["n"] == 4 and after["success"]["n"] == 2
    ran = [json.loads((tmp_path / seed / "stages.json").read_text()) for seed in ("0", "1")]
    assert [list(one) for one in ran] == [["before", "sft"]] * 2


@pytest.mark.drill
def test_a_few_demonstrations_of_other_tasks_are_learned_after_the_rest(tmp_path: Path) -> None:
    few = 'adapt={demonstrations={tasks=["set-2"],episodes=2},sft={steps=1,batch=2,held_out=0.0}}'
    asked, began, run = config('stages=["sft", "adapt"]', few), tmp_path / "began", tmp_path / "run"
    stages.train_in_stages(asked, began, Console())
    began.rename(run)
    learned_and_played = [*run.rglob("model.safetensors"), *run.rglob("segment-*.log")]
    written = {path: path.stat().st_mtime_ns for path in learned_and_played}
    stages.train_in_stages(asked, run, Console())  # all is there, wherever there is
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert list(json.loads((run / "stages.json").read_text())) == ["before", "sft", "adapt"]
    with TrajectoryStore(run / "adapt" / "demonstrations", readonly=True) as store:
        assert [one.task for one in store] == ["set-2"] * 2
    assert json.loads((run / "adapt" / "forked.json").read_text())["run"] == "../sft"


@pytest.mark.drill
def test_stages_follow_each_other_and_what_is_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages.train_in_stages(config('stages=["sft"]'), tmp_path, Console())
    with TrajectoryStore(tmp_path / "demonstrations", readonly=True) as store:
        shown = {one.id: one for one in store}
    assert len(shown) == 4
    assert all(one.success for one in shown.values())
    assert all(step.policy.text.startswith("Action: ") for one in shown.values() for step in one.steps)
    assert {one.name for screen in load(tmp_path / "base" / SCREENS) for one in screen.elements} & set(
        SUBJECTS
    )
    made = (tmp_path / "base" / "policy" / "model.safetensors").stat()

    monkeypatch.setattr(stages, "_demonstrate", lambda *_: None)  # it would find all of them there
    stages.train_in_stages(config('stages=["sft", "single"]'), tmp_path, Console())
    told = json.loads((tmp_path / "stages.json").read_text())
    assert list(told) == ["before", "sft", "single"]
    assert (tmp_path / "base" / "policy" / "model.safetensors").stat() == made
    origin = json.loads((tmp_path / "single" / "forked.json").read_text())
    assert (origin["run"], origin["step"]) == ("../sft", 1)
    with TrajectoryStore(tmp_path / "single" / "trajectories", readonly=True) as store:
        assert {len(one.steps) for one in store} == {1}

    with pytest.raises(UsageError, match="began with step-"):
        stages.train_in_stages(config('stages=["sft", "single"]', "sft.steps=2"), tmp_path, Console())
    with pytest.raises(UsageError, match=r"demonstrations\.episodes was 4, now 5"):
        stages.train_in_stages(config("demonstrations.episodes=5"), tmp_path, Console())
    with pytest.raises(UsageError, match=r"reading was 1, now 2"):
        stages.train_in_stages(config("base.reading=2"), tmp_path, Console())


def test_what_the_phones_recipe_counts_as_unseen_no_stage_sees_before_it_adapts() -> None:
    recipe = configuration.load(StagesConfig, recipe_path("phone-demo"))
    suite = find_suite(recipe.evaluation.suite, recipe.evaluation.tasks)
    regime = suite.groups["regime"]
    learned = recipe.reinforcement("multi", recipe.policy).tasks
    seen = {*recipe.demonstrations.tasks, *learned}
    unseen = {task for task in suite.tasks if regime[task] != "unseen instances"}
    assert len(unseen) == 24 and not seen & unseen
    assert {*suite.tasks} - unseen == {*learned} and len(learned) >= 20
    few, again = recipe.adaptation(recipe.policy).shown_on(180)
    assert {*few[0].tasks} == {task for task in unseen if regime[task] == "unseen apps"}
    assert again[0].tasks == learned and (few[1], again[1]) == (60, 120)

"""`guiagent compare`: what it refuses, what it does not repeat, and a comparison for real."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from eval.results import write_json
from guiagent import config as configuration
from guiagent.cli import app
from guiagent.cli.train.arms import Arm, arms_of_file
from guiagent.cli.train.caveats import caveats
from guiagent.cli.train.cells import Cell, Trainer, samples_of
from guiagent.cli.train.compare import compare, fields_of
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import DivergedError, Fault, UsageError
from guiagent.seeds import A_RUN
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from rewards.judges.config import StepJudgeConfig
from training.algorithms import find_algorithm
from training.config import TrainConfig, UpdateConfig

PRESETS = ["arpo", "gigpo"]
SMALL = [
    "update.groups=2",
    "rollout.devices=2",
    "rollout.group_size=2",
    'tasks=["click-test-2"]',
]


def an_episode(number: int, value: float | None, frame: str) -> Trajectory:
    turns = [Step(frame=frame, width=1, height=1, policy=PolicyOutput(text="")) for _ in range(5)]
    score = None if value is None else Score(value)
    fault = Fault("device", "crashed", "gone") if value is None else None
    return Trajectory(
        f"episode-{number}",
        "click-test-2",
        number,
        "Click.",
        turns,
        "task_done",
        score,
        fault=fault,
        group=f"g{number:06}",
    )


def a_finished_run(folder: Path, outcomes: list[float | None], env_steps: int) -> None:
    with TrajectoryStore(folder / "trajectories") as store:
        frame = store.put_frame(b"a screen")
        store.commit([an_episode(number, value, frame) for number, value in enumerate(outcomes)])
    told = {"env_steps": env_steps, "updates": 3, "seconds": 60.0, "held_out": {}}
    write_json(folder / "finished.json", told)


def finished_comparison(run: Path, env_steps: int = 100) -> None:
    for seed in (0, 1):
        a_finished_run(run / "arpo" / str(seed), [0, 1, None, 0] * 5, env_steps)
        a_finished_run(run / "gigpo" / str(seed), [0, 1, None, 1] * 5, env_steps)


def test_what_is_finished_is_reported_and_not_trained_again(tmp_path: Path, capsys) -> None:
    finished_comparison(tmp_path)
    compare(PRESETS, 2, "arpo-demo", tmp_path, None, 100, SMALL)
    told = json.loads((tmp_path / "compare.json").read_text())
    arpo, gigpo = told["arms"]
    assert told["env_steps"] == 100
    # An episode in each of the 20 shares; in a faulted one's place stands the success before it.
    assert (arpo["area"]["mean"], gigpo["area"]["mean"]) == (0.5, 0.75)
    assert gigpo["final_difference"]["mean"] > 0
    assert gigpo["runs"][0]["env_steps"] == 100  # a fault's steps were taken too
    assert "gigpo" in capsys.readouterr().out
    assert "objective.surrogate.high" in (tmp_path / "compare.html").read_text()
    compare(PRESETS, 2, "arpo-demo", tmp_path, None, None, SMALL)  # the budget is remembered
    assert json.loads((tmp_path / "compare.json").read_text())["arms"] == told["arms"]


def test_another_configuration_is_not_mixed_in(tmp_path: Path) -> None:
    finished_comparison(tmp_path)
    compare(PRESETS, 2, "arpo-demo", tmp_path, None, 100, SMALL)
    with pytest.raises(UsageError, match="another configuration"):
        compare(PRESETS, 2, "arpo-demo", tmp_path, None, 100, [*SMALL, "update.learning_rate=1e-5"])
    with pytest.raises(UsageError, match="had 100 environment steps already"):
        compare(PRESETS, 2, "arpo-demo", tmp_path, None, 50, SMALL)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "say what is compared"),
        (["--presets", "arpo,gigpo", "--arms", "collapse"], "say what is compared"),
        (["--arms", "colapse"], "no arms 'colapse'"),
        (["--presets", "arpo,nothing"], "no algorithm 'nothing'"),
        (["--presets", "arpo"], "two presets or more"),
        (["--presets", "arpo,arpo"], "two presets or more"),
        (["--presets", "arpo,gigpo", "--minutes", "1", "--env-steps", "9"], "give one of them"),
        (["--presets", "arpo,gigpo", "--recipe", "nothing"], "no recipe"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(tmp_path: Path, arguments, line) -> None:
    done = CliRunner().invoke(app, ["compare", *arguments, "--run", str(tmp_path / "run")])
    assert isinstance(done.exception, UsageError)
    assert line in str(done.exception)
    assert not (tmp_path / "run").exists()


def test_the_fields_of_a_preset_are_text_by_path() -> None:
    fields = fields_of(find_algorithm("arpo"))
    assert fields["objective.surrogate"] == "Clipped"
    assert fields["objective.surrogate.high"] == "0.3"
    assert fields["objective.kl"] == "–"
    assert (fields["reward"], fields["reward.format_weight"]) == ("shaped_reward", "0.5")
    assert fields["credit.estimate"] == "group_advantages"
    assert (fields["credit.estimate.std"], fields["credit.estimate.eps"]) == ("sample", "1e-06")
    assert "name" not in fields
    assert not any("0x" in value for value in fields.values())  # no object's address


def test_a_run_that_diverges_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    async def run(self: Trainer, cell: Cell, config: TrainConfig, stage: str) -> dict[str, Any]:
        assert config.env_steps == 100
        if (cell.arm.name, cell.seed) == ("arpo", 0):
            raise DivergedError("no number")
        a_finished_run(cell.folder, [0, 1] * 10, 100)
        told: dict[str, Any] = json.loads((cell.folder / "finished.json").read_text())
        return told

    monkeypatch.setattr(Trainer, "run", run)
    monkeypatch.setenv("GUIAGENT_TOKEN", "t")
    elsewhere = [*SMALL, "device.farm=http://127.0.0.1:1"]
    with pytest.raises(DivergedError, match=r"lacks runs that diverged \(arpo 0\)"):
        compare(PRESETS, 2, "arpo-demo", tmp_path, None, 100, elsewhere)
    told = json.loads((tmp_path / "compare.json").read_text())
    assert [len(arm["runs"]) for arm in told["arms"]] == [1, 2]
    assert told["notes"]["arpo"][0] == "1 of its 2 runs diverged, and are left out."
    assert "arpo 0 is left out: no number" in capsys.readouterr().out


def test_a_seed_is_nobodys_rollout(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        frame = store.put_frame(b"a screen")
        store.commit([replace(an_episode(0, 1, frame), group=""), an_episode(1, 0, frame)])
    (sample,) = samples_of(tmp_path)
    assert (sample.env_steps, sample.tasks["click-test-2"].successes) == (5, 0)


def test_a_run_has_what_its_preset_has_use_for(tmp_path: Path) -> None:
    shared = TrainConfig(
        update=UpdateConfig(seeds=tmp_path), step_judge=StepJudgeConfig(url="http://127.0.0.1:1", model="m")
    )
    made = {}
    for name in ("bepa", "steve", "rloo"):
        update = shared.update.model_copy(update={"algorithm": name})
        arm = Arm(name, (), shared.model_copy(update={"update": update}))
        made[name] = arm.of_seed(1, 100, None)
    assert {name for name, config in made.items() if config.update.seeds} == {"bepa"}
    assert {name for name, config in made.items() if config.step_judge} == {"steve"}
    assert {config.rollout.seed for config in made.values()} == {1_000_000 + A_RUN}
    assert {config.health.stop_after for config in made.values()} == {0}  # to stop learning is a result


ARMS = """
base = []
kl = ["update.objective.kl.coef=0.1"]
"half the rate" = ["update.learning_rate=1e-4", "update.groups=4"]
"""


def test_an_arm_is_any_overrides_of_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "arms.toml"
    path.write_text(ARMS)
    base, kl, half = arms_of_file(str(path), recipe_path("arpo-demo"), SMALL)
    assert [arm.name for arm in (base, kl, half)] == ["base", "kl", "half the rate"]
    assert (base.config.update.groups, half.config.update.groups) == (2, 4)
    assert half.config.update.learning_rate == 1e-4 != base.config.update.learning_rate
    assert kl.config.update.objective.kl.coef == 0.1
    one, other = (arm.of_seed(3, 100, None) for arm in (base, half))
    assert (one.rollout.seed, one.seed) == (other.rollout.seed, other.seed)  # the same tasks and pages


@pytest.mark.parametrize("name", ["collapse", "curricula", "lengths", "replay"])
def test_the_shipped_arms_are_configurations_of_the_demo(name: str) -> None:
    arms = arms_of_file(name, recipe_path("arpo-demo"), [])
    assert len({arm.config.model_dump_json() for arm in arms}) == len(arms)
    assert {tuple(arm.config.tasks) for arm in arms} == {tuple(arms[0].config.tasks)}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("base = []", "has 1 arms: a comparison takes two or more"),
        ("base = []\nother = 3", "write the arm 'other' as a list of overrides"),
        ("base = []\nother = ['update.group=3']", "arm 'other': --set: there is no key 'update.group'"),
        ("base = []\nother = ['update.algorithm=nothing']", "arm 'other': no algorithm 'nothing'"),
        ("base = []\n'../up' = []", "cannot name a folder"),
        ("base = ", "cannot be read as TOML"),
    ],
)
def test_arms_that_cannot_be_are_refused_in_a_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "arms.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        compare(str(tmp_path / "arms.toml"), 1, "arpo-demo", tmp_path / "run", None, 100, SMALL)
    assert line in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_an_arm_of_a_folder_stays_what_it_is_and_others_may_join_it(tmp_path: Path) -> None:
    path, run = tmp_path / "arms.toml", tmp_path / "run"
    path.write_text("base = []\nkl = ['update.objective.kl.coef=0.1']")
    for arm in ("base", "kl", "later"):
        a_finished_run(run / arm / "0", [0, 1] * 10, 100)
    compare(str(path), 1, "arpo-demo", run, None, 100, SMALL)
    path.write_text("base = []\nkl = ['update.objective.kl.coef=0.2']")
    with pytest.raises(UsageError, match=r"the arm 'kl' is \['update.objective.kl.coef=0.1'\]"):
        compare(str(path), 1, "arpo-demo", run, None, 100, SMALL)
    path.write_text("base = []\nlater = ['update.objective.kl.coef=0.2']")
    compare(str(path), 1, "arpo-demo", run, None, 100, SMALL)
    told = json.loads((run / "compare.json").read_text())
    assert [arm["arm"] for arm in told["arms"]] == ["base", "later"]
    assert {row["field"] for row in told["differences"]} >= {
        "objective.kl.coef",
        "recipe.update.objective.kl.coef",
    }


def test_what_was_measured_on_held_out_seeds_is_reported(tmp_path: Path, capsys) -> None:
    finished_comparison(tmp_path)
    for arm, solved in (("arpo", 5), ("gigpo", 7)):
        for seed in (0, 1):
            path = tmp_path / arm / str(seed) / "finished.json"
            measured = {"held_out": {"click-test-2": [9, 10]}, "unseen": {"use-slider": [solved, 10]}}
            write_json(path, json.loads(path.read_text()) | measured | {"one_answer": solved / 10})
    write_json(
        tmp_path / "before.json", {"held_out": {"a": [1, 4]}, "unseen": {"b": [2, 4]}, "one_answer": 0.25}
    )
    compare(PRESETS, 2, "arpo-demo", tmp_path, None, 100, SMALL)
    told = json.loads((tmp_path / "compare.json").read_text())
    assert told["held_out"]["gigpo"]["unseen"]["difference"]["mean"] == pytest.approx(0.2)
    assert told["before"]["unseen"]["successes"] == 2
    assert "before training" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("preset", "config", "lines", "said"),
    [
        ("gspo", TrainConfig(), [], "nothing was ever clipped"),
        ("gspo", TrainConfig(update=UpdateConfig(minibatches=4)), [], None),
        ("dapo", TrainConfig(), [{"replay_share": 0.0}], None),
        ("digirl", TrainConfig(), [{"replay_share": 1.0}], "critic began untrained"),
        ("steve", TrainConfig(), [], "No step judge"),
        ("igpo", TrainConfig(), [{"known_answers": 0.0}], "No task had a known answer"),
        ("igpo", TrainConfig(), [{"known_answers": 0.0}, {"known_answers": 0.5}], None),
        ("arpo", TrainConfig(), [{"replay_share": 0.0}], "replay never came in"),
        ("arpo", TrainConfig(), [{"replay_share": 0.1, "skipped_updates": 1}], "were no numbers"),
    ],
)
def test_what_must_be_known_of_a_preset_is_said(preset: str, config: TrainConfig, lines, said) -> None:
    found = caveats(find_algorithm(preset), config, lines)
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


@pytest.mark.drill
@pytest.mark.browser
def test_two_presets_on_a_real_farm(tmp_path: Path) -> None:
    run = tmp_path / "run"
    compare_small = functools.partial(compare, PRESETS, 1, "arpo-demo", run, overrides=SMALL)
    compare_small(minutes=None, env_steps=40)
    told = json.loads((run / "compare.json").read_text())
    assert [arm["runs"][0]["env_steps"] >= 40 for arm in told["arms"]] == [True, True]
    for preset in PRESETS:
        config = configuration.load(TrainConfig, run / preset / "0" / "config.toml")
        assert (config.update.algorithm, config.env_steps) == (preset, 40)
        assert json.loads((run / preset / "0" / "finished.json").read_text())["env_steps"] == 40
    before = [(run / preset / "0" / "metrics.jsonl").stat().st_mtime_ns for preset in PRESETS]
    compare_small(minutes=None, env_steps=40)
    assert [(run / preset / "0" / "metrics.jsonl").stat().st_mtime_ns for preset in PRESETS] == before

"""Tasks that can teach are told from those that cannot, and `guiagent select` writes a recipe of them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.results import EpisodeResult, Outcome, SuiteResult, result_json, write_json
from eval.selection import Selection, select_tasks
from eval.suites.suite import Suite
from guiagent.cli import app
from guiagent.config import load
from guiagent.errors import UsageError
from rewards.tasksets.miniwob import STEP_TASKS, TRAIN_TASKS, UNSEEN_TASKS
from training.config import TrainConfig

SOMETIMES, ALWAYS, NEVER, LOST = TRAIN_TASKS[:4]
UNSEEN = UNSEEN_TASKS[0]
POOL = {SOMETIMES: "sfs!", ALWAYS: "ss!", NEVER: "ff!", LOST: "!!"}  # success, failure, ! a fault
OUTCOMES: dict[str, Outcome] = {"s": "success", "f": "failure", "!": "fault"}


def episodes(pool: dict[str, str]) -> tuple[EpisodeResult, ...]:
    return tuple(
        EpisodeResult(task, seed, OUTCOMES[letter], "task_done", 1, 0.1, 1, "", f"{task}/{seed}")
        for task, letters in pool.items()
        for seed, letter in enumerate(letters)
    )


def names(found: Selection) -> list[list[str]]:
    kinds = (found.learnable, found.hopeless, found.mastered, found.untold)
    return [[row.task for row in rows] for rows in kinds]


def test_what_is_solved_sometimes_can_teach() -> None:
    assert names(select_tasks(episodes(POOL))) == [[SOMETIMES], [NEVER], [ALWAYS], [LOST]]


def test_the_bounds_can_be_moved() -> None:
    assert names(select_tasks(episodes(POOL), keep_mastered=True))[0] == [SOMETIMES, ALWAYS]
    assert names(select_tasks(episodes(POOL), least=3)) == [[], [SOMETIMES, ALWAYS, NEVER], [], [LOST]]


def stored(folder: Path, pool: dict[str, str], label: str = "tiny") -> Path:
    unseen = tuple(task for task in pool if task in UNSEEN_TASKS)
    trained = tuple(task for task in pool if task not in unseen)
    suite = Suite("some", "miniwob", trained, unseen, episodes=4, device="browser")
    result = SuiteResult(suite, label, episodes(pool))
    (folder / label).mkdir(parents=True)
    write_json(folder / label / "results.json", result_json(result))
    return folder / label


def select(evaluation: Path, to: Path, *more: str, recipe: str = "arpo-demo") -> str:
    asked = ["select", str(evaluation), "--recipe", recipe, "--to", str(to), *more]
    done = CliRunner().invoke(app, asked, env={"COLUMNS": "200"})
    if done.exception is not None:
        raise done.exception
    return done.output


def test_the_recipe_differs_in_its_tasks_alone(tmp_path: Path) -> None:
    other = STEP_TASKS[0]  # the recipe does not name it, but a suite lets policies train on it
    told = select(stored(tmp_path / "before", POOL | {UNSEEN: "sf", other: "sf"}), tmp_path / "mine.toml")
    assert f"{SOMETIMES}  2 of 3" in told
    for why, task in (("less than 1", NEVER), ("each time", ALWAYS), ("faults", LOST), ("not for", UNSEEN)):
        assert any(why in line and task in line for line in told.splitlines() if "left out" in line)
    shipped = load(TrainConfig, Path("training/recipes/arpo-demo.toml"))
    assert load(TrainConfig, tmp_path / "mine.toml") == shipped.model_copy(
        update={"tasks": (SOMETIMES, other)}
    )


def test_what_cannot_be_selected_is_said_in_one_line(tmp_path: Path) -> None:
    both = stored(tmp_path / "before", POOL).parent
    stored(both, POOL, "random")
    (tmp_path / "there.toml").touch()
    (tmp_path / "nothing").mkdir()
    mine = both / "tiny"
    for asked, problem in (
        ((both, tmp_path / "a.toml"), "results of random, tiny: name the folder of one"),
        ((mine, tmp_path / "there.toml"), "is there already"),
        ((tmp_path / "nothing", tmp_path / "a.toml"), "no results of `guiagent eval`"),
        ((mine, tmp_path / "a.toml", "--least", "4"), "no task is left"),
    ):
        with pytest.raises(UsageError, match=problem):
            select(*asked)
    with pytest.raises(UsageError, match="without \\[\\[platforms\\]\\]"):
        select(mine, tmp_path / "a.toml", recipe="everywhere")
    assert not (tmp_path / "a.toml").exists()

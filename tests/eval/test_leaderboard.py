"""The leaderboard: what is found, the ranks that intervals allow, what differs, texts that format nothing."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from eval.conditions import Conditions
from eval.leaderboard import Board, Entry, boards_of, find_results, labels_of
from eval.report.leaderboard import write_leaderboard
from eval.results import EpisodeResult, SuiteResult, result_json, write_json
from eval.suites.suite import Suite
from guiagent.cli import app
from guiagent.errors import UsageError
from guiagent.types import Capabilities

EASY = Suite("easy", "squares", ("one",), (), episodes=50, device="browser")
HARD = Suite("hard", "squares", (), ("two", "three"), episodes=20, device="browser")
HERE = Conditions((Capabilities("browser", 160, 224),), agent={"policy": "some", "dialect": "ui-tars"})


def stored(
    folder: Path, suite: Suite, label: str, successes: int, faults: int = 0, ran: Conditions = HERE
) -> Path:
    """An evaluation of a policy on all tasks and seeds of a suite, of which the first ones succeeded."""
    jobs = [(task, seed) for task in suite.tasks for seed in suite.seeds()]
    outcomes = ["success"] * successes + ["fault"] * faults
    outcomes += ["failure"] * (len(jobs) - len(outcomes))
    episodes = tuple(
        EpisodeResult(task, seed, outcome, "task_done", 2, 0.5, 1, "", f"{task}/{seed}")  # type: ignore[arg-type]
        for (task, seed), outcome in zip(jobs, outcomes, strict=True)
    )
    (folder / label).mkdir(parents=True)
    write_json(folder / label / "results.json", result_json(SuiteResult(suite, label, episodes, ran)))
    return folder / label


def boards(*folders: Path) -> dict[str, Board]:
    results, damaged = find_results(folders)
    assert not damaged
    return {board.name: board for board in boards_of(results)}


def ranks(board: Board) -> list[tuple[str, int]]:
    return [(entry.label, board.rank(entry)) for entry in board.entries]


def test_what_the_episodes_cannot_tell_apart_shares_a_rank(tmp_path: Path) -> None:
    for label, successes in (("best", 48), ("good", 30), ("as good", 28), ("poor", 2)):
        stored(tmp_path / label.replace(" ", ""), EASY, label, successes)
    found = boards(tmp_path)["easy"]
    assert ranks(found) == [("best", 1), ("good", 2), ("as good", 2), ("poor", 4)]


def test_faults_count_as_failures_and_stay_visible(tmp_path: Path) -> None:
    stored(tmp_path, EASY, "some", 40, faults=10)
    (entry,) = boards(tmp_path)["easy"].entries
    assert entry.total.scheduled.rate == 0.8 and entry.total.faults == 10


def test_repetitions_of_an_evaluation_are_one_entry_and_other_evaluations_are_not(tmp_path: Path) -> None:
    for label, successes in (("some", 50), ("some-run2", 30), ("some-run3", 40)):
        stored(tmp_path / "a", EASY, label, successes)
    stored(tmp_path / "b", EASY, "some", 10)
    first, second = boards(tmp_path)["easy"].entries
    assert (first.runs, first.total.scheduled.successes, first.total.scheduled.n) == (3, 120, 150)
    assert (second.runs, second.total.scheduled.n) == (1, 50)


def test_suites_have_boards_of_their_own_and_so_have_their_versions(tmp_path: Path) -> None:
    stored(tmp_path / "a", EASY, "some", 10)
    stored(tmp_path / "b", replace(EASY, episodes=60), "some", 10)
    stored(tmp_path / "c", HARD, "some", 40)
    stored(tmp_path / "c", HARD, "null", 0)
    found = boards(tmp_path)
    assert len(found) == 3 and "hard" in found
    assert sum(name.startswith("easy@") for name in found) == 2
    assert labels_of(list(found.values())) == ["some", "null"]


def test_results_below_several_folders_are_read_once_and_not_those_of_a_verification(tmp_path: Path) -> None:
    at = stored(tmp_path / "runs", EASY, "some", 10)
    stored(at / "verified", EASY, "recorded some", 10)
    stored(at / "trajectories", EASY, "not a result", 10)
    results, _ = find_results([tmp_path, tmp_path / "runs", at])
    assert [result.label for _, result in results] == ["some"]


def test_a_damaged_result_is_named_and_the_others_stay(tmp_path: Path) -> None:
    stored(tmp_path, EASY, "some", 10)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "results.json").write_text('{"suite": "easy", "digest"')
    results, damaged = find_results([tmp_path])
    assert len(results) == 1
    assert len(damaged) == 1 and "torn" in damaged[0]
    told = CliRunner().invoke(app, ["leaderboard", str(tmp_path)])
    assert told.exit_code == 0 and "left out" in told.output and "some" in told.output


def test_what_ran_otherwise_is_said(tmp_path: Path) -> None:
    stored(tmp_path, EASY, "some", 20)
    stored(tmp_path, EASY, "alike", 10, ran=msgspec.structs.replace(HERE, agent={"policy": "other"}))
    stored(tmp_path, EASY, "elsewhere", 5, ran=msgspec.structs.replace(HERE, max_steps=99))
    (note,) = boards(tmp_path)["easy"].notes
    assert note.startswith("elsewhere (") and "max steps" in note


def test_the_files_hold_every_figure_and_texts_cannot_format_them(tmp_path: Path) -> None:
    stored(tmp_path / "a", EASY, "<b>some|", 20)
    (tmp_path / "a" / "report.html").write_text("")
    stored(tmp_path / "b", HARD, "null", 0)
    told = CliRunner().invoke(app, ["leaderboard", str(tmp_path), "--to", str(tmp_path)])
    assert told.exit_code == 0, told.output
    page = (tmp_path / "leaderboard.html").read_text()
    assert "&lt;b&gt;some|" in page and "<b>some" not in page and 'href="a/report.html"' in page
    table = (tmp_path / "leaderboard.md").read_text()
    assert "| \\<b\\>some\\| | 40% (28–54) | – |" in table
    easy, hard = json.loads((tmp_path / "leaderboard.json").read_text())["suites"]
    assert (easy["entries"][0]["rate"], easy["entries"][0]["rank"], hard["entries"][0]["rate"]) == (0.4, 1, 0)


def test_an_entry_without_episodes_is_on_no_board(tmp_path: Path) -> None:
    at = stored(tmp_path, EASY, "some", 0)
    empty = json.loads((at / "results.json").read_text()) | {"episodes": []}
    (at / "results.json").write_text(json.dumps(empty))
    assert boards(tmp_path) == {}
    assert Board("easy", "", ()).notes == ()
    write_leaderboard(tmp_path, [])
    assert Entry("some", at, 1, (), HERE).total.scheduled.n == 0


@pytest.mark.parametrize(("folder", "said"), [("", "no results"), ("missing", "there is no folder")])
def test_a_folder_without_results_is_one_line(tmp_path: Path, folder: str, said: str) -> None:
    told = CliRunner().invoke(app, ["leaderboard", str(tmp_path / folder)])
    assert isinstance(told.exception, UsageError) and said in str(told.exception)

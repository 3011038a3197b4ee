"""`guiagent eval` on some tasks of a suite, and without playing the baselines again."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.results import SuiteResult, result_json, write_json
from eval.suites import find_suite
from guiagent.cli import app
from guiagent.cli.common.policy import SCRIPTED
from guiagent.cli.evaluate.command import measured
from guiagent.errors import InfrastructureError, UsageError
from guiagent.types import Observation

SUITE = find_suite("miniwob-demo", ["click-test-2"])
BESIDE = ["null", "random", "random-element", "oracle"]


def kept(folder: Path, *labels: str) -> None:
    for label in labels:
        write_json(folder / label / "results.json", result_json(SuiteResult(SUITE, label, ())))


def test_baselines_are_played_or_not_or_taken_from_a_folder(tmp_path: Path) -> None:
    assert measured("all", SUITE, "tiny") == (BESIDE, [])
    assert measured("all", SUITE, "null") == (BESIDE[1:], [])
    assert measured("none", SUITE, "tiny") == ([], [])
    played, _ = measured("all", find_suite("web"), "tiny")  # some of its tasks cannot be done
    assert played == ["null", "random", "random-element", "done", "fail"]
    kept(tmp_path, "null", "oracle", "another")
    played, known = measured(str(tmp_path), SUITE, "tiny")
    assert played == []
    assert [result.label for result in known] == ["null", "oracle"]


def test_a_folder_without_them_or_of_another_suite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no results of baselines"):
        measured(str(tmp_path), SUITE, "tiny")
    kept(tmp_path, "null")
    with pytest.raises(InfrastructureError, match="of another suite"):
        measured(str(tmp_path), find_suite("miniwob-demo"), "tiny")


def test_an_unknown_task_or_suite_starts_no_farm(tmp_path: Path) -> None:
    run = ["eval", "--policy", "null", "--run", str(tmp_path / "run")]
    for more, said in (
        (["--tasks", "click-tst-2"], "has no task 'click-tst-2'; did you mean 'click-test-2'?"),
        (["--suite", "miniwob-dmo"], "no suite 'miniwob-dmo'; did you mean 'miniwob-demo'?"),
        (["--episodes", "100000"], "episodes per task"),
        (["--policy", "nowhere"], "no Hugging Face checkpoint at nowhere"),
    ):
        refused = CliRunner().invoke(app, [*run, *more])
        assert said in str(refused.exception)
    assert not (tmp_path / "run").exists()


async def test_who_always_fails_says_that_it_cannot_be_done() -> None:
    said = await SCRIPTED["fail"]().act("1", "Close the issue.", (), Observation(1280, 800))
    assert [one["status"] for one in said.actions] == ["infeasible"]


@pytest.mark.browser
def test_it_plays_what_is_asked_and_shows_what_is_known(tmp_path: Path) -> None:
    asked = ["eval", "--tasks", "click-test-2", "--episodes", "2", "--devices", "1"]
    first = CliRunner().invoke(
        app, [*asked, "--policy", "oracle", "--baselines", "none", "--run", str(tmp_path / "a")]
    )
    assert first.exit_code == 0, first.output
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        *("card.md", "oracle", "report.html", "summary.json")
    ]
    second = CliRunner().invoke(
        app,
        [*asked, "--policy", "null", "--baselines", str(tmp_path / "a"), "--run", str(tmp_path / "b")],
    )
    assert second.exit_code == 0, second.output
    assert not (tmp_path / "b" / "oracle").exists()
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    assert summary["baselines"]["oracle"]["train_pooled"]["successes"] == 2
    assert [task["task"] for task in summary["tasks"]] == ["click-test-2"]

"""`guiagent eval --runs` and `--verify`, and `guiagent compare A B`, on devices of the lab."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from eval.results import EpisodeResult
from guiagent.cli import app
from guiagent.cli.evaluate.stored import evaluation_of
from guiagent.errors import UsageError
from guiagent.storage.trajectories import TrajectoryStore

ASKED = ["--suite", "lab", "--tasks", "reach-2,set-2", "--episodes", "3", "--devices", "2"]


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def clicks(folder: Path) -> list[str]:
    """What a policy wrote, turn by turn, in the order of tasks and seeds."""
    with TrajectoryStore(folder / "trajectories", readonly=True) as store:
        episodes = sorted(store, key=lambda one: (one.task, one.seed))
    return [step.policy.text for one in episodes for step in one.steps]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of clicks on random elements, and one of the oracle."""
    folder = tmp_path_factory.mktemp("evaluations")
    for policy, more in (("random-element", ["--runs", "2"]), ("oracle", [])):
        words = ["eval", "--policy", policy, "--baselines", "none", "--run", str(folder / policy), *ASKED]
        done = invoke(*words, *more)
        assert done.exit_code == 0, done.output
        (folder / f"{policy}.txt").write_text(done.output)
    return folder


def test_runs_are_played_apart_and_summed_up(played: Path) -> None:
    folder = played / "random-element"
    first, second = (
        json.loads((folder / name / "results.json").read_text())
        for name in ("random-element", "random-element-run2")
    )
    assert [e["seed"] for e in first["episodes"]] == [e["seed"] for e in second["episodes"]]
    assert clicks(folder / "random-element") != clicks(folder / "random-element-run2")
    repeated = json.loads((folder / "summary.json").read_text())["repetitions"]
    rates = [result["train_pooled"]["rate"] for result in (first, second)]
    assert repeated["train"]["rates"] == rates
    assert repeated["train"]["half_range"] == abs(rates[0] - rates[1]) / 2
    said = (played / "random-element.txt").read_text()
    assert "2 runs on training tasks, held-out seeds: mean " in said and "pass^2" in said
    assert "Spread and effort" in (folder / "report.html").read_text()


def test_a_result_that_holds_is_played_again_with_the_same_verdicts(played: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(played / "oracle", tmp_path / "oracle")
    done = invoke("eval", "--verify", str(copy), "--devices", "2")
    assert done.exit_code == 0, done.output
    assert "6 of 6 came out again" in done.output and "the figure holds" in done.output
    again = invoke("eval", "--verify", str(copy))
    assert "from an earlier verification" in str(again.exception)


def test_a_result_that_was_edited_is_found_out(played: Path, tmp_path: Path) -> None:
    """Failures of random clicks that are stated as successes."""
    copy = shutil.copytree(played / "random-element" / "random-element", tmp_path / "random-element")
    results = json.loads((copy / "results.json").read_text())
    lost = [e for e in results["episodes"] if e["outcome"] == "failure"]
    assert lost, "random clicks solve all of it"
    for one in lost:
        one["outcome"] = "success"
    (copy / "results.json").write_text(json.dumps(results))
    done = invoke("eval", "--verify", str(copy), "--devices", "2")
    assert done.exit_code == 1, done.output
    assert "totals    DIFFER" in done.output and "the figure does not hold" in done.output
    assert f"{lost[0]['task']} seed {lost[0]['seed']}: succeeded, fails now" in done.output


def test_two_results_are_compared_by_their_seeds(played: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = played / "random-element" / "random-element"
    done = invoke("compare", str(first), str(played / "oracle"), "--run", str(out))
    assert done.exit_code == 0, done.output
    before = json.loads((first / "results.json").read_text())["episodes"]
    after = json.loads((played / "oracle" / "oracle" / "results.json").read_text())["episodes"]
    kept = {(e["task"], e["seed"]) for e in before if e["outcome"] == "success"}
    assert all(msgspec.convert(e, EpisodeResult).outcome == "success" for e in after)
    gained = len(after) - len(kept)
    assert f"{gained} seeds gained and 0 lost" in done.output
    page = (out / "compare.html").read_text()
    assert "random-element and oracle on lab" in page
    assert json.loads((out / "compare.json").read_text())["train_pooled"]["paired"]["gained"] == gained


def test_what_cannot_be_compared_or_verified_is_one_line(played: Path, tmp_path: Path) -> None:
    for words, said in (
        (["compare", str(played / "oracle")], "name two folders of evaluations"),
        (["compare", str(tmp_path), str(played / "oracle")], "has no results.json"),
        (["compare", str(played), str(played / "oracle")], "has no results.json"),
        (["eval", "--verify", str(tmp_path / "nothing")], "has no results.json"),
        (["eval"], "--policy, or --verify FOLDER"),
    ):
        assert said in str(invoke(*words).exception), words
    with pytest.raises(UsageError, match="several evaluations"):
        shutil.copytree(played / "oracle" / "oracle", tmp_path / "two" / "a")
        shutil.copytree(played / "oracle" / "oracle", tmp_path / "two" / "b")
        evaluation_of(tmp_path / "two")
    claim = tmp_path / "two" / "a" / "suite.json"
    claim.write_text(json.dumps(json.loads(claim.read_text()) | {"digest": "0" * 32}))
    with pytest.raises(UsageError, match="it has changed since"):
        evaluation_of(claim.parent)

"""Grounding through the runner: oracle, random and centre clicks, scaled coordinates, groups, resumption."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
from typer.testing import CliRunner

from eval.breakdown import by_group, by_stop
from eval.results import SuiteResult
from eval.run import Agent, Benchmark, run_suite
from eval.suites import find_suite
from guiagent.cli import app
from guiagent.cli.evaluate.grounding import render_into
from guiagent.errors import UsageError
from guiagent.policies import CentrePolicy, OraclePolicy, RandomElementPolicy, RandomPolicy
from guiagent.protocols import Policy, Turn
from guiagent.seeds import EVALUATION
from guiagent.types import Observation, ObserveSpec, PolicyOutput
from rewards.catalogue import find_taskset
from rewards.tasksets.grounding import rendered_folder
from tests.support.pictures import screenspot

SPEC = ObserveSpec(frame="png")


class Scaled:
    """A seeded mistake: scaled points, as after a resize of the picture that is not undone."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        (todo,) = observation.probes["oracle"]
        x, y = int(self.scale * todo["x"]), int(self.scale * todo["y"])
        return PolicyOutput("", [{"type": "click", "x": x, "y": y}])

    def forget(self, episode: str) -> None:
        pass


async def played(folder: Path, policy: Policy, out: Path, label: str = "one") -> SuiteResult:
    suite = find_suite(f"screenspot:{folder}")
    benchmark = Benchmark(suite, find_taskset(suite.taskset, oracle=True))
    return await run_suite(benchmark, Agent(policy, label, SPEC), None, out / label, concurrency=2)


async def test_the_oracle_hits_everything_and_scaled_coordinates_nothing(tmp_path: Path) -> None:
    folder = screenspot(tmp_path / "items", per_picture=2)
    oracle = await played(folder, OraclePolicy(), tmp_path, "oracle")
    halved = await played(folder, Scaled(0.5), tmp_path, "halved")
    doubled = await played(folder, Scaled(2), tmp_path, "doubled")
    centre = await played(folder, CentrePolicy(), tmp_path, "centre")
    elements = await played(folder, RandomElementPolicy(), tmp_path, "random-element")
    rates = [
        result.pooled(trained=False).scheduled.rate for result in (oracle, elements, halved, doubled, centre)
    ]
    assert rates == [1.0, 1.0, 0.0, 0.0, 0.0]  # both items of a picture mean the same box
    assert {row.stop for row in by_stop(oracle)} == {"task_done"}


async def test_random_pixels_hit_as_often_as_their_share_of_the_area(tmp_path: Path) -> None:
    folder = screenspot(tmp_path / "items", per_picture=40)
    result = await played(folder, RandomPolicy(), tmp_path)
    found = result.pooled(trained=False).scheduled
    taskset = find_taskset(f"screenspot:{folder}")
    share = fmean(item.area_share for item in taskset.items.values())  # type: ignore[attr-defined]
    assert share == pytest.approx(0.25, abs=0.01)
    assert found.interval.low < share < found.interval.high


async def test_rows_by_platform_element_and_resolution_hold_every_item_once(tmp_path: Path) -> None:
    result = await played(screenspot(tmp_path / "items"), OraclePolicy(), tmp_path)
    groups = by_group(result)
    assert [row.task for row in groups["resolution"]] == ["up to 1.5 MP", "1.5 to 5 MP", "4K and more"]
    assert {row.task for row in groups["element"]} == {"text", "icon"}
    assert {row.task for row in groups["platform"]} == {"web", "mobile", "desktop"}
    for rows in groups.values():
        assert sum(row.scheduled.n for row in rows) == len(result.episodes) == 12


async def test_it_is_deterministic_and_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = screenspot(tmp_path / "items")
    first = await played(folder, RandomPolicy(), tmp_path / "a")
    second = await played(folder, RandomPolicy(), tmp_path / "b")
    assert [e.detail for e in first.episodes] == [e.detail for e in second.episodes]
    before = (tmp_path / "a" / "one" / "results.json").read_bytes()
    again = await played(folder, RandomPolicy(), tmp_path / "a")
    assert again == first and (tmp_path / "a" / "one" / "results.json").read_bytes() == before


def test_the_command_prints_groups_and_what_it_made_can_be_verified(tmp_path: Path) -> None:
    folder, run = screenspot(tmp_path / "items"), tmp_path / "run"
    done = CliRunner().invoke(
        app, ["eval", "--suite", f"screenspot:{folder}", "--policy", "random", "--run", str(run)]
    )
    assert done.exit_code == 0, done.output
    for said in ("by resolution", "4K and more", "by platform and element", "centre", "oracle"):
        assert said in done.output
    summary = json.loads((run / "summary.json").read_text())
    groups = summary["breakdown"]["oracle"]["groups"]
    assert groups["element"]["icon"]["rate"] == 1.0 and groups["element"]["icon"]["low"] > 0.5
    assert "In groups" in (run / "report.html").read_text()
    held = CliRunner().invoke(app, ["eval", "--verify", str(run / "random"), "--devices", "2"])
    assert held.exit_code == 0, held.output
    assert "12 of 12 came out again" in held.output


@pytest.mark.browser
def test_our_own_items_are_rendered_at_three_sizes_and_solved_by_their_boxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / "home"))
    with pytest.raises(UsageError, match="guiagent grounding render"):
        find_suite("grounding")
    count = render_into(rendered_folder(), EVALUATION.start, screens=1, kinds=["browser", "lab"])
    again = render_into(tmp_path / "again", EVALUATION.start, screens=1, kinds=["browser", "lab"])
    suite = find_suite("grounding")
    assert len(suite.tasks) == count == again
    names = sorted(path.name for path in (tmp_path / "again").rglob("*.*"))
    for name in names:  # the same seed, the same pixels
        (one,), (two,) = (list(folder.rglob(name)) for folder in (rendered_folder(), tmp_path / "again"))
        assert one.read_bytes() == two.read_bytes(), name
    assert {"browser-3840x2160-00.png", "browser-1280x800-00.png", "lab-2160x3840-00.png"} <= set(names)

    words = ["eval", "--suite", "grounding", "--policy", "oracle", "--run", str(tmp_path / "run")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    groups = json.loads((tmp_path / "run" / "summary.json").read_text())["breakdown"]
    rates = {label: found["groups"]["element"] for label, found in groups.items()}
    assert rates["oracle"]["text"]["rate"] == rates["oracle"]["icon"]["rate"] == 1.0
    assert rates["null"]["text"]["rate"] == rates["null"]["icon"]["rate"] == 0.0
    assert set(groups["oracle"]["groups"]["resolution"]) == {"up to 1.5 MP", "1.5 to 5 MP", "4K and more"}
    assert {"web text", "web icon", "mobile text"} <= set(groups["oracle"]["groups"]["platform and element"])


def test_a_folder_that_is_not_empty_and_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    for words, said in (
        ([str(tmp_path)], "has something in it"),
        ([str(tmp_path / "new"), "--kinds", "toaster"], "no items are rendered on 'toaster'"),
    ):
        refused = CliRunner().invoke(app, ["grounding", "export", *words])
        assert said in str(refused.exception)


def test_a_crop_is_measured_beside_the_whole_and_compared(tmp_path: Path) -> None:
    folder, run = screenspot(tmp_path / "items"), tmp_path / "run"
    words = ["eval", "--policy", "random", "--baselines", "none", "--zoom", "0.3", "--run", str(run)]
    done = CliRunner().invoke(app, [*words, "--suite", f"screenspot:{folder}"])
    assert done.exit_code == 0, done.output
    assert "random-zoom0.3" in done.output and "zoom 0.3 on tasks never trained on: " in done.output
    results = json.loads((run / "random-zoom0.3" / "results.json").read_text())
    assert results["ran"]["agent"]["zoom"] == 0.3 and len(results["episodes"]) == 12
    held = CliRunner().invoke(app, ["eval", "--verify", str(run / "random-zoom0.3"), "--devices", "1"])
    assert "12 of 12 came out again" in held.output, held.output
    refused = CliRunner().invoke(app, [*words, "--suite", "lab"])
    assert "--zoom is for points on pictures" in str(refused.exception)


def test_an_audit_finds_every_item_sound(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["tasks", "audit", f"screenspot:{screenspot(tmp_path, per_picture=1)}"])
    assert done.exit_code == 0, done.output
    assert "3 proofs, 3 sound" in done.output

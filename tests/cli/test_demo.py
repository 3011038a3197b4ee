"""The demo as `make demo` starts it: with the packages of its extras alone; a finished one is only shown."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.browser
EXTRAS = ("browser", "farm", "train")
BASELINES = ("null", "random", "random-element", "oracle")
PLATFORMS = (
    "platforms=[{taskset='miniwob-rounds',tasks=['click-test-2-x1'],devices=2},"
    "{taskset='lab',tasks=['reach-2'],devices=2,device={kind='lab'}}]"
)
TINY = ["--port", "0", "--episodes", "1", "--set", "steps=2", "--set", PLATFORMS]
SMALL = ["--set", "rollout.group_size=4", "--set", "update.groups=2"]
# Python imports this module at its start, in every process of the demo.
SITE = """
from importlib.machinery import PathFinder
NOT_HERE, find = frozenset(%r), PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name in NOT_HERE else find(name, *more)
"""


def needed(name: str, extras: tuple[str, ...] = ()) -> Iterator[str]:
    """An installed package and all that it requires with these extras, over and over."""
    yield canonicalize_name(name)
    for line in metadata.requires(name) or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield from needed(wanted.name, tuple(wanted.extras))


def others() -> list[str]:
    """Top-level modules that are installed here and that the demo's extras do not bring."""
    ours = set(needed("guiagent", EXTRAS))
    return sorted(
        module
        for module, owners in metadata.packages_distributions().items()
        if not ours & {canonicalize_name(owner) for owner in owners}
    )


Finished = tuple[Path, subprocess.CompletedProcess[str]]


def demo(run: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guiagent.cli", "demo", "--run", str(run), *TINY, *SMALL, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | environment)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run of the demo by a Python that finds no module but those which its extras bring."""
    kept_out = others()
    assert {"ray", "moto", "schemathesis", "mypy", "pytest", "rapidfuzz"} <= set(kept_out)
    assert not {"torch", "playwright", "fastapi", "miniwob"} & set(kept_out)
    folder = tmp_path_factory.mktemp("demo")
    (folder / "sitecustomize.py").write_text(SITE % kept_out)
    done = demo(folder / "run", PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return folder / "run", done


def test_it_reports_before_and_after_beside_the_baselines(finished: Finished) -> None:
    run, done = finished
    head = next(line for line in done.stdout.splitlines() if line.startswith("task "))
    assert head.split() == ["task", "before", "after", *BASELINES, "faults"]
    assert "by platform" in done.stdout and "by actions, trained on" in done.stdout
    assert {path.name for path in (run / "eval" / "before").iterdir()} >= {"browser", "lab", "results.json"}
    summary = json.loads((run / "summary.json").read_text())
    assert {task["task"] for task in summary["tasks"]} >= {"click-test-2-x1", "reach-2@graphs"}
    assert {task["trained"] for task in summary["tasks"]} == {True, False}
    for task in summary["tasks"]:
        for when in ("before", "after"):
            assert 0 <= task[when]["low"] <= task[when]["rate"] <= task[when]["high"] <= 1
    assert set(summary["baselines"]) == set(BASELINES)
    assert summary["baselines"]["oracle"]["train_pooled"]["rate"] == 1.0
    assert summary["peak_memory_mb"] > 100 and summary["episodes"] > 16
    report = (run / "report.html").read_text()
    assert report.count("<details") >= 12 and "data:image/png" in report


def test_a_finished_one_is_only_shown_again(finished: Finished) -> None:
    run, done = finished
    written = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    again = demo(run)
    assert again.returncode == 0, again.stderr
    assert f"this run is finished: {run / 'report.html'}" in again.stdout
    assert "[1/5]" not in again.stdout
    table = done.stdout[done.stdout.index("task ") : done.stdout.index("\nwall ")]
    assert table in again.stdout
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == written


def test_it_goes_on_where_more_is_asked_of_it(finished: Finished, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished[0], run, symlinks=True)
    more = demo(run, "--set", "steps=3")
    assert more.returncode == 0, more.stderr
    assert "[3/5] train     step 3" in more.stdout
    assert [path.name for path in sorted((run / "eval").glob("after-*"))] == ["after-2", "after-3"]


def test_minutes_and_hours_are_of_two_demos(tmp_path: Path) -> None:
    both = demo(tmp_path / "run", "--minutes", "1", "--hours", "1")
    assert both.returncode == 2
    assert both.stderr.strip().endswith("of the one with phones, too: give one of them")
    assert not (tmp_path / "run").exists()

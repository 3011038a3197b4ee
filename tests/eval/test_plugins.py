"""Tasksets and suites of installed packages, found by their entry points."""

import shutil
from pathlib import Path

import pytest

from eval.suites import find_suite
from guiagent.errors import UsageError
from rewards.catalogue import find_taskset, require_task

MODULE = """
from eval.suites.suite import Suite
from rewards.tasksets.lab import Lab

SUITE = Suite("kiosk", "kiosk", ("reach-2",), (), episodes=3, device="lab")
NAMELESS = Suite("other", "kiosk", ("reach-2",), (), episodes=3, device="lab")
NUMBER = 3
Tasks = Lab
"""
POINTS = """
[guiagent.tasksets]
kiosk = {module}:Tasks
[guiagent.suites]
kiosk = {module}:SUITE
misnamed = {module}:NAMELESS
number = {module}:NUMBER
broken = {module}:missing
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as pip leaves it, on the path."""
    (tmp_path / "kiosk_tasks.py").write_text(MODULE)
    facts = tmp_path / "kiosk_tasks-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: kiosk-tasks\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(POINTS.format(module="kiosk_tasks"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_package_brings_a_taskset_and_a_suite(installed: Path) -> None:
    suite = find_suite("kiosk")
    assert (suite.name, suite.tasks) == ("kiosk", ("reach-2",))
    taskset = find_taskset(suite.taskset)
    require_task(taskset, "reach-2")
    assert taskset.task("reach-2", suite.seeds()[0]).max_steps > 0


def test_without_the_package_its_names_are_unknown_and_with_it_they_are_suggested(installed: Path) -> None:
    with pytest.raises(UsageError, match="no suite 'kiosc'; did you mean 'kiosk'"):
        find_suite("kiosc")
    with pytest.raises(UsageError, match="no taskset 'nothing like it'; known: desktop, kiosk, lab"):
        find_taskset("nothing like it")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("misnamed", "is not a Suite of that name"),
        ("number", "is not a Suite of that name"),
        ("broken", "of the package kiosk-tasks cannot be loaded: AttributeError"),
    ],
)
def test_what_is_no_suite_is_one_line(installed: Path, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find_suite(name)


def test_a_name_of_two_packages_is_refused(installed: Path) -> None:
    again = installed / "kiosk_again-1.0.dist-info"
    shutil.copytree(installed / "kiosk_tasks-1.0.dist-info", again)
    (again / "METADATA").write_text("Metadata-Version: 2.1\nName: kiosk-again\nVersion: 1.0\n")
    with pytest.raises(UsageError, match=r"several packages \(kiosk-again, kiosk-tasks\)"):
        find_suite("kiosk")

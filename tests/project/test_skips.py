"""On a CI machine a skip that is not listed fails the run, in every way a test can be skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.skips import REFUSED

ROOT = Path(__file__).parents[2]
BY_FIXTURE = """
import pytest
@pytest.fixture
def program():
    pytest.skip("there is no such-program")
def test_it(program): pass
"""
BY_MARK = """
import pytest
@pytest.mark.skipif(True, reason="there is no such-program")
def test_it(): pass
"""
BY_MODULE = """
import pytest
pytest.importorskip("such_program", reason="there is no such-program")
"""
ALLOWED = """
import pytest
def test_it(): pytest.skip("this kind has no 'snapshot'")
"""


def run(folder: Path, test: str, *options: str, ci: str) -> "subprocess.CompletedProcess[str]":
    (folder / "conftest.py").write_text(
        "from tests.support.skips import SkipList\n"
        "def pytest_configure(config):\n"
        "    if not hasattr(config, 'workerinput'):\n"
        "        config.pluginmanager.register(SkipList())\n"
    )
    (folder / "test_one.py").write_text(test)
    (folder / "test_two.py").write_text("def test_passes(): pass\n")
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(folder)]
    environment = {"PATH": "/usr/bin:/bin", "CI": ci}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "workers"])
@pytest.mark.parametrize("test", [BY_FIXTURE, BY_MARK, BY_MODULE], ids=["fixture", "mark", "module"])
def test_a_skip_that_is_not_listed_fails_a_run_of_ci(
    test: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(tmp_path, test, *options, ci="true")
    assert done.returncode == REFUSED, done.stdout
    assert "1  there is no such-program  [not on the list" in done.stdout


def test_elsewhere_it_is_counted_by_reason(tmp_path: Path) -> None:
    done = run(tmp_path, BY_FIXTURE, ci="")
    assert done.returncode == 0
    assert "    1  there is no such-program" in done.stdout


def test_a_listed_one_passes(tmp_path: Path) -> None:
    done = run(tmp_path, ALLOWED, ci="true")
    assert done.returncode == 0, done.stdout
    assert "    1  this kind has no 'snapshot'\n" in done.stdout

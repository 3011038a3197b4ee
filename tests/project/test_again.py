"""What fails once among the others and passes alone ends a run well, by name; everything else fails it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.skips import REFUSED

ROOT = Path(__file__).parents[2]
ONCE = """
from pathlib import Path

def test_chance():
    first = not Path("seen").exists()
    Path("seen").touch()
    assert not first

def test_good():
    pass
"""
ALWAYS = "def test_bad():\n    assert False\n"
SKIPPED = 'import pytest\n\ndef test_not_run():\n    pytest.skip("no reason of the list")\n'


def runs(folder: Path, *files: str) -> tuple[int, str]:
    """Exit code and output of `make test`'s last line, on tests of our own."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    (folder / "conftest.py").write_text(
        "from tests.support.skips import SkipList\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(SkipList())\n"
    )
    for number, text in enumerate(files):
        (folder / f"test_{number}.py").write_text(text)
    command = f"{sys.executable} -m pytest || {sys.executable} -m tests.support.again $?"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CI": "true"}
    ran = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout


def test_what_passes_alone_is_named(tmp_path: Path) -> None:
    code, said = runs(tmp_path, ONCE)
    assert code == 0
    assert said.endswith("a defect of the test or of what it tests:\n  test_0.py::test_chance\n")


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    code, said = runs(tmp_path, ONCE, ALWAYS)
    assert (code, "1 failed, 1 passed" in said) == (1, True)


def test_failures_in_many_files_are_no_chance(tmp_path: Path) -> None:
    code, said = runs(tmp_path, *[ONCE.replace("seen", f"seen{number}") for number in range(4)])
    assert (code, "once more" in said) == (1, False)


@pytest.mark.parametrize("beside", [(), (ONCE,)])
def test_a_skip_that_is_not_allowed_gets_no_second_run(beside: tuple[str, ...], tmp_path: Path) -> None:
    code, said = runs(tmp_path, SKIPPED, *beside)
    assert code == REFUSED and "once more" not in said

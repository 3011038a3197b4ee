"""What a user waits for before anything happens."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.rows import Arm, Row, at_most, interleave

_HEAVY = ("torch", "transformers", "fastapi", "uvicorn", "playwright", "miniwob", "numpy")
_RUNS = 10


def rows(_: int) -> Iterator[Row]:
    guiagent = Path(sys.executable).with_name("guiagent")
    ours = Arm(lambda: _seconds([str(guiagent), "--help"]))
    python = Arm(lambda: _seconds([sys.executable, "-c", "pass"]))
    interleave(_RUNS, ours, python)
    yield at_most("guiagent --help | python -c pass", "s", ours, 0.3, python)
    heavy = Arm(_heavy_modules)
    interleave(1, heavy)
    yield at_most("heavy modules that `import guiagent` loads", "modules", heavy, 0)


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _heavy_modules() -> float:
    script = f"import guiagent, sys; print(len(sys.modules.keys() & set({_HEAVY!r})))"
    return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout)

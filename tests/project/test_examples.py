"""The examples run as they stand and do what they say."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

DESKTOP_AND_PHONE = ("Xvfb", "openbox", "bwrap", "adb")
EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("drive_a_browser.py", "the page is now called clicked"),
        (
            "find_and_click.py",
            "0 I click on Forget me\n1 nothing is left to click\nthe run ended: agent_done",
        ),
        ("evaluate_a_policy.py", "Score(value=1.0"),
        ("every_device.py", "phone    720x1280  typed, and kept as phone.png"),
    ],
)
def test_example(script: str, says: str, tmp_path: Path) -> None:
    if script == "every_device.py" and (missing := [name for name in DESKTOP_AND_PHONE if not which(name)]):
        pytest.skip(f"no {', '.join(missing)}: scripts/farm installs them")
    environment = os.environ | {"GUIAGENT_HOME": str(tmp_path / "home")}
    command = [sys.executable, str(EXAMPLES / script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_every_example_is_run() -> None:
    run = {
        script for mark in test_example.pytestmark if mark.name == "parametrize" for script, _ in mark.args[1]
    }
    assert run == {path.name for path in EXAMPLES.glob("*.py")}

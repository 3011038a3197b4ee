"""The examples run as they stand and do what they say."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from tests.support.computer_models import WORD, computer_model

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
        ("train_an_agent.py", "trained 2 steps"),
    ],
)
def test_example(script: str, says: str, tmp_path: Path) -> None:
    if script == "every_device.py" and (missing := [name for name in DESKTOP_AND_PHONE if not which(name)]):
        pytest.skip(f"no {', '.join(missing)}: scripts/farm installs them")
    environment = os.environ | {"GUIAGENT_HOME": str(tmp_path / "home")}
    command = [sys.executable, str(EXAMPLES / script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


@pytest.mark.parametrize(
    ("script", "api", "turns"),
    [("openai_loop.py", "/v1/responses", 3), ("anthropic_loop.py", "/v1/messages", 5)],
)
def test_loop(script: str, api: str, turns: int, tmp_path: Path) -> None:
    """The API's own client, unmodified, at a server that looks at the screenshots it is sent."""
    with computer_model() as model:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{model.url}/v1"}
        keys |= {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": model.url}
        environment = os.environ | keys | {"GUIAGENT_HOME": str(tmp_path / "home")}
        command = [sys.executable, str(EXAMPLES / script)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment
        )
    assert done.returncode == 0, done.stderr
    assert f"the model said I see field\nthe page is now called {WORD}" in done.stdout
    assert [path for path, _, _ in model.requests] == [api] * turns


def test_every_example_is_run() -> None:
    run = {
        values[0]
        for test in (test_example, test_loop)
        for mark in test.pytestmark
        if mark.name == "parametrize"
        for values in mark.args[1]
    }
    assert run == {path.name for path in EXAMPLES.glob("*.py")}


def test_every_example_of_a_door_is_run_beside_its_packages() -> None:
    tests = "".join(path.read_text() for path in (Path(__file__).parents[1] / "doors").glob("test_*.py"))
    assert [path.name for path in (EXAMPLES / "doors").glob("*.py") if f'"{path.name}"' not in tests] == []

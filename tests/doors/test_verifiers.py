"""verifiers' own runner, unmodified: a page of a browser, and on the lab scores, limits, faults."""

import base64
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from guiagent.client.local_pool import private_pool
from tests.support.doors import ROOT, python_of
from tests.support.model_stand_in import Mind, stand_in

pytestmark = pytest.mark.doors
EXAMPLE = ROOT / "examples" / "doors" / "verifiers_suite.py"


def traces(folder: Path, mind: Mind, *words: str, token: str = "") -> list[dict[str, Any]]:
    """What `vf-eval` recorded of a run on the model that says what `mind` has it say."""
    with stand_in(mind) as server:
        command = [str(python_of("verifiers").with_name("vf-eval")), EXAMPLE.stem, "--model", "m"]
        command += ["--client.base-url", f"{server.url}/v1", "--client.api-key-var", "THE_KEY", "--no-push"]
        command += ["--output-dir", str(folder), "--env.agent.harness.id", EXAMPLE.stem]
        command += ["--env.agent.runtime.type", "subprocess", *words]
        there = {"PYTHONPATH": f"{ROOT}:{EXAMPLE.parent}", "THE_KEY": "k"}
        there |= {"GUIAGENT_TOKEN": token} if token else {}
        ran = subprocess.run(
            command, env={**os.environ, **there}, cwd=folder, capture_output=True, text=True, check=False
        )
    files = list(folder.rglob("traces.jsonl"))
    assert files, ran.stdout[-3000:] + ran.stderr[-3000:]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def grey_button(body: dict[str, Any]) -> str:
    """A click on the middle of the grey pixels of the screenshot."""
    url = body["messages"][-1]["content"][-1]["image_url"]["url"]
    picture = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("L")
    grey = [
        (x, y) for y in range(52, 205) for x in range(picture.width) if 230 < picture.getpixel((x, y)) < 250
    ]
    x, y = grey[len(grey) // 2]
    return json.dumps({"type": "click", "x": x, "y": y})


def on_the_lab(folder: Path, said: str, *words: str) -> dict[str, Any]:
    """The trace of a task of the lab on a model that always says the same."""
    with private_pool("lab=1@160x224") as pool:
        harness = ["--env.agent.harness.pool", pool.url, "--env.agent.harness.max-steps", "2"]
        tasks = ["--env.taskset.suite", "lab", "--select.include.names", '["reach-2"]']
        (episode,) = traces(folder, lambda body: said, *harness, *tasks, *words, token=pool.token)
    (trace,) = episode["traces"]
    return trace


@pytest.mark.browser
def test_its_command_plays_a_page(tmp_path: Path) -> None:
    suite = ["--env.taskset.suite", "miniwob-demo", "--select.include.names", '["click-test"]']
    (episode,) = traces(tmp_path, grey_button, *suite, "--env.agent.harness.devices", "1")
    (trace,) = episode["traces"]
    assert trace["rewards"]["check"]["score"] == 1.0 and trace["ok"]
    assert trace["info"]["guiagent"]["stop"] == "task_done"
    assert [node["message"]["role"] for node in trace["nodes"]] == ["system", "user", "assistant"]


def test_a_failed_task_is_a_reward_of_0(tmp_path: Path) -> None:
    trace = on_the_lab(tmp_path, '{"type": "wait", "ms": 0}')
    assert trace["rewards"]["check"]["score"] == 0.0 and trace["ok"]
    assert trace["info"]["guiagent"]["steps"] == 2


def test_a_limit_of_the_run_ends_an_episode_that_is_then_scored(tmp_path: Path) -> None:
    trace = on_the_lab(tmp_path, '{"type": "wait", "ms": 0}', "--env.agent.max-turns", "1")
    assert trace["rewards"]["check"]["score"] == 0.0 and not trace["errors"]
    assert trace["stop_condition"] == "max_turns"


def test_a_fault_is_an_error_and_no_reward(tmp_path: Path) -> None:
    nowhere = ["--env.agent.harness.pool", "http://127.0.0.1:9"]
    suite = ["--env.taskset.suite", "lab", "--select.include.names", '["reach-2"]']
    (episode,) = traces(tmp_path, lambda body: "never asked", *nowhere, *suite, token="t")
    (trace,) = episode["traces"]
    assert trace["errors"][0]["type"] == "HarnessError" and not trace["ok"]
    assert not trace["rewards"]

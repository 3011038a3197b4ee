"""inspect_ai's own runner, unmodified, on suites: the example on a browser, limits and faults on the lab."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.doors import ROOT, python_of, run_in
from tests.support.model_stand_in import stand_in

pytestmark = pytest.mark.doors

RUNS = """
import json, sys
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from eval.doors.inspect_ai import suite_task
from guiagent.client.local_pool import private_pool

def saying(text):
    def reply(messages, tools, choice, config):
        if text == "end":
            held.__exit__(None, None, None)
        output = ModelOutput.from_content("stand-in", '{"type": "wait", "ms": 0}' if text == "end" else text)
        output.usage = ModelUsage(input_tokens=7, total_tokens=7)
        return output
    return get_model("mockllm/model", custom_outputs=reply, memoize=False)

def ran(text, **settings):
    task = suite_task("lab", devices=1, pool=where, max_steps=3)
    (log,) = eval(task, model=saying(text), sample_id="reach-2/1000000000", display="none", **settings)
    (sample,) = log.samples
    told = sample.scores["check"] if sample.scores else None
    print(json.dumps([
        log.status, told and told.value, told and told.metadata["stop"], told and told.metadata["steps"],
        sample.limit and sample.limit.type, sample.error and sample.error.message, len(sample.messages),
    ]))

held = private_pool("lab=1@160x224")
import os
endpoint = held.__enter__()
os.environ["GUIAGENT_TOKEN"], where = endpoint.token, endpoint.url
ran('{"type": "done"}')
ran("I would rather not.")
ran('{"type": "wait", "ms": 0}')
ran('{"type": "wait", "ms": 0}', message_limit=4)
ran("end")
"""


@pytest.mark.browser
def test_the_example_solves_a_page(tmp_path: Path) -> None:
    said = run_in(
        "inspect", ROOT / "examples" / "doors" / "inspect_suite.py", INSPECT_LOG_DIR=str(tmp_path)
    ).splitlines()
    assert "click-test/1000000000: Click the button. 1.0 (task_done)" in said
    assert said[-1].startswith("success {'mean': ")
    assert len(list(tmp_path.glob("*.eval"))) == 1  # for `inspect view`


@pytest.mark.browser
def test_its_command_evaluates_a_model_behind_a_server(tmp_path: Path) -> None:
    with stand_in(lambda body: '{"type": "done"}') as server:
        served = {"HERE_BASE_URL": f"{server.url}/v1", "HERE_API_KEY": "k", "INSPECT_LOG_DIR": str(tmp_path)}
        inspect = python_of("inspect").with_name("inspect")
        command = [str(inspect), "eval", "examples/doors/inspect_suite.py"]
        command += ["--model", "openai-api/here/model", "--sample-id", "focus-text/*", "--display", "plain"]
        ran = subprocess.run(
            command,
            env={**os.environ, **served, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,  # it takes no absolute path
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert "mean" in ran.stdout and "0.000" in ran.stdout, ran.stdout
    (body,) = server.bodies
    assert body["messages"][1]["content"][1]["type"] == "image_url"


def test_replies_limits_and_faults_end_as_inspect_has_them(tmp_path: Path) -> None:
    script = tmp_path / "runs.py"
    script.write_text(RUNS)
    said = run_in("inspect", script, INSPECT_LOG_DIR=str(tmp_path)).splitlines()
    done, refused, waited, limited, faulted = (json.loads(line) for line in said)
    assert done == ["success", 0.0, "agent_done", 1, None, None, 3]
    assert refused == ["success", 0.0, "parse_error", 1, None, None, 3]
    assert waited == ["success", 0.0, "max_steps", 3, None, None, 7]
    assert limited[:2] == ["success", 0.0] and limited[4] == "message"
    assert faulted[:5] == ["error", None, None, None, None] and "farm" in faulted[5]

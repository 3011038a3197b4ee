"""`guiagent agent` for other agents and editors: A2A's and ACP's own clients, unmodified, hand tasks over."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.canvas_device import TOKEN as POOL_TOKEN
from tests.support.canvas_device import farm_of
from tests.support.doors import ROOT, TOKEN, serving
from tests.support.model_stand_in import Body, stand_in
from tests.support.pool_thread import pool_thread
from tests.support.pressed_page import BUTTON, MIDDLE, pressed_page

pytestmark = pytest.mark.doors

PRESS = {"type": "click", "x": BUTTON[0] + BUTTON[2] // 2, "y": BUTTON[1] + BUTTON[3] // 2}


def turn_of(body: Body) -> int:
    return sum(message["role"] == "assistant" for message in body["messages"])


def pressing(body: Body) -> str:
    """Presses the button of the page, and is done."""
    return json.dumps({"type": "done"} if turn_of(body) else PRESS)


def literal(body: Body) -> str:
    """Does what the last list in the task says, an action a turn, and is done."""
    first = next(message for message in body["messages"] if message["role"] == "user")
    parts = first["content"] if isinstance(first["content"], list) else [{"text": first["content"]}]
    words = "".join(part.get("text", "") for part in parts)
    actions = [*json.loads(re.findall(r"do: (\[.*\])", words)[-1]), {"type": "done"}]
    return json.dumps(actions[min(turn_of(body), len(actions) - 1)])


def run_here(script: Path, *words: str, **variables: str) -> str:
    """What a script prints; fails with its errors where it fails."""
    command = [sys.executable, str(script), *words]
    own = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, env=own, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


SCRIPT = """
import asyncio, json, os
import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_data_parts, new_data_message, new_text_message
from a2a.types import CancelTaskRequest, GetTaskRequest, Role, SendMessageRequest, TaskState
from a2a.utils.errors import A2AError

URL, POOL = os.environ["A2A_URL"], os.environ["POOL"]
TOKEN = {"Authorization": "Bearer " + os.environ["GUIAGENT_AGENT_TOKEN"]}
POOL_TOKEN = {"Authorization": "Bearer " + os.environ["POOL_TOKEN"]}
CLICK = '{"type": "click", "x": 40, "y": 30}'
STUCK = '{"type": "done", "status": "infeasible"}'

def asked(text, **ids):
    return SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER, **ids))

def name(state):
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower()

def last_words(status):
    return status.message.parts[0].text if status.message.parts else ""

async def handed(client, request):
    "States in order, the words of the last one, the result, and the task's id."
    states, words, result, task = [], "", None, ""
    async for event in client.send_message(request):
        if event.HasField("task"):
            states.append(name(event.task.status.state))
            task = event.task.id
            words = last_words(event.task.status)
            for artifact in event.task.artifacts:
                if artifact.name == "result":
                    (result,) = get_data_parts(artifact.parts)
        elif event.HasField("status_update"):
            state = name(event.status_update.status.state)
            states += [state] * (states[-1:] != [state])
            words = last_words(event.status_update.status)
        elif event.artifact_update.artifact.name == "result":
            (result,) = get_data_parts(event.artifact_update.artifact.parts)
    return states, words, result, task

async def main():
    async with httpx.AsyncClient(headers=TOKEN, timeout=60, trust_env=False) as http:
        await all_of(http)

async def all_of(http):
    async with httpx.AsyncClient(trust_env=False) as stranger:
        card = (await stranger.get(URL + "/.well-known/agent-card.json")).json()
        bindings = [one["protocolBinding"] for one in card["supportedInterfaces"]]
        print("card", card["name"], list(card["securitySchemes"]), bindings)
        print("no token", (await stranger.post(URL + "/", json={})).status_code)
    print("too long", (await http.post(URL + "/", content=b"x" * (1 << 21))).status_code)
    client = await create_client(URL, ClientConfig(httpx_client=http))
    polling = await create_client(URL, ClientConfig(httpx_client=http, streaming=False))

    states, words, result, task = await handed(client, asked(f"do: [{CLICK}]"))
    print("streamed", states, words, result["status"], result["stop"], int(result["steps"]))
    kept = await client.get_task(GetTaskRequest(id=task))
    print("kept", [artifact.name for artifact in kept.artifacts], name(kept.status.state))
    states, words, result, _ = await handed(polling, asked('do: [{"type": "answer", "text": "42"}]'))
    print("polled", states, words, result["answer"])

    async def clicks():
        logs = await http.get(POOL + "/v1/devices/sim-0/logs", headers=POOL_TOKEN)
        return logs.text.count("click x=40")

    states, task, cancelled = [], "", None
    async for event in client.send_message(asked(f"do: [{', '.join([CLICK] * 50)}]")):
        if event.HasField("status_update"):
            states.append(name(event.status_update.status.state))
        elif event.HasField("artifact_update") and cancelled is None:
            task = event.artifact_update.task_id
            cancelled = await client.cancel_task(CancelTaskRequest(id=task))
            done = await clicks()
    print("cancelled", name(cancelled.status.state), states[-1], done < 50)
    states, words, _, _ = await handed(client, asked("do: []"))  # at once, on the only device there is
    print("then", states, words, await clicks() - done)
    try:
        await client.cancel_task(CancelTaskRequest(id=task))
    except A2AError as error:
        print("again", type(error).__name__)

    states, words, result, task = await handed(client, asked(f"do: [{STUCK}]"))
    print("asks", states, result["status"])
    states, words, result, same = await handed(client, asked(f"do: [{CLICK}]", task_id=task))
    print("answered", states, words, same in ("", task))
    states, words, result, task = await handed(polling, asked(f"do: [{STUCK}]"))
    print("asks", states)
    print("cancelled", name((await client.cancel_task(CancelTaskRequest(id=task))).status.state))

    states, words, result, _ = await handed(client, asked(f"do: [{', '.join([CLICK] * 90)}]"))
    print("limit", states, words, result["stop"])
    states, words, result, _ = await handed(client, asked('do: [{"type": "explode"}]'))
    print("no action", states, words)
    data = SendMessageRequest(message=new_data_message({"a": 1}, role=Role.ROLE_USER))
    print("rejected", (await handed(client, data))[:2])
    parts = [{"kind": "text", "text": f"do: [{CLICK}]"}]
    message = {"kind": "message", "role": "user", "messageId": "m", "parts": parts}
    old = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    async with httpx.AsyncClient(headers=TOKEN, timeout=60, trust_env=False) as older:  # no version
        told = (await older.post(URL + "/", json=old)).json()["result"]
    print("0.3", told["kind"], told["status"]["state"])
    ended = asyncio.create_task(handed(client, asked(f"do: [{', '.join([CLICK] * 50)}]")))
    while not (leases := (await http.get(POOL + "/v1/leases", headers=POOL_TOKEN)).json()["leases"]):
        pass
    await http.delete(POOL + "/v1/leases/" + leases[0]["id"], headers=POOL_TOKEN)
    states, words, result, _ = await ended
    print("fault", states, result["status"], result["fault"]["origin"])

asyncio.run(main())
"""


def test_the_whole_client(tmp_path: Path) -> None:
    with (
        pool_thread(farm_of(1, tmp_path / "pool")) as pool,
        stand_in(literal) as model,
        serving(
            *("agent", "a2a", "--pool", pool.url, "--device", "sim", "--wait", "5", "--http", "0"),
            *("--policy", f"{model.url}/v1#m", "--dialect", "json", "--max-steps", "60", "--picture", "80"),
            GUIAGENT_TOKEN=POOL_TOKEN,
            GUIAGENT_AGENT_TOKEN=TOKEN,
        ) as url,
    ):
        (tmp_path / "client.py").write_text(SCRIPT)
        keys = {"A2A_URL": url, "GUIAGENT_AGENT_TOKEN": TOKEN, "POOL": pool.url, "POOL_TOKEN": POOL_TOKEN}
        said = run_here(tmp_path / "client.py", **keys)
    assert said.splitlines() == [
        "card guiagent ['token'] ['JSONRPC']",
        "no token 401",
        "too long 413",
        "streamed ['submitted', 'working', 'completed'] done, after 2 steps success agent_done 2",
        "kept ['screen', 'result'] completed",
        "polled ['completed'] 42 42",
        "cancelled canceled canceled True",
        "then ['submitted', 'working', 'completed'] done, after 1 steps 0",
        "again TaskNotCancelableError",
        "asks ['submitted', 'working', 'input_required'] asks",
        "answered ['working', 'completed'] done, after 2 steps True",
        "asks ['input_required']",
        "cancelled canceled",
        "limit ['submitted', 'working', 'failed'] stopped after 60 steps: max_steps max_steps",
        "no action ['submitted', 'working', 'failed'] stopped after 1 steps: parse_error",
        "rejected (['submitted', 'rejected'], 'a task is text: this agent reads no files and no data')",
        "0.3 task completed",
        "fault ['submitted', 'working', 'failed'] fault farm",
    ]


@pytest.mark.browser
def test_the_example_for_agents_presses_a_button(tmp_path: Path) -> None:
    with pressed_page() as page, stand_in(pressing) as model:
        site = page.removeprefix("http://").rstrip("/")
        words = ["browser=1@800x600", "--url", page, "--egress", site, "--http", "0"]
        words += ["--policy", f"{model.url}/v1#m", "--dialect", "json"]
        own = {"GUIAGENT_HOME": str(tmp_path), "GUIAGENT_AGENT_TOKEN": TOKEN}
        with serving("agent", "a2a", *words, **own) as url:
            script = ROOT / "examples" / "doors" / "a2a_client.py"
            said = run_here(script, "Press the button", A2A_URL=url, GUIAGENT_AGENT_TOKEN=TOKEN)
    assert said.splitlines() == [
        f"did click and sees (800, 600) {MIDDLE}",
        f"did done and sees (800, 600) {MIDDLE}",
        "result: success after 2 steps",
        "TASK_STATE_COMPLETED",
    ]


@pytest.mark.browser
def test_the_example_for_editors_presses_a_button(tmp_path: Path) -> None:
    with pressed_page() as page, stand_in(pressing) as model:
        site = page.removeprefix("http://").rstrip("/")
        command = [sys.executable, str(ROOT / "examples" / "doors" / "acp_client.py"), "Press the button"]
        command += ["--url", page, "--egress", site, "--dialect", "json"]
        own = os.environ | {"GUIAGENT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
        own |= {"GUIAGENT_POLICY": f"{model.url}/v1#m"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=own, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "completed: click x=140 y=70 button='left' count=1; it sees (800, 600)",
        "completed: done status='success'; it sees (800, 600)",
        "it says: done, after 2 steps",
        "end_turn success",
    ]

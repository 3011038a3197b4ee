"""The door to Harbor: task folders out, the sessions of their containers, and who may ask for a verdict."""

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ImageContent, TextContent

from eval.doors import rollouts as shared
from eval.doors.harbor import folders
from eval.doors.harbor.sessions import Sessions
from eval.doors.rollouts import Rollouts, Row
from eval.stepping import Stepped, SuiteTasks
from guiagent.cli import app
from guiagent.errors import FaultError, UsageError
from guiagent.seeds import REINFORCEMENT
from guiagent.types import Observation
from tests.support.doors import TOKEN, serving

VERDICTS = "another token, of verifiers"
SEED = REINFORCEMENT[0]
ROW = {"task": "reach-2", "seed": SEED}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    words = ("harbor", "lab", "--devices", "2", "--max-steps", "3", "--http", "0")
    with serving(*words, GUIAGENT_HARBOR_TOKEN=TOKEN, GUIAGENT_HARBOR_VERDICT_TOKEN=VERDICTS) as address:
        yield address


@pytest.fixture
def agent(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        yield client


@pytest.fixture
def verifier(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {VERDICTS}"}, timeout=60) as client:
        yield client


def begun(agent: httpx.Client, row: dict[str, Any]) -> dict[str, str]:
    answer = agent.post("/begin", json=row)
    assert answer.status_code == 200, answer.text
    session: dict[str, str] = answer.json()
    return session


class Container:
    """The files of a task's container in a folder, and its commands."""

    def __init__(self, root: Path, url: str, task: str) -> None:
        self.root, self.task = root, task
        self.program = root / "session.py"
        self.program.write_text(folders.files(SuiteTasks("lab"), task, SEED, 60)["environment/session.py"])
        self.variables = {
            "PATH": os.environ["PATH"],
            "GUIAGENT_HARBOR_URL": url,
            "GUIAGENT_HARBOR_TOKEN": TOKEN,
            "GUIAGENT_HARBOR_SESSION": str(root / "logs" / "session"),
        }

    def run(self, *words: str, said: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, self.program, *words],
            input=said,
            env=self.variables | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def verdict(self) -> "subprocess.CompletedProcess[str]":
        return self.run("reward", self.task, str(SEED), GUIAGENT_HARBOR_VERDICT_TOKEN=VERDICTS)


def test_a_trials_commands_lead_to_the_verdict_of_our_check(url: str, tmp_path: Path) -> None:
    inside = Container(tmp_path, url, "reach-3")
    assert inside.run("begin", "reach-3", str(SEED)).returncode == 0
    assert inside.run("begin", "reach-3", str(SEED)).returncode == 0  # it is there already
    shown = inside.run("look", "--picture", str(tmp_path / "screen.png"))
    assert " at x=" in shown.stdout and (tmp_path / "screen.png").read_bytes().startswith(b"\x89PNG")
    wrong = inside.run("click", "x=1")
    assert wrong.returncode == 1 and wrong.stderr == "guiagent-session: click: y: Missing required argument\n"
    assert "click x y" in inside.run("tools").stdout
    refused = inside.run("solve")
    assert refused.stderr == "guiagent-session: set GUIAGENT_HARBOR_VERDICT_TOKEN where Harbor runs\n"
    assert inside.run("solve", GUIAGENT_HARBOR_VERDICT_TOKEN=TOKEN).returncode == 1  # what an agent has
    assert inside.run("solve", GUIAGENT_HARBOR_VERDICT_TOKEN=VERDICTS).stdout == "The task has ended.\n"
    for _ in range(2):  # a verifier that is run again has the same
        assert json.loads(inside.verdict().stdout) == {"reward": 1.0}


def test_its_tools_are_an_mcp_server(url: str, tmp_path: Path) -> None:
    inside = Container(tmp_path, url, "reach-2")
    assert inside.run("begin", "reach-2", str(SEED)).returncode == 0
    calls = [
        ("initialize", {"protocolVersion": "2025-06-18"}),
        ("tools/list", {}),
        ("tools/call", {"name": "look"}),
        ("tools/call", {"name": "fly"}),
        ("resources/list", {}),
    ]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(calls)
    ]
    lines[1:1] = ['{"jsonrpc": "2.0", "method": "notifications/initialized"}', "no message", "[]"]
    answered = [json.loads(line) for line in inside.run("mcp", said="\n".join(lines)).stdout.splitlines()]
    first, no_message, no_object, listed, looked, flown, unknown = answered
    assert no_message == no_object and no_message["error"]["code"] == -32700
    assert first["result"]["protocolVersion"] == "2025-06-18"
    assert {"look", "click", "done"} <= {tool["name"] for tool in listed["result"]["tools"]}
    assert all(tool["inputSchema"]["type"] == "object" for tool in listed["result"]["tools"])
    text, picture = looked["result"]["content"]
    assert " at x=" in text["text"] and base64.b64decode(picture["data"]).startswith(b"\x89PNG")
    assert flown["result"]["isError"] and "there is no tool 'fly'" in flown["result"]["content"][0]["text"]
    assert unknown["error"]["code"] == -32601
    assert json.loads(inside.verdict().stdout) == {"reward": 0.0}


async def test_a_client_of_mcp_acts_by_its_tools(url: str, tmp_path: Path) -> None:
    inside = Container(tmp_path, url, "reach-4")
    assert inside.run("begin", "reach-4", str(SEED)).returncode == 0
    words = [str(inside.program), "mcp"]
    started = StdioServerParameters(command=sys.executable, args=words, env=inside.variables)
    async with Client(stdio_client(started)) as client:
        assert "click" in {tool.name for tool in (await client.list_tools()).tools}
        text, picture = (await client.call_tool("look", {})).content
        assert isinstance(text, TextContent) and " at x=" in text.text
        assert isinstance(picture, ImageContent) and picture.mime_type == "image/png"
        assert (await client.call_tool("click", {"x": -1, "y": 0})).is_error
        [said, _] = (await client.call_tool("done", {})).content
        assert isinstance(said, TextContent) and said.text == "The task has ended."
    assert json.loads(inside.verdict().stdout) == {"reward": 0.0}


def test_an_agent_has_one_try_and_no_verdict(agent: httpx.Client, verifier: httpx.Client) -> None:
    session = begun(agent, ROW)
    again = agent.post("/begin", json=ROW)
    assert again.status_code == 503 and "waits for its verdict" in again.text
    for path in ("/verdict", "/solve"):
        assert agent.post(path, json=session | ROW).status_code == 401
        assert agent.post(f"{path}/", json=session | ROW).status_code == 404
    for path in ("/begin", "/call"):
        assert verifier.post(path, json=session | ROW | {"tool": "look"}).status_code == 401
    other = begun(agent, ROW | {"task": "reach-3"})
    assert "no such session" in verifier.post("/verdict", json=other | ROW).text
    assert agent.post("/call", json=session | {"tool": "done"}).json()["text"] == "The task has ended."
    assert agent.post("/begin", json=ROW).status_code == 503  # not before the verdict
    assert verifier.post("/verdict", json=session | ROW).json() == {"reward": 0.0}
    claimed = verifier.post("/verdict", json=session | ROW | {"task": "reach-3"})
    assert claimed.status_code == 422 and "one of reach-2" in claimed.text
    third = begun(agent, ROW)
    assert "no such session" in verifier.post("/verdict", json={"session": "", **ROW}).text
    for session, row in ((third, ROW), (other, ROW | {"task": "reach-3"})):
        assert verifier.post("/verdict", json=session | row).status_code == 200


@pytest.mark.parametrize(
    ("path", "said", "told"),
    [
        ("/begin", {"task": "reach-2"}, "seed: Field required"),
        ("/begin", ROW | {"task": "reach-99"}, "reach-99"),
        ("/begin", ROW | {"task": "reach-2@graphs"}, "kept unseen"),
        ("/begin", ROW | {"seed": 3}, "3"),
        ("/call", {"session": "a guess", "tool": "look"}, "no such rollout"),
        ("/call", {"session": ["x"], "tool": "look"}, "session: Input should be a valid string"),
    ],
)
def test_what_is_no_request_is_one_line(agent: httpx.Client, path: str, said: Any, told: str) -> None:
    answer = agent.post(path, json=said)
    assert answer.status_code == 422 and told in answer.text and "\n" not in answer.text


def test_folders_have_no_token_and_no_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tasks"
    app(["harbor", "lab", "--out", str(out), "--episodes", "2", "--seconds", "60"], standalone_mode=False)
    names = SuiteTasks("lab").names
    assert len(list(out.iterdir())) == 2 * len(names)
    assert f"{2 * len(names)} task folders" in capsys.readouterr().out
    made = out / f"reach-2-{SEED}"
    config = tomllib.loads((made / "task.toml").read_text())
    assert config["metadata"]["guiagent"] == {"suite": "lab", **ROW}
    assert config["agent"]["timeout_sec"] == 60 and config["verifier"]["environment_mode"] == "separate"
    values = [*config["environment"]["env"].values(), *config["verifier"]["env"].values()]
    assert all(re.fullmatch(r"\$\{GUIAGENT_HARBOR_\w+\}", value) for value in values)
    assert os.access(made / "tests" / "test.sh", os.X_OK)
    with pytest.raises(UsageError, match="is there already"):
        app(["harbor", "lab", "--out", str(out)], standalone_mode=False)


def test_a_suite_without_tasks_to_learn_from_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--split evaluation"):
        folders.write(SuiteTasks("safety"), 1, 60, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_odd_names_stay_inside_their_strings() -> None:
    odd = 'a"]\nb = 1 \\ ü #'
    document = {"name": odd, "t": {"list": [odd], "of": [{"name": odd}], "in": {"x": True}}}
    assert tomllib.loads(folders.toml(document)) == document


def test_agents_and_verifiers_have_different_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GUIAGENT_HARBOR_TOKEN", "GUIAGENT_HARBOR_VERDICT_TOKEN"):
        monkeypatch.setenv(name, TOKEN)
    with pytest.raises(UsageError, match="the verifier needs another one"):
        app(["harbor", "lab", "--http", "0"], standalone_mode=False)


class Failing:
    """An episode whose device fails at its end."""

    async def reset(self, task: Any) -> tuple[str, Observation]:
        return "do it", Observation(10, 10)

    async def finish(self) -> Stepped:
        lost = {"origin": "device", "code": "lost", "message": "the device is gone"}
        return Stepped(Observation(10, 10), 0.0, False, True, {"fault": lost})

    async def close(self) -> None:
        pass


class Tasks:
    """Tasks whose only device fails."""

    def exactly(self, name: str, seed: int) -> None:
        pass

    def slot(self, client: Any, label: str) -> Any:
        return Failing()


async def test_a_fault_is_never_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "Episode", lambda slot, *_, **__: slot)
    own = Rollouts(Tasks(), None, 1, None, 60, door="test", at_once="n")  # type: ignore[arg-type]
    sessions, row = Sessions(own), Row(task="t", seed=0)
    name = await sessions.begin(row)
    for _ in range(2):
        with pytest.raises(FaultError, match="the device is gone"):
            await sessions.verdict(name, row)
    assert await sessions.begin(row) != name  # a trial after it has a device again

"""The wire of OpenEnv as its document has it, on lab devices: messages, refusals, sessions over HTTP."""

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from PIL import Image
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.support.doors import TOKEN, serving

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
WAIT = {"type": "wait", "ms": 0}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(
        *("openenv", "lab", "--devices", "2", "--max-steps", "3", "--http", "0"), GUIAGENT_OPENENV_TOKEN=TOKEN
    ) as address:
        yield address


def socket(url: str) -> ClientConnection:
    return connect(url.replace("http", "ws") + "/ws", additional_headers=HEADERS)


def said(socket: ClientConnection, message: Any) -> Any:
    socket.send(message if isinstance(message, str) else json.dumps(message))
    return json.loads(socket.recv(30))


def test_an_episode_shows_its_screen_and_ends_at_its_last_step(url: str) -> None:
    with socket(url) as one:
        began = said(one, {"type": "reset", "data": {"task": "reach-2", "seed": 5}})["data"]
        seen = began["observation"]
        with Image.open(io.BytesIO(base64.b64decode(seen["screen"]))) as picture:
            assert picture.size == (seen["width"], seen["height"]) == (160, 224)
        assert (began["reward"], began["done"], seen["task"], seen["seed"]) == (None, False, "reach-2", 5)
        steps = [said(one, {"type": "step", "data": {**WAIT, "metadata": {}}})["data"] for _ in range(3)]
        assert [(step["reward"], step["done"]) for step in steps] == [(0.0, False), (0.0, False), (0.0, True)]
        assert (
            steps[0]["observation"]["screen"] == seen["screen"]
        )  # nothing moved, and it is shown all the same
        state = said(one, {"type": "state"})["data"]
        assert (state["step_count"], state["done"]) == (3, True)
        assert "reset first" in said(one, {"type": "step", "data": WAIT})["data"]["message"]


def test_one_seed_is_one_task(url: str) -> None:
    with socket(url) as one:
        first, again, other = (
            said(one, {"type": "reset", "data": {"seed": seed}})["data"] for seed in (4, 4, 5)
        )
        for told in (first, again):
            told["observation"].pop("metadata")
    assert first == again and first["observation"]["task"] != other["observation"]["task"]


@pytest.mark.parametrize(
    ("message", "code", "told"),
    [
        ("{", "INVALID_JSON", "no JSON"),
        ("[" * 100_000, "INVALID_JSON", "no JSON"),
        ([], "UNKNOWN_TYPE", "reset, step, state or close"),
        ({"type": "mcp", "data": {}}, "UNKNOWN_TYPE", "reset, step, state or close"),
        ({"type": "reset", "data": {"seed": -1}}, "VALIDATION_ERROR", "seed"),
        ({"type": "reset", "data": {"seeds": 1}}, "VALIDATION_ERROR", "seeds"),
        ({"type": "reset", "data": {"task": "reach-99"}}, "EXECUTION_ERROR", "reach-99"),
        ({"type": "reset", "data": {"task": "reach-2@graphs"}}, "EXECUTION_ERROR", "kept unseen"),
        ({"type": "step", "data": {"type": "click", "x": 1}}, "VALIDATION_ERROR", "click.y"),
        ({"type": "step", "data": "click"}, "EXECUTION_ERROR", "an object"),
        ({"type": "step", "data": WAIT}, "EXECUTION_ERROR", "reset first"),
    ],
)
def test_what_is_no_message_is_refused_and_the_session_goes_on(
    url: str, message: Any, code: str, told: str
) -> None:
    with socket(url) as one:
        answer = said(one, message)
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert told in answer["data"]["message"] and "\n" not in answer["data"]["message"]
        assert said(one, {"type": "state"})["data"]["step_count"] == 0


def test_there_are_as_many_sessions_as_devices_and_a_closed_one_is_free_again(url: str) -> None:
    with socket(url) as one, socket(url) as two:
        for each in (one, two):
            assert said(each, {"type": "state"})["type"] == "state"
        with socket(url) as three:
            assert json.loads(three.recv(30))["data"]["code"] == "CAPACITY_REACHED"
        two.send('{"type": "close"}')
        with pytest.raises(Exception, match="1000"):
            two.recv(30)
        with socket(url) as three:
            assert said(three, {"type": "state"})["type"] == "state"


def test_over_http_an_episode_has_a_name(url: str) -> None:
    with httpx.Client(base_url=url, headers=HEADERS, timeout=60) as http:
        assert http.get("/health").json() == {"status": "healthy"}
        assert http.get("/metadata").json()["name"] == "guiagent-lab"
        schema = http.get("/schema").json()
        assert "click" in json.dumps(schema["action"]) and "screen" in schema["observation"]["properties"]
        began = http.post("/reset", json={"task": "reach-2", "seed": 1, "episode_id": "one"}).json()
        assert began["observation"]["metadata"] == {"episode_id": "one"}
        step = http.post("/step", json={"action": WAIT, "episode_id": "one"}).json()
        assert (step["reward"], step["done"]) == (0.0, False)
        assert http.get("/state", params={"episode_id": "one"}).json()["step_count"] == 1
        assert http.post("/step", json={"action": WAIT, "episode_id": "two"}).status_code == 422
        assert http.post("/step", json=[]).status_code == 422
        assert http.post("/step", content=b"{").status_code == 422
        assert http.post("/step", content=b" " * 2_000_000).status_code == 413
        assert http.post("/reset", json={"episode_id": "one", "seed": "x"}).status_code == 422
        again = http.post("/reset", json={"episode_id": "one"}).json()  # on the device that it has
        assert (
            not again["done"] and http.get("/state", params={"episode_id": "one"}).json()["step_count"] == 0
        )


def test_without_the_token_nothing_is_answered(url: str) -> None:
    assert httpx.get(url + "/health").status_code == 401
    with pytest.raises(InvalidStatus, match="403"):
        connect(url.replace("http", "ws") + "/ws")

"""Policies without a model of ours: scripts, and `ChatPolicy` with a real HTTP server that speaks the API."""

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from guiagent.actions import Click, Done, MouseDown, Wait
from guiagent.cli.common.policy import PolicySettings, open_policy
from guiagent.dialects import find_dialect
from guiagent.dialects.ui_tars import UiTars
from guiagent.episode import PastTurn
from guiagent.errors import FaultError, InfrastructureError, UsageError
from guiagent.patience import Patience
from guiagent.policies import (
    ChatPolicy,
    ChatServer,
    NullPolicy,
    OraclePolicy,
    RandomElementPolicy,
    RandomPolicy,
    ScriptedPolicy,
)
from guiagent.policies.controls import control_centres
from guiagent.types import Node, Observation, PolicyOutput

SHOWN = Observation(160, 224, "h", "image/png", b"\x89PNG pixels")
CLICK = "Thought: there it is.\nAction: click(start_box='(80,112)')"


async def test_the_null_policy_waits_and_never_finishes() -> None:
    policy = NullPolicy()
    for turns in range(3):
        step = await policy.act("e", "do", [PastTurn(SHOWN, PolicyOutput(""))] * turns, SHOWN)
        assert step == PolicyOutput("Action: wait()", [{"type": "wait", "ms": 100}])


async def test_the_random_policy_clicks_all_over_the_frame_and_repeats_itself() -> None:
    clicks = [(await RandomPolicy(1).act(f"{n}", "do", [], SHOWN)).actions[0] for n in range(400)]
    assert clicks == [(await RandomPolicy(1).act(f"{n}", "do", [], SHOWN)).actions[0] for n in range(400)]
    assert clicks != [(await RandomPolicy(2).act(f"{n}", "do", [], SHOWN)).actions[0] for n in range(400)]
    xs, ys = [c["x"] for c in clicks], [c["y"] for c in clicks]
    assert 0 <= min(xs) < 8
    assert 152 <= max(xs) < 160
    assert 0 <= min(ys) < 11
    assert 213 <= max(ys) < 224
    assert abs(sum(xs) / 400 - 80) < 10


def drawn(step: PolicyOutput) -> tuple[int, int]:
    return step.actions[0]["x"], step.actions[0]["y"]


async def test_the_random_element_is_drawn_from_what_the_task_says_can_be_touched() -> None:
    told = [{"type": "click", "x": x, "y": 60} for x in (10, 50, 90)]
    shown = Observation(160, 224, probes={"candidates": told}, tree=[Node("link", "x", (0, 0, 8, 8))])

    async def clicks(seed: int) -> list[tuple[int, int]]:
        policy = RandomElementPolicy(seed)
        return [drawn(await policy.act(f"{n}", "do", [], shown)) for n in range(300)]

    first = await clicks(1)
    assert first == await clicks(1) != await clicks(2)
    assert {spot: first.count(spot) // 60 for spot in set(first)} == {(10, 60): 1, (50, 60): 1, (90, 60): 1}
    nothing = Observation(160, 224, probes={"candidates": []})
    assert (await RandomElementPolicy().act("e", "do", [], nothing)).actions[0]["type"] == "wait"


async def test_without_a_word_of_the_task_it_is_a_control_of_the_tree() -> None:
    tree = [
        Node("paragraph", "Words", (0, 0, 160, 20)),
        Node("button", "OK", (20, 40, 40, 20)),
    ]
    for n in range(20):
        step = await RandomElementPolicy().act(f"{n}", "do", [], Observation(160, 224, tree=tree))
        assert drawn(step) == (40, 50)


@pytest.mark.parametrize(
    ("observation", "origin", "says"),
    [
        (SHOWN, "device", "the device's observations have no tree"),
        (Observation(160, 224, probes={"candidates": "boo"}), "task", "'candidates' is no list of actions"),
    ],
    ids=["no tree", "no list"],
)
async def test_no_element_to_choose_from_is_a_fault_that_says_so(
    observation: Observation, origin: str, says: str
) -> None:
    with pytest.raises(FaultError, match=says) as caught:
        await RandomElementPolicy().act("e", "do", [], observation)
    assert caught.value.fault.origin == origin


@pytest.mark.parametrize(
    ("node", "centre"),
    [
        (Node("button", box=(10, 20, 30, 40)), (25, 40)),
        (Node("menuitem", box=(10, 20, 1, 1), states=("focused",)), (10, 20)),
        (Node("generic", box=(0, 0, 10, 10), states=("clickable",)), (5, 5)),
        (Node("button", box=(0, 0, 10, 10), states=("disabled",)), None),
        (Node("generic", box=(0, 0, 10, 10), states=("scrollable",)), None),
        (Node("paragraph", "button", (0, 0, 10, 10)), None),
        (Node("button", box=(150, 0, 40, 10)), None),  # its middle is beside the screen
        (Node("button", box=(0, 0, 0, 0)), None),
        (Node("tab", "a tab of a browser"), None),
    ],
)
def test_controls_are_told_from_what_only_is_on_the_screen(
    node: Node, centre: tuple[int, int] | None
) -> None:
    found = control_centres(Observation(160, 224, tree=[node]))
    assert found == ([] if centre is None else [centre])


async def test_the_oracle_does_what_the_page_says() -> None:
    todo = [{"type": "click", "x": 80, "y": 112}, {"type": "click", "x": 1, "y": 1}]
    shown = Observation(160, 224, probes={"oracle": todo})
    step = await OraclePolicy(UiTars(32)).act("e", "do", [], shown)
    assert step.text == "Action: click(start_box='(80,112)')"
    assert UiTars(32).parse(step.text, (160, 224)) == [Click(x=80, y=112)]
    assert step.actions[0]["x"] == 80
    done = await OraclePolicy().act("e", "do", [], Observation(160, 224, probes={"oracle": []}))
    assert done == PolicyOutput("Action: finished()", [{"type": "done", "status": "success", "evidence": []}])


@pytest.mark.parametrize(
    "probes", [{}, {"oracle": None}, {"oracle": "x" * 500}, {"oracle": [{"type": "boo"}]}]
)
async def test_an_oracle_without_a_word_from_the_page_is_the_tasks_fault(probes: dict[str, Any]) -> None:
    with pytest.raises(FaultError) as caught:
        await OraclePolicy().act("e", "do", [], Observation(160, 224, probes=probes))
    assert caught.value.fault.origin == "task"
    assert len(str(caught.value)) < 300


async def test_a_script_is_played_and_then_done_even_past_the_dialects_words() -> None:
    policy = ScriptedPolicy([Wait(ms=1), MouseDown(x=1, y=2)])
    history: list[PastTurn] = []
    for _ in range(4):
        history.append(PastTurn(SHOWN, await policy.act("e", "do", history, SHOWN)))
    assert [turn.output.actions[0]["type"] for turn in history] == ["wait", "mouse_down", "done", "done"]
    assert json.loads(history[1].output.text)["type"] == "mouse_down"


Reply = tuple[int, Any]  # status and JSON body (or raw bytes)


@contextmanager
def model_server(
    answer: Callable[[int, dict[str, Any]], Reply],
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on a real socket; `answer(n, body)` is what request n gets. Yields its address and them."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append({**body, "_path": self.path, "_auth": self.headers["Authorization"]})
            status, reply = answer(len(requests) - 1, body)
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()


def completion(text: str | None, prompt: list[int] | None = None, sampled: list[int] | None = None) -> Reply:
    """A chat completion, with tokens as vLLM adds them."""
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text}}
    if sampled is not None:
        choice["token_ids"] = sampled
        choice["logprobs"] = {"content": [{"token": "t", "logprob": -token / 8} for token in sampled]}
    return 200, {"id": "x", "choices": [choice], "prompt_token_ids": prompt, "usage": {}}


_IMPATIENT = Patience(backoff_s=0.001)


def chat(
    url: str, patience: Patience = _IMPATIENT, api_key: str | None = None, **arguments: Any
) -> ChatPolicy:
    server = ChatServer(url, "tars", api_key, patience)
    return ChatPolicy(server, UiTars(32), **arguments)


async def converse(policy: ChatPolicy, turns: int) -> list[PolicyOutput]:
    history: list[PastTurn] = []
    for _ in range(turns):
        history.append(PastTurn(SHOWN, await policy.act("e", "do", history, SHOWN)))
    await policy.close()
    return [turn.output for turn in history]


async def test_a_server_is_asked_to_sample_as_a_local_model_would() -> None:
    for wanted, sent in (
        ({"temperature": 0.5}, {"temperature": 0.5, "max_tokens": 512}),
        (
            {"temperature": 1.0, "top_p": 0.9, "frequency_penalty": 0.2, "max_new_tokens": 64},
            {"temperature": 1.0, "top_p": 0.9, "frequency_penalty": 0.2, "max_tokens": 64},
        ),
    ):
        with model_server(lambda n, body: completion(CLICK)) as (url, requests):
            async with open_policy(f"{url}#tars", PolicySettings(**wanted)) as policy:
                await policy.act("e", "do", [], SHOWN)
            assert isinstance(policy, ChatPolicy) and policy._client.is_closed
        fields = ("temperature", "top_p", "frequency_penalty", "max_tokens")
        assert {name: requests[0][name] for name in fields if name in requests[0]} == sent


async def test_a_model_is_shown_the_screen_and_its_reply_is_parsed() -> None:
    with model_server(lambda n, body: completion(CLICK)) as (url, requests):
        (step,) = await converse(chat(f"{url}/v1/", api_key="k3y", sampling={"temperature": 0.25}), 1)
    assert step == PolicyOutput(CLICK, [Click(x=80, y=112).model_dump(mode="json")])
    (request,) = requests
    assert (request["_path"], request["_auth"]) == ("/v1/chat/completions", "Bearer k3y")
    assert (request["model"], request["temperature"], request["logprobs"]) == ("tars", 0.25, True)
    (message,) = request["messages"]
    assert message["content"][0] == {"type": "text", "text": find_dialect("ui-tars").prompt("do")}
    assert message["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,iVBORyBwaXhlbHM="},
    }


async def test_only_the_latest_images_are_sent() -> None:
    with model_server(lambda n, body: completion(CLICK)) as (url, requests):
        await converse(chat(url, max_images=2), 4)
    images = [str(request["messages"]).count("image_url': {") for request in requests]
    assert images == [1, 2, 2, 2]
    assert str(requests[3]["messages"]).count("there it is") == 3


async def test_the_tokens_are_kept_as_sampled_and_prompts_as_what_they_added() -> None:
    prompts = [[1, 2, 3], [1, 2, 3, 10, 11, 4, 5]]
    sampled = [[10, 11], [12]]
    with model_server(lambda n, body: completion(CLICK, prompts[n], sampled[n])) as (url, _):
        first, second = await converse(chat(url), 2)
    assert (first.prompt_ids, first.completion_ids, first.logprobs) == ([1, 2, 3], [10, 11], [-1.25, -1.375])
    assert (second.prompt_ids, second.completion_ids, second.logprobs) == ([4, 5], [12], [-1.5])


@pytest.mark.parametrize("rewritten", [[1, 2, 3, 10, 99, 4], [7], None])
async def test_a_rewritten_prompt_leaves_no_token_record_rather_than_a_wrong_one(
    rewritten: list[int] | None,
) -> None:
    prompts: Sequence[list[int] | None] = [[1, 2, 3], rewritten, [1, 2, 3, 10, 11]]
    with model_server(lambda n, body: completion(CLICK, prompts[n], [10, 11])) as (url, _):
        first, *later = await converse(chat(url), 3)
    assert first.completion_ids == [10, 11]
    for step in later:
        assert (step.prompt_ids, step.completion_ids, step.logprobs) == ([], [], [])
        assert step.actions


async def test_a_server_that_refuses_the_token_options_is_asked_without_them() -> None:
    def strict(n: int, body: dict[str, Any]) -> Reply:
        return (400, {"error": "unknown parameter"}) if "return_token_ids" in body else completion(CLICK)

    with model_server(strict) as (url, requests):
        await converse(chat(url), 2)
    assert ["return_token_ids" in request for request in requests] == [True, False, False]


async def test_a_bad_request_of_its_own_does_not_cost_the_token_options() -> None:
    replies = [(400, {"error": "too long"}), (400, {"error": "too long"}), completion(CLICK)]
    with model_server(lambda n, body: replies[n]) as (url, requests):
        policy = chat(url)
        with pytest.raises(FaultError, match="http_400"):
            await policy.act("e", "do", [], SHOWN)
        await converse(policy, 1)
    assert ["logprobs" in request for request in requests] == [True, False, True]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_server_is_tried_again(status: int) -> None:
    with model_server(lambda n, body: (status, b"busy") if n < 3 else completion(CLICK)) as (url, requests):
        (step,) = await converse(chat(url), 1)
    assert step.actions
    assert len(requests) == 4


async def test_a_server_that_stays_busy_is_a_policy_fault() -> None:
    busy = model_server(lambda n, body: (503, b"still\nbusy"))
    with busy as (url, requests), pytest.raises(FaultError) as caught:
        await converse(chat(url, Patience(backoff_s=0.001, attempts=3)), 1)
    assert len(requests) == 3
    fault = caught.value.fault
    assert (fault.origin, fault.code, fault.retryable) == ("policy", "http_503", True)
    assert "\n" not in str(caught.value)


async def test_no_server_and_a_silent_server_are_policy_faults() -> None:
    with model_server(lambda n, body: completion(CLICK)) as (url, _):
        pass
    with pytest.raises(FaultError, match="unreachable"):
        await converse(chat(url, Patience(backoff_s=0.001, attempts=2)), 1)

    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts and never answers
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(FaultError, match="deadline"):
            await converse(chat(silent_url, Patience(timeout_s=0.05, attempts=2, backoff_s=0.001)), 1)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_wrong_key_or_model_stops_at_once_with_the_way_out(status: int) -> None:
    refusing = model_server(lambda n, body: (status, {"error": "no such\nmodel"}))
    with refusing as (url, requests), pytest.raises(InfrastructureError, match="the key and") as caught:
        await converse(chat(url), 1)
    assert len(requests) == 1
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"\xff",
        [],
        {},
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": "x"}, "logprobs": {"content": [{}]}}]},
        {"choices": [{"message": {"content": "x"}, "token_ids": ["a"]}]},
    ],
)
async def test_an_answer_that_is_no_completion_is_a_policy_fault(body: Any) -> None:
    with model_server(lambda n, _: (200, body)) as (url, _), pytest.raises(FaultError) as caught:
        await converse(chat(url), 1)
    assert caught.value.fault.code == "bad_reply"


@pytest.mark.parametrize("text", [None, "", "I would rather not.", "Action: eval(code='1')"])
async def test_a_reply_outside_the_dialect_is_a_step_with_an_error(text: str | None) -> None:
    with model_server(lambda n, body: completion(text, [1], [2])) as (url, _):
        (step,) = await converse(chat(url), 1)
    assert step.error
    assert (step.text, step.actions, step.completion_ids) == (text or "", [], [2])


def test_an_address_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="http"):
        ChatPolicy(ChatServer("localhost:8000", "m"), UiTars())


async def test_the_end_of_an_episode_is_said_in_the_dialect() -> None:
    step = await ScriptedPolicy([]).act("e", "do", [], SHOWN)
    assert UiTars().parse(step.text, (160, 224)) == [Done()]

"""The recording proxy: OpenAI's own client on it, what is recorded of calls, and what is refused or cut."""

import base64
import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import openai
import pytest
import xxhash
from PIL import Image

from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from tests.support.model_stand_in import StandIn, closed_port, stand_in
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.proxy.chat import MAX_PICTURES
from training.proxy.server import Proxy, serving
from training.proxy.session import Session
from training.proxy.upstream import EngineUpstream, ServerUpstream

TOKEN = "a-token-of-the-proxy"


def png(seed: int, size: tuple[int, int] = (96, 64)) -> bytes:
    data = io.BytesIO()
    Image.frombytes("RGB", size, random.Random(seed).randbytes(size[0] * size[1] * 3)).save(data, "PNG")
    return data.getvalue()


def user(text: str, *pictures: bytes) -> dict[str, object]:
    urls = [f"data:image/png;base64,{base64.b64encode(data).decode()}" for data in pictures]
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"role": "user", "content": [*([{"type": "text", "text": text}] if text else []), *shown]}


def assistant(text: str | None) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def opened(upstream) -> Proxy:
    return Proxy(upstream, TOKEN, new=lambda name: Session(name, xxhash.xxh3_128_hexdigest))


@pytest.fixture(scope="module")
def policy(checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=5), seed=2)
    yield policy
    policy.close()


@pytest.fixture
async def ours(policy: LocalPolicy) -> AsyncIterator[tuple[Proxy, openai.AsyncOpenAI]]:
    """The proxy over an engine of ours, and OpenAI's client in its session "one"."""
    proxy = opened(EngineUpstream(policy.encoder, policy.engine))
    async with (
        serving(proxy) as url,
        openai.AsyncOpenAI(base_url=f"{url}/s/one/v1", api_key=TOKEN, max_retries=0) as client,
    ):
        yield proxy, client


async def test_a_conversation_is_recorded_as_the_very_tokens_of_one_context(policy, ours):
    proxy, client = ours
    encoder, frames = policy.encoder, [png(1), png(2)]
    asked = [user(encoder.dialect.prompt("Click."), frames[0])]
    first = await client.chat.completions.create(model="actor", messages=asked)
    asked += [assistant(first.choices[0].message.content), user("", frames[1])]
    second = await client.chat.completions.create(
        model="actor", messages=asked, logprobs=True, extra_body={"return_token_ids": True}
    )
    one, other = (step.policy.calls[0] for step in proxy.sessions["one"].steps)
    pictures = [encoder.picture(frame) for frame in frames]
    assert one.prompt_ids == encoder.first_prompt("Click.", pictures[0])  # as our own loop has it
    ended = one.completion_ids[-1] == encoder.eos
    assert other.prompt_ids == encoder.next_prompt(pictures[1], ended=ended)
    assert (one.role, one.fresh, other.fresh) == ("actor", True, False)
    assert encoder.decode(one.completion_ids) == first.choices[0].message.content
    assert second.choices[0].token_ids == other.completion_ids
    assert [token.logprob for token in second.choices[0].logprobs.content] == other.logprobs
    assert second.prompt_token_ids == one.prompt_ids + one.completion_ids + other.prompt_ids
    steps = proxy.sessions["one"].steps
    assert [step.frame for step in steps] == [xxhash.xxh3_128_hexdigest(frame) for frame in frames]
    (context,) = contexts(Trajectory("t", "a", 0, "", steps, "agent_done"))
    assert context.frames == [step.frame for step in steps]


async def test_calls_on_one_screen_are_a_turn_each_in_its_own_context(ours):
    proxy, client = ours
    screen = png(3)
    for model, words in (("planner", "Plan."), ("executor", "Do."), ("executor", "Do it.")):
        await client.chat.completions.create(model=model, messages=[user(words, screen)])
    await client.chat.completions.create(model="planner", messages=[user("Plan.", png(4))])
    turns = [[call.role for call in step.policy.calls] for step in proxy.sessions["one"].steps]
    assert turns == [["planner", "executor", "executor"], ["planner"]]
    assert all(call.fresh for step in proxy.sessions["one"].steps for call in step.policy.calls)


async def test_streams_and_models_for_openais_client(ours):
    proxy, client = ours
    assert [model.id async for model in client.models.list()] == ["policy"]
    stream = await client.chat.completions.create(
        model="m",
        messages=[{"role": "system", "content": "Be brief."}, user("Go.")],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    (step,) = proxy.sessions["one"].steps
    assert said == step.policy.text
    assert chunks[-1].usage.completion_tokens == len(step.policy.calls[0].completion_ids)
    assert chunks[-2].choices[0].finish_reason in ("stop", "length")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "no chat completion"),
        (b'{"model": "m", "messages": []}', "no chat completion"),
        ({"n": 2}, "n must be 1"),
        ({"tools": [{"type": "function"}]}, "knows no tools"),
        ({"messages": [user("", *[png(1, (8, 8))] * (MAX_PICTURES + 1))]}, "pictures at most"),
        ({"messages": [user("", b"no picture")]}, "cannot be read"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": "http://h/a.png"}]}
                ]
            },
            "addresses are not fetched",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input_audio"),
    ],
)
async def test_what_is_no_call_is_refused_in_a_line(ours, body, why):
    proxy, client = ours
    whole = body if isinstance(body, bytes) else json.dumps({"model": "m", "messages": [user("Go.")], **body})
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as plain:
        answer = await plain.post(f"{client.base_url}chat/completions", content=whole)
    assert answer.status_code == 400 and why in answer.json()["error"]["message"]
    assert proxy.sessions["one"].steps == []


async def test_nobody_without_the_key_is_answered(ours):
    proxy, client = ours
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="another").chat.completions.create(
            model="m", messages=[user("Go.")]
        )
    assert proxy.sessions == {}


def completion(**more: object) -> bytes:
    choice = {"message": {"role": "assistant", "content": "click"}, "finish_reason": "stop", **more}
    return json.dumps({"choices": [choice], "prompt_token_ids": [1, 2, 3]}).encode()


async def call(server: StandIn | str, timeout_s: float = 5.0, **more: object) -> tuple[Session, object]:
    url = server if isinstance(server, str) else server.url
    upstream = ServerUpstream(url, timeout_s=timeout_s)
    proxy = opened(upstream)
    async with (
        serving(proxy) as url,
        openai.AsyncOpenAI(base_url=f"{url}/s/one/v1", api_key=TOKEN, max_retries=0) as client,
    ):
        try:
            said = await client.chat.completions.create(model="m", messages=[user("Go.", png(1))], **more)
        except openai.APIStatusError as error:
            said = error
    await upstream.close()
    return proxy.sessions["one"], said


async def test_a_server_is_asked_for_its_tokens_and_they_are_recorded():
    with stand_in(lambda body: "") as server:
        server.reply = completion(token_ids=[7, 8], logprobs={"content": [{"logprob": -1}, {"logprob": -2}]})
        session, said = await call(server)
        (asked,) = server.bodies
    assert asked["return_token_ids"] is True and asked["logprobs"] is True and asked["stream"] is False
    (recorded,) = session.steps[0].policy.calls
    assert (recorded.prompt_ids, recorded.completion_ids, recorded.logprobs) == ([1, 2, 3], [7, 8], [-1, -2])
    assert said.choices[0].message.content == "click"


async def test_a_server_without_tokens_serves_and_teaches_nothing():
    with stand_in(lambda body: "done") as server:
        session, said = await call(server)
    assert said.choices[0].message.content == "done" == session.steps[0].policy.text
    assert contexts(Trajectory("t", "a", 0, "", session.steps, "agent_done")) == []


async def test_a_server_that_refuses_to_be_asked_for_tokens_is_asked_without_and_never_again():
    with stand_in(lambda body: "done", lambda k, body: "strict") as server:
        upstream = ServerUpstream(server.url)
        proxy = opened(upstream)
        async with (
            serving(proxy) as url,
            openai.AsyncOpenAI(base_url=f"{url}/s/one/v1", api_key=TOKEN, max_retries=0) as client,
        ):
            for words in ("Go.", "Go on."):
                said = await client.chat.completions.create(model="m", messages=[user(words)])
                assert said.choices[0].message.content == "done"
        await upstream.close()
        asked = [("return_token_ids" in body, "logprobs" in body, "n" in body) for body in server.bodies]
    assert asked == [(True, True, False), (False, False, False), (False, False, False)]
    calls = [call for step in proxy.sessions["one"].steps for call in step.policy.calls]
    assert [(call.error, call.completion_ids) for call in calls] == [(None, []), (None, [])]


@pytest.mark.parametrize(
    ("trouble", "status", "code"),
    [("cut", 502, "unreachable"), ("hang", 504, "deadline"), ("torn", 502, "bad_reply")],
)
async def test_an_upstream_that_fails_half_way_is_a_typed_error_and_a_cut_call(trouble, status, code):
    with stand_in(lambda body: "x", lambda k, body: trouble) as server:
        session, error = await call(server, timeout_s=0.3, stream=True)
    assert (error.status_code, error.code) == (status, code)
    assert session.fault.origin == "policy" and session.fault.code == code
    (recorded,) = session.steps[0].policy.calls
    assert recorded.error == session.fault.message and recorded.completion_ids == []


async def test_an_upstream_that_is_away_is_a_typed_error():
    session, error = await call(closed_port())
    assert (error.status_code, session.fault.code) == (502, "unreachable")


def test_the_command_commits_what_was_recorded(tmp_path):
    with stand_in(lambda body: "") as server:
        server.reply = completion(token_ids=[7, 8], logprobs={"content": [{"logprob": -1}, {"logprob": -2}]})
        run = tmp_path / "run"
        command = [sys.executable, "-m", "guiagent.cli", "proxy", "--run", str(run), "--upstream", server.url]
        environment = os.environ | {"GUIAGENT_PROXY_TOKEN": TOKEN}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                base = process.stdout.readline().split()[1]
                for name in ("scored", "left"):
                    url = base.replace("NAME", name)
                    with openai.OpenAI(base_url=url, api_key=TOKEN, max_retries=0) as client:
                        client.chat.completions.create(model="m", messages=[user("Go.", png(5))])
                keys = {"Authorization": f"Bearer {TOKEN}"}
                end = base.replace("NAME/v1", "scored/end")
                assert httpx.post(end, headers=keys, json={"score": 2}).status_code == 400
                assert httpx.post(end, headers=keys, json={"score": 1}).json()["steps"] == 1
                process.send_signal(signal.SIGINT)
                assert "recorded 2 sessions" in process.stdout.read()
            finally:
                process.kill()
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        scored, left = store
        assert store.frame(scored.steps[0].frame) == png(5)
    assert scored.success and scored.steps[0].policy.calls[0].completion_ids == [7, 8]
    assert left.score is None and not left.valid


def test_what_answers_has_to_be_named(tmp_path):
    command = [sys.executable, "-m", "guiagent.cli", "proxy", "--run", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "--policy tiny" in done.stderr

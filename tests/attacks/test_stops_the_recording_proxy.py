"""An agent, or the server behind the proxy, wants sessions lost, or the proxy to wait or grow for ever."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from guiagent.errors import FaultError, UsageError
from tests.support.model_stand_in import stand_in
from tests.training.test_proxy import TOKEN, call, completion, opened, png, user
from training.proxy import server
from training.proxy import session as sessions
from training.proxy.chat import Message, Reply, parse
from training.proxy.server import Proxy, serving
from training.proxy.session import Session
from training.proxy.upstream import ServerUpstream


@contextlib.asynccontextmanager
async def client_of(proxy: Proxy) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with serving(proxy) as url, httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
        yield http


def proxied(upstream: ServerUpstream) -> tuple[Proxy, list[Session]]:
    """A proxy, and the sessions whose ends were recorded."""
    proxy, ended = opened(upstream), list[Session]()
    proxy.ended = lambda session, score: ended.append(session)
    return proxy, ended


async def test_two_ends_of_a_session_are_one_and_leave_the_next_of_its_name() -> None:
    upstream = ServerUpstream("http://127.0.0.1:1")
    proxy, ended = proxied(upstream)
    async with client_of(proxy) as http:
        await http.get("/s/one/v1/models")
        first = proxy.sessions["one"]
        async with first.calling:  # a call is under way, and two requests wait behind it
            ends = [asyncio.create_task(http.post("/s/one/end")) for _ in range(2)]
            while len(first.calling._waiters or ()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert sorted([(await end).status_code for end in ends]) == [200, 400]
        await http.get("/s/one/v1/models")
        assert ended == [first] and proxy.sessions["one"] is not first
    await upstream.close()


async def test_large_requests_without_end_are_refused_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "UNDER_WAY", 100_000)
    with stand_in(lambda body: "done", lambda k, body: "hang" if k < 2 else None) as model:
        upstream = ServerUpstream(model.url)
        proxy, _ = proxied(upstream)
        async with client_of(proxy) as http:
            asked = {"model": "m", "messages": [{"role": "user", "content": "a" * 45_000}]}

            async def call(name: str) -> httpx.Response:
                return await http.post(f"/s/{name}/v1/chat/completions", json=asked)

            held = [asyncio.create_task(call(name)) for name in ("one", "two")]
            while len(model.requests) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            refused = await call("three")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json()["error"]["code"] == "busy" and "send fewer" in refused.text
            assert (await http.get("/s/three/v1/models")).status_code == 200  # what is small goes on
            model.let_go.set()
            assert [(await one).status_code for one in held] == [200, 200]
            assert (await call("three")).status_code == 200
        await upstream.close()
    assert proxy._under_way == 0


async def test_a_request_that_breaks_off_leaves_its_room() -> None:
    upstream = ServerUpstream("http://127.0.0.1:1")
    proxy, _ = proxied(upstream)
    async with serving(proxy) as url:
        port = int(url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /s/one/v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n"
        writer.write(head.encode() + b"Content-Length: 90000\r\n\r\n" + b"a" * 50_000)
        while not proxy._under_way:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        writer.close()
        async with asyncio.timeout(10):
            while proxy._under_way:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    await upstream.close()


async def test_a_server_that_answers_a_byte_at_a_time_is_cut_off_by_the_deadline() -> None:
    over = threading.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        with contextlib.suppress(OSError):
            while not over.is_set():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        upstream = ServerUpstream(f"http://127.0.0.1:{port}", timeout_s=0.3)
        body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "Go."}]})
        try:
            async with asyncio.timeout(10):
                with pytest.raises(FaultError, match="in time"):
                    await upstream.complete("one", parse(body), [], body, {})
        finally:
            over.set()
            await upstream.close()


@pytest.mark.parametrize(
    "odd",
    [
        {"token_ids": [2**70], "logprobs": {"content": [{"logprob": -1}]}},
        {"token_ids": [-1], "logprobs": {"content": [{"logprob": -1}]}},
        {"token_ids": [7], "logprobs": {"content": [{"logprob": 3}]}},
        {"token_ids": [7], "logprobs": {"content": [{"logprob": 10**400}]}},
    ],
)
async def test_tokens_that_no_store_could_keep_are_a_bad_reply(odd: dict[str, object]) -> None:
    with stand_in(lambda body: "") as server:
        server.reply = completion(**odd)
        session, error = await call(server)
    assert getattr(error, "code", None) == "bad_reply"
    msgspec.msgpack.encode(session.steps)


async def test_a_picture_that_breaks_off_is_refused(checkpoint: Path) -> None:
    from training.engine.policy import LocalPolicy
    from training.engine.sampling import Sampling
    from training.inputs.encoder import Encoder
    from training.proxy.upstream import EngineUpstream

    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=2), seed=2)
    try:
        proxy = opened(EngineUpstream(policy.encoder, policy.engine))
        async with client_of(proxy) as http:
            asked = {"model": "m", "messages": [user("Go.", png(1)[:300])]}
            answer = await http.post("/s/one/v1/chat/completions", json=asked)
    finally:
        policy.close()
    assert answer.status_code == 400 and "cannot be read" in answer.json()["error"]["message"]


@pytest.mark.parametrize("bound", ["_MOST_CALLS", "_MOST_TOKENS", "_MOST_BYTES"])
def test_a_session_without_end_is_ended(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(sessions, bound, 3)
    session = Session("one", lambda data: "hash")
    picture = sessions.Picture(b"four", (2, 2))
    message = Message("user", [picture])
    turns = 0
    while not session.exhausted([message]):
        turns += 1
        session.record("m", [message], Reply({"content": "a"}, "stop", [1, 2], [3], [-1.0]))
    assert 0 < turns <= 3


def test_actions_without_end_are_refused() -> None:
    session = Session("one", lambda data: "hash")
    session.record("m", [], Reply({"content": "a"}, "stop", [1], [2], [-1.0]))
    many = [{"type": "wait"}] * 1000
    with pytest.raises(UsageError, match="actions"):
        for _ in range(100):
            session.acting(len(many))
            session.acted(many, None, 1.0)

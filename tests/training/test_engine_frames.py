"""Screenshots by name: what goes to a host once, what goes again, and what a host believes."""

import random
from typing import Any

import msgspec
import pytest

from training.engine.frames import FrameCache, Missing, ask_with_frames, name_of
from training.engine.vllm.frames import MISSING, PATH, Asked, Frames, _shown

FRAMES = [bytes([i]) * 1000 for i in range(16)]
NAMES = [name_of(frame) for frame in FRAMES]


class Host:
    """Counts the bytes that come."""

    def __init__(self, max_bytes: int = 10**6) -> None:
        self.cache = FrameCache(max_bytes)
        self.came: list[int] = []
        self.harm = False

    async def turn(self, frames: list[bytes]) -> list[bytes] | Missing:
        names = [name_of(frame) for frame in frames]

        async def ask(sending: set[str]) -> list[bytes] | Missing:
            sent = {name: frame for name, frame in zip(names, frames, strict=True) if name in sending}
            if self.harm:
                sent = {name: frame[:-1] for name, frame in sent.items()}
            self.came.append(sum(map(len, sent.values())))
            found = self.cache.take(names, sent)
            return found if isinstance(found, Missing) else [found[name] for name in names]

        return await ask_with_frames(names, ask)


async def test_a_turn_sends_one_frame_whatever_its_context():
    """Before, fifteen turns sent 1 + 2 + ... + 15 frames."""
    host = Host()
    for turn in range(1, 16):
        assert await host.turn(FRAMES[:turn]) == FRAMES[:turn]
    assert host.came == [1000] * 15


async def test_a_screen_that_did_not_change_is_not_sent_again():
    host = Host()
    await host.turn(FRAMES[:2])
    host.came.clear()
    assert await host.turn([*FRAMES[:2], FRAMES[0]]) == [*FRAMES[:2], FRAMES[0]]
    assert host.came == [0]


async def test_a_host_that_was_started_anew_is_sent_all_in_a_second_message():
    host = Host()
    await host.turn(FRAMES[:8])
    host.cache = FrameCache(10**6)
    host.came.clear()
    assert await host.turn(FRAMES[:9]) == FRAMES[:9]
    assert host.came == [1000, 9000]
    assert await host.turn(FRAMES[:10]) == FRAMES[:10]
    assert host.came == [1000, 9000, 1000]


async def test_what_is_used_least_is_evicted_and_sent_again():
    host = Host(max_bytes=3000)
    for frame in FRAMES[:3]:
        await host.turn([frame])
    await host.turn([FRAMES[0]])
    await host.turn([FRAMES[3]])
    assert list(host.cache._frames) == [NAMES[2], NAMES[0], NAMES[3]]
    host.came.clear()
    assert await host.turn([FRAMES[1], FRAMES[0], FRAMES[4]]) == [FRAMES[1], FRAMES[0], FRAMES[4]]
    assert host.came == [1000, 2000]
    assert host.cache._bytes == sum(map(len, host.cache._frames.values())) <= 3000


async def test_a_context_that_is_larger_than_the_cache_is_shown_all_the_same():
    host = Host(max_bytes=2500)
    for turn in range(1, 9):
        assert await host.turn(FRAMES[:turn]) == FRAMES[:turn]
        assert host.cache._bytes <= 2500


async def test_what_is_not_what_its_name_says_is_neither_shown_nor_kept():
    host = Host()
    for turn in (1, 2):
        await host.turn(FRAMES[:turn])
    host.harm = True
    assert await host.turn(FRAMES[:3]) == Missing([NAMES[2]])
    assert host.came == [1000, 1000, 999, 999, 3 * 999]
    host.harm = False
    assert await host.turn(FRAMES[:3]) == FRAMES[:3]


async def test_a_host_cannot_ask_for_what_is_not_of_the_context():
    asked: list[set[str]] = []

    async def ask(sending: set[str]) -> int | Missing:
        asked.append(sending)
        return Missing(["", "../..", *NAMES])

    assert isinstance(await ask_with_frames(NAMES[:2], ask), Missing)
    assert asked == [{NAMES[1]}, set(NAMES[:2]), set(NAMES[:2])]


async def test_any_order_of_contexts_is_shown_as_it_is():
    rng = random.Random(7)
    host = Host(max_bytes=5000)
    for _ in range(300):
        context = rng.choices(FRAMES, k=rng.randrange(5))
        assert await host.turn(context) == context
        assert host.cache._bytes == sum(map(len, host.cache._frames.values())) <= 5000


# -- at vLLM's door -----------------------------------------------------------------------------------------


class Door:
    """The middleware, and what is behind it."""

    def __init__(self) -> None:
        self.door = Frames(self.app)
        self.passed: list[Any] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        then = await receive()
        self.passed.append((dict(scope["headers"]), message, _shown.get(None), then["type"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def post(self, *chunks: bytes, path: str = PATH, cut: bool = False) -> tuple[int, bytes]:
        said: list[Any] = []
        come = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
        come += [] if cut else [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            return come.pop(0) if come else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            said.append(message)

        headers = [(b"content-length", str(sum(map(len, chunks))).encode()), (b"content-type", b"x")]
        await self.door({"type": "http", "path": path, "headers": headers}, receive, send)
        return said[0]["status"], said[1]["body"]


def asked(names: list[str], sent: dict[str, bytes]) -> bytes:
    return msgspec.json.encode(Asked(msgspec.Raw(b'{"model": "policy"}'), names, sent))


async def test_a_request_passes_with_its_screenshots_and_one_that_lacks_some_does_not():
    door = Door()
    status, body = await door.post(asked(NAMES[:2], {NAMES[1]: FRAMES[1]}))
    assert (status, msgspec.json.decode(body)) == (MISSING, {"names": [NAMES[0]]})
    raw = asked(NAMES[:2], {NAMES[0]: FRAMES[0]})
    assert (await door.post(raw[:10], raw[10:]))[0] == 200
    ((headers, message, shown, then),) = door.passed
    assert message == {"type": "http.request", "body": b'{"model": "policy"}', "more_body": False}
    assert headers == {b"content-length": b"19", b"content-type": b"x"}
    assert shown == {NAMES[0]: FRAMES[0], NAMES[1]: FRAMES[1]}
    assert then == "http.disconnect"  # vLLM hears of a client that is gone, and gives its request up


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"\xff",
        b"[" * 10_000,
        asked([], {})[:-1],
        b'{"request": {}, "names": [1], "sent": {}}',
        b'{"request": {}, "names": [], "sent": {"a": 1}}',
        b'{"request": {}, "names": [], "sent": {"a": "not base64!"}}',
    ],
)
async def test_what_is_no_request_does_not_come_in(raw):
    door = Door()
    assert (await door.post(raw))[0] == 400
    assert not door.passed


async def test_a_request_without_end_or_cut_short_does_not_come_in(monkeypatch):
    monkeypatch.setattr("training.engine.vllm.frames._MAX_BODY_BYTES", 1000)
    door = Door()
    assert (await door.post(b" " * 600, b" " * 600))[0] == 413
    assert (await door.post(asked([], {}), cut=True))[0] == 413
    assert not door.passed


async def test_what_is_not_for_the_engine_passes_as_it_is():
    door = Door()
    assert (await door.post(b"anything", path="/pause"))[0] == 200
    assert door.passed[0][1]["body"] == b"anything"

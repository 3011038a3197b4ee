"""What a guest under someone else's control answers is a result or a typed fault, never another exception."""

import contextlib
from asyncio import StreamReader, StreamWriter, start_server, start_unix_server
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest

from devices.drivers.desktop.guest import Guest as DesktopGuest
from devices.drivers.remote.osworld import OSWorldDevice
from devices.drivers.vm.guest import Guest as VmGuest
from guiagent.errors import FaultError
from guiagent.types import CommandResult, Node, ObserveSpec

Client = TypeVar("Client", DesktopGuest, VmGuest, OSWorldDevice)
WELL = b'{"status": "success", "returncode": 3, "output": "out", "error": "err", "more": [1]}'
DEEP = b"[" * 100_000
EXECUTED = [
    b"",
    b"no JSON",
    b"null",
    b"[]",
    b"{}",
    b'{"returncode": "zero", "output": "", "error": ""}',
    b'{"returncode": null, "output": "", "error": ""}',
    b'{"returncode": 1e999, "output": "", "error": ""}',
    b'{"returncode": 1' + b"0" * 6000 + b', "output": "", "error": ""}',
    b'{"returncode": 99999999999999999999, "output": "", "error": ""}',
    b'{"returncode": 0, "output": "\\ud83d", "error": ""}',
    b'{"returncode": 0, "output": "\xff", "error": ""}',
    b'{"returncode": 0, "output": ["a"], "error": ""}',
    b'{"returncode": 0, "output": ' + DEEP,
]
TREES = [b"", b"7", b"{}", b'{"nodes": 7}', b'{"nodes": ["a"]}', b'{"nodes": ' + DEEP]
TREES += [b'{"nodes": [%s]}' % node for node in (b"{}", b'{"role": "a", "box": [0, 0, 9e99, 1]}')]


class Answers(dict[str, bytes]):
    """An HTTP server whose answer to a path is what stands here."""

    async def __call__(self, reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().partition("?")[0]
            body = self[path]
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def closing(client: Client) -> AsyncIterator[Client]:
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def answers() -> Answers:
    return Answers({"/platform": b"Linux", "/screen_size": b'{"width": 800, "height": 600}'})


@pytest.fixture
async def socket(answers: Answers, tmp_path: Path) -> AsyncIterator[Path]:
    async with await start_unix_server(answers, tmp_path / "guest"):
        yield tmp_path / "guest"


@pytest.fixture
async def url(answers: Answers) -> AsyncIterator[str]:
    async with await start_server(answers, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("said", [WELL, *EXECUTED], ids=lambda said: said[:40])
async def test_the_answer_to_a_command(said: bytes, answers: Answers, socket: Path, url: str) -> None:
    answers["/execute"] = said
    async with (
        closing(await DesktopGuest.connect(socket)) as desktop,
        closing(VmGuest(socket)) as vm,
        closing(await OSWorldDevice.start(url, "desktop")) as osworld,
    ):
        for answer in (desktop.exec(["true"], 1.0), vm.run(["true"]), osworld.exec(["true"], 1.0)):
            if said == WELL:
                assert await answer == CommandResult(3, "out", "err")
                continue
            with pytest.raises(FaultError) as raised:
                await answer
            assert raised.value.fault.origin == "device"


@pytest.mark.parametrize("said", TREES, ids=lambda said: said[:40])
async def test_the_answer_with_a_tree(said: bytes, answers: Answers, socket: Path, url: str) -> None:
    answers["/guiagent/tree"] = answers["/accessibility"] = said
    answers["/screenshot"] = b""
    async with (
        closing(await DesktopGuest.connect(socket)) as desktop,
        closing(VmGuest(socket)) as vm,
        closing(await OSWorldDevice.start(url, "desktop")) as osworld,
    ):
        for answer in (desktop.tree(), vm.tree(), osworld.observe(ObserveSpec(frame="none", tree=True))):
            with pytest.raises(FaultError) as raised:
                await answer
            assert raised.value.fault.origin == "device"


async def test_a_desktops_tree_has_a_bound(answers: Answers, socket: Path) -> None:
    answers["/guiagent/tree"] = b'{"nodes": [' + b'{"role": "icon"},' * 5000 + b'{"role": "last"}]}'
    async with closing(await DesktopGuest.connect(socket)) as desktop:
        assert await desktop.tree() == [Node("image")] * 2000


@pytest.mark.parametrize("said", [*TREES, b'{"width": 1e999, "height": 1}', b'{"width": -1, "height": 1}'])
async def test_a_screen_without_a_size_is_no_device(said: bytes, answers: Answers, url: str) -> None:
    answers["/screen_size"] = said
    with pytest.raises(FaultError, match="does not answer as an OSWorld server does"):
        await OSWorldDevice.start(url, "desktop")

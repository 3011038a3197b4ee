"""The requests that a leased browser's pages send, heard at its DevTools port while an agent acts.

A browser offers the port where its config says `cdp = true`. What pages send is a stranger's: it is decoded
into typed structs, and bounded.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from guiagent.errors import DECODE_ERRORS, Fault, FaultError
from guiagent.protocols import Device, Services

_MOST = 20_000  # requests of one episode
_LARGEST = 32 << 20  # bytes of one message
_LONGEST_POST = 1 << 20  # bytes of the data of one request
_ANSWER_S = 10.0
_PENDING_S = 3.0  # for answers that are on their way when the agent ends


class Request(msgspec.Struct):
    """A request and what became of it; every hop of a redirection is one of its own.

    `status` is -1 if no answer came. `navigates` is true for the document of a tab.
    """

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    data: str = ""  # what it posts
    status: int = -1
    navigates: bool = False


class _Sent(msgspec.Struct):
    url: str
    method: str
    headers: dict[str, str] = {}
    postData: str = ""


class _Response(msgspec.Struct):
    status: int


class _Target(msgspec.Struct):
    targetId: str


class _Event(msgspec.Struct):
    """The parts of an event's parameters that are read; which there are depends on the event."""

    requestId: str = ""
    frameId: str = ""
    type: str = ""
    request: _Sent | None = None
    response: _Response | None = None
    redirectResponse: _Response | None = None
    sessionId: str = ""
    targetInfo: _Target | None = None


class _Message(msgspec.Struct):
    id: int = 0  # of the command that it answers
    method: str = ""
    sessionId: str = ""
    params: _Event = msgspec.field(default_factory=_Event)


class Recorder:
    """Hears the requests of all tabs from `start` until `close`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri

        self.heard: list[Request] = []
        self._reader, self._writer = reader, writer
        self._wire = ClientProtocol(parse_uri(f"ws://127.0.0.1{path}"), max_size=_LARGEST)
        self._open: dict[tuple[str, str], Request] = {}
        self._frames: dict[str, str] = {}  # by session, the main frame of its tab
        self._number = 0
        self._asked: set[int] = set()  # commands without an answer so far
        self._quiet = asyncio.Event()  # set while neither commands nor requests wait for an answer
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, device: Device) -> "Recorder":
        """Begin to hear. Raises FaultError if the device has no such port, or it does not answer."""
        if "cdp" not in (await device.describe()).features or not isinstance(device, Services):
            message = "it reads requests: this takes a DevTools port, --device browser@1280x720,cdp"
            raise FaultError(Fault("task", "unsuitable_device", message))
        try:
            async with asyncio.timeout(_ANSWER_S):
                path = await _browser_path(*await device.connect("cdp"))
                recorder = cls(*await device.connect("cdp"), path)
                messages = recorder._messages()
                await anext(messages)  # the handshake
                recorder._task = asyncio.create_task(recorder._hear(messages))
                await recorder._quiet.wait()  # until all open tabs tell their requests
        except (OSError, TimeoutError, ValueError, *DECODE_ERRORS) as error:
            raise _ended(f"the DevTools port does not answer: {error or type(error).__name__}") from error
        return recorder

    async def requests(self) -> list[Request]:
        """All requests so far, in order, once those under way are answered. Raises FaultError if it ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PENDING_S):
                self._ask("", "Target.getTargets", {})  # what was sent before comes before its answer
                await self._quiet.wait()
        self._require_hearing()
        return list(self.heard)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()

    def _require_hearing(self) -> None:
        if self._task is None or self._task.done():
            raise _ended("the browser's requests were not heard to the end")

    async def _messages(self) -> AsyncIterator[bytes]:
        """An empty message for the handshake, then those that come. Raises ValueError for a bad handshake."""
        from websockets.frames import Frame, Opcode
        from websockets.http11 import Response

        self._wire.send_request(self._wire.connect())
        whole = b""
        while True:
            for data in self._wire.data_to_send():
                self._writer.write(data)
            got = await self._reader.read(64 << 10)
            if not got:
                return
            self._wire.receive_data(got)
            if self._wire.handshake_exc is not None:
                raise ValueError(str(self._wire.handshake_exc))
            for event in self._wire.events_received():
                if isinstance(event, Response):
                    yield b""
                    self._ask("", "Target.setAutoAttach", _ATTACH)
                elif isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.CONT):
                    whole += bytes(event.data)
                    if event.fin:
                        yield whole
                        whole = b""

    async def _hear(self, messages: AsyncIterator[bytes]) -> None:
        async for message in messages:
            if len(self.heard) > _MOST:
                return
            with contextlib.suppress(msgspec.ValidationError):  # of an event that is not read
                self._take(msgspec.json.decode(message, type=_Message))
            (self._quiet.clear if self._open or self._asked else self._quiet.set)()

    def _take(self, message: _Message) -> None:
        self._asked.discard(message.id)
        event, key = message.params, (message.sessionId, message.params.requestId)
        match message.method:
            case "Target.attachedToTarget" if event.targetInfo is not None:
                self._frames[event.sessionId] = event.targetInfo.targetId
                self._ask(event.sessionId, "Network.enable", {"maxPostDataSize": _LONGEST_POST})
                self._ask(event.sessionId, "Runtime.runIfWaitingForDebugger", {})
            case "Network.requestWillBeSent" if event.request is not None:
                if event.redirectResponse is not None and key in self._open:
                    self._open[key].status = event.redirectResponse.status
                navigates = event.type == "Document" and self._frames.get(message.sessionId) == event.frameId
                sent = event.request
                headers = {name.lower(): value for name, value in sent.headers.items()}
                self._open[key] = Request(sent.url, sent.method, headers, sent.postData, navigates=navigates)
                self.heard.append(self._open[key])
            case "Network.responseReceived" if event.response is not None and key in self._open:
                self._open.pop(key).status = event.response.status
            case "Network.loadingFailed":
                self._open.pop(key, None)

    def _ask(self, session: str, method: str, parameters: dict[str, Any]) -> None:
        self._number += 1
        self._asked.add(self._number)
        self._quiet.clear()
        asked = {"id": self._number, "method": method, "params": parameters}
        self._wire.send_text(msgspec.json.encode(asked | ({"sessionId": session} if session else {})))
        for data in self._wire.data_to_send():
            self._writer.write(data)


_ATTACH = {
    "autoAttach": True,
    "waitForDebuggerOnStart": True,  # so that a tab's first request is heard, too
    "flatten": True,
    "filter": [{"type": "page"}],
}


async def _browser_path(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """The path of the browser's WebSocket, as its port tells it over HTTP."""
    try:
        writer.write(b"GET /json/version HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.split(b"\r\n") if line.lower()[:15] == b"content-length:"
        )
        told = msgspec.json.decode(await reader.readexactly(min(length, 1 << 16)), type=dict[str, str])
    except (EOFError, StopIteration, asyncio.LimitOverrunError) as error:
        raise ValueError("it tells no version") from error
    finally:
        writer.close()
    return "/" + told["webSocketDebuggerUrl"].split("/", 3)[3]


def _ended(message: str) -> FaultError:
    return FaultError(Fault("device", "recording_ended", message, retryable=True))

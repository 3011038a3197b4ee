"""The Chrome DevTools Protocol over a pipe: NUL-terminated JSON in both directions, without an open port.

Protocol: https://chromedevtools.github.io/devtools-protocol/ ; `--remote-debugging-pipe` reads commands from
file descriptor 3 and writes replies and events to 4.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from guiagent.errors import Fault, FaultError

Json = dict[str, Any]
Listener = Callable[[str, Json], None]
_MAX_MESSAGE = 64 * 1024 * 1024
_log = logging.getLogger(__name__)
_ENDED = Fault("device", "crashed", "the browser process ended", retryable=True)


class ProtocolError(Exception):
    """The browser refused a command; the message is Chrome's own."""


class SessionEnded(ProtocolError):
    """The target of the command went away before it answered."""


class Connection:
    """One browser's command pipe. Replies resolve futures; a session's events go to its one listener.

    Attributes:
        sent: how often each command was sent.
        bytes: of all messages, in both directions.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sent: Counter[str] = Counter()
        self.bytes = 0
        self._reader = reader
        self._writer = writer
        self._next_id = 0
        self._pending: dict[int, tuple[asyncio.Future[Json], str | None]] = {}  # by id; with the session
        self._listeners: dict[str, Listener] = {}
        self._closed: Fault | None = None
        self._reading = asyncio.create_task(self._read_messages())

    @property
    def alive(self) -> bool:
        return self._closed is None

    def listen(self, session: str, listener: Listener) -> None:
        """Call `listener(method, params)` for every event of `session` until `forget`."""
        self._listeners[session] = listener

    def forget(self, session: str) -> None:
        """Drop an ended session: its pending commands end in SessionEnded."""
        self._listeners.pop(session, None)
        owed = [number for number, (_, asked) in self._pending.items() if asked == session]
        for number in owed:
            _end(self._pending.pop(number)[0], SessionEnded("the tab was closed"))

    def post(
        self, method: str, params: Json | None = None, session: str | None = None
    ) -> asyncio.Future[Json]:
        """Send a command now; the future resolves with its result. FaultError if the browser is gone."""
        if self._closed is not None:
            raise FaultError(self._closed)
        self._next_id += 1
        message: Json = {"id": self._next_id, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[self._next_id] = future, session
        data = json.dumps(message).encode() + b"\0"
        self.sent[method] += 1
        self.bytes += len(data)
        self._writer.write(data)
        return future

    def fail(self, fault: Fault) -> None:
        """Mark the browser gone: every waiting and every later command ends in `fault`."""
        if self._closed is not None:
            return
        self._closed = fault
        pending, self._pending = self._pending, {}
        for future, _ in pending.values():
            _end(future, FaultError(fault))

    async def close(self) -> None:
        self._reading.cancel()
        self.fail(Fault("device", "closed", "the browser was closed", retryable=True))
        self._writer.close()

    async def _read_messages(self) -> None:
        buffer = bytearray()
        try:
            while chunk := await self._reader.read(1 << 20):
                self.bytes += len(chunk)
                searched = len(buffer)
                buffer += chunk
                while (end := buffer.find(b"\0", searched)) >= 0:
                    self._dispatch(_parse(buffer[:end]))
                    del buffer[: end + 1]
                    searched = 0
                if len(buffer) > _MAX_MESSAGE:
                    message = f"a browser message exceeds {_MAX_MESSAGE >> 20} MiB"
                    self.fail(Fault("device", "protocol", message, retryable=True))
                    return
        except Exception as error:  # a page has a say in what messages hold: its browser is given up
            _log.exception("a message of the browser cannot be followed")
            message = f"a message of the browser cannot be followed: {type(error).__name__}"
            self.fail(Fault("device", "protocol", message, retryable=True))
        finally:
            self.fail(_ENDED)

    def _dispatch(self, message: Json) -> None:
        if "id" in message:
            future, _ = self._pending.pop(message["id"], (None, None))
            if future is None or future.done():
                return
            if "error" in message:
                _end(future, ProtocolError(message["error"].get("message", "unknown error")))
            else:
                future.set_result(message.get("result", {}))
        elif listener := self._listeners.get(message.get("sessionId", "")):
            listener(message["method"], message.get("params", {}))


def _end(future: asyncio.Future[Json], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # a command nobody awaits any more is not worth a warning


def _parse(data: bytearray) -> Json:
    text: Json = json.loads(data)
    if b"\\ud" in data:  # strings of a page may hold lone surrogates, which no encoder after us accepts
        text = json.loads(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))
    return text

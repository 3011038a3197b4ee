"""The Agent Client Protocol over standard streams: an editor hands tasks in words to a policy on a device.

A session of the editor has one device, from its first prompt on, until the session is cancelled or silent for
long, or the editor is gone. What the agent asks is answered by the next prompt.
"""

import asyncio
import base64
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import msgspec
from acp import (
    PROTOCOL_VERSION,
    Client,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    image_block,
    start_tool_call,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
)
from acp.core import AgentSideConnection
from acp.schema import AgentCapabilities, Implementation, ResourceContentBlock, TextContentBlock

from guiagent.agent import AgentStep
from guiagent.doors.errands import MAX_MESSAGE, Desk, Errand, Outcome, said, shown, step_told
from guiagent.errors import UsageError

_MOST_SESSIONS = 64
_INVALID_REQUEST, _INVALID_PARAMS, _INTERNAL, _PARSE = -32600, -32602, -32603, -32700
_STOPS = {"max_steps": "max_turn_requests", "max_seconds": "max_turn_requests", "max_tokens": "max_tokens"}


@dataclass(slots=True)
class _Session:
    errand: Errand | None = None
    running: asyncio.Task[Outcome] | None = None
    cancelled: bool = False  # by the editor


class Front:
    """The agent's side of the protocol, as the package `acp` calls it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sessions: dict[str, _Session] = {}
        self._client: Client

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(),
            agent_info=Implementation(name="guiagent", title="guiagent", version=version("guiagent")),
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        if len(self._sessions) >= _MOST_SESSIONS:
            self._drop_one()
        name = secrets.token_hex(8)
        self._sessions[name] = _Session()
        return NewSessionResponse(session_id=name)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        session = self._session(session_id)
        if session.running is not None:
            raise RequestError(_INVALID_REQUEST, "this session has a task under way: cancel it, or wait")

        def forget() -> None:
            session.errand = None

        async def tell(step: AgentStep) -> None:
            await self._tell(session_id, step)

        session.cancelled = False
        try:
            words = words_of(prompt)
            if session.errand is None:
                session.errand = self._desk.take(forget)
            session.errand.attend()
            session.running = asyncio.create_task(session.errand.run(words, tell))
            outcome = await session.running
        except UsageError as error:
            session.errand = None
            raise RequestError(_INVALID_PARAMS, str(error)) from None
        except asyncio.CancelledError:
            session.errand = None
            if not session.cancelled:  # the editor is gone
                raise
            return PromptResponse(stop_reason="cancelled")
        finally:
            session.running = None
        told = msgspec.to_builtins(outcome)
        if outcome.fault is not None:
            session.errand = None
            raise RequestError(_INTERNAL, outcome.line, told)
        await self._client.session_update(session_id, update_agent_message_text(outcome.line))
        stop: Any = _STOPS.get(outcome.stop, "end_turn")
        return PromptResponse(stop_reason=stop, field_meta={"guiagent": told})

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop what a session does. Its prompt is answered once the device was given back."""
        session = self._sessions.get(session_id)
        if session is not None and session.running is not None:
            session.cancelled = True
            session.running.cancel()

    def _drop_one(self) -> None:
        """Drop the oldest session without a device: the protocol has no word for the end of one."""
        for name, session in self._sessions.items():
            if session.errand is None and session.running is None:
                del self._sessions[name]
                return
        raise RequestError(_INVALID_REQUEST, f"{_MOST_SESSIONS} sessions have devices already")

    def _session(self, name: str) -> _Session:
        if name not in self._sessions:
            raise RequestError(_INVALID_PARAMS, f"there is no session {name[:80]!r}")
        return self._sessions[name]

    async def _tell(self, session: str, step: AgentStep) -> None:
        if step.output.text:
            await self._client.session_update(session, update_agent_thought_text(step.output.text))
        picture = shown(step.after, self._desk.settings.longest)
        screen = [] if picture is None else [(base64.b64encode(picture.data).decode(), picture.media_type)]
        told = step_told(step)
        failed = step.output.error is not None or step.after.action_error is not None
        update = start_tool_call(
            f"step-{secrets.token_hex(4)}",
            said(step.output.actions),
            kind="execute",
            status="failed" if failed else "completed",
            content=[tool_content(image_block(*one)) for one in screen],
            raw_input={"actions": told["actions"]},
            raw_output={"error": told["error"], "screen": told["screen"]},
        )
        await self._client.session_update(session, update)


def words_of(prompt: list[Any]) -> str:
    """The words of a prompt: its texts, and the addresses it links to.

    Raises UsageError for pictures, sounds and whole documents, which an editor is told not to send.
    """
    words = []
    for block in prompt:
        match block:
            case TextContentBlock(text=text):
                words.append(text)
            case ResourceContentBlock(name=name, uri=uri):
                words.append(f"{name}: {uri}")
            case _:
                raise UsageError("a task is text, and links")
    return "\n".join(words)


class Lines:
    """Messages as lines of JSON, of `MAX_MESSAGE` bytes at most: a transport of the package `acp`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is one; None at the end, and after a line that is too long."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return None
            except asyncio.LimitOverrunError:
                await self._refuse(_INVALID_REQUEST, f"a message has at most {MAX_MESSAGE} bytes")
                return None
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(_PARSE, "this is no JSON")
                continue
            if isinstance(message, dict):
                return message
            await self._refuse(_INVALID_REQUEST, "a message is an object")

    async def close(self) -> None:
        self._writer.close()

    async def _refuse(self, code: int, why: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": why}})


async def serve(desk: Desk, lines: Lines) -> None:
    """Serve one editor until it hangs up; then all devices are given back."""
    front: Any = Front(desk)  # it has the methods that are served, and no others
    connection = AgentSideConnection(front, lines, listening=False)
    try:
        await connection.listen()
    finally:
        await connection.close()
        await desk.close()


async def over_stdio(desk: Desk) -> None:
    """Serve the editor at the other end of stdin and stdout, until it closes them or a signal comes."""
    serving = asyncio.current_task()
    assert serving is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    async with _standard_streams() as lines:
        with contextlib.suppress(asyncio.CancelledError):
            await serve(desk, lines)


@contextlib.asynccontextmanager
async def _standard_streams() -> AsyncIterator[Lines]:
    """This process's standard streams. What anything else prints meanwhile goes to stderr.

    Raises UsageError where they are no pipes.
    """
    loop = asyncio.get_running_loop()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        reader = asyncio.StreamReader(limit=MAX_MESSAGE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        unread = asyncio.StreamReader()
        transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(unread), out)
    except ValueError:
        raise UsageError("an editor starts this command and speaks with it over pipes") from None
    yield Lines(reader, asyncio.StreamWriter(transport, protocol, None, loop))

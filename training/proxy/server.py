"""The proxy's HTTP server: `/s/NAME/v1/...` is a session's base address, for any client of OpenAI's API.

Below it are the paths that such clients use, and, in a rollout, the episode's device: what an agent sees and
does there (`/device/observe`, `/device/act`). Everything wants the server's token as the API key.
"""

import asyncio
import base64
import contextlib
import hmac
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from guiagent.errors import DECODE_ERRORS, FaultError, UsageError
from guiagent.serving import listen, meanwhile, url_of
from guiagent.types import Observation
from training.proxy import chat as openai
from training.proxy.session import Session
from training.proxy.upstream import Upstream

UNDER_WAY = 4 * openai.MAX_BODY  # bytes of the bodies of all requests that are not answered yet
_RETRY_S = 1
_STATUS = {"deadline": 504, "unreachable": 502, "bad_reply": 502, "context_too_long": 400}


class Screen(Protocol):
    """The device of a session, as its agent may use it."""

    async def observe(self) -> Observation: ...

    async def act(self, body: bytes) -> tuple[Observation, bool]:
        """Execute actions (JSON); return what is shown then, and whether the episode is over.

        Raises UsageError for what is no action, FaultError if the device fails.
        """
        ...


class Proxy:
    """Sessions by name, and what answers their calls. `new` opens a session that is asked for by a new name;
    without it only those in `sessions` are answered."""

    def __init__(
        self,
        upstream: Upstream,
        token: str,
        models: tuple[str, ...] = ("policy",),
        new: Callable[[str], Session] | None = None,
    ) -> None:
        if len(token) < 16:
            raise UsageError("the token of this server needs at least 16 characters")
        self.sessions: dict[str, Session] = {}
        self.screens: dict[str, Screen] = {}
        self.ended: Callable[[Session, float | None], None] | None = None  # answers POST /s/NAME/end
        self.upstream = upstream
        self._token = token
        self._models = models
        self._new = new
        self._under_way = 0

    def app(self) -> Starlette:
        base = "/s/{name}/v1"
        return Starlette(
            routes=[
                Route("/s/{name}/end", self._end, methods=["POST"]),
                Route(f"{base}/models", self._list),
                Route(f"{base}/chat/completions", self._complete, methods=["POST"]),
                Route(f"{base}/device/observe", self._observe, methods=["POST"]),
                Route(f"{base}/device/act", self._act, methods=["POST"]),
            ],
            exception_handlers={UsageError: _refused, FaultError: _failed, ClientDisconnect: _gone},
        )

    def close_session(self, name: str) -> None:
        """End a session: none of its calls are answered from now on."""
        self.sessions.pop(name).over.set()
        self.screens.pop(name, None)
        self.upstream.forget(name)

    async def _list(self, request: Request) -> Response:
        self._session(request)
        return JSONResponse(
            {
                "object": "list",
                "data": [
                    {"id": name, "object": "model", "created": 0, "owned_by": "guiagent"}
                    for name in self._models
                ],
            }
        )

    async def _complete(self, request: Request) -> Response:
        session = self._session(request)
        async with self._body(request) as body:
            return await self._answer(session, body)

    async def _answer(self, session: Session, body: bytes) -> Response:
        chat = openai.parse(body)
        messages = await asyncio.to_thread(openai.messages_of, chat)
        async with session.calling:
            if session.over.is_set() or session.exhausted(messages):
                session.over.set()
                raise UsageError("the episode is over: no further call is answered")
            try:
                reply = await self.upstream.complete(session.name, chat, messages, body, session.said)
            except FaultError as error:
                if not session.over.is_set():
                    session.cut(chat.model, messages, error.fault)
                raise
            if session.over.is_set():
                raise UsageError("the episode is over: no further call is answered")
            session.record(chat.model, messages, reply)
        if chat.stream:
            return StreamingResponse(iter(openai.chunks(chat, reply)), media_type="text/event-stream")
        return JSONResponse(openai.answer(chat, reply))

    async def _observe(self, request: Request) -> Response:
        shown = await self._screen(request).observe()
        return JSONResponse(_told(shown, over=self._session(request).over.is_set()))

    async def _act(self, request: Request) -> Response:
        screen = self._screen(request)
        async with self._body(request) as body:
            shown, over = await screen.act(body)
        return JSONResponse(_told(shown, over=over))

    async def _end(self, request: Request) -> Response:
        session = self._session(request)
        if self.ended is None:
            raise UsageError("this session's end is not the agent's to say")
        try:
            async with self._body(request) as body:
                told = msgspec.json.decode(body or b"{}", type=_End)
        except DECODE_ERRORS as error:
            raise UsageError(f'the end is {{"score": 0.0 to 1.0}} or empty: {error}') from None
        if told.score is not None and not 0 <= told.score <= 1:
            raise UsageError("a score is between 0 and 1")
        async with session.calling:
            if session.over.is_set():  # another request ended it meanwhile, and its name may be new again
                raise UsageError("the episode is over already")
            self.close_session(session.name)
            await asyncio.to_thread(self.ended, session, told.score)
        return JSONResponse({"id": session.name, "steps": len(session.steps)})

    @contextlib.asynccontextmanager
    async def _body(self, request: Request) -> AsyncIterator[bytes]:
        """Read a body, which counts as under way until the end of the block.

        Raises UsageError for one that is too large, _Full where those under way leave it no room.
        """
        raw = bytearray()
        try:
            async for chunk in request.stream():
                raw += chunk
                self._under_way += len(chunk)
                if len(raw) > openai.MAX_BODY:
                    raise UsageError(f"a request may have {openai.MAX_BODY >> 20} MiB at most")
                if self._under_way > UNDER_WAY:
                    text = f"{UNDER_WAY >> 20} MiB of requests are under way: send fewer at once"
                    raise _Full(text)
            yield bytes(raw)
        finally:
            self._under_way -= len(raw)

    def _session(self, request: Request) -> Session:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            raise _Unauthorized("send this server's token as the API key")
        name = request.path_params["name"]
        if name not in self.sessions:
            if self._new is None:
                raise UsageError("there is no such session, or it is over")
            self.sessions[name] = self._new(name)
        return self.sessions[name]

    def _screen(self, request: Request) -> Screen:
        session = self._session(request)
        if session.name not in self.screens:
            raise UsageError("this session has no device")
        return self.screens[session.name]


class _End(msgspec.Struct, forbid_unknown_fields=True):
    score: float | None = None


class _Unauthorized(UsageError):
    pass


class _Full(UsageError):
    """What is under way leaves a request no room; it may be sent again."""


def _told(shown: Observation, *, over: bool) -> dict[str, Any]:
    return {
        "width": shown.width,
        "height": shown.height,
        "media_type": shown.media_type,
        "frame": base64.b64encode(shown.frame).decode(),
        "action_error": shown.action_error,
        "over": over,
    }


def _problem(
    status: int, kind: str, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error as OpenAI's API has it."""
    return JSONResponse({"error": {"message": message, "type": kind, "code": code}}, status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, _Full):  # OpenAI's clients try such a request again by themselves
        return _problem(429, "rate_limit_error", "busy", str(error), {"Retry-After": str(_RETRY_S)})
    status = 401 if isinstance(error, _Unauthorized) else 400
    return _problem(status, "invalid_request_error", "refused", str(error))


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, FaultError)
    status = _STATUS.get(error.fault.code, 502)
    return _problem(status, "upstream_error", error.fault.code, error.fault.message)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


@contextlib.asynccontextmanager
async def serving(proxy: Proxy, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve the proxy on the running loop; yield its address. Raises InfrastructureError if it is taken."""
    with contextlib.closing(listen(host, port, "port")) as listener:
        async with meanwhile(proxy.app(), listener):
            yield url_of(listener, host)

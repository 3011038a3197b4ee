"""Middleware in vLLM's server: keeps screenshots by name, and gives vLLM those that a request names.

`Frames` wraps vLLM's endpoint. It takes an `Asked`, and passes on the request in it, which names its
screenshots; vLLM gets these from the connector that `register` makes, and decodes only those that it has not
prepared yet. The name is also the key of a picture in vLLM's own caches, so that it hashes none. Like
`training.engine.vllm.worker` this runs in vLLM's environment and imports nothing of the trainer.
"""

import io
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

import msgspec

from training.engine.frames import FrameCache, Missing

PATH = "/inference/v1/generate"
CONNECTOR = "guiagent"  # the connector's name in vLLM's settings
MISSING = 409  # the HTTP status of an answer that is a `Missing`
_MAX_BODY_BYTES = 2**30

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_shown: ContextVar[Mapping[str, bytes]] = ContextVar("shown")  # frames of the current request, by name


class Asked(msgspec.Struct):
    """A request and the screenshots that it names: its "image_url" parts have names as their URLs."""

    request: msgspec.Raw  # in vLLM's own format
    names: list[str]
    sent: dict[str, bytes]  # the screenshots that the server may lack, by name


class Frames:
    """ASGI middleware that answers 409 with a `Missing` if a request names frames that it does not have."""

    def __init__(self, app: App, cache: FrameCache | None = None) -> None:
        self._app = app
        self._cache = cache or FrameCache()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            return await self._app(scope, receive, send)
        raw = await _body(receive)
        if raw is None:
            return await _answer(send, 413, {"error": "the request is too long, or was cut short"})
        try:
            asked = msgspec.json.decode(raw, type=Asked)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return await _answer(send, 400, {"error": f"no request with its screenshots: {error}"})
        found = self._cache.take(asked.names, asked.sent)
        if isinstance(found, Missing):
            return await _answer(send, MISSING, found)
        _shown.set(found)
        inner = bytes(asked.request)
        request: list[Message] = [{"type": "http.request", "body": inner, "more_body": False}]

        async def receive_inner() -> Message:
            return request.pop() if request else await receive()  # then whether the client still waits

        headers = [(key, value) for key, value in scope["headers"] if key != b"content-length"]
        headers.append((b"content-length", str(len(inner)).encode()))
        return await self._app({**scope, "headers": headers}, receive_inner, send)


async def _body(receive: Receive) -> bytes | None:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or len(body) > _MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


async def _answer(send: Send, status: int, content: Any) -> None:
    body = msgspec.json.encode(content)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def register() -> None:
    """Register `CONNECTOR` with vLLM.

    It fetches nothing from anywhere, and decodes lazily: a picture that vLLM has prepared before is not
    decoded again.
    """
    from PIL import Image
    from vllm.multimodal.media import (  # type: ignore[import-not-found]
        MEDIA_CONNECTOR_REGISTRY,
        MediaConnector,
        MediaWithBytes,
    )

    class Connector(MediaConnector):  # type: ignore[misc]
        async def fetch_image_async(self, image_url: str, **_: Any) -> Any:
            frame = _shown.get({}).get(image_url)
            if frame is None:
                raise ValueError("the request names a screenshot that it does not list")
            return MediaWithBytes(Image.open(io.BytesIO(frame), formats=("PNG", "JPEG")), frame)

    MEDIA_CONNECTOR_REGISTRY.register(CONNECTOR)(Connector)

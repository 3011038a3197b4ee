"""Requests of OpenAI's `/v1/chat/completions` and answers to them; a request is a stranger's, and bounded."""

import base64
import binascii
import io
import time
import uuid
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from PIL import Image

from guiagent.errors import DECODE_ERRORS, UsageError

MAX_BODY = 64 * 2**20
MAX_PICTURES = 64
MAX_PIXELS = 33_000_000  # of one picture: 8K
_MAX_MESSAGES = 2_000


class _Url(msgspec.Struct):
    url: str


class _Part(msgspec.Struct):
    type: str
    text: str = ""
    image_url: _Url | str | None = None


class _Said(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class Chat(msgspec.Struct):
    """The part of a request that the proxy reads; an upstream server gets all of it."""

    model: Annotated[str, msgspec.Meta(max_length=200)]
    messages: Annotated[list[_Said], msgspec.Meta(min_length=1, max_length=_MAX_MESSAGES)]
    stream: bool = False
    stream_options: _StreamOptions | None = None
    n: int | None = 1
    logprobs: bool | None = False
    return_token_ids: bool | None = False
    tools: list[Any] | None = None


class Picture(NamedTuple):
    data: bytes
    size: tuple[int, int]


class Message(NamedTuple):
    role: str
    parts: list[str | Picture]


class Reply(NamedTuple):
    """A model's answer with its tokens: none of them are known where the upstream did not give them."""

    message: dict[str, Any]  # as OpenAI's API has it
    finish_reason: str
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    versions: list[tuple[int, int]] = [(0, 0)]  # noqa: RUF012 (never changed)

    @property
    def text(self) -> str:
        return str(self.message.get("content") or "")


def parse(body: bytes) -> Chat:
    """Parse a request. Raises UsageError for anything that is none, or that cannot be recorded."""
    try:
        chat = msgspec.json.decode(body, type=Chat)
    except DECODE_ERRORS as error:
        raise UsageError(f"the request is no chat completion: {error}") from None
    if chat.n not in (None, 1):
        raise UsageError("n must be 1: a call has one completion")
    return chat


def messages_of(chat: Chat) -> list[Message]:
    """Return the messages, pictures decoded from data URLs. Raises UsageError for other contents."""
    found: list[Message] = []
    for said in chat.messages:
        content = said.content or []
        parts = [_Part("text", content)] if isinstance(content, str) else content
        found.append(Message(said.role, [_part(one) for one in parts]))
    if sum(isinstance(part, Picture) for one in found for part in one.parts) > MAX_PICTURES:
        raise UsageError(f"a request may show {MAX_PICTURES} pictures at most")
    return found


def _part(part: _Part) -> str | Picture:
    if part.type == "text":
        return part.text
    if part.type != "image_url" or part.image_url is None:
        raise UsageError(f"a part of a message is {part.type[:40]!r}: send text or image_url")
    url = part.image_url if isinstance(part.image_url, str) else part.image_url.url
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise UsageError("a picture is no data URL (data:image/png;base64,...): addresses are not fetched")
    try:
        raw = base64.b64decode(data, validate=True)
        with Image.open(io.BytesIO(raw), formats=("PNG", "JPEG", "WEBP")) as image:
            size = image.size
    except (binascii.Error, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise UsageError("a picture cannot be read: send a PNG, JPEG or WebP") from None
    if size[0] * size[1] > MAX_PIXELS:
        raise UsageError(f"a picture of {size[0]}x{size[1]} is too large: {MAX_PIXELS} pixels at most")
    return Picture(raw, size)


def answer(chat: Chat, reply: Reply) -> dict[str, Any]:
    """Return the body of a completion; with token ids and log-probs, as vLLM has them, where asked for."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": reply.message,
        "finish_reason": reply.finish_reason,
        "logprobs": None,
    }
    told = _head(chat, "chat.completion") | {"choices": [choice], "usage": _usage(reply)}
    if chat.logprobs:
        content: list[dict[str, Any]] = [
            {"token": "", "logprob": x, "bytes": None, "top_logprobs": []} for x in reply.logprobs
        ]
        choice["logprobs"] = {"content": content}
    if chat.return_token_ids:
        choice["token_ids"] = reply.completion_ids
        told["prompt_token_ids"] = reply.prompt_ids
    return told


def chunks(chat: Chat, reply: Reply) -> list[bytes]:
    """Return a completion as server-sent events: all of it in one chunk, then its end."""
    head = _head(chat, "chat.completion.chunk")
    calls = reply.message.get("tool_calls") or []
    delta = dict(reply.message)
    if calls:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    events: list[dict[str, Any]] = [
        head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}]},
    ]
    if chat.stream_options is not None and chat.stream_options.include_usage:
        events.append(head | {"choices": [], "usage": _usage(reply)})
    return [*(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events), b"data: [DONE]\n\n"]


def _head(chat: Chat, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": chat.model,
    }


def _usage(reply: Reply) -> dict[str, int]:
    prompt, completion = len(reply.prompt_ids), len(reply.completion_ids)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }

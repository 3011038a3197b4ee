"""What answers the proxy's calls: an engine of ours, or a server that speaks OpenAI's API, such as vLLM."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import httpx
import msgspec
from jinja2 import TemplateError

from guiagent.errors import DECODE_ERRORS, Fault, FaultError, UsageError
from training.engine.engine import Engine, Request
from training.inputs.encoder import Encoder
from training.inputs.pictures import Picture as EncodedPicture
from training.proxy.chat import Chat, Message, Picture, Reply

MAX_REPLY = 64 * 2**20
_ROLES = {"developer": "system", "tool": "user"}  # of those that chat templates know
_TOKENS = {"logprobs": True, "return_token_ids": True}
_REFUSALS = {"http_400", "http_422"}  # of a server that does not take fields it does not know


class Upstream(Protocol):
    async def complete(
        self,
        conversation: str,
        chat: Chat,
        messages: Sequence[Message],
        body: bytes,
        said: Mapping[str, list[int]],
    ) -> Reply:
        """Answer a call. `said` has the tokens of earlier replies by their text.

        Raises FaultError (origin "policy") if there is no answer, UsageError for what it cannot do.
        """
        ...

    def forget(self, conversation: str) -> None: ...

    async def close(self) -> None: ...


class EngineUpstream:
    """Samples from an engine, as rollouts do: with its sampling, whatever temperature a request asks for."""

    def __init__(self, encoder: Encoder, engine: Engine) -> None:
        self._encoder, self._engine = encoder, engine

    async def complete(
        self,
        conversation: str,
        chat: Chat,
        messages: Sequence[Message],
        body: bytes,
        said: Mapping[str, list[int]],
    ) -> Reply:
        if chat.tools:
            raise UsageError("this policy knows no tools: leave them out, and write its actions as text")
        encoder = self._encoder
        turns: list[tuple[str, list[EncodedPicture | list[int]]]] = []
        for message in messages:
            quoted = said.get("".join(part for part in message.parts if isinstance(part, str)))
            if message.role == "assistant" and quoted is not None:
                turns.append((message.role, [quoted]))
                continue
            parts: list[EncodedPicture | list[int]] = [
                self._picture(part) if isinstance(part, Picture) else encoder.plain(part)
                for part in message.parts
            ]
            turns.append((_ROLES.get(message.role, message.role), parts))
        try:
            ids = encoder.conversation(turns)
        except TemplateError as error:
            raise UsageError(f"the model's chat template refuses these messages: {error}") from None
        frames = [part.data for one in messages for part in one.parts if isinstance(part, Picture)]
        sampled = await self._engine.generate(Request(conversation, ids, frames))
        ended = sampled.ids[-1:] == [encoder.eos]
        return Reply(
            {"role": "assistant", "content": encoder.decode(sampled.ids)},
            "stop" if ended else "length",
            ids,
            sampled.ids,
            sampled.logprobs,
            sampled.versions,
        )

    def _picture(self, picture: Picture) -> EncodedPicture:
        """Prepare a picture. One that breaks off is its sender's, never a fault of the device."""
        try:
            return self._encoder.picture(picture.data)
        except FaultError:
            raise UsageError("a picture cannot be read: it breaks off, or is damaged") from None

    def forget(self, conversation: str) -> None:
        self._engine.forget(conversation)

    async def close(self) -> None:
        """Leave the engine, which is others', as it is."""


_Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class _Logprob(msgspec.Struct):
    logprob: Annotated[float, msgspec.Meta(le=1e-3)]  # rounding may lift one over 0


class _Logprobs(msgspec.Struct):
    content: list[_Logprob] | None = None


class _Choice(msgspec.Struct):
    message: msgspec.Raw
    finish_reason: str | None = "stop"
    token_ids: list[_Id] | None = None
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    prompt_token_ids: list[_Id] | None = None


class ServerUpstream:
    """Passes calls on to the server at `url`, and asks it for token ids and log-probs as vLLM gives them.

    The server is asked for whole answers: what comes is bounded and checked before an agent sees any of it.
    An answer without token ids is passed on, and its call recorded without tokens, from which nothing can be
    learned; a server that refuses to be asked for them is not asked again. With `model`, every call asks for
    that one, whatever the agent calls it.
    """

    def __init__(
        self, url: str, model: str | None = None, key: str | None = None, timeout_s: float = 600.0
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is no address of a model server: it starts with http:// or https://")
        self._url = url.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"
        self._model = model
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout_s = timeout_s
        self._tokens: Mapping[str, Any] = _TOKENS
        self._client = httpx.AsyncClient(timeout=timeout_s, headers=headers, trust_env=False)

    async def complete(
        self,
        conversation: str,
        chat: Chat,
        messages: Sequence[Message],
        body: bytes,
        said: Mapping[str, list[int]],
    ) -> Reply:
        asked: dict[str, Any] = {**msgspec.json.decode(body), "stream": False}
        asked.pop("stream_options", None)
        if self._model is not None:
            asked["model"] = self._model
        raw = await self._ask(asked)
        try:
            found = msgspec.json.decode(raw, type=_Completion)
            choice = found.choices[0]
            message = msgspec.json.decode(choice.message, type=dict[str, Any])
        except (IndexError, *DECODE_ERRORS) as error:
            raise _fault("bad_reply", f"the answer holds no completion: {error}") from None
        ids = choice.token_ids or []
        logprobs = [token.logprob for token in (choice.logprobs and choice.logprobs.content) or []]
        whole = bool(found.prompt_token_ids and ids and len(ids) == len(logprobs))
        return Reply(
            {"role": "assistant", **message},
            choice.finish_reason or "stop",
            found.prompt_token_ids or [] if whole else [],
            ids if whole else [],
            logprobs if whole else [],
        )

    async def _ask(self, asked: dict[str, Any]) -> bytes:
        try:
            return await self._post(msgspec.json.encode({**asked, **self._tokens}))
        except FaultError as error:
            fault = error.fault
            if fault.code not in _REFUSALS or not any(name in fault.message for name in self._tokens):
                raise
        raw = await self._post(msgspec.json.encode(asked))
        self._tokens = {}
        return raw

    async def _post(self, body: bytes) -> bytes:
        raw = bytearray()
        headers = {"Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(self._timeout_s),  # httpx's own starts anew with every byte
                self._client.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                async for chunk in response.aiter_bytes():
                    raw += chunk
                    if len(raw) > MAX_REPLY:
                        raise _fault("bad_reply", "the answer is too long")
                status = response.status_code
        except (httpx.TimeoutException, TimeoutError):
            raise _fault("deadline", "no whole answer in time", retryable=True) from None
        except httpx.RequestError as error:
            raise _fault("unreachable", str(error) or type(error).__name__, retryable=True) from None
        if status != 200:
            words = " ".join(bytes(raw[:2000]).decode(errors="replace").split())[:200]
            raise _fault(f"http_{status}", words, retryable=status == 429 or status >= 500)
        return bytes(raw)

    def forget(self, conversation: str) -> None:
        """The server keeps nothing that could be dropped."""

    async def close(self) -> None:
        await self._client.aclose()


def _fault(code: str, message: str, *, retryable: bool = False) -> FaultError:
    return FaultError(Fault("policy", code, f"the upstream: {message}", retryable=retryable))

"""A policy on any model server that speaks OpenAI's `/v1/chat/completions` with images, such as vLLM."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import httpx
import msgspec

from guiagent.dialects import Dialect, replies
from guiagent.dialects.prompts import messages
from guiagent.errors import DECODE_ERRORS, Fault, FaultError, InfrastructureError, UsageError
from guiagent.patience import LONGEST_PAUSE_S, Patience
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput

# A trainer needs the tokens as sampled (vLLM's extension) and their log-probabilities, which not every server
# can give. If a server refuses the request because of them, it is repeated without.
_TOKENS = {"logprobs": True, "return_token_ids": True}
_MISCONFIGURED = {401, 403, 404}


class _Message(msgspec.Struct):
    content: str | None = None


class _Token(msgspec.Struct):
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_Token] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct):
    """The part of the server's answer that is read."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    prompt_token_ids: list[int] | None = None


_PATIENCE = Patience()


@dataclass(frozen=True)
class ChatServer:
    """A model behind a server. `url` is the server's base address, with or without `/v1`."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    patience: Patience = _PATIENCE


_SAMPLING = {"temperature": 1.0, "max_tokens": 512}


class ChatPolicy:
    """A `Policy` that sends the last `max_images` screenshots (None: all) and parses replies with `dialect`.

    After a refused connection, a timeout, 429 or 5xx it asks again, as the server's `patience` says.
    `sampling` holds fields of the request, such as `temperature`, `top_p` or `max_tokens`. Without `tokens`
    it asks for none: somebody between it and the model records them. Close the policy when done.

    Raises UsageError for an address without http:// or https://, and from `act`:
        FaultError: the server did not answer, or its answer holds no completion.
        InfrastructureError: the server refuses the key, the model or the path; trying again cannot help.
    """

    def __init__(
        self,
        server: ChatServer,
        dialect: Dialect,
        *,
        max_images: int | None = 5,
        sampling: Mapping[str, float] = _SAMPLING,
        tokens: bool = True,
    ) -> None:
        url, patience = server.url, server.patience
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is no address of a model server: it starts with http:// or https://")
        self._url = url.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"
        self._dialect = dialect
        self._max_images = max_images
        self._settings = {"model": server.model, **_SAMPLING, **sampling}
        self._extras: dict[str, Any] = _TOKENS if tokens else {}
        self._patience = patience
        self._contexts: dict[str, list[int]] = {}  # by episode, the tokens so far, while prompts only grow
        headers = {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}
        self._client = httpx.AsyncClient(timeout=patience.timeout_s, headers=headers)

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        conversation = messages(
            self._dialect, instruction, history, observation, image=_image_url, max_images=self._max_images
        )
        completion = await self._complete({**self._settings, "messages": conversation})
        step = PolicyOutput(completion.choices[0].message.content or "")
        replies.read(step, self._dialect, (observation.width, observation.height))
        self._keep_tokens(episode, step, completion, is_first=not history)
        return step

    def forget(self, episode: str) -> None:
        self._contexts.pop(episode, None)

    async def close(self) -> None:
        await self._client.aclose()

    async def _complete(self, body: dict[str, Any]) -> _Completion:
        """Return the server's answer to one request, after up to `patience.attempts` attempts."""
        extras, attempt = self._extras, 1
        while True:
            wait = self._patience.pause(attempt)
            try:
                response = await self._client.post(self._url, json={**body, **extras})
            except httpx.TimeoutException:
                failure = self._fault("deadline", "no answer in time", retryable=True)
            except httpx.RequestError as error:
                failure = self._fault("unreachable", str(error) or type(error).__name__, retryable=True)
            else:
                status = response.status_code
                if status == 200:
                    self._extras = extras
                    return self._decoded(response)
                said = " ".join(response.text.split())[:200]
                if status in _MISCONFIGURED:
                    raise InfrastructureError(
                        f"{self._url} answered {status}: {said}; check the address, the key and the model"
                    )
                if status in (400, 422) and extras:
                    extras = {}
                    continue
                failure = self._fault(f"http_{status}", said, retryable=status == 429 or status >= 500)
                wait = max(wait, _retry_after(response))
            if not failure.fault.retryable or attempt >= self._patience.attempts:
                raise failure
            attempt += 1
            await asyncio.sleep(wait)

    def _decoded(self, response: httpx.Response) -> _Completion:
        try:
            return msgspec.json.decode(response.content, type=_Completion)
        except DECODE_ERRORS as error:
            message = f"the answer holds no completion: {error}"
            raise self._fault("bad_reply", message, retryable=False) from None

    def _keep_tokens(self, episode: str, step: PolicyOutput, completion: _Completion, is_first: bool) -> None:
        """Record the tokens, if the server gave them and this turn's prompt continues the one before.

        A window that drops images rewrites the prompt; from then on the episode has no token record, because
        it would not be what the model saw.
        """
        choice, prompt = completion.choices[0], completion.prompt_token_ids
        logprobs = [token.logprob for token in (choice.logprobs and choice.logprobs.content) or []]
        context = [] if is_first else self._contexts.pop(episode, None)
        if not prompt or not choice.token_ids or len(choice.token_ids) != len(logprobs) or context is None:
            return
        if prompt[: len(context)] == context:
            step.prompt_ids, step.completion_ids = prompt[len(context) :], choice.token_ids
            step.logprobs = logprobs
            self._contexts[episode] = prompt + choice.token_ids

    def _fault(self, code: str, message: str, *, retryable: bool) -> FaultError:
        return FaultError(Fault("policy", code, f"{self._url}: {message}", retryable=retryable))


def _image_url(observation: Observation) -> dict[str, Any]:
    data = base64.b64encode(observation.frame).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{observation.media_type};base64,{data}"}}


def _retry_after(response: httpx.Response) -> float:
    """The seconds that the server asks to wait, at most 30."""
    asked = response.headers.get("retry-after", "")
    return min(float(asked), LONGEST_PAUSE_S) if asked.isdecimal() else 0.0

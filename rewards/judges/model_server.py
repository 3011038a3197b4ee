"""Client of model servers that speak OpenAI's API: requests are retried, limited, counted and cached.

If a server does not answer, the client raises a `FaultError` of origin "judge", so that a caller can go on
with "unknown". Its codes: "rate_limited", "deadline", "unreachable", "http_500" and other statuses,
"garbage", "circuit_open" (too many failures in a row: nothing is sent for a while) and "budget".
"""

import asyncio
import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import openai

from guiagent.errors import DECODE_ERRORS, Fault, FaultError, InfrastructureError, UsageError
from guiagent.patience import Patience
from guiagent.storage.atomic import write_file
from rewards.judges.config import ServerConfig
from rewards.judges.verdicts import Usage

Message = dict[str, Any]  # role and content, as the API has them
_Answer = TypeVar("_Answer", "_Reply", "_Vectors")

_MISCONFIGURED = {401, 403, 404}
_LONGEST_WAIT_S = 60.0
_LARGEST_REPLY = 8 * 2**20  # bytes


class Completion(msgspec.Struct, frozen=True):
    """A model's reply: one text for each of the `n` samples asked for, "" for one without text."""

    texts: tuple[str, ...]
    usage: Usage = Usage()


def has_text(texts: Sequence[str]) -> bool:
    return any(texts)


class ModelServer:
    """One model behind `config.url`. Serves many tasks of one event loop at once.

    `backoff_s` is the first wait after a failure; waits double, with jitter, and a longer Retry-After header
    replaces them. After `break_after` failures in a row (HTTP statuses below 500 do not count), nothing is
    sent for `cool_down_s` of the clock `monotonic`; then one request tries. `spent` is the usage of all
    requests so far, failures included.

    Raises:
        UsageError: there is no address, or no model is named.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        backoff_s: float = 0.5,
        break_after: int = 10,
        cool_down_s: float = 30.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        url = config.url or ""
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is no address of a model server: it starts with http:// or https://")
        if not config.model:
            raise UsageError(f"say which model to ask {url} for: model = NAME")
        self.spent = Usage()
        self._config = config
        self._patience = Patience(config.timeout_s, config.attempts, backoff_s, _LONGEST_WAIT_S)
        self._url = url.rstrip("/").removesuffix("/v1") + "/v1"
        self._client = openai.AsyncOpenAI(
            base_url=self._url,
            api_key=os.environ.get(config.key_env) or "none",
            max_retries=0,  # `_ask` retries, since a garbled answer is a failure too
        )
        self._slots = asyncio.Semaphore(config.concurrency)
        self._breaker = _Breaker(break_after, cool_down_s, monotonic)
        self._cache = _Cache(config.cache) if config.cache else None

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        n: int = 1,
        temperature: float = 0.0,
        max_tokens: int = 1024,
        keep: Callable[[Sequence[str]], bool] = has_text,
    ) -> Completion:
        """Return `n` samples of one request; a server that gives fewer at once is asked for the rest.

        The texts are cached by the content of the request if `keep(texts)` is true: an unreadable reply is
        asked for again next time.

        Raises:
            FaultError: no answer after all attempts, or no request is allowed.
            InfrastructureError: the server does not know the key, the model or the path.
        """
        body = {
            "model": self._config.model,
            "messages": list(messages),
            "n": n,
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        key = hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()
        if self._cache and (known := self._cache.get(key)) is not None:
            self.spent += Usage(cached=1)
            return Completion(known, Usage(cached=1))
        began = time.monotonic()
        texts: list[str] = []
        usage = Usage()
        while len(texts) < n:
            reply, requests = await self._ask(partial(self._chat, {**body, "n": n - len(texts)}), _Reply)
            texts += reply.texts[: n - len(texts)]
            usage += _tokens(reply.usage) + Usage(requests=requests)
        if self._cache and keep(texts):
            self._cache.put(key, texts)
        return Completion(tuple(texts), usage + Usage(seconds=time.monotonic() - began))

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in their order; nothing is cached. Raises what `complete` does."""
        reply, _ = await self._ask(partial(self._vectors, list(texts)), _Vectors)
        by_index = {one.index: one.embedding for one in reply.data}
        lengths = {len(vector) for vector in by_index.values()}
        if by_index.keys() != set(range(len(texts))) or len(lengths) > 1:
            message = f"{self._url}: {len(by_index)} vectors of {len(lengths)} lengths for {len(texts)} texts"
            raise FaultError(Fault("judge", "garbage", message, retryable=True))
        return [by_index[index] for index in range(len(texts))]

    async def close(self) -> None:
        await self._client.close()

    async def _chat(self, body: dict[str, Any]) -> bytes:
        raw = self._client.chat.completions.with_raw_response
        content: bytes = (await raw.create(**body, timeout=self._config.timeout_s)).http_response.content
        return content

    async def _vectors(self, texts: list[str]) -> bytes:
        raw = self._client.embeddings.with_raw_response
        asked = raw.create(
            model=self._config.model, input=texts, encoding_format="float", timeout=self._config.timeout_s
        )
        return (await asked).http_response.content

    async def _ask(self, post: Callable[[], Awaitable[bytes]], form: type[_Answer]) -> tuple[_Answer, int]:
        """Return the answer to a request, and how many requests were sent to get it."""
        attempt = 1
        while True:
            try:
                async with self._slots:
                    return await self._send(post, form), attempt
            except _Failure as failure:
                if not failure.fault.retryable or attempt == self._config.attempts:
                    raise FaultError(failure.fault) from failure
                wait = max(self._patience.pause(attempt), failure.retry_after_s)
            attempt += 1
            await asyncio.sleep(wait)

    async def _send(self, post: Callable[[], Awaitable[bytes]], form: type[_Answer]) -> _Answer:
        """Send one request if limits allow it. Raises `_Failure` if no readable answer comes."""
        self._admit()
        self.spent += Usage(requests=1)
        try:
            async with asyncio.timeout(self._config.timeout_s):
                content = await post()
            reply = _decode(content, form)
        except openai.APIStatusError as error:
            raise self._refused(error) from None
        except (TimeoutError, openai.APITimeoutError):
            failure = self._failure("deadline", f"no answer in {self._config.timeout_s:g} s")
        except openai.APIConnectionError as error:
            failure = self._failure("unreachable", str(error.__cause__ or error) or type(error).__name__)
        except DECODE_ERRORS as error:
            failure = self._failure("garbage", f"the answer cannot be read: {error}")
        else:
            self._breaker.succeeded()
            self.spent += _tokens(reply.usage)
            return reply
        self._breaker.failed()
        raise failure

    def _admit(self) -> None:
        limits, spent = self._config, self.spent
        tokens = spent.prompt_tokens + spent.completion_tokens
        if limits.max_requests is not None and spent.requests >= limits.max_requests:
            raise FaultError(Fault("judge", "budget", f"{limits.max_requests} requests are spent"))
        if limits.max_total_tokens is not None and tokens >= limits.max_total_tokens:
            raise FaultError(Fault("judge", "budget", f"{limits.max_total_tokens} tokens are spent"))
        if not self._breaker.allows():
            raise FaultError(self._failure("circuit_open", "it failed too often in a row; left alone").fault)

    def _refused(self, error: openai.APIStatusError) -> "Exception":
        """The exception for an HTTP status that is an error."""
        status, said = error.status_code, " ".join(str(error.message).split())[:200]
        if status in _MISCONFIGURED:
            return InfrastructureError(
                f"{self._url} answered {status}: {said}; check the address, the model "
                f"{self._config.model!r} and the key in ${self._config.key_env}"
            )
        if status >= 500:
            self._breaker.failed()
        else:
            self._breaker.succeeded()  # the server is alive, though it refuses this request
        code = "rate_limited" if status == 429 else f"http_{status}"
        failure = self._failure(code, said, retryable=status in (408, 409, 429) or status >= 500)
        failure.retry_after_s = _seconds(error.response.headers.get("retry-after", ""))
        return failure

    def _failure(self, code: str, message: str, *, retryable: bool = True) -> "_Failure":
        return _Failure(Fault("judge", code, f"{self._url}: {message}"[:500], retryable))


class _Failure(Exception):
    """A request without a readable answer, with its fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.retry_after_s = 0.0


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    index: int = 0


class _Tokens(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Reply(msgspec.Struct):
    """The fields of a completion that are read."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: _Tokens | None = None

    @property
    def texts(self) -> list[str]:
        """One text for each choice index: a choice sent twice is one vote, not two."""
        by_index: dict[int, str] = {}
        for choice in self.choices:
            by_index.setdefault(choice.index, choice.message.content or "")
        return list(by_index.values())


class _Vector(msgspec.Struct):
    embedding: Annotated[list[float], msgspec.Meta(min_length=1, max_length=16_384)]
    index: int = 0


class _Vectors(msgspec.Struct):
    """The fields of an answer with embeddings that are read."""

    data: list[_Vector]
    usage: _Tokens | None = None


def _decode(content: bytes, form: type[_Answer]) -> _Answer:
    if len(content) > _LARGEST_REPLY:
        raise msgspec.DecodeError(f"it has {len(content)} bytes")
    return msgspec.json.decode(content, type=form)


def _tokens(usage: _Tokens | None) -> Usage:
    told = usage or _Tokens()
    return Usage(prompt_tokens=told.prompt_tokens, completion_tokens=told.completion_tokens)


def _seconds(retry_after: str) -> float:
    """The wait in seconds that a Retry-After header asks for (seconds or a date), at most `_LONGEST_WAIT_S`.

    0 if it cannot be read.
    """
    if retry_after.isdecimal():
        return min(float(retry_after), _LONGEST_WAIT_S)
    try:
        wait = parsedate_to_datetime(retry_after).timestamp() - time.time()
    except ValueError:
        return 0.0
    return min(max(wait, 0.0), _LONGEST_WAIT_S)


class _Breaker:
    """Circuit breaker: opens after `limit` failures in a row, then allows one request each `cool_down_s`."""

    def __init__(self, limit: int, cool_down_s: float, monotonic: Callable[[], float]) -> None:
        self._limit, self._cool_down_s, self._monotonic = limit, cool_down_s, monotonic
        self._failures, self._next_try = 0, 0.0

    def allows(self) -> bool:
        if self._failures < self._limit:
            return True
        if self._monotonic() < self._next_try:
            return False
        self._next_try = self._monotonic() + self._cool_down_s
        return True

    def failed(self) -> None:
        self._failures += 1
        self._next_try = self._monotonic() + self._cool_down_s

    def succeeded(self) -> None:
        self._failures = 0


class _Cache:
    """Cached texts, one file for each request's digest. A torn or unreadable file counts as absent."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, key: str) -> tuple[str, ...] | None:
        try:
            return msgspec.json.decode(self._path(key).read_bytes(), type=tuple[str, ...])
        except (FileNotFoundError, *DECODE_ERRORS):
            return None

    def put(self, key: str, texts: Sequence[str]) -> None:
        write_file(self._path(key), msgspec.json.encode(texts))

    def _path(self, key: str) -> Path:
        return self._root / key[:2] / f"{key}.json"

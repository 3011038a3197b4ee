"""Requests to a vLLM server, and checks of its answers: tokens and screenshots in, tokens out.

The endpoint is `/inference/v1/generate` of vLLM 0.32: token ids go in as they are, with one placeholder per
picture, which the server expands; it returns the whole prompt, which must be exactly the tokens that were
meant. Pictures have names; one that the server has seen is not sent again (`training.engine.vllm.frames`). A
server's answer is untrusted: it is bounded before it is parsed, and every number in it is checked.
"""

import io
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import Annotated, Any

import msgspec
from PIL import Image

from guiagent.errors import DECODE_ERRORS, Fault, FaultError
from guiagent.frames import FORMATS, rgb_of_device
from training.engine.engine import Completion, Request, not_finite
from training.engine.frames import Missing, name_of
from training.engine.sampling import Sampling
from training.engine.vllm.frames import Asked
from training.inputs.encoder import Encoder

UNVERSIONED = "unversioned"  # the code of a fault
MAX_REPLY_BYTES = 64 * 2**20
_NO_NUMBER = -9999.0  # what the server reports for a log-probability that is not finite
_NEVER = -100.0  # the largest allowed bias against a token: e^-100 of its probability
_AS_THEY_ARE = ("PNG", "JPEG")
_KNOWN_NAMES = 100_000  # a few hundred bytes each


class _Token(msgspec.Struct):
    token_id: int
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_Token] | None = None


class _Span(msgspec.Struct):
    version: str
    start: int
    end: int


class _Choice(msgspec.Struct):
    token_ids: list[int]
    finish_reason: str = "stop"
    logprobs: _Logprobs | None = None
    weight_versions: list[_Span] | None = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens_details: _Cached | None = None


class Reply(msgspec.Struct):
    """The part of an answer that is read."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1, max_length=1)]
    prompt_token_ids: list[int]
    usage: _Usage | None = None

    @property
    def cached_tokens(self) -> int:
        """The number of prompt tokens that the server did not encode again, by its own account."""
        details = self.usage.prompt_tokens_details if self.usage else None
        cached = (details.cached_tokens if details else None) or 0
        return min(max(cached, 0), len(self.prompt_token_ids))


def sampling_params(encoder: Encoder, sampling: Sampling) -> dict[str, Any]:
    """Return vLLM's SamplingParams without `max_tokens`. Placeholders of pictures are never drawn.

    The log-probability that comes back is of the distribution drawn from (the server runs with
    `processed_logprobs`): it is the policy's own only if nothing narrows it.
    """
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "frequency_penalty": sampling.frequency_penalty,
        "top_k": 0,
        "min_p": 0.0,
        "logprobs": 0,  # of the sampled token alone
        "stop_token_ids": [encoder.eos],
        "logit_bias": {str(token): _NEVER for token in encoder.unsampled},
        "detokenize": False,
    }


class Pictures:
    """Resize frames to the size that the model sees, so that no server resizes them in its own way.

    A PNG or JPEG of that size is sent as it is; everything else as PNG. Both methods are thread-safe, and
    raise FaultError as `guiagent.frames.rgb_of_device` does.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._names: OrderedDict[str, str] = OrderedDict()  # by the frames' own, latest use last
        self._naming = Lock()

    def name(self, frame: bytes) -> str:
        """The name of the frame's picture. Names of recent frames are cached; pictures are not."""
        own = name_of(frame)
        with self._naming:
            known = self._names.get(own)
        made = known or name_of(self.picture(frame))
        with self._naming:
            self._names[own] = made
            self._names.move_to_end(own)
            if len(self._names) > _KNOWN_NAMES:
                self._names.popitem(last=False)
        return made

    def picture(self, frame: bytes) -> bytes:
        image = rgb_of_device(frame)
        sized = self._encoder.resized(image)
        with Image.open(io.BytesIO(frame), formats=FORMATS) as opened:
            plain = opened.mode == "RGB" and "transparency" not in opened.info and not opened.getexif()
            if plain and opened.format in _AS_THEY_ARE and sized is image:
                return frame
        buffer = io.BytesIO()
        sized.save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()


def body(
    request: Request,
    names: Sequence[str],
    sent: Mapping[str, bytes],
    model: str,
    params: Mapping[str, Any],
    image_token: int,
) -> bytes:
    """Return a request's JSON, with `params` as its SamplingParams.

    `names` are its pictures' names, in order; `sent` are the pictures sent with it.
    """
    asked = {
        "model": model,
        "token_ids": collapsed(request.ids, image_token),
        "content_parts": [{"type": "image_url", "url": name, "uuid": name} for name in names],
        "sampling_params": params,
        "return_token_ids": True,
    }
    return msgspec.json.encode(
        Asked(msgspec.Raw(msgspec.json.encode(asked)), list(dict.fromkeys(names)), dict(sent))
    )


def missing(raw: bytes) -> Missing:
    """Parse the list of frames that a server lacks. Raises FaultError if the answer is anything else."""
    try:
        return msgspec.json.decode(raw, type=Missing)
    except DECODE_ERRORS as error:
        raise bad_reply(f"it does not say which screenshots it lacks: {error}") from None


def collapsed(ids: list[int], image_token: int) -> list[int]:
    """`ids` with one placeholder for each picture's run of them."""
    return ids[:1] + [b for a, b in pairwise(ids) if not a == b == image_token]


def reply(raw: bytes) -> Reply:
    """Parse a server's answer. Raises FaultError "bad_reply" if it cannot be parsed."""
    try:
        return msgspec.json.decode(raw, type=Reply)
    except DECODE_ERRORS as error:
        raise bad_reply(f"it holds no completion: {error}") from None


def completion(
    reply: Reply,
    request: Request,
    encoder: Encoder,
    sampling: Sampling,
    *,
    vocabulary: int,
    limit: int,
) -> Completion:
    """Return the completion in a server's answer, checked: at most `limit` tokens below `vocabulary`.

    Greedy sampling puts all mass on one token: its log-probabilities are 0, as in the in-process engine. If
    `sampling` narrows what is drawn, the server's log-probabilities are not the policy's, and are replaced by
    NaN.
    Raises FaultError: "bad_reply" for an impossible answer, "retokenised" for an answer to another prompt
    than ours, "unversioned" if the server was restarted by others, "cut_short" if it stopped in the middle,
    "not_finite" if its model computed NaNs.
    """
    if reply.prompt_token_ids != request.ids:
        at = next(
            (i for i, (a, b) in enumerate(zip(reply.prompt_token_ids, request.ids, strict=False)) if a != b),
            min(len(reply.prompt_token_ids), len(request.ids)),
        )
        message = (
            f"the server's prompt has {len(reply.prompt_token_ids)} tokens, ours {len(request.ids)}: "
            f"they part at token {at}"
        )
        raise FaultError(Fault("policy", "retokenised", message))
    choice = reply.choices[0]
    ids = choice.token_ids
    if choice.finish_reason not in ("stop", "length"):
        message = f"the server gave up after {len(ids)} tokens: {choice.finish_reason:.40}"
        raise FaultError(Fault("policy", "cut_short", message, retryable=True))
    if not 0 < len(ids) <= limit:
        raise bad_reply(f"it has {len(ids)} tokens, of 1 to {limit}")
    unsampled = set(encoder.unsampled)
    if not all(0 <= token < vocabulary and token not in unsampled for token in ids):
        raise bad_reply("it has tokens that are never sampled")
    if encoder.eos in ids[:-1]:
        raise bad_reply("it goes on after its end token")
    logprobs = _logprobs(choice)
    if sampling.greedy:
        logprobs = [0.0] * len(ids)
    elif sampling.narrows:
        logprobs = [math.nan] * len(ids)
    return Completion(ids, logprobs, _versions(choice))


def _logprobs(choice: _Choice) -> list[float]:
    """The log-probability of every token; NaN if the server reports none."""
    given = choice.logprobs.content if choice.logprobs else None
    if given is None:
        return [math.nan] * len(choice.token_ids)
    if [token.token_id for token in given] != choice.token_ids:
        raise bad_reply("its log-probabilities are of other tokens")
    if any(token.logprob > 1e-4 for token in given):
        raise bad_reply("it has a log-probability above 0")
    if any(token.logprob <= _NO_NUMBER for token in given):
        raise not_finite("the server")
    return [min(token.logprob, 0.0) for token in given]


def _versions(choice: _Choice) -> list[tuple[int, int]]:
    """(index of the first token, version) of each span, as the server recorded them while it sampled."""
    spans = choice.weight_versions or []
    ends = [0, *(span.end for span in spans)]
    whole = all(span.start == end < span.end for span, end in zip(spans, ends, strict=False))
    if not whole or ends[-1] != len(choice.token_ids):
        raise bad_reply("it does not say which weights sampled what")
    if not all(
        span.version.isascii() and span.version.isdecimal() and len(span.version) < 18 for span in spans
    ):
        message = f"the server's weights have no version of ours: {spans[0].version!r:.40}"
        raise FaultError(Fault("policy", UNVERSIONED, message, retryable=True))
    return [(span.start, int(span.version)) for span in spans]


def bad_reply(message: str) -> FaultError:
    return FaultError(Fault("policy", "bad_reply", f"the server's answer cannot be used: {message}"))

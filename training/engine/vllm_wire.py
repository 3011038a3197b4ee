"""What is said to a vLLM server, and what its answers must be: tokens and screenshots in, tokens out.

The endpoint is `/inference/v1/generate` of vLLM 0.32: token ids go in as they are, with one placeholder a
picture, which the server expands; it says back the whole prompt, which must be the very tokens that were
meant. A server's answer is anybody's: it is bounded before it is parsed, and every number in it is checked.
"""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import msgspec
from PIL import Image

from guiagent.errors import Fault, FaultError
from training.encode import Encoder, decode
from training.engine.engine import Completion, Request

UNVERSIONED = "unversioned"  # the code of a fault
MAX_REPLY_BYTES = 64 * 2**20
_MISSING = -9999.0  # the server's word for a log-probability that it does not have
_NEVER = -100.0  # the most that may be taken from a logit: e^-100 of the share it had
_AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg"}


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
    logprobs: _Logprobs | None = None
    weight_versions: list[_Span] | None = None


class Reply(msgspec.Struct):
    """The part of an answer that is read."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1, max_length=1)]
    prompt_token_ids: list[int]


def sampling(encoder: Encoder, temperature: float) -> dict[str, Any]:
    """vLLM's SamplingParams less `max_tokens`: the policy's own distribution, but for picture placeholders.

    No top-k, no top-p, no penalty. The log-probability that comes back is of the distribution drawn from (the
    server runs with `processed_logprobs`).
    """
    return {
        "temperature": temperature,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "logprobs": 0,  # of the sampled token alone
        "stop_token_ids": [encoder.eos],
        "logit_bias": {str(token): _NEVER for token in encoder.unsampled},
        "detokenize": False,
    }


def body(
    request: Request, pictures: Sequence[str], model: str, sampling: Mapping[str, Any], image_token: int
) -> bytes:
    """A request's JSON; `pictures` are its frames as `picture_url` gives them."""
    return msgspec.json.encode(
        {
            "model": model,
            "token_ids": collapsed(request.ids, image_token),
            "content_parts": [{"type": "image_url", "url": url} for url in pictures],
            "sampling_params": sampling,
            "return_token_ids": True,
        }
    )


def collapsed(ids: list[int], image_token: int) -> list[int]:
    """`ids` with one placeholder where a picture has a run of them."""
    return ids[:1] + [b for a, b in pairwise(ids) if not a == b == image_token]


def picture_url(encoder: Encoder, frame: bytes) -> str:
    """A frame as a data URL, in the size that the model sees it in, so that no server resizes it its own way.

    A PNG or JPEG of that size goes as it is; everything else as PNG. Raises FaultError as
    `training.encode.decode`.
    """
    image = decode(frame)
    sized = encoder.resized(image)
    with Image.open(io.BytesIO(frame)) as opened:
        kind = _AS_THEY_ARE.get(opened.format or "")
        plain = opened.mode == "RGB" and "transparency" not in opened.info and not opened.getexif()
    if kind is None or not plain or sized is not image:
        kind, buffer = "image/png", io.BytesIO()
        sized.save(buffer, "PNG", compress_level=1)
        frame = buffer.getvalue()
    return f"data:{kind};base64,{base64.b64encode(frame).decode()}"


def completion(
    raw: bytes, request: Request, encoder: Encoder, *, vocabulary: int, limit: int, greedy: bool
) -> Completion:
    """What was sampled, from a server's answer, of at most `limit` tokens; `vocabulary` is the model's size.

    Greedy sampling puts all mass on one token: its log-probabilities are 0, as the in-process engine's.
    Raises FaultError: "bad_reply" for an answer that cannot be true, "retokenised" for one to another prompt
    than ours, "unversioned" where the server was started anew behind our back.
    """
    try:
        reply = msgspec.json.decode(raw, type=Reply)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise bad_reply(f"it holds no completion: {error}") from None
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
    if not 0 < len(ids) <= limit:
        raise bad_reply(f"it has {len(ids)} tokens, of 1 to {limit}")
    unsampled = set(encoder.unsampled)
    if not all(0 <= token < vocabulary and token not in unsampled for token in ids):
        raise bad_reply("it has tokens that are never sampled")
    if encoder.eos in ids[:-1]:
        raise bad_reply("it goes on after its end token")
    return Completion(ids, [0.0] * len(ids) if greedy else _logprobs(choice), _versions(choice))


def _logprobs(choice: _Choice) -> list[float]:
    """Of every token; NaN where the server has none."""
    given = choice.logprobs.content if choice.logprobs else None
    if given is None:
        return [math.nan] * len(choice.token_ids)
    if [token.token_id for token in given] != choice.token_ids:
        raise bad_reply("its log-probabilities are of other tokens")
    if any(token.logprob > 1e-4 for token in given):
        raise bad_reply("it has a log-probability above 0")
    return [math.nan if token.logprob <= _MISSING else min(token.logprob, 0.0) for token in given]


def _versions(choice: _Choice) -> list[tuple[int, int]]:
    """(index of the first token, version) of each span, as the server noted them while it sampled."""
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

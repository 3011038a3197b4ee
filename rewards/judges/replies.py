"""Parse a model's reply by a small grammar: the last `SCORE: x` line, or the last JSON object.

Replies are untrusted: they are read within bounds, and whatever does not fit is unreadable, never a pass.
"""

import json
import re
from typing import TypeVar

import msgspec

from rewards.judges.verdicts import Vote

_Read = TypeVar("_Read")
_LONGEST = 16_000  # characters at the end of a reply that are read
_MISSES = 64  # braces that begin no object, after which the rest is not read
_DECODER = json.JSONDecoder()
_DECORATION = r"[ \t*_#>`]*"
# For a whole line without the blanks around it. No two of its repetitions meet: else each would be tried at
# every place of the other.
_SCORE = re.compile(
    rf"{_DECORATION}SCORE{_DECORATION}:{_DECORATION}(-?\d{{1,2}}(?:\.\d{{1,6}})?|unknown){_DECORATION}\.?",
    re.IGNORECASE,
)


class Scored(msgspec.Struct, frozen=True):
    """One parsed vote. `abstains` tells "unknown" from an unreadable reply; neither has a value."""

    value: Vote
    abstains: bool = False


def read_score(reply: str, lowest: float = 0.0, highest: float = 1.0) -> Scored:
    """Read the last line that is `SCORE: x` and nothing else, x between the bounds or "unknown"."""
    lines = reversed(reply[-_LONGEST:].split("\n"))
    found = next(filter(None, (_SCORE.fullmatch(line.strip()) for line in lines)), None)
    if found is None:
        return Scored(None)
    if found[1].lower() == "unknown":
        return Scored(None, abstains=True)
    value = float(found[1])
    return Scored(value if lowest <= value <= highest else None)


def read_json(reply: str, type: type[_Read]) -> _Read | None:
    """Read the last JSON object of a reply as a `type` (a msgspec Struct); None if it does not fit."""
    reply = reply[-_LONGEST:]
    last, start, misses = None, reply.find("{"), 0
    while start >= 0 and misses < _MISSES:
        try:
            last, end = _DECODER.raw_decode(reply, start)
        except (ValueError, RecursionError):
            end, misses = start + 1, misses + 1
        start = reply.find("{", end)
    try:
        return msgspec.convert(last, type)
    except msgspec.ValidationError:
        return None

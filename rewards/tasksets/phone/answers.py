"""Answers as typed fields: a JSON object with every field and no other. Pure.

An answer in a sentence is wrong, so that its meaning needs no judge. Numbers compare as numbers, texts
without regard to case and white space, and lists without regard to order.
"""

from collections.abc import Mapping, Sequence
from math import isclose

import msgspec

from guiagent.errors import DECODE_ERRORS

Field = int | float | str | Sequence[str]
Fields = Mapping[str, Field]
_KINDS = {int: "a whole number", float: "a number", str: "a text"}
_LARGEST = 1e300  # integers may be larger than any float
_MAX_LENGTH = 4096
_HALF_CENT = 0.005


def question(fields: Fields) -> str:
    """The sentence that says what has to be answered."""
    named = ", ".join(
        f'"{name}" ({_KINDS.get(type(value), "a list of texts")})' for name, value in fields.items()
    )
    return f"Answer with a JSON object and nothing else. Its fields: {named}."


def written(fields: Fields) -> str:
    """The right answer, as JSON."""
    return msgspec.json.encode(dict(fields)).decode()


def read(answer: str | None, fields: Fields) -> dict[str, bool]:
    """Whether each field is right; all are wrong if the answer is no JSON object or has another field."""
    nothing = dict.fromkeys(fields, False)
    if answer is None or len(answer) > _MAX_LENGTH:
        return nothing
    try:
        given = msgspec.json.decode(answer)
    except DECODE_ERRORS:
        return nothing
    if not isinstance(given, dict) or not given.keys() <= fields.keys():
        return nothing
    return {name: _equal(wanted, given.get(name)) for name, wanted in fields.items()}


def _equal(wanted: Field, given: object) -> bool:
    if isinstance(wanted, str):
        return isinstance(given, str) and _folded(given) == _folded(wanted)
    if isinstance(wanted, int | float):
        if isinstance(given, bool) or not isinstance(given, int | float) or abs(given) > _LARGEST:
            return False
        return isclose(given, wanted, abs_tol=0 if isinstance(wanted, int) else _HALF_CENT)
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        return False
    return sorted(map(_folded, given)) == sorted(map(_folded, wanted))


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()

"""Typed values of an answer, compared as WebArena-Verified does: by the kind that a JSON schema names. Pure.

A list where the schema has one value holds alternatives; a text from "^" to "$" in a reference is a pattern.
Deliberate differences from WebArena-Verified 1.2 (github.com/ServiceNow/webarena-verified): an answer is
never a pattern, which would match every reference; numbers in words are not read; "1,234" is a price of 1234;
dates are read in the forms of `_DATES`; letters that have no accent to lose stay as they are. Addresses in
parts (`full_address`) and URLs are not compared.
"""

import calendar
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import msgspec
import regex

from guiagent.errors import DECODE_ERRORS

Schema = Mapping[str, Any]

_LONGEST = 10_000  # characters of a text that are compared
_MATCH_S = 1.0  # for one pattern
_DATES = (
    *("%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%m/%d/%y", "%m-%d-%Y", "%B %d %Y", "%b %d %Y"),
    *("%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"),
)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_METRES = {
    **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), 1.0),
    **dict.fromkeys(("k", "km", "kms", "kilometer", "kilometers", "kilometre", "kilometres"), 1000.0),
    **dict.fromkeys(("cm", "centimeter", "centimeters", "centimetre", "centimetres"), 0.01),
    **dict.fromkeys(("mi", "mile", "miles"), 1609.344),
    **dict.fromkeys(("ft", "foot", "feet"), 0.3048),
    **dict.fromkeys(("yd", "yard", "yards"), 0.9144),
    **dict.fromkeys(("in", "inch", "inches"), 0.0254),
}
_AMOUNT = regex.compile(r"(-?)\D{0,8}?(-?)(\d[\d.,]*)\D{0,8}")
_DURATION = regex.compile(
    r"(\d+(?:\.\d+)?) ?(w|d|h|m|s)(?:eeks?|ays?|ours?|rs?|inutes?|ins?|econds?|ecs?)?\b,? ?(?:and )?"
)
_CLOCK = regex.compile(r"(?:(\d{1,4}):)?(\d{1,4}):(\d\d(?:\.\d+)?)( ?hours?)?")
_DISTANCE = regex.compile(r"(\d+(?:\.\d+)?) ?([a-z]+)\.?")
_TRUE, _FALSE = ("true", "yes", "y", "1", "t", "on"), ("false", "no", "n", "0", "f", "off")
_ENDS = "'\"`.,;:!?"


def unsupported(schema: Schema) -> list[str]:
    """The kinds that a schema names and that are not compared here."""
    if schema.get("type") == "array":
        return unsupported(schema.get("items") or {})
    if schema.get("type") == "object" and schema.get("title") != "full_address":
        return [kind for part in (schema.get("properties") or {}).values() for kind in unsupported(part)]
    kind = _kind(schema)
    return [] if kind in (*_KINDS, "string", "null") else [kind]


def same(reference: Any, answer: Any, schema: Schema, *, ordered: bool = False) -> bool:
    """True if an answer is what a reference says, where both are of a schema."""
    if schema.get("type") == "array":
        return _same_lists(_listed(reference), _listed(answer), schema.get("items") or {}, ordered)
    if isinstance(reference, list) and _kind(schema) != "coordinates":
        return any(same(one, answer, schema, ordered=ordered) for one in reference)
    if reference is None or answer is None:
        return reference in (None, "") and answer in (None, "")
    if schema.get("type") == "object":
        parts = schema.get("properties") or {}
        return (
            isinstance(reference, dict)
            and isinstance(answer, dict)
            and reference.keys() == answer.keys()
            and all(same(reference[k], answer[k], parts.get(k) or {}, ordered=ordered) for k in reference)
        )
    if _kind(schema) == "string":
        return _same_texts(str(reference), str(answer))
    read, close = _KINDS[_kind(schema)]
    try:
        return close(read(reference), read(answer))
    except (ValueError, OverflowError):
        return False


def text(value: Any) -> str:
    """A text without marks, accents, case and superfluous white space; hyphens beside letters are spaces."""
    found = unicodedata.normalize("NFKC", str(value)[:_LONGEST].translate(dict.fromkeys(map(ord, "™®℠©"))))
    found = regex.sub(r"(?<=\p{L})[-\u2010-\u2015]|[-\u2010-\u2015](?=\p{L})", " ", found)
    found = "".join(one for one in unicodedata.normalize("NFKD", found) if not unicodedata.combining(one))
    return regex.sub(r"[\s\p{Cc}]+", " ", found).strip().casefold()


def is_pattern(value: str) -> bool:
    return len(value) > 1 and value.startswith("^") and value.endswith("$")


def matches(pattern: str, value: str) -> bool:
    """True if all of a text is as a pattern has it, in any case. One that cannot be read matches nothing."""
    try:
        return regex.fullmatch(pattern, value[:_LONGEST], regex.IGNORECASE, timeout=_MATCH_S) is not None
    except (regex.error, TimeoutError):
        return False


def _same_texts(reference: str, answer: str) -> bool:
    if is_pattern(reference.strip()):
        return any(matches(reference.strip(), one) for one in (text(answer), answer.strip()))
    wanted, given = text(reference), text(answer)
    return wanted == given or wanted.strip(_ENDS) == given.strip(_ENDS) != ""


def _listed(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]


def _same_lists(reference: Sequence[Any], answer: Sequence[Any], schema: Schema, ordered: bool) -> bool:
    """True if each reference has an answer of its own, and no answer is left over."""
    if len(reference) != len(answer):
        return False
    if ordered:
        return all(same(one, two, schema, ordered=True) for one, two in zip(reference, answer, strict=True))
    left = list(answer)
    for one in reference:
        place = next((place for place, two in enumerate(left) if same(one, two, schema)), None)
        if place is None:
            return False
        del left[place]
    return True


def _kind(schema: Schema) -> str:
    if schema.get("title") == "full_address":
        return "full_address"
    return str(schema.get("format") or schema.get("type") or "string")


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("a truth value is no number")
    found = float(value if isinstance(value, int | float) else str(value).replace(",", "").replace(" ", ""))
    if not math.isfinite(found):
        raise ValueError(f"{value} is no number")
    return found


def _price(value: Any) -> float:
    if isinstance(value, int | float):
        return _number(value)
    found = _AMOUNT.fullmatch(str(value).strip())
    if found is None:
        raise ValueError(f"{value} is no price")
    digits = found[3].rstrip(".,")
    comma = digits.rfind(",") > digits.rfind(".")  # the last sign is one
    if comma and ("." in digits or len(digits.rpartition(",")[2]) != 3):  # 1.234,50 or 12,50
        digits = digits.replace(".", "").replace(",", ".")
    return float(digits.replace(",", "")) * (-1 if found[1] or found[2] else 1)


def _document(value: Any) -> Any:
    """The value of a JSON text."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except DECODE_ERRORS as error:
        raise ValueError(str(error)) from None


def _words(value: Any) -> list[str]:
    """The parts of a text with commas, in any order."""
    return sorted(part.strip() for part in str(value)[:_LONGEST].split(",") if part.strip())


def _truth(value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"{value} is neither true nor false")
    return word in _TRUE


def _day(value: Any) -> date:
    words = regex.sub(r"(?<=\d)(st|nd|rd|th)\b", "", " ".join(str(value).replace(",", " ").split()))
    for form in _DATES:
        try:
            return datetime.strptime(words, form).date()
        except ValueError:
            continue
    raise ValueError(f"{value} is no date")


def _month(value: Any) -> int:
    word = str(value).strip().lower().rstrip(".")
    names = [name.lower() for name in calendar.month_name]
    found = int(float(word)) if regex.fullmatch(r"\d{1,2}(\.0)?", word) else 0
    if len(word) >= 3 and not found:
        found = next((number for number in range(1, 13) if names[number].startswith(word)), 0)
    if not 1 <= found <= 12:
        raise ValueError(f"{value} is no month")
    return found


def _duration(value: Any) -> float:
    """Seconds: "2h 30min", "5 hours and 3 minutes", "1:02:03", "4:13" (minutes), "1:35 hours"."""
    words = text(value)
    if clock := _CLOCK.fullmatch(words):
        hours, minutes, seconds = float(clock[1] or 0), float(clock[2]), float(clock[3])
        if clock[4] and clock[1] is None:
            hours, minutes, seconds = minutes, seconds, 0.0
        return 3600 * hours + 60 * minutes + seconds
    if not words or _DURATION.sub("", words).strip():
        raise ValueError(f"{value} is no duration with a unit")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(words))


def _metres(value: Any) -> float:
    found = _DISTANCE.fullmatch(text(value).replace(",", ""))
    if found is None or found[2] not in _METRES:
        raise ValueError(f"{value} is no distance with a unit")
    return float(found[1]) * _METRES[found[2]]


def _place(value: Any) -> tuple[float, float]:
    found: list[Any]
    if isinstance(value, dict):
        found = [value.get("latitude", value.get("lat")), value.get("longitude", value.get("lon"))]
    else:
        found = value if isinstance(value, list) else str(value).split(",")
    if len(found) != 2 or not all(isinstance(one, int | float | str) for one in found):
        raise ValueError(f"{value} is no latitude and longitude")
    return _number(found[0]), _number(found[1])


def _alike(one: str, two: str) -> bool:
    """True if 80 % of the letters of two names are a common subsequence, in any order of the words."""
    first, second = (" ".join(sorted(regex.findall(r"\w+", name[:200]))) for name in (one, two))
    row = [0] * (len(second) + 1)
    for letter in first:
        diagonal = 0
        for place, other in enumerate(second, 1):
            diagonal, row[place] = (
                row[place],
                (diagonal + 1 if letter == other else max(row[place], row[place - 1])),
            )
    return bool(first and second) and round(200 * row[-1] / (len(first) + len(second))) >= 80


def _within(least: float, share: float) -> Callable[[float, float], bool]:
    return lambda one, two: abs(one - two) <= max(least, share * max(abs(one), abs(two)))


def _equal(one: Any, two: Any) -> bool:
    return bool(one == two)


_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], bool]]] = {
    "number": (_number, _within(1e-9, 1e-9)),
    "integer": (_number, _within(1e-9, 1e-9)),
    "currency": (_price, _within(0.1 + 1e-9, 0.0)),
    "boolean": (_truth, _equal),
    "json": (_document, _equal),
    "string_list": (_words, _equal),
    "date": (_day, _equal),
    "month": (_month, _equal),
    "duration": (_duration, _within(180.0, 0.1)),  # a map's estimates vary
    "distance": (_metres, _within(10.0, 0.02)),
    "coordinates": (_place, lambda one, two: all(map(_within(1e-5, 0.0), one, two))),
    "location-name": (text, _alike),
}

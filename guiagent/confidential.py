"""Finds a text that must not leave in another one, also if that is encoded in one of the usual ways. Pure."""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_plus

LEAST = 6
"""Letters and digits that a confidential text has at least."""
LONGEST = 256 << 10
"""Characters of a text that can be searched in a fraction of a second."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}){6,}")


def disclosed(text: str, secrets: Iterable[str]) -> str | None:
    """The first of the secrets that stands in `text`, or None.

    Found in any case, with any signs between its letters and digits, backwards, percent-encoded up to twice,
    in base64 and in hexadecimal. It is a net and not a wall: who wants to can encode a text in a way that is
    not looked for. The wall is what the lease may reach.
    """
    plain = bare(text)
    views = [plain, plain[::-1], *map(bare, _decoded(text))]
    return next((one for one in secrets if any(bare(one) in view for view in views)), None)


def bare(text: str) -> str:
    """Only the letters and digits, in one case and one of Unicode's equal forms."""
    return "".join(one for one in unicodedata.normalize("NFKC", text).casefold() if one.isalnum())


def _decoded(text: str) -> Iterator[str]:
    once = unquote_plus(text)
    yield once
    yield unquote_plus(once)
    for run in _HEX.findall(text):
        yield bytes.fromhex(run).decode(errors="replace")
    for run in _BASE64.findall(text):
        run = run.translate(str.maketrans("-_", "+/"))
        for start in range(4):  # it may begin within what stands before it
            whole = run[start : start + (len(run) - start) // 4 * 4]
            rest = run[start + len(whole) :]
            padded = whole + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else "")
            try:
                yield base64.b64decode(padded).decode(errors="replace")
            except binascii.Error:
                continue

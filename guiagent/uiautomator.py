"""The XML that Android's `uiautomator dump` writes, which is not trusted: its root, and bounds of views."""

import re
from xml.etree import ElementTree

from guiagent.types import Box

_MAX_XML = 16 << 20
_MAX_TAGS = 50_000
_BOUNDS = re.compile(r"\[(-?\d{1,6}),(-?\d{1,6})\]\[(-?\d{1,6}),(-?\d{1,6})\]")


class TreeError(Exception):
    """Data without a tree; the message says in one line what it contains."""


def root_of(xml: bytes) -> ElementTree.Element:
    """The element `hierarchy`, which has the views of the screen in it.

    Raises TreeError for data that is not XML, has a document type (a dump never does), has no views, or has
    so many that it would take long to look at them.
    """
    start, end = xml.find(b"<?xml"), xml.rfind(b"</hierarchy>")
    if start < 0 or end < 0 or len(xml) > _MAX_XML:
        raise TreeError(_first_line(xml) or "no answer")
    document = xml[start : end + len(b"</hierarchy>")]
    if b"<!" in document:
        raise TreeError("a dump with a document type")
    if document.count(b"<") > _MAX_TAGS:
        raise TreeError(f"a dump with over {_MAX_TAGS} tags")
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise TreeError(f"not XML: {error}") from None
    if not len(root):
        raise TreeError("a dump without a node")
    return root


def bounds_of(view: ElementTree.Element) -> Box | None:
    """What a view takes of the screen and beyond it; None if it does not say so."""
    match = _BOUNDS.fullmatch(view.get("bounds", ""))
    if match is None:
        return None
    left, top, right, bottom = map(int, match.groups())
    return left, top, right - left, bottom - top


def _first_line(data: bytes) -> str:
    return data[:300].decode("utf-8", "replace").strip().partition("\n")[0]

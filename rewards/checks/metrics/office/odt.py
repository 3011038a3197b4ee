"""OpenDocument texts (.odt): their paragraphs and the background of words."""

from pathlib import Path
from typing import Any

from odf import teletype  # type: ignore[import-untyped]
from odf.namespaces import FONS, TEXTNS  # type: ignore[import-untyped]
from odf.opendocument import OpenDocument, load  # type: ignore[import-untyped]
from odf.style import Style  # type: ignore[import-untyped]
from odf.text import P, Span  # type: ignore[import-untyped]

from rewards.checks.archives import checked_zip, parsing

_PARAGRAPHS = ((TEXTNS, "p"), (TEXTNS, "h"))
_MAX_DEPTH = 200


def _open(path: Path) -> OpenDocument:
    checked_zip(path)
    with parsing(path), path.open("rb") as file:
        return load(file)


def odt_paragraphs(path: Path) -> list[str]:
    """The text of every paragraph and heading in order, those of tables and notes among them."""
    document = _open(path)
    with parsing(path):
        return _paragraphs(document.text, 0)


def _paragraphs(element: Any, depth: int) -> list[str]:
    if depth > _MAX_DEPTH:
        raise RecursionError("elements lie too deep")
    found: list[str] = []
    for child in getattr(element, "childNodes", ()):
        if getattr(child, "qname", None) in _PARAGRAPHS:
            found.append(teletype.extractText(child))
        else:
            found += _paragraphs(child, depth + 1)
    return found


def has_background(path: Path, colour: str) -> bool:
    """Whether any paragraph or part of one has a style with that background ("#rrggbb")."""
    document = _open(path)
    with parsing(path):
        styles = {
            style.getAttribute("name")
            for style in document.getElementsByType(Style)
            for part in style.childNodes
            if str(part.attributes.get((FONS, "background-color"), "")).lower() == colour
        }
        used = [*document.getElementsByType(Span), *document.getElementsByType(P)]
        return any(element.getAttribute("stylename") in styles for element in used)

"""WebArena's evaluators on worked cases."""

from typing import Any

import pytest

from rewards.checks import web


@pytest.mark.parametrize(
    ("reference", "answer", "value"),
    [
        ("Sprite Yoga Strap", "  sprite yoga strap ", 1.0),
        ("557m", '"557m"', 1.0),
        ("557m", "557m from here", 0.0),
        ("", "", 1.0),
        ("'", "'", 1.0),
        ("N/A", "", 0.0),
    ],
)
def test_exact(reference: str, answer: str, value: float) -> None:
    assert web.exact(reference, answer) == value


@pytest.mark.parametrize(
    ("references", "answer", "value"),
    [
        (["1"], "It took 1 hour.", 1.0),
        (["1"], "It took 10 hours.", 0.0),  # a word of its own
        (["1", "hour"], "10 hours", 1.0),  # several are looked for anywhere
        (["catamaran", "sloop"], "A SLOOP and a Catamaran", 1.0),
        (["catamaran", "sloop"], "a sloop", 0.0),
        (["3.5"], "rated 3.5, no more", 1.0),
        ([""], "anything", 0.0),
        (["x"], "", 0.0),
        (["2"], "How many commits did Eric make on 3/2?", 0.0),
        (["65 |OR| 3"], "a 3.5 mm cable", 0.0),
        (["65 |OR| 3"], "It is 3.", 1.0),
    ],
)
def test_includes_all(references: list[str], answer: str, value: float) -> None:
    assert web.includes_all(references, answer) == value


@pytest.mark.parametrize(
    ("reference", "actual", "value"),
    [
        ("http://shop/a", "http://shop/a/", 1.0),
        ("http://shop/a", "https://shop/a/b?c=d", 1.0),
        ("http://shop/a", "http://shop/ab", 0.0),
        ("http://shop/a", "http://evil/?u=http://shop/a", 0.0),
        ("http://shop/a", "http://shop.evil/a", 0.0),
        ("http://shop/a?q=1", "http://shop/a?q=1&r=2", 1.0),
        ("http://shop/a?q=1", "http://shop/a?q=2", 0.0),
        ("http://shop/a?q=1 |OR| http://shop/b?q=2", "http://shop/b?q=1", 1.0),
        ("http://shop/a |OR| http://shop/b", "http://shop/c", 0.0),
        ("http://shop/a", "", 0.0),
        ("http://me:secret@shop/a", "http://shop/a", 1.0),  # a browser does not show it
        ("http://shop/a", "http://shop@evil/a", 0.0),
    ],
)
def test_address(reference: str, actual: str, value: float) -> None:
    assert web.address(reference, actual) == value


@pytest.mark.parametrize(
    ("required", "found", "value"),
    [
        ({"exact_match": "A & B"}, " a &amp; b", 1.0),
        ({"exact_match": "A"}, "A B", 0.0),
        ({"must_include": ["one", "two |OR| three"]}, "One, Three", 1.0),
        ({"must_include": ["one", "two |OR| three"]}, "one", 0.0),
        ({"must_include": ["one"]}, "", 0.0),
    ],
)
def test_contents(required: dict[str, Any], found: str, value: float) -> None:
    assert web.contents(required, found) == value

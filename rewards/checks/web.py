"""WebArena's evaluators: an answer's text, the final address, and what programs find on pages. Pure.

Deliberate differences from the benchmark's first release: a reference address is matched as a prefix of the
final one, host included, and not as any part of it, so that a query string cannot hold the reference; an
empty reference is never included.

Source: "WebArena", arXiv 2307.13854; the rules are those its task files (`eval`) use.
"""

import html
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import regex

OR = " |OR| "
_USER = regex.compile(r"(?<=://)[^/@]*@")
_WORD = regex.compile(r"\w+(?:[.,:'/-]\w+)*|\S")


def exact(reference: str, answer: str) -> float:
    """1 if both are the same, except for case, outer white space and one pair of quotes."""
    return float(_clean(answer) == _clean(reference))


def includes(reference: str, answer: str, *, whole_word: bool = False) -> float:
    """1 if the answer includes the reference, in any case; as a word of its own with `whole_word`."""
    wanted, given = _clean(reference), _clean(answer)
    if not wanted:
        return 0.0
    return float(wanted in _WORD.findall(given) if whole_word else wanted in given)


def includes_all(references: Sequence[str], answer: str) -> float:
    """1 if the answer includes every reference, each of which may be several alternatives.

    A single reference of one word has to be a word of the answer: "1" is not in "10 minutes", nor in "3/1".
    """
    alone = len(references) == 1 and all(len(_WORD.findall(one)) == 1 for one in references[0].split(OR))
    return float(all(_includes_one(one, answer, whole_word=alone) for one in references))


def excludes_all(references: Sequence[str], answer: str) -> float:
    """1 if the answer includes none of the references; one of a single word is looked for as a word."""
    return float(
        not any(includes(one, answer, whole_word=len(_WORD.findall(one)) == 1) for one in references)
    )


def address(reference: str, actual: str, *, exactly: bool = False) -> float:
    """1 if the final address is at or below one of the reference's and has its query.

    `reference` is one URL or several, of which one is enough. For every key in their queries, the final
    address must have one of the values that they name. With `exactly` it has to be one of them.
    """
    if exactly:
        return float(_clean_url(actual) in map(_clean_url, reference.split(OR)))
    wanted = [urlsplit(_clean_url(url)) for url in reference.split(OR)]
    given = urlsplit(_clean_url(actual))
    if not any(_is_below(given.netloc + given.path, one.netloc + one.path) for one in wanted):
        return 0.0
    queries: dict[str, set[str]] = {}
    for one in wanted:
        for key, values in parse_qs(one.query).items():
            queries.setdefault(key, set()).update(values)
    found = parse_qs(given.query)
    return float(all(values & set(found.get(key, ())) for key, values in queries.items()))


def contents(required: Mapping[str, Any], found: str) -> float:
    """1 if the text that a program found on a page is what `required_contents` asks for.

    `exact_match` is one text; `must_include` a list, each of its entries with alternatives; `must_exclude` a
    list of what must not be there.

    Raises:
        KeyError: `required` has none of them.
    """
    text = html.unescape(found)
    if "exact_match" in required:
        return exact(required["exact_match"], text)
    if "must_exclude" in required and "must_include" not in required:
        return excludes_all(required["must_exclude"], text)
    included = all(_includes_one(entry, text) for entry in required["must_include"])
    return float(included and bool(excludes_all(required.get("must_exclude", ()), text)))


def _includes_one(reference: str, answer: str, *, whole_word: bool = False) -> bool:
    return any(includes(one, answer, whole_word=whole_word) for one in reference.split(OR))


def _clean(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return text.lower()


def _clean_url(url: str) -> str:
    """A URL without a final slash, and without the user and password that no browser shows."""
    return _USER.sub("", url.strip().rstrip("/"))


def _is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(base if base.endswith("/") else base + "/")

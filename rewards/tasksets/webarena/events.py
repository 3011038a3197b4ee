"""Compare the requests of an episode with those that a task of WebArena-Verified expects. Pure.

Addresses are compared with the names of sites in place of their addresses. What is expected of a response's
content or cookies, of the request's cookies, and of encoded queries is not compared: `unsupported` says so.
"""

import re
from collections.abc import Mapping, Sequence
from email import message_from_string
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import regex

from guiagent.errors import DECODE_ERRORS
from rewards.checks import typed
from rewards.tasksets.webarena.files import Evaluator, Event
from rewards.tasksets.webarena.requests import Request
from rewards.tasksets.webarena.sites import unfilled

_STATIC = (
    *(".css", ".js", ".woff", ".woff2", ".ttf"),
    *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".ico", ".webp"),
)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\['([^']+)'\]")
_PATH = re.compile(rf"\$(?:{_STEP.pattern})+")


def unsupported(wanted: Evaluator) -> list[str]:
    """What an evaluator expects that is not compared here."""
    expected = wanted.event
    missing = [name for name in ("response_content", "response_cookies") if getattr(expected, name)]
    missing += ["decode_base64_query"] if wanted.decode_base64_query else []
    missing += [f"header {name}" for name in expected.headers or {} if name.lower() == "cookie"]
    missing += [
        f"the path {name[:40]}"
        for name in expected.post_data or {}
        if name.startswith("$") and not _PATH.fullmatch(name)
    ]
    for schema in (wanted.query_params_schema, wanted.post_data_schema):
        missing += [f"values of the kind {kind}" for kind in typed.unsupported(schema or {})]
    return missing


def met(
    wanted: Evaluator, requests: Sequence[Request], addresses: Mapping[str, str], *, navigating: bool
) -> bool:
    """True if a request is as expected: the last that has its method and path, or any of them.

    `navigating`: the task is to show a page, so that only the last page counts where one is expected.
    """
    expected = wanted.event
    seen = [one for one in requests if not urlsplit(one.url).path.lower().endswith(_STATIC)]
    if navigating and expected.http_method == "GET":
        found = [one for one in seen if one.navigates and one.method == "GET"][-1:]
    else:
        found = [one for one in seen if _is_such(expected, one, addresses)]
    if wanted.should_not_exist:
        return not found
    looked_at = found[-1:] if wanted.last_event_only else found
    return any(_as_expected(wanted, expected, one, addresses) for one in looked_at)


def _is_such(expected: Event, one: Request, addresses: Mapping[str, str]) -> bool:
    """True for a request of the expected method, path and, where both say one, path of the page before."""
    if one.method.upper() != expected.http_method.upper():
        return False
    before, given = (expected.headers or {}).get("referer"), one.headers.get("referer")
    if before and given and not any(_same_path(url, given, addresses) for url in _each(before)):
        return False
    return any(_same_path(url, one.url, addresses) for url in _each(expected.url))


def _as_expected(wanted: Evaluator, expected: Event, one: Request, addresses: Mapping[str, str]) -> bool:
    query = expected.query_params or {}
    return (
        one.method.upper() == expected.http_method.upper()
        and one.status == expected.response_status
        and any(_same_url(wanted, url, query, one.url, addresses) for url in _each(expected.url))
        and all(
            _same_header(wanted, name, value, one, addresses)
            for name, value in (expected.headers or {}).items()
        )
        and _same_data(wanted, expected, one)
    )


def _same_path(pattern: str, url: str, addresses: Mapping[str, str]) -> bool:
    given = unfilled(url, addresses).partition("?")[0].partition("#")[0]
    if typed.is_pattern(pattern):
        return any(typed.matches(pattern, text) for text in (given, unquote(given)))
    plain = pattern.partition("?")[0].partition("#")[0]
    return unquote(plain).lower().rstrip("/") == unquote(given).lower().rstrip("/")


def _same_url(
    wanted: Evaluator, pattern: str, query: Mapping[str, Any], url: str, addresses: Mapping[str, str]
) -> bool:
    """True for the same path and query, but for parameters that are ignored; a missing one is empty."""
    if not _same_path(pattern, url, addresses):
        return False
    asked = {**_query("" if typed.is_pattern(pattern) else pattern), **query}
    given = _query(url)
    parts = (wanted.query_params_schema or {}).get("properties") or {}
    return all(
        any(
            typed.same(one or "", given.get(name, ""), _single(parts.get(name)))
            for one in _each(asked.get(name))
        )
        for name in asked | given
        if not _ignored(name, wanted.ignored_query_params, wanted.ignored_query_params_patterns)
    )


def _same_header(
    wanted: Evaluator, name: str, value: Any, one: Request, addresses: Mapping[str, str]
) -> bool:
    given = one.headers.get(name.lower(), "")
    if name.lower() in ("referer", "redirect_url"):
        return any(_same_url(wanted, url, {}, given, addresses) for url in _each(value))
    return typed.same(value, given, {})


def _same_data(wanted: Evaluator, expected: Event, one: Request) -> bool:
    parts = (wanted.post_data_schema or {}).get("properties") or {}
    given = posted(one)
    return all(
        typed.same(value, _at(given, name), parts.get(name) or {})
        for name, value in (expected.post_data or {}).items()
        if not _ignored(name, None, wanted.ignored_post_data_params_patterns)
    )


def posted(one: Request) -> dict[str, Any]:
    """The data that a request posts, by name; {} for what is neither a form nor a JSON object."""
    kind = one.headers.get("content-type", "")
    if kind.startswith("multipart/form-data"):
        parts = message_from_string(f"Content-Type: {kind}\n\n{one.data}")
        named = ((part.get_param("name", header="content-disposition"), part) for part in parts.walk())
        return {str(name): str(part.get_payload()).strip("\r\n") for name, part in named if name is not None}
    if "json" in kind:
        try:
            return msgspec.json.decode(one.data, type=dict[str, Any])
        except DECODE_ERRORS:
            return {}
    return _query(f"?{one.data}")


def _at(data: Mapping[str, Any], name: str) -> Any:
    """The value of a name, or at a path such as `$.note.items[0]`; None if there is none."""
    if not name.startswith("$"):
        return data.get(name)
    found: Any = data
    for key, number, quoted in _STEP.findall(name):
        try:
            found = found[int(number)] if number else found[key or quoted]
        except (KeyError, IndexError, TypeError):
            return None
    return found


def _query(url: str) -> dict[str, Any]:
    """The parameters of an address, the first of each name."""
    query = url.partition("?")[2].partition("#")[0]
    return dict(reversed(parse_qsl(query, keep_blank_values=True)))


def _ignored(name: str, names: Sequence[str] | None, patterns: Sequence[str] | None) -> bool:
    return name in (names or ()) or any(_found(pattern, name) for pattern in patterns or ())


def _found(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, timeout=1.0) is not None
    except (regex.error, TimeoutError):
        return False


def _single(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The kind of one value: schemas of queries name lists of them."""
    if schema and schema.get("type") == "array":
        return schema.get("items") or {}
    return schema or {}


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

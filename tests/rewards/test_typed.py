"""Typed values compared as WebArena-Verified defines them, and requests, on worked cases."""

from typing import Any

import pytest

from rewards.checks import typed
from rewards.tasksets.webarena import events
from rewards.tasksets.webarena.files import Evaluator
from rewards.tasksets.webarena.requests import Request

SITES = {"GITLAB": "http://10.0.0.7:8023", "SHOPPING": "http://10.0.0.7:7770"}


@pytest.mark.parametrize(
    ("kind", "reference", "answer", "same"),
    [
        ("string", "Quest Lumaflex™ Band", " quest lumaflex band.", True),
        ("string", "Café au-lait", "cafe au lait", True),
        ("string", "123-4567", "123 4567", False),  # a hyphen between digits stays
        ("string", ["red", "blue"], "Blue", True),
        ("string", r"^#?\s*0*170$", "#000170", True),
        ("string", r"^#?\s*0*170$", "1170", False),
        ("string", "anything", "^.*$", False),  # an answer is no pattern
        ("string", "x", "(", False),
        ("string", "(a+)+$", "a", False),
        ("string", "^(a+)+$", "a" * 40 + "!", False),  # takes no time, or is given up
        ("string", "", "", True),
        ("string", "?", "!", False),
        ("number", 1234.5, "1,234.5", True),
        ("number", 1, True, False),
        ("number", 1, "one", False),
        ("number", 0, 0, True),
        ("number", 0, None, False),
        ("currency", 1234.5, "$1,234.50", True),
        ("currency", 1234.5, "1.234,50 €", True),
        ("currency", 1234, "1,234", True),
        ("currency", 12.5, "12,50", True),
        ("currency", 365.42, "365.5", True),  # within a tenth
        ("currency", 365.42, "365.6", False),
        ("currency", -3, "-$3", True),
        ("boolean", True, "yes", True),
        ("boolean", False, 0, True),
        ("boolean", True, "perhaps", False),
        ("date", "March 2, 2022", "2022-03-02", True),
        ("date", "03/11/2023", "11th March 2023", True),
        ("date", "May 23 2023", "2023-05-24", False),
        ("month", "May", 5, True),
        ("month", "Sep", "September", True),
        ("month", "May", 13, False),
        ("duration", "1h 58min", "01:57:30", True),
        ("duration", "5h 47min", "5 hours and 40 minutes", True),
        ("duration", "1hr 35min", "1:35 hours", True),
        ("duration", "7min", "11 min", False),
        ("duration", "7min", 7, False),  # a unit is asked for
        ("distance", "1.4km", "1400 m", True),
        ("distance", "914km", "568 miles", True),
        ("distance", "557m", "566 m", True),
        ("distance", "557m", "600 m", False),
        ("coordinates", {"latitude": "40.44241", "longitude": "-79.93973"}, "40.44241, -79.93973", True),
        ("coordinates", {"latitude": "40.44241", "longitude": "-79.93973"}, [40.4424, -79.9398], False),
        ("location-name", "Carnegie Mellon University", "Carnegie Mellon Univ", True),
        ("location-name", "Apple Store Shadyside", "Shadyside Apple Store", True),
        ("location-name", "The exchange", "Back Bar Grill", False),
        ("string_list", "632,64, 86", "86,632,64", True),
        ("json", '{"a": [1]}', '{ "a" : [ 1 ] }', True),
        ("json", '{"a": 1}', "{", False),
    ],
)
def test_values_of_a_kind(kind: str, reference: Any, answer: Any, same: bool) -> None:
    assert typed.same(reference, answer, {"format": kind}) is same


@pytest.mark.parametrize(
    ("reference", "answer", "ordered", "same"),
    [
        ([1, 2], [2, 1], False, True),
        ([1, 2], [2, 1], True, False),
        ([1, 1], [1, 2], False, False),
        ([1], 1, False, True),
        ([], None, False, True),
        ([[1, 5], 2], [2, 5], False, True),
        ([1], [1, 2], False, False),
    ],
)
def test_lists(reference: Any, answer: Any, ordered: bool, same: bool) -> None:
    schema = {"type": "array", "items": {"type": "number"}}
    assert typed.same(reference, answer, schema, ordered=ordered) is same


def test_objects_have_the_same_names_and_kinds_that_are_not_compared_are_named() -> None:
    parts = {"min": {"type": "number", "format": "currency"}, "names": {"type": "array", "items": {}}}
    schema = {"type": "array", "items": {"type": "object", "properties": parts}}
    expected = [{"min": 8.99, "names": ["A", "B"], "note": None}]
    assert typed.same(expected, [{"min": "$9", "names": ["b", "a"], "note": ""}], schema)
    assert not typed.same(expected, [{"min": "$9", "names": ["b", "a"]}], schema)
    assert not typed.same(expected, ["8.99"], schema)
    assert typed.unsupported(schema) == []
    address = {"type": "object", "title": "full_address", "properties": {"city": {"type": "string"}}}
    place = {"type": "object", "properties": {"at": address, "url": {"type": "string", "format": "url"}}}
    assert typed.unsupported({"type": "array", "items": place}) == ["full_address", "url"]


def wanted(**expected: Any) -> dict[str, Any]:
    return {"url": "__GITLAB__/a/b", **expected}


def sent(url: str = "/a/b", **more: Any) -> Request:
    return Request(SITES["GITLAB"] + url, **{"status": 200, **more})


FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}
PARTS = 'multipart/form-data; boundary="x"'
BODY = '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nlgtm\r\n--x--\r\n'


@pytest.mark.parametrize(
    ("expected", "options", "request_", "met"),
    [
        (wanted(), {}, sent(), True),
        (wanted(), {}, sent("/a/B/"), True),
        (wanted(), {}, sent("/a/b/c"), False),
        (wanted(), {}, sent(status=404), False),
        (wanted(), {}, sent("/a/b?x=1"), False),
        (wanted(), {"ignored_query_params": ["x"]}, sent("/a/b?x=1"), True),
        (wanted(), {"ignored_query_params_patterns": [".*"]}, sent("/a/b?x=1"), True),
        (wanted(query_params={"x": "^[0-9]$"}), {}, sent("/a/b?x=1"), True),
        (wanted(url=["__GITLAB__/z", "__GITLAB__/a b?x=1"]), {}, sent("/a%20b?x=1&y="), True),
        (wanted(url=r"^__GITLAB__/\w/\w$"), {}, sent(), True),
        (wanted(url="__SHOPPING__/a/b"), {}, sent(), False),
        (wanted(headers={"referer": "__GITLAB__/c?d=e f"}), {}, sent(headers={"referer": ""}), False),
        (
            wanted(headers={"referer": "__GITLAB__/c?d=e f"}),
            {},
            sent(headers={"referer": SITES["GITLAB"] + "/c?d=e+f"}),
            True,
        ),
        (
            wanted(http_method="POST", post_data={"a": 1}),
            {},
            sent(method="POST", headers=FORM, data="a=1&b=2"),
            True,
        ),
        (
            wanted(http_method="POST", post_data={"a": "2"}),
            {},
            sent(method="POST", headers=FORM, data="a=1"),
            False,
        ),
        (
            wanted(http_method="POST", post_data={"$.n['a'][0].b": "lgtm"}),
            {},
            sent(method="POST", headers=JSON, data='{"n": {"a": [{"b": "LGTM"}]}}'),
            True,
        ),
        (
            wanted(http_method="POST", post_data={"$.n": 1}),
            {},
            sent(method="POST", headers=JSON, data="[1"),
            False,
        ),
        (
            wanted(http_method="POST", post_data={"a": "lgtm"}),
            {},
            sent(method="POST", headers={"content-type": PARTS}, data=BODY),
            True,
        ),
        (wanted(), {"should_not_exist": True}, sent(), False),
        (wanted(), {"should_not_exist": True}, sent("/z"), True),
        (wanted(url="__GITLAB__/a.css"), {}, sent("/a.css"), False),
    ],
)
def test_a_request_is_as_expected(
    expected: dict[str, Any], options: dict[str, Any], request_: Request, met: bool
) -> None:
    evaluator = Evaluator("NetworkEventEvaluator", expected, **options)
    assert events.met(evaluator, [request_], SITES, navigating=False) is met


def test_the_last_request_counts_unless_any_does_and_of_pages_the_last_one() -> None:
    one = Evaluator("NetworkEventEvaluator", wanted())
    both = [sent(), sent(status=500)]
    assert not events.met(one, both, SITES, navigating=False)
    any_of = Evaluator("NetworkEventEvaluator", wanted(), last_event_only=False)
    assert events.met(any_of, both, SITES, navigating=False)
    pages = [sent(navigates=True), sent("/z", navigates=True), sent()]
    assert events.met(one, pages[:1] + pages[2:], SITES, navigating=True)
    assert not events.met(one, pages, SITES, navigating=True)
    assert not events.met(one, [], SITES, navigating=True)

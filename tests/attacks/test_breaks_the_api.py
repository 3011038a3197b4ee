"""Requests that would bring out a 5xx or end the pool: nested too deep, too large, or hardly HTTP."""

from pathlib import Path

from tests.drills import requests


def test_bodies_that_are_too_deep_and_too_large_are_refused(tmp_path: Path) -> None:
    tally = requests.deep(tmp_path, 10)
    assert tally.problems == {}, tally.said
    assert tally.tried["4xx"] > 0


def test_what_is_hardly_http_is_refused_or_hung_up_on(tmp_path: Path) -> None:
    tally = requests.raw(tmp_path, 100)
    assert tally.problems == {}, tally.said
    assert tally.tried["4xx"] > 0

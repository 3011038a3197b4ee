"""Bytes of models, devices, hosts and files that would break a parser, be evaluated, or take for ever."""

from pathlib import Path

from tests.drills import parsers


def test_any_bytes_give_every_parser_a_value_or_its_own_error(tmp_path: Path) -> None:
    tally = parsers.fixed(tmp_path, 20)
    assert tally.problems == {}, tally.said
    assert tally.tried["read"] > 0
